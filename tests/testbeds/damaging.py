"""Ways in which a copy of a machine can be damaged."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable


def remove(path: Path) -> None:
    """Remove what is there, unless a link of a damaged copy leads there: it may be anyone's."""
    if os.path.realpath(path.parent) != str(path.parent):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        remove(path)
        make(path)

    return damage


def _hide(path: Path) -> None:
    with suppress(FileExistsError):
        path.with_name(os.fsdecode(b"\xff\n")).symlink_to(path.name)


def _make_socket(path: Path) -> None:
    # Through the directory's descriptor: a socket's path may have no more than 107 bytes.
    directory = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)


def _forbid(path: Path) -> None:
    """No one may read it, but root and who has its capabilities."""
    path.chmod(0)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone": remove,
    "a loop": _replaced_by(lambda path: path.symlink_to(path.name)),
    "a link to nothing": _replaced_by(lambda path: path.symlink_to("../nothing")),
    "a link to above": _replaced_by(lambda path: path.symlink_to("../..")),
    "a link out of the copy": _replaced_by(lambda path: path.symlink_to("/sys/devices/virtual")),
    "an empty directory": _replaced_by(Path.mkdir),
    "a file": _replaced_by(Path.touch),
    "binary": _replaced_by(lambda path: path.write_bytes(bytes(range(256)) * 2)),
    "huge": _replaced_by(lambda path: path.write_bytes(b"A=\xff\n" * 500_000)),
    "without an end of line": _replaced_by(lambda path: path.write_bytes(b"x" * 200_000)),
    "a pipe": _replaced_by(os.mkfifo),
    "a socket": _replaced_by(_make_socket),
    "forbidden": _forbid,
    "an odd name next to": _hide,
}


def damage(directory: Path, path: str, kind: str) -> None:
    """Damage a copy, and nothing that only a link of it leads to."""
    broken = directory / path[1:]
    if os.path.realpath(broken.parent) != str(broken.parent):
        return
    # It may lie below what is damaged already.
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        if broken.parent.is_dir() and (kind != "forbidden" or not broken.is_symlink()):
            DAMAGES[kind](broken)


def mend(directory: Path) -> None:
    """Let everything be removed again by who is not root."""
    for path, _, _ in os.walk(directory):
        Path(path).chmod(0o755)


def paths_of(name: str) -> list[str]:
    """Give all paths of a testbed's copy, as paths of its host."""
    with TemporaryDirectory() as directory:
        loading.build(loading.path_of(name), Path(directory))
        return sorted(f"/{path.relative_to(directory)}" for path in Path(directory).rglob("*"))
