"""A kubelet's socket that is there and does not take calls."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet
from tests.world import FAST, World, serial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.world import Daemon

FAILURES = "registrations_total{example.com/serial,failure}"
ATTEMPTS = 9
"""The next of the waits between them would be 5 s, then 10 s, then 20 s."""


async def fails(daemon: Daemon, times: int) -> None:
    await daemon.counts_so(lambda found: found.get(FAILURES, 0) >= times)


async def test_a_new_socket_is_tried_again_at_once_however_long_the_last_one_was_dead(
    short_folder: Path,
) -> None:
    """K2: one that was killed leaves its socket; the next one binds before it listens."""
    folder = short_folder / "k"
    folder.mkdir()
    world = World(short_folder, Kubelet(folder))
    timing = replace(FAST, first_retry=0.02, last_retry=60.0)
    path = folder / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as other:
        dead.bind(str(path))
        async with world.serving(serial(), timing=timing) as daemon:
            await fails(daemon, ATTEMPTS)
            other.bind(str(path.with_name("new.sock")))
            path.with_name("new.sock").rename(path)
            await fails(daemon, ATTEMPTS + 5)
