"""The image that `make image` made, run as the DaemonSet runs it. Needs root and podman."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import genericdp
import pytest

from tests.deploy.rendering import tool
from tests.e2e.cluster.image import architecture

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.deploy

ROOT = Path(__file__).parents[2]
NAME = f"genericdp:{genericdp.__version__}"
PYTHON = ("--entrypoint=python",)


class Run(Protocol):
    """Runs a program in the image and gives what it prints, on stderr, too."""

    def __call__(self, *words: str, options: tuple[str, ...] = (), code: int = 0) -> str: ...


@pytest.fixture(scope="module")
def archive() -> Path:
    """That of this version and this machine."""
    made = ROOT / f"build/genericdp-{genericdp.__version__}-{architecture()}.tar"
    if not made.exists():
        pytest.skip("no image: make image")
    return made


@pytest.fixture(scope="module")
def podman(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The command of a podman that has only this image."""
    if os.getuid() != 0 or shutil.which("podman") is None:
        pytest.skip("needs root and podman")
    store = tmp_path_factory.mktemp("store")
    podman = ["podman", f"--root={store}/root", f"--runroot={store}/run"]
    subprocess.run([*podman, "load", "-q", "-i", archive], check=True)
    yield podman
    subprocess.run([*podman, "rmi", "-a", "-f"], check=False, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def run(podman: list[str]) -> Run:
    """Runs a program in it: no capability, no network, nothing can be written."""
    # podman's own limits may be higher than those of anyone who runs this.
    limits = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096"]
    confined = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=none"]
    plain = ["run", "--rm", "--security-opt=no-new-privileges", *confined, *limits]
    mounts = ["-v", "/dev:/dev", "-v", f"{ROOT}/examples:/examples:ro"]

    def inside(*words: str, options: tuple[str, ...] = (), code: int = 0) -> str:
        done = subprocess.run(
            [*podman, *plain, *mounts, *options, NAME, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        output: str = done.stdout
        assert done.returncode == code, output
        return output

    return inside


def test_it_says_what_it_is_and_runs_the_daemon_as_root(podman: list[str]) -> None:
    said = subprocess.run([*podman, "inspect", NAME], check=True, stdout=subprocess.PIPE)
    (image,) = json.loads(said.stdout)
    print(f"unpacked {image['Size'] / 1e6:.0f} MB")
    config, label = image["Config"], "org.opencontainers.image"
    assert config["Labels"][f"{label}.title"] == "genericdp"
    assert config["Labels"][f"{label}.version"] == genericdp.__version__
    assert config["Labels"][f"{label}.licenses"] == "Apache-2.0"
    assert re.match(r"[0-9a-f]{40}", config["Labels"][f"{label}.revision"])
    assert config["Labels"][f"{label}.description"]
    assert config["User"] == "0:0"
    assert config["Entrypoint"] == ["genericdp"]
    assert config["Cmd"] == ["run", "--config=/etc/genericdp"]
    assert "MALLOC_ARENA_MAX=1" in config["Env"]


def test_configs_are_checked_and_devices_found_in_it(run: Run) -> None:
    # Each for itself: as a directory they would be one config, and two may have one resource.
    configs = sorted(path.name for path in (ROOT / "examples/configs").glob("*.yaml"))
    said = run("validate", *(f"/examples/configs/{name}" for name in configs))
    assert said.endswith("valid\n")
    found = run("discover", "--config", "/examples/configs/this-machine.yaml")
    assert "devices.example.com/" in found


def test_the_daemon_runs_in_it(run: Run) -> None:
    config = ("--config", "/examples/configs/this-machine.yaml")
    shown = run("simulate", "--once", *config, options=("--tmpfs=/tmp",))
    assert "devices.example.com/" in shown


def test_cdi_specs_are_written_where_a_component_mounts_the_directory(
    run: Run, tmp_path: Path
) -> None:
    """By the daemon's user, without a capability, on a root that is read-only."""
    words = ("cdi", "generate", "--config=/examples/configs/fuse.yaml", "--output=/var/run/cdi")
    assert "/var/run/cdi cannot be used" in run(*words, code=1)
    for name in ("run", "etc"):
        (tmp_path / name).mkdir()
    mounts = ("-v", f"{tmp_path}/run:/var/run/cdi", "-v", f"{tmp_path}/etc:/etc/cdi:ro")
    run(*words, options=mounts)
    (written,) = (tmp_path / "run").iterdir()
    assert json.loads(written.read_text())["kind"] == "example.com/fuse"
    assert written.stat().st_mode & 0o777 == 0o644


LOOK = """
import ctypes.util, importlib, os, pathlib, pkgutil, sys
import genericdp
from genericdp.host.events import open_monitor
print(ctypes.util.find_library("udev"), open_monitor().fileno() > 2)
for module in pkgutil.walk_packages(genericdp.__path__, "genericdp."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
loaded = [getattr(module, "__cached__", None) for module in list(sys.modules.values())]
print([path for path in loaded if path and not os.path.exists(path)])
package = pathlib.Path(genericdp.__file__).parent
print(*(path.relative_to(package) for path in package.rglob("*.*")))
"""


def test_all_modules_are_compiled_and_examples_and_schemas_and_libudev_are_there(run: Run) -> None:
    libudev, not_compiled, carried = run("-c", LOOK, options=PYTHON).splitlines()
    assert (libudev, not_compiled) == ("libudev.so.1 True", "[]")
    modules = (ROOT / "genericdp").rglob("*.py")
    here = {str(path.relative_to(ROOT / "genericdp")) for path in modules}
    for directory in ("schemas", "examples"):
        found = (ROOT / directory).rglob("*.*")
        here |= {str(path.relative_to(ROOT)) for path in found if path.is_file()}
    assert here <= {*carried.split()}


@pytest.mark.parametrize("python", ["/opt/genericdp/bin/python", "python3"])
@pytest.mark.parametrize("module", ["pip", "ensurepip"])
def test_there_is_no_pip(run: Run, python: str, module: str) -> None:
    # The base's own Python, too.
    said = run(
        "-c", f"PATH=${{PATH#*:}} {python} -m {module}", options=("--entrypoint=sh",), code=1
    )
    assert f"No module named {module}" in said


def test_the_bill_of_materials_has_what_is_in_it(archive: Path) -> None:
    path = f"{tool('syft').parent}:{os.environ['PATH']}"
    subprocess.run(
        [ROOT / "tools/image", "sbom"], env={**os.environ, "PATH": path}, check=True, timeout=300
    )
    bill = json.loads(archive.with_suffix(".cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    lock = (ROOT / "requirements/runtime.txt").read_text()
    pinned = set(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    found = bill["components"]
    assert pinned <= {(hit["name"].lower().replace("_", "-"), hit.get("version")) for hit in found}
    assert {"genericdp", "libc6", "libudev1"} <= {match["name"] for match in found}
