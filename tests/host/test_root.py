"""A machine as a directory: links lead within it."""

from __future__ import annotations

import errno
import gc
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Callable

OF_THIS_PROCESS = {"core", "fd", "stderr", "stdin", "stdout"}
"""Links through /proc, some of whose own links are not paths."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "dev/bus").mkdir(parents=True)
    (tmp_path / "dev/a").write_text("text of a\n")
    for link, target in {
        "dev/absolute": "/dev/a",
        "dev/relative": "bus/../a",
        "dev/directory": "/dev/bus",
        "dev/bus/up": "../../../../../dev/a",
        "dev/chain": "directory/up",
        "dev/dangling": "/dev/gone/for/ever",
        "dev/loop": "loop2",
        "dev/loop2": "/dev/loop",
        "dev/out": "/etc/passwd",
    }.items():
        (tmp_path / link).symlink_to(target)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "target", "links"),
    [
        ("/dev/a", "/dev/a", ()),
        ("//dev/./a", "/dev/a", ()),
        ("/dev/bus/..", "/dev", ()),
        ("/../..", "/", ()),
        ("/dev/absolute", "/dev/a", ("/dev/absolute",)),
        ("/dev/relative", "/dev/a", ("/dev/relative",)),
        ("/dev/directory/up", "/dev/a", ("/dev/directory", "/dev/bus/up")),
        ("/dev/chain", "/dev/a", ("/dev/chain", "/dev/directory", "/dev/bus/up")),
    ],
)
def test_links_lead_within_the_root(
    tree: Path, path: str, target: str, links: tuple[str, ...]
) -> None:
    walk = Root(tree).resolve(path)
    assert (walk.at, walk.links) == (target, links)


@pytest.mark.parametrize(
    ("path", "number", "at"),
    [
        ("/dev/none", errno.ENOENT, "/dev"),
        ("/dev/a/b", errno.ENOTDIR, "/dev/a"),
        ("/dev/dangling", errno.ENOENT, "/dev"),
        ("/dev/loop", errno.ELOOP, "/dev"),
        ("/dev/out", errno.ENOENT, "/"),
        (f"/dev/{'x' * 300}", errno.ENAMETOOLONG, "/dev"),
    ],
)
def test_what_leads_nowhere_says_how_far_it_led(
    tree: Path, path: str, number: int, at: str
) -> None:
    with pytest.raises(OSError, match=r".") as caught:
        Root(tree).resolve(path)
    assert caught.value.errno == number
    walk = Root(tree).walk(path)
    assert (walk.at, walk.error is not None) == (at, True)


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("/dev/none", "/dev/none"),
        ("/dev/a/b/../../none/x", "/dev/none/x"),
        ("/dev/none/../absolute/x", "/dev/a/x"),
        ("/dev/absolute", "/dev/a"),
    ],
)
def test_past_what_is_missing_texts_and_links_still_lead_on(tree: Path, path: str, at: str) -> None:
    assert Root(tree).walk(path, past_missing=True).at == at
    assert Root(tree).walk("/dev/loop", past_missing=True).error is not None


def test_what_is_read_is_bounded_and_need_not_be_text(tree: Path) -> None:
    (tree / "dev/a").write_bytes(b"\xff" * 100)
    assert Root(tree).read_text("/dev/a", limit=2) == "\\xff\\xff"


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("of_machine", [True, False])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(os.mkfifo, "it is a FIFO, not a file", id="pipe"),
        pytest.param(_bind, "it is a socket, not a file", id="socket"),
        pytest.param(Path.mkdir, "it is a directory, not a file", id="directory"),
    ],
)
def test_what_is_no_file_is_not_waited_for_and_says_what_it_is(
    make: Callable[[Path], object], reason: str, of_machine: bool, short_directory: Path
) -> None:
    """Without the read its kind a pipe would be waited for, and a serial port be opened."""
    make(short_directory / "odd")
    if of_machine:
        root, path = Root(Path("/")), f"{short_directory}/odd"
    else:
        root, path = Root(short_directory), "/odd"
    with pytest.raises(OSError, match=r".") as caught:
        root.read_text(path)
    assert caught.value.strerror == reason


def test_a_device_is_not_opened_as_a_file() -> None:
    with pytest.raises(OSError, match="it is a character device, not a file"):
        Root(Path("/")).read_text("/dev/null")


def test_a_file_that_comes_in_parts_is_read_to_its_end() -> None:
    """One read of a long file of /proc gives a page or less."""
    text = Root(Path("/")).read_text("/proc/self/smaps", limit=2**24)
    assert len(text) > 8192
    assert text.splitlines()[-1].startswith("VmFlags")


def test_the_machine_resolves_as_the_kernel_does() -> None:
    for name in os.listdir("/dev"):
        path = f"/dev/{name}"
        if name not in OF_THIS_PROCESS and os.path.exists(path):
            assert Root(Path("/")).resolve(path).at == os.path.realpath(path)


def test_what_is_not_there_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    """Ten thousand devices without a driver were 130 MB more after each full look."""
    root = Root(tmp_path)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            with pytest.raises(FileNotFoundError):
                root.resolve("/sys/missing")
            with suppress(OSError):
                root.read_text("/sys/missing")
            root.walk("/sys/missing/a/b", past_missing=True)
        assert gc.collect() == 0
    finally:
        gc.enable()
