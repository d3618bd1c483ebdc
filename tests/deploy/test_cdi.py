"""CDI specs as CDI's own library sees them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from genericdp.cli import main

from tests.hosts.hosts import NODE, all_hosts

pytestmark = pytest.mark.deploy


def test_the_library_has_nothing_to_say_of_the_specs_of_any_example(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("no go")
    program = tmp_path / "cdi-validate"
    subprocess.run(
        ["go", "build", "-o", program, "."],
        cwd=Path(__file__).parent / "cdi-validate",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
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
    directories = dict.fromkeys(file.parent for file in files)
    ended = subprocess.run([program, *directories], capture_output=True, text=True, check=False)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert sorted(ended.stdout.split()) == sorted(defined) != []
