"""Records of the kernel's log: any process that may write there chooses the text."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from genericdp.devices.device import LogWatch
from genericdp.health.logmatch import agree, name_of, names_of, rule_of, stems_of
from genericdp.host.kmsg import parse
from tests.host.kernel_log import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 5.0
XID = r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<code>\d+)"
WATCHES = (
    LogWatch(regex=XID, where={"address": "0000:3b:00.0"}, ignore={"code": ("13", "0x1F")}),
    LogWatch(regex=r"(?P<dev>\w+)(?: on (?P<bus>\S*))?", where={"dev": "sda", "bus": ""}),
    LogWatch(regex=r"(?s)(?P<a>.*):(?P<b>.*)", where={"a": "x"}, ignore={"b": ("İ", "")}),
    LogWatch(regex=""),
)
WORDS = (
    *(b"6,1,2,-;", b"0,", b",", b";", b"\n", b"\\x0a", b"\\xff", b"\\x", b"\\", b"-", b"\0"),
    *(b"NVRM: Xid (PCI:0000:3b:00): 79", b"0000:3b:00.7", b"0x1f", b"sda on ", b"99999999999"),
    *(b" SUBSYSTEM=pci\n", "²".encode(), b"\xd9\xa1", "ẞ".encode(), "İ".encode()),
)


def seeds() -> Iterator[bytes]:
    yield from recorded("nvidia-xid.kmsg")
    yield b"30,1,2,-,caller=T1;systemd[1]: text\\x09more\n SUBSYSTEM=a\n"
    yield b"4,18446744073709551615,18446744073709551615,c;sda on \\xf0\\x9f\n"


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    yield _run


def _run(data: bytes) -> None:
    record = parse(data)
    if record is None:
        return
    record.text.encode()  # it comes into reasons, logs and answers
    assert min(record.priority, record.sequence, record.seconds) >= 0
    assert isinstance(record.by_kernel, bool)
    for watch in WATCHES:
        names = rule_of(watch).names_in(record.text)
        if names is not None and agree(names, names_of(watch)):
            assert stems_of(names) == stems_of(names_of(watch))
    assert name_of(record.text).agrees(name_of(record.text))
