"""What the daemon imports before it is registered: each module costs time and memory on each node.

The lists lie beside this file. Who needs one more writes it there; who needs one less, too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from tests.status.test_daemon import get, port_of
from tests.test_daemon import GOOD, Place

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN = Path(__file__).parent / "imports.txt"
"""Of the project itself, without and (marked with ``listen``) only with ``--listen``."""
OTHERS = {"grpc", "inotify_simple"}
"""Of the dependencies. protobuf is not among them, 2.5 MB, nor is ``typing_extensions``, 0.6."""
TRIED = {"grpc_health", "grpc_reflection", "grpc_tools", "org"}
"""By gRPC and by Python's library, whether they are there or not."""
OF_THE_MACHINE = {"_distutils_hack", "sitecustomize", "usercustomize"}
OPENSSL = {"_hashlib", "_ssl", "hashlib", "secrets"}
"""5 of 46 MB."""
DEAR = {
    *OPENSSL,
    *("difflib", "email", "html", "http", "multiprocessing", "unittest", "uuid", "xml"),
}
"""Of Python's library, what was there before or would come by one careless line."""
MOST_OF_LIBRARY = 171
"""Modules of Python's library: with 3.11 there were 167, and 170 with ``--listen``, which makes
addresses of names."""


def imported(lines: Iterable[str]) -> set[str]:
    """What ``-X importtime`` tells of; what is not there is told of, too."""
    found = (re.fullmatch(r"import time: +\d+ \| +\d+ \| +(\S+)", line.strip()) for line in lines)
    return {one[1] for one in found if one}


def listed(*, listen: bool) -> set[str]:
    words = (line.split() for line in OWN.read_text(encoding="ascii").splitlines())
    return {name for name, *mark in words if listen or not mark}


@pytest.fixture(params=[False, True], ids=["plain", "listen"])
async def start(request: pytest.FixtureRequest, short_folder: Path) -> tuple[bool, set[str]]:
    """Whether it listens, and what it imported until the line that says that it is registered."""
    place, listen = Place(short_folder), request.param
    place.config.write_text(GOOD)
    flags = ("--listen=127.0.0.1:0",) if listen else ()
    launch = (sys.executable, "-X", "importtime")
    async with (
        Kubelet(place.kubelet_folder) as kubelet,
        place.daemon(*flags, launch=launch) as daemon,
    ):
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/serial") == 1, 60)
        await daemon.says("registered")
    return listen, imported(daemon.lines)


def test_of_the_project_it_imports_what_is_listed(start: tuple[bool, set[str]]) -> None:
    """Bites if the prober is imported in ``health.health`` where no config has probes."""
    listen, found = start
    assert {one for one in found if one.split(".")[0] == "genericdp"} == listed(listen=listen)


def test_of_others_it_imports_grpc_and_what_that_needs(start: tuple[bool, set[str]]) -> None:
    """Bites if ``reloading`` reads YAML in this process."""
    _, found = start
    tops = {one.split(".")[0] for one in found} - set(sys.stdlib_module_names)
    assert tops - {"genericdp"} - OF_THE_MACHINE - TRIED == OTHERS


def test_of_pythons_library_it_imports_nothing_dear(start: tuple[bool, set[str]]) -> None:
    """Bites if ``cli`` leaves out ``lean.import_asyncio()``, or ``sockets`` imports hashlib."""
    _, found = start
    assert {one for one in found if one.split(".")[0] in DEAR} == set()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="counted with Python 3.11 only")
def test_of_pythons_library_it_imports_no_more(start: tuple[bool, set[str]]) -> None:
    _, found = start
    library = {one for one in found if one.split(".")[0] in sys.stdlib_module_names}
    assert len(library) <= MOST_OF_LIBRARY, sorted(library)


async def test_no_endpoint_brings_openssl(short_folder: Path) -> None:
    """Bites if the page takes its hashes from hashlib, or all of Prometheus' client comes."""
    place = Place(short_folder)
    place.config.write_text(GOOD)
    launch = (sys.executable, "-X", "importtime")
    async with place.daemon("--listen=127.0.0.1:0", launch=launch) as daemon:
        port = await port_of(daemon)
        for path in ("/", "/livez", "/metrics", "/readyz", "/status"):
            _, body = await get(port, path)
            assert body
        daemon.process.terminate()
        assert await daemon.ends() == 0
    found = imported(daemon.lines)
    assert "prometheus_client" in found
    assert found & OPENSSL == set()
