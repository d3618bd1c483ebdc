"""The image itself, made twice and run as the DaemonSet runs it. Needs root, podman and buildah."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import genericdp
from tests.deploy.making import copy_sources, make
from tests.deploy.scripts import CHECKOUT, script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deploy

describe = script("describe")
NAME = f"genericdp:{genericdp.__version__}"
MEGABYTE = 1_000_000
LIBC = re.compile(r"/(libc|libm|ld-linux-[\w-]+|libpthread|librt|libdl)\.so\.\d$|/ldconfig$")


class Run(Protocol):
    """Runs a program in the image and gives what it prints, on stderr, too."""

    def __call__(self, *words: str, options: tuple[str, ...] = (), code: int = 0) -> str: ...


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same image, made twice at different places."""
    for program in ("podman", "buildah"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    if os.getuid() != 0:
        pytest.skip("needs root")
    first, second = (tmp_path_factory.mktemp("checkout") for _ in range(2))
    copy_sources(CHECKOUT, first)
    copy_sources(first, second)
    for path in (second / "genericdp").rglob("*"):
        path.chmod(path.stat().st_mode | 0o020)  # as another umask would have it
    return [make(first), make(second)]


@pytest.fixture(scope="module")
def image(archives: list[Path]) -> Any:
    return describe.read(archives[0])


@pytest.fixture(scope="module")
def run(archives: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a program in it: no capability, no network, nothing can be written."""
    store = tmp_path_factory.mktemp("store")
    podman = ["podman", f"--root={store}/root", f"--runroot={store}/run"]
    # podman's own limits may be higher than those of whoever runs this.
    limits = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096"]
    confined = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=none"]
    plain = ["run", "--rm", "--security-opt=no-new-privileges", *confined, *limits]
    mounts = ["-v", "/dev:/dev", "-v", f"{CHECKOUT}/examples:/examples:ro"]

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

    try:
        subprocess.run([*podman, "load", "-q", "-i", archives[0]], check=True)
        yield inside
    finally:
        subprocess.run([*podman, "rmi", "-a", "-f"], check=False, stdout=subprocess.DEVNULL)


def test_the_same_sources_are_the_same_image(archives: list[Path]) -> None:
    first, second = (archive.read_bytes() for archive in archives)
    assert describe.read(archives[0]).digest == describe.read(archives[1]).digest
    assert first == second
    bills = [archive.with_suffix(".cdx.json").read_text() for archive in archives]
    assert bills[0] == bills[1]


def test_it_is_at_most_61_megabytes_beyond_libc(image: Any) -> None:
    total = sum(image.sizes.values())
    beyond = sum(size for path, size in image.sizes.items() if not LIBC.search(path))
    print(f"unpacked {total / MEGABYTE:.1f} MB, beyond libc {beyond / MEGABYTE:.1f} MB")
    assert beyond <= 61 * MEGABYTE


def test_there_is_nothing_to_make_or_fetch_programs_with(image: Any) -> None:
    programs = {path for path in image.sizes if re.search(r"(^|/)s?bin/", path)}
    assert programs == {"usr/bin/python3.11", "usr/local/bin/genericdp", "usr/sbin/ldconfig"}
    assert not [path for path in image.sizes if re.search(r"/(pip|setuptools|wheel)[/-]", path)]


def test_all_is_compiled_and_compared_with_no_time(archives: list[Path]) -> None:
    flags: dict[str, int] = {}
    sources: set[str] = set()
    with tarfile.open(archives[0]) as tar:
        manifest = json.load(describe.member(tar, "manifest.json"))[0]
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=describe.member(tar, name)) as layer:
                for entry in layer:
                    if entry.name.endswith(".pyc"):
                        head = describe.member(layer, entry.name).read(8)
                        flags[entry.name] = int.from_bytes(head[4:], "little")
                    elif entry.name.endswith(".py"):
                        sources.add(entry.name)
    assert set(flags.values()) == {0b01}  # by hash, unchecked
    folder_name = re.compile(r"([^/]+)\.py$")
    compiled = {folder_name.sub(r"__pycache__/\1.cpython-311.pyc", path) for path in sources}
    assert compiled == set(flags)


def test_the_bill_has_every_pinned_dependency(archives: list[Path]) -> None:
    lock = (CHECKOUT / "requirements/runtime.txt").read_text()
    pinned = set(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    bill = json.loads(archives[0].with_suffix(".cdx.json").read_text())
    listed = {(one["name"].lower().replace("_", "-"), one["version"]) for one in bill["components"]}
    assert pinned <= listed
    names = {one["name"] for one in bill["components"]}
    assert {"libc6", "libssl3", "libudev1"} <= names


def test_all_threads_share_an_arena(image: Any) -> None:
    assert "MALLOC_ARENA_MAX=1" in image.config["config"]["Env"]


def test_it_tells_its_versions(run: Run) -> None:
    assert run("version").startswith(f"genericdp {genericdp.__version__}\npython 3.11")


def test_configs_are_checked_and_devices_found_in_it(run: Run) -> None:
    # Each for itself: as a folder they would be one config, and two may have one resource.
    configs = sorted(path.name for path in (CHECKOUT / "examples/configs").glob("*.yaml"))
    said = run("validate", *(f"/examples/configs/{name}" for name in configs))
    assert said.endswith("valid\n")
    found = run("discover", "--config", "/examples/configs/this-machine.yaml")
    assert "devices.example.com/" in found


def test_the_daemon_runs_in_it(run: Run) -> None:
    config = ("--config", "/examples/configs/this-machine.yaml")
    shown = run("simulate", "--once", *config, options=("--tmpfs=/tmp",))
    assert "devices.example.com/" in shown


IMPORTS = """
import importlib, pkgutil, genericdp
names = [one.name for one in pkgutil.walk_packages(genericdp.__path__, "genericdp.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def test_every_module_can_be_imported(run: Run) -> None:
    python = ("--entrypoint=python3",)
    here = sum(1 for _ in pkgutil.walk_packages(genericdp.__path__, "genericdp."))
    assert int(run("-c", IMPORTS, options=python)) == here


MONITOR = """
import ctypes.util
from genericdp.host.uevents import open_monitor
print(ctypes.util.find_library("udev"), open_monitor().fileno() > 2)
"""


def test_libudev_is_found_by_the_cache_of_ldconfig(run: Run) -> None:
    assert run("-c", MONITOR, options=("--entrypoint=python3",)) == "libudev.so.1 True\n"


def test_there_is_no_shell(run: Run) -> None:
    assert "not found" in run(options=("--entrypoint=sh",), code=127)
