"""CDI specs as CDI's own library sees them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.hosts.hosts import NODE, all_hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    Validate = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.deploy

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/memory
    match: [{path: [/dev/null, /dev/zero]}]
    inject:
      devices: [{path: $(device.path)}, {path: $(device.path), containerPath: /dev/memory}]
"""


@pytest.fixture(scope="module")
def validate(tmp_path_factory: pytest.TempPathFactory) -> Validate:
    """``validate(DIRECTORY...)`` runs the program of ``cdi-validate/``."""
    if shutil.which("go") is None:
        pytest.skip("no go")
    program = tmp_path_factory.mktemp("built") / "cdi-validate"
    subprocess.run(
        ["go", "build", "-o", program, "."],
        cwd=Path(__file__).parent / "cdi-validate",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)

    return run


def test_the_library_has_nothing_to_say_of_the_specs_of_any_example(
    validate: Validate, tmp_path: Path
) -> None:
    for number, host in enumerate(all_hosts()):
        directory = tmp_path / str(number)
        directory.mkdir()
        root, specs = host.build(directory), tmp_path / f"specs-{number}"
        where = ("--config", str(host.config), "--root", str(root), "--node-name", NODE)
        main(["cdi", "generate", *where, "--output", str(specs)])
    files = sorted(tmp_path.glob("specs-*/*"))
    defined = [
        f"{spec['kind']}={device['name']}"
        for spec in (json.loads(file.read_text()) for file in files)
        for device in spec["devices"]
    ]
    assert defined
    ended = validate(*dict.fromkeys(file.parent for file in files))
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert sorted(ended.stdout.split()) == sorted(defined)


def test_a_container_of_another_user_owns_each_node(validate: Validate, tmp_path: Path) -> None:
    directory = specs_in(tmp_path)
    ended = validate("--inject", directory)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.split() == ["example.com/memory=null", "example.com/memory=zero"]


def test_a_mistake_is_found(validate: Validate, tmp_path: Path) -> None:
    directory = specs_in(tmp_path)
    (file,) = directory.iterdir()
    content = file.read_text()
    for right, wrong, said in (
        ('"0.5.0"', '"0.3.0"', "the spec version must be at least v0.5.0"),
        ('"0.5.0"', '"0.6.0"', "version 0.6.0, but 0.5.0 suffices"),
        ('"deviceNodes"', '"nodes"', "field nodes not found"),
        ("/dev/zero", "/dev/absent", "no such file or directory"),
    ):
        file.write_text(content.replace(right, wrong))
        ended = validate("--inject", directory)
        assert (said in ended.stderr, ended.returncode) == (True, 1), ended.stderr


def specs_in(directory: Path) -> Path:
    """Have the specs of the config written to a directory in this one."""
    config, output = directory / "config.yaml", directory / "specs"
    config.write_text(CONFIG)
    assert main(["cdi", "generate", "--config", str(config), "--output", str(output)]) == 0
    return output
