"""Records of the udev database, and events of the kernel that report anything."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

from genericdp.host.cache import HostCache, Stale
from genericdp.host.events import uevent_of
from genericdp.host.sysfs import parse_record

from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root

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


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with TemporaryDirectory() as directory:
        root = loading.build(loading.path_of("can"), Path(directory))
        yield lambda data: _run(data, root)


def _run(data: bytes, root: Root) -> None:
    text, *messages = data.split(SEPARATOR)[:20]
    assert all(parse_record(text.decode(errors="backslashreplace")).properties.keys())
    facts = HostCache(root)
    facts.subsystems()
    for message in messages:
        with suppress(UnicodeError):
            device = _device(message)
            event = uevent_of(device)
            facts.forget(Stale(syspaths={event.syspath}))
            facts.device(event.syspath)
            facts.members(device.subsystem or "")
    lines = (line.decode(errors="surrogateescape") for line in text.split(b"\n")[:5])
    facts.forget(Stale(records={line.replace("\0", "") for line in lines}))


def _device(message: bytes) -> SimpleNamespace:
    """Return an event as libudev gives it; raises UnicodeError for what is not a UTF-8."""
    header, *pairs = message.decode().split("\0")
    action, _, path = header.partition("@")
    properties = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
    subsystem = properties.get("SUBSYSTEM")
    return SimpleNamespace(
        action=action, sys_path=f"/sys{path}", properties=properties, subsystem=subsystem
    )
