"""The kubelet's folder and the socket in it, which a kubelet that is killed leaves behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from genericdp.simulator import checkpoint
from genericdp.simulator.settings import Cleanup

if TYPE_CHECKING:
    from pathlib import Path

SOCKET_NAME = "kubelet.sock"


def clean(folder: Path, cleanup: Cleanup) -> None:
    """Make the folder if need be and remove what a starting kubelet removes (KST-1, KST-2)."""
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    for path in tuple(folder.iterdir()):
        if path.name != checkpoint.FILE_NAME and _is_removed(path, cleanup):
            path.unlink(missing_ok=True)


def _is_removed(path: Path, cleanup: Cleanup) -> bool:
    match cleanup:
        case Cleanup.ALL_NONDIRS:
            return path.is_symlink() or not path.is_dir()
        case Cleanup.SOCKETS:
            return path.is_socket()


class SocketFolder:
    """The folder as the server that binds a socket in it names it: by a descriptor.

    gRPC removes its socket's file when it stops. A process that is killed does not; so the name
    by which gRPC would remove it can be made to lead nowhere first.
    """

    def __init__(self, folder: Path, name: str = SOCKET_NAME) -> None:
        self._name = name
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def target(self) -> str:
        """What to bind to; it is short however long the folder's own path is."""
        return f"unix:/proc/self/fd/{self._descriptor}/{self._name}"

    def disown(self) -> None:
        """Make gRPC unable to remove the file: the kubelet is being killed."""
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, self._descriptor, inheritable=False)
        os.close(nowhere)

    def close(self) -> None:
        """Let the folder go, after the server has stopped."""
        os.close(self._descriptor)
