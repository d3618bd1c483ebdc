"""A machine as a folder: links lead within it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from genericdp.host.root import Root

OF_THIS_PROCESS = {"core", "fd", "stderr", "stdin", "stdout"}
"""Links through /proc, some of whose own links are no paths."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "dev/bus").mkdir(parents=True)
    (tmp_path / "dev/a").write_text("text of a\n")
    for link, target in {
        "dev/absolute": "/dev/a",
        "dev/relative": "bus/../a",
        "dev/folder": "/dev/bus",
        "dev/bus/up": "../../../../../dev/a",
        "dev/chain": "folder/up",
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
        ("/dev/folder/up", "/dev/a", ("/dev/folder", "/dev/bus/up")),
        ("/dev/chain", "/dev/a", ("/dev/chain", "/dev/folder", "/dev/bus/up")),
    ],
)
def test_links_lead_within_the_root(
    tree: Path, path: str, target: str, links: tuple[str, ...]
) -> None:
    assert Root(tree).resolve(path) == (target, links)


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


def test_reading_and_listing_follow_links_within_the_root_too(tree: Path) -> None:
    root = Root(tree)
    assert root.read_text("/dev/absolute") == "text of a\n"
    assert root.entries("/dev/folder") == ["up"]
    with pytest.raises(FileNotFoundError):
        root.read_text("/dev/out")


def test_what_is_read_is_bounded_and_need_not_be_text(tree: Path) -> None:
    (tree / "dev/a").write_bytes(b"\xff" * 100)
    assert Root(tree).read_text("/dev/a", limit=2) == "\\xff\\xff"


@pytest.mark.parametrize(("folder", "machine"), [("/", True), ("//", True), ("/tmp", False)])
def test_only_the_root_folder_is_the_machine(folder: str, machine: bool) -> None:
    assert Root(Path(folder)).is_machine is machine


def test_a_root_may_be_a_relative_path(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    assert Root(Path(tree.name)).resolve("/dev/chain")[0] == "/dev/a"


def test_the_machine_resolves_as_the_kernel_does() -> None:
    for name in os.listdir("/dev"):
        path = f"/dev/{name}"
        if name not in OF_THIS_PROCESS and os.path.exists(path):
            assert Root(Path("/")).resolve(path)[0] == os.path.realpath(path)
