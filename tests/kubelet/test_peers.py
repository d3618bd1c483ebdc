"""Which sockets in the kubelet's folder are of others that run."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from genericdp.kubelet.peers import living_peers, strangers
from genericdp.kubelet.sockets import SocketNames, digest_of

if TYPE_CHECKING:
    from pathlib import Path


def bind(path: Path, stack: ExitStack, *, listening: bool = True) -> None:
    """Make a socket; what a killed process has left is bound and refuses connections."""
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    made.bind(str(path))
    if listening:
        made.listen()


def test_only_instances_that_run_are_peers(short_folder: Path) -> None:
    """REG-13, K9: not we ourselves, and not what a killed one has left."""
    own, living, killed = SocketNames(), SocketNames(), SocketNames()
    with ExitStack() as stack:
        for names in (own, living, killed):
            for resource in ("a/b", "a/c"):
                path = short_folder / names.next_name(resource)
                bind(path, stack, listening=names is not killed)
        found = living_peers(short_folder, instance=own.instance)
    assert {one.instance for one in found} == {living.instance}
    assert {one.digest for one in found} == {digest_of("a/b"), digest_of("a/c")}


def test_one_socket_that_answers_is_enough(short_folder: Path) -> None:
    names = SocketNames()
    with ExitStack() as stack:
        bind(short_folder / names.next_name("a/b"), stack, listening=False)
        bind(short_folder / names.next_name("a/c"), stack)
        assert len(living_peers(short_folder, instance="00000000")) == 2


def test_strangers_are_the_other_sockets_that_answer(short_folder: Path) -> None:
    with ExitStack() as stack:
        for name in ("nvidia.sock", "kubelet.sock", SocketNames().next_name("a/b")):
            bind(short_folder / name, stack)
        bind(short_folder / "dead.sock", stack, listening=False)
        (short_folder / "file").touch()
        (short_folder / "folder").mkdir()
        assert strangers(short_folder) == ("nvidia.sock",)


def test_a_folder_that_is_not_there_has_none(short_folder: Path) -> None:
    assert living_peers(short_folder / "x", instance="00000000") == frozenset()
    assert strangers(short_folder / "x") == ()
