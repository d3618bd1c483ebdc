"""A kubelet's socket that is there and does not take calls."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.host.root import Root
from genericdp.kubelet.folder import KubeletFolder, SocketIdentity
from genericdp.kubelet.registration import RegistrationError
from genericdp.kubelet.sockets import SocketNames
from genericdp.observed import Observed, until
from genericdp.plugin import Plugin
from genericdp.service import Service
from tests.supervising import FAST

if TYPE_CHECKING:
    import pytest

ATTEMPTS = 9
"""The last of the waits between them is 128 to 256 times the first one."""


async def test_a_new_socket_is_tried_again_at_once_however_long_the_last_one_was_dead(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """K2: one that was killed leaves its socket; the next one binds before it listens."""
    caplog.set_level(logging.DEBUG)  # what is the same again is told there
    kubelet = KubeletFolder(short_folder)
    calls = Observed(0)

    async def refused(*_: object, **__: object) -> None:
        calls.value += 1
        raise RegistrationError("connection refused")

    plugin = Plugin(
        "example.com/x",
        kubelet=kubelet,
        service=Service("example.com/x", root=Root(Path("/")), look_again=lambda: None),
        names=SocketNames(),
        timing=replace(FAST, first_retry=0.001, last_retry=60.0),
        call=refused,
    )
    kubelet.socket.value = SocketIdentity(device=1, inode=1, ctime_ns=1)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(plugin.run())
        await until(lambda: calls.value == ATTEMPTS, calls)
        kubelet.socket.value = SocketIdentity(device=1, inode=1, ctime_ns=2)
        await until(lambda: calls.value > ATTEMPTS + 1, calls)
        running.cancel()
    waits = [
        record.args[1]
        for record in caplog.records
        if isinstance(record.args, tuple) and record.msg == "%s: registering again in %.1f s"
    ]
    assert [one for one in waits[ATTEMPTS - 1 :] if isinstance(one, float) and one <= 0.001]
