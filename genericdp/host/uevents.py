"""What the kernel tells of devices that come, go and change."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from genericdp.host.workers import in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


log = logging.getLogger(__name__)

_BUFFER_BYTES = 16 * 1024 * 1024
_AT_ONCE = 256
"""So many events, at about 30 µs each, are taken before the rest of the loop has its turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uevent:
    """What the kernel tells of one device."""

    action: str
    """``add``, ``remove``, ``change``, ``bind``, ``unbind``, ``move``, ``online``, ``offline``."""
    syspath: str
    subsystem: str = ""
    former_syspath: str = ""
    """Where it was before a ``move``."""


class Told(Protocol):
    """What is used of pyudev's device; none of it is read from sysfs."""

    action: str
    sys_path: str
    subsystem: str | None
    properties: Mapping[str, str]


class Monitor(Protocol):
    """What is used of pyudev's monitor. It ends when nobody holds it any longer."""

    def fileno(self) -> int:
        """Give its descriptor."""

    def poll(self, timeout: float | None = None) -> Told | None:
        """Give the next event, or None if there is none now; raises OSError for lost ones."""


def open_monitor(buffer_bytes: int = _BUFFER_BYTES) -> Monitor:
    """Listen to the kernel; raises OSError or ImportError where that cannot be had.

    The import takes 20 ms and asks ``ldconfig`` for libudev: not before the first registration,
    not on the loop.
    """
    import pyudev

    listening = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
    with suppress(OSError):  # without CAP_NET_ADMIN it gets net.core.rmem_max
        listening.set_receive_buffer_size(buffer_bytes)
    listening.start()
    monitor: Monitor = listening
    return monitor


class Uevents:
    """Calls ``changed`` on the loop for each uevent of a device; None: look at everything.

    They reach every network namespace and need no capability, except those of network interfaces:
    these stay in the interface's own namespace, so elsewhere only a full look finds them.

    Where ``complete`` is False the owner has to poll, and to open it again; the log says so once.
    """

    def __init__(
        self,
        changed: Callable[[Uevent | None], None],
        *,
        open_monitor: Callable[[], Monitor] = open_monitor,
    ) -> None:
        self._changed = changed
        self._open_monitor = open_monitor
        self._monitor: Monitor | None = None
        self._lost = False
        self._said = False
        self._closed = False
        self.complete = False

    async def open(self) -> None:
        """Begin to listen, and call for a look at everything: what came before was not told.

        Where that failed, or what listened was given up, it can be called again.
        """
        try:
            monitor = await in_worker(self._open_monitor)
        except (OSError, ImportError) as error:
            self._poll_instead(str(error))
            return
        if self._closed:
            return
        self._monitor = monitor
        asyncio.get_running_loop().add_reader(monitor.fileno(), self._drain)
        self.complete = True
        if self._said:
            self._said = False
            log.info("events of the kernel can be had again")
        self._changed(None)

    def close(self) -> None:
        """Stop listening, for good."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        self.complete = False
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor = None

    def _drain(self) -> None:
        failures = 0
        for _ in range(_AT_ONCE):
            if self._monitor is None:
                return
            try:
                told = self._monitor.poll(timeout=0)
                event = None if told is None else _event(told)
            except (OSError, UnicodeError) as error:
                self._lost = True
                _clear_error(self._monitor.fileno())
                failures += 1
                if failures == _AT_ONCE:  # it would keep the loop busy for ever
                    self._poll_instead(str(error))
                continue
            if event is None:
                self._drained()
                return
            if not self._lost and event.syspath.startswith("/sys/devices/"):
                self._changed(event)

    def _drained(self) -> None:
        # Not earlier: having overrun once, the kernel drops events until its queue is empty.
        if self._lost:
            self._lost = False
            log.info("events of the kernel were lost: looking at everything")
            self._changed(None)

    def _poll_instead(self, reason: str) -> None:
        if not self._said:
            self._said = True
            log.warning("events of the kernel cannot be had (%s): polling instead", reason)
        if self._monitor is not None:
            self._stop()
            self._changed(None)


def _event(told: Told) -> Uevent:
    former = told.properties.get("DEVPATH_OLD") if told.action == "move" else None
    return Uevent(
        action=told.action,
        syspath=told.sys_path,
        subsystem=told.subsystem or "",
        former_syspath=f"/sys{former}" if former else "",
    )


def _clear_error(descriptor: int) -> None:
    # pyudev asks poll(2) first, which reports a socket's error (ENOBUFS) without taking it away.
    with suppress(OSError):
        view = socket.socket(fileno=descriptor)
        try:
            view.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        finally:
            view.detach()  # it is the monitor's to close
