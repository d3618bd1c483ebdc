"""The kernel's log: its own where it can be read, a scripted one where it cannot."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from genericdp.host import kmsg
from genericdp.host.kmsg import PATH, SLICE_SECONDS, KernelRecords, LogRecord, open_log, parse
from hypothesis import given
from hypothesis import strategies as st

from tests.host.kernel_log import Script, record
from tests.polling import others_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from genericdp.host.kmsg import Log


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


@given(st.text())
def test_what_the_kernel_escapes_comes_back(text: str) -> None:
    """As ``append_char`` of printk.c: what is not a printable ASCII, and the backslash."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02x}"
        for byte in text.encode(errors="replace")
    )
    found = parse(b"6,1,2,-;" + escaped.encode() + b"\n")
    assert found is not None
    assert found.text == text.encode(errors="replace").decode()


class Heard:
    """Records that are written down, and how long the loop was held up at most."""

    def __init__(self, open_log: Callable[[], Log]) -> None:
        self.texts: list[str] = []
        self.pauses = 0
        self._moved = asyncio.Event()
        self.records = KernelRecords(
            lambda entry: self.texts.append(entry.text),
            self._paused,
            open_log=open_log,
        )

    def _paused(self) -> None:
        self.pauses += 1
        self._moved.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self._moved.clear()
                await self._moved.wait()

    async def caught_up(self) -> None:
        await self.until(lambda: self.records.caught_up)


@asynccontextmanager
async def telling(open_log: Callable[[], Log]) -> AsyncIterator[Heard]:
    heard = Heard(open_log)
    heard.records.start()
    try:
        yield heard
    finally:
        heard.records.stop()


async def test_the_log_is_replayed_and_then_followed() -> None:
    script = Script([record("one", sequence=1), record("two", sequence=2)])
    async with telling(script.open) as heard:
        await heard.caught_up()
        assert heard.texts == ["one", "two"]
        script.add(record("three", sequence=3))
        await heard.until(lambda: len(heard.texts) == 3)
    assert (heard.texts[2], script.closings) == ("three", 1)


async def test_only_what_the_kernel_wrote_is_told() -> None:
    """Facilities 1 and 3 (daemon) are written by user space; it cannot write 0."""
    script = Script([record(str(n), sequence=n, priority=n) for n in (*range(10), 24, 30)])
    async with telling(script.open) as heard:
        await heard.caught_up()
    assert heard.texts == [str(n) for n in range(8)]


async def test_starting_again_replays_it_once_more() -> None:
    script = Script([record("one", sequence=1)])
    async with telling(script.open) as heard:
        await heard.caught_up()
        heard.records.start()
        assert heard.records.caught_up is False
        await heard.caught_up()
    assert (heard.texts, script.closings) == (["one", "one"], 2)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


async def test_an_overrun_is_survived_and_its_losses_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(
        [
            record("one", sequence=1),
            _error(errno.EPIPE),
            record("nine", sequence=9),
        ]
    )
    async with telling(script.open) as heard:
        await heard.caught_up()
    assert heard.texts == ["one", "nine"]
    assert [each_record.getMessage() for each_record in caplog.records] == [
        "7 records of the kernel's log were lost: it is overrun"
    ]


async def test_a_log_that_ends_is_given_up() -> None:
    async with telling(Script([record("one", sequence=1), b""]).open) as heard:
        await heard.until(lambda: bool(heard.records.unreadable.reason))
    assert (heard.texts, heard.records.unreadable.reason) == (
        ["one"],
        "the kernel's log cannot be read: it has ended",
    )


async def test_where_it_cannot_be_opened_it_says_so_once_and_tries_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "AGAIN_AFTER_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    refusals = [_error(errno.EPERM), _error(errno.EPERM)]
    script = Script([record("one", sequence=1)])

    def open_at_last() -> Log:
        if refusals:
            raise refusals.pop()
        return script.open()

    async with telling(open_at_last) as heard:
        trouble = heard.records.unreadable.reason
        await heard.caught_up()
        assert heard.records.unreadable.reason == ""
    assert trouble == (
        "the kernel's log cannot be read: Operation not permitted"
        " (needs CAP_SYSLOG or kernel.dmesg_restrict=0, and a pod a device cgroup with it)"
    )
    assert [each_record.getMessage() for each_record in caplog.records] == [
        trouble,
        "the kernel's log can be read again",
    ]


async def test_what_is_not_there_or_not_the_log_is_named(tmp_path: Path) -> None:
    missing, other = tmp_path / "kmsg", tmp_path / "console"
    other.symlink_to("/dev/null")
    for path, why in (
        (missing, f"No such file or directory ({missing})"),
        (other, f"{other} is not the character device 1:11"),
    ):
        async with telling(lambda path=str(path): open_log(path)) as heard:  # type: ignore[misc]
            assert heard.records.unreadable.reason == f"the kernel's log cannot be read: {why}"


async def test_a_long_replay_lets_the_loop_do_other_things() -> None:
    script = Script([record(f"line {n}", sequence=n) for n in range(20_000)])
    async with telling(script.open) as heard:
        turns = 0
        while not heard.records.caught_up:
            await others_run()
            turns += 1
    assert len(heard.texts) == 20_000
    assert heard.pauses >= 4
    assert turns >= 4


async def test_a_record_that_takes_long_does_not_keep_the_end_of_the_log_from_being_seen() -> None:
    """On a busy machine the turn may be over with the last record: then nothing is readable."""
    script = Script([record("one", sequence=1), record("two", sequence=2)])
    seen: list[str] = []
    ended = asyncio.Event()

    def received(entry: LogRecord) -> None:
        seen.append(entry.text)
        begun = time.perf_counter()
        while time.perf_counter() - begun <= SLICE_SECONDS:
            pass

    def paused() -> None:
        if records.caught_up:
            ended.set()

    records = KernelRecords(received, paused, open_log=script.open)
    records.start()
    try:
        async with asyncio.timeout(60):
            await ended.wait()
    finally:
        records.stop()
    assert seen == ["one", "two"]


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
