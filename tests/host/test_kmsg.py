"""The kernel's log: its own where it can be read, a scripted one where it cannot."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from genericdp.host.kmsg import PATH, KernelRecords, LogRecord, open_log, parse
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    pass


def _why_unreadable() -> str:
    try:
        open_log().close()
    except OSError as error:
        return f"{PATH} cannot be read: {error}"
    return ""


of_this_kernel = pytest.mark.skipif(bool(_why_unreadable()), reason=_why_unreadable())


@pytest.mark.parametrize(
    ("data", "priority", "sequence", "seconds", "text"),
    [
        (b"6,339,5140900,-;NET: Registered\n", 6, 339, 5.1409, "NET: Registered"),
        (b"6,1,2,-,caller=T1;text; more\n", 6, 1, 2e-6, "text; more"),
        (b"6,1,2,c,x=y,new=field;part", 6, 1, 2e-6, "part"),
        (b"4,7,0,-;pci: no\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n", 4, 7, 0.0, "pci: no"),
        (b"4,7,0,-;a\\x0ab\\x5cx41 \\xc3\\xa9\n", 4, 7, 0.0, "a\nb\\x41 é"),
        (b"4,7,0,-;bad \\xff, odd \\xg1 \\x\n", 4, 7, 0.0, "bad \\xff, odd \\xg1 \\x"),
        (b"12,8,9,-;\n", 12, 8, 9e-6, ""),
    ],
)
def test_a_record_is_taken_apart(
    data: bytes, priority: int, sequence: int, seconds: float, text: str
) -> None:
    assert parse(data) == LogRecord(
        priority=priority, sequence=sequence, seconds=seconds, text=text
    )


@pytest.mark.parametrize(
    "data",
    [b"", b";", b"text", b"6,1;x", b"6,1,;x", b"-6,1,2,-;x", b"6,1,2", b"9" * 6000 + b",1,2;"],
)
def test_what_is_no_record_is_nothing(data: bytes) -> None:
    assert parse(data) is None


@given(st.binary() | st.binary().map(lambda rest: b"6,1,2,-;" + rest))
def test_no_bytes_raise(data: bytes) -> None:
    found = parse(data)
    assert found is None or found.by_kernel == (found.priority < 8)


@of_this_kernel
async def test_the_log_of_this_kernel_is_replayed_up_to_now() -> None:
    began = time.monotonic()
    seen: list[LogRecord] = []
    done = asyncio.Event()
    records = KernelRecords(seen.append, done.set)
    records.start()
    try:
        async with asyncio.timeout(60):
            while not records.caught_up:
                done.clear()
                await done.wait()
    finally:
        records.stop()
    assert seen
    assert [entry.sequence for entry in seen] == sorted({item.sequence for item in seen})
    assert all(entry.seconds <= began + 60 for entry in seen)
