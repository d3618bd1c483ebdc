"""What is doubtful of the places that ``run`` is given, said at its start."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISREG, "a file"),
    (stat.S_ISCHR, "a character device"),
)


def socket_doubt(socket: Path) -> tuple[str, bool]:
    """Say why nobody will answer at ``--pod-resources``, and whether that may pass by itself."""
    said = f"--pod-resources: {socket}"
    try:
        mode = socket.stat().st_mode
    except FileNotFoundError:
        return f"{said} does not exist yet: the kubelet is asked there once it does", True
    except OSError as error:
        return f"{said}: {(error.strerror or '').lower()}", False
    if stat.S_ISSOCK(mode):
        return "", False
    kind = next((name for is_one, name in _KINDS if is_one(mode)), "something else")
    return f"{said} is {kind}, no socket of a kubelet: nobody can be asked there", False


def state_doubt(folder: Path) -> str:
    """Say who else can write to ``--state-dir``; empty: nobody, or there is none yet."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return ""
    if not stat.S_ISDIR(mode) or not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return ""
    who = "anybody" if mode & stat.S_IWOTH else "its group"
    return (
        f"--state-dir: {who} can write to {folder}, and so take away or hinder the last good"
        " config that is kept there (chmod go-w)"
    )
