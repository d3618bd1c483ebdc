"""Kernel events (uevents) about devices, through pyudev."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import reason_of
from genericdp.host.workers import in_worker
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyudev

log = logging.getLogger(__name__)

_BUFFER_BYTES = 16 * 1024 * 1024
_AT_ONCE = 256
"""Events that are read, at about 30 µs each, before the rest of the loop has its turn."""
_PAUSE_SECONDS = 0.1
"""After events were lost: their cause may still go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uevent:
    """An event of one device."""

    action: str
    """``add``, ``remove``, ``change``, ``bind``, ``unbind``, ``move``, ``online``, ``offline``."""
    syspath: str
    former_syspath: str = ""
    """Where it was before a ``move``."""


def open_monitor(buffer_bytes: int = _BUFFER_BYTES) -> pyudev.Monitor:
    """Open a monitor of kernel events; raise OSError or ImportError where that is impossible.

    The import takes 20 ms and asks ``ldconfig`` for libudev: not before the first registration,
    not on the loop.
    """
    import pyudev

    monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
    with suppress(OSError):  # without CAP_NET_ADMIN it gets net.core.rmem_max
        monitor.set_receive_buffer_size(buffer_bytes)
    monitor.start()
    return monitor


class Uevents:
    """Calls ``changed`` on the loop for each event of a device; with None: read everything again.

    Events reach every network namespace and need no capability, except those of network
    interfaces: these stay in the interface's own namespace, and elsewhere only reading everything
    finds them. While ``complete`` is False the owner has to poll.
    """

    def __init__(
        self,
        changed: Callable[[Uevent | None], None],
        *,
        again_seconds: float,
        open_monitor: Callable[[], pyudev.Monitor] = open_monitor,
    ) -> None:
        self._changed = changed
        self._again_seconds = again_seconds
        self._open_monitor = open_monitor
        self._polling = Latch(log)
        self.complete = False

    async def run(self) -> None:
        """Listen forever, and have everything read again whenever listening begins.

        A monitor that has lost events is replaced. Where none can be opened, try again.
        """
        while True:
            try:
                await self._listen(await in_worker(self._open_monitor))
            except (OSError, ImportError) as error:
                why = f"kernel events are unavailable ({reason_of(error)}): polling instead"
                if self._polling.update(why, "%s", why):
                    self._changed(None)
                await asyncio.sleep(self._again_seconds)
            else:
                log.info("kernel events were lost: reading everything again")
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _listen(self, monitor: pyudev.Monitor) -> None:
        """Pass on the events of a monitor until it loses some."""
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(monitor.fileno(), self._drain, monitor, lost)
        self._polling.update("", ended="kernel events are available again")
        self.complete = True
        try:
            self._changed(None)
            await lost.wait()
        finally:
            self.complete = False
            loop.remove_reader(monitor.fileno())

    def _drain(self, monitor: pyudev.Monitor, lost: asyncio.Event) -> None:
        try:
            for _ in range(_AT_ONCE):
                if (device := monitor.poll(timeout=0)) is None:
                    return
                event = uevent_of(device)
                if event.syspath.startswith("/sys/devices/"):
                    self._changed(event)
        except (OSError, UnicodeError):
            lost.set()


def uevent_of(device: pyudev.Device) -> Uevent:
    """Convert an event without reading sysfs; raise UnicodeError."""
    former = device.properties.get("DEVPATH_OLD") if device.action == "move" else None
    return Uevent(
        action=device.action,
        syspath=device.sys_path,
        former_syspath=f"/sys{former}" if former else "",
    )
