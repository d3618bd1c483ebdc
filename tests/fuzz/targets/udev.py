"""Records of the udev database, and events of the kernel that tell of anything."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from genericdp.host import udevdb
from genericdp.host.facts import HostFacts
from genericdp.host.uevents import Uevent, Uevents
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from genericdp.host.root import Root
    from genericdp.host.uevents import Told

SECONDS = 5.0
SEPARATOR = b"\x00\x00"
"""Between a record and the events, and between these."""
WORDS = (
    *(b"E:", b"S:", b"G:", b"Q:", b"I:", b"L:", b"V:1\n", b"W:1\n", b"\n", b"\r", b"\0", b"="),
    *(SEPARATOR, b"add@/devices/", b"remove@", b"move@", b"ACTION=", b"DEVPATH=/devices/"),
    *(b"DEVPATH_OLD=/devices/", b"SUBSYSTEM=net", b"IFINDEX=", b"MAJOR=", b"MINOR=", b"SEQNUM=1"),
    *(b"E:USEC_INITIALIZED=\n", b"I:\xd9\xa1\n", b"\xff", b"..", b"//", b"x" * 300, b"n1", b"+a:"),
)


def seeds() -> Iterator[bytes]:
    for name in ("can", "serial-adapters"):
        for entry in loading.parse(loading.path_of(name).read_text()):
            event = f"add@{entry.path}\0ACTION=add\0DEVPATH={entry.path}\0SUBSYSTEM=net"
            record = loading.record_of(entry) if entry.udev else ""
            yield record.encode() + SEPARATOR + event.encode()
    yield b"" + SEPARATOR + b"move@/devices/a\0DEVPATH_OLD=/devices/b\0ACTION=move" + SEPARATOR


class _Told:
    """An event as libudev gives it; raises UnicodeError for what is no UTF-8."""

    def __init__(self, message: bytes) -> None:
        header, *pairs = message.decode().split("\0")
        self.action, _, path = header.partition("@")
        self.sys_path = f"/sys{path}"
        self.properties: Mapping[str, str] = {
            key: value for key, _, value in (pair.partition("=") for pair in pairs)
        }
        self.subsystem = self.properties.get("SUBSYSTEM")


class _Script:
    """A monitor whose events are written down; an empty one stands for an overrun."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._ours, self._theirs = socket.socketpair()
        self._polled: asyncio.Future[None] | None = None
        asyncio.get_running_loop().set_exception_handler(self._failed)

    async def play(self, messages: list[bytes]) -> None:
        """Have these events heard; raises what hearing them raises."""
        self._messages = messages
        self._polled = asyncio.get_running_loop().create_future()
        self._theirs.send(b"x")
        await self._polled

    def _failed(self, _: object, context: dict[str, Any]) -> None:
        assert self._polled is not None
        self._polled.set_exception(context.get("exception") or AssertionError(context["message"]))

    def fileno(self) -> int:
        return self._ours.fileno()

    def poll(self, timeout: float | None = None) -> Told | None:
        if not self._messages:
            if self._polled is not None and not self._polled.done():
                self._ours.recv(1)
                self._polled.set_result(None)
            return None
        message = self._messages.pop(0)
        if not message:
            raise OSError(105, "No buffer space available")
        return _Told(message)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        root = loading.build(loading.path_of("can"), Path(folder))
        heard: list[Uevent | None] = []
        script, uevents = runner.run(_listening(heard))
        try:
            yield lambda data: runner.run(_run(data, root, script, heard))
        finally:
            runner.run(_end(script, uevents))


async def _listening(heard: list[Uevent | None]) -> tuple[_Script, Uevents]:
    script = _Script()
    uevents = Uevents(heard.append, open_monitor=lambda: script)
    await uevents.open()  # in a thread, which costs ten times as much as to hear
    return script, uevents


async def _end(script: _Script, uevents: Uevents) -> None:
    uevents.close()
    script.close()


async def _run(data: bytes, root: Root, script: _Script, heard: list[Uevent | None]) -> None:
    text, *messages = data.split(SEPARATOR)[:20]
    record = udevdb.parse(text.decode(errors="backslashreplace"))
    assert all(record.properties.values())
    assert record.removed.isdisjoint(record.properties.keys() - {"TAGS", "DEVLINKS"})
    heard.clear()
    await script.play(messages)
    facts = HostFacts(root)
    facts.subsystems()
    for event in heard:
        if event is not None:
            for syspath in facts.forget(event.syspath):
                facts.device(syspath)
            facts.members(event.subsystem)
    for line in text.split(b"\n")[:5]:
        facts.syspaths_of_record(line.decode(errors="surrogateescape").replace("\0", ""))
