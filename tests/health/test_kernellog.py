"""The device that a line of the kernel's log names, and its state afterwards."""

from __future__ import annotations

import errno
import logging
import os
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import BoundProbe, Device
from genericdp.devices.inventory import Identity
from genericdp.health.kernellog import (
    MAX_NAMED,
)
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host import kmsg
from genericdp.host.kmsg import SLICE_SECONDS, open_log
from genericdp.host.root import Root
from genericdp.model import Probe
from genericdp.reasons import NOT_PROBED

from tests.health.probed_devices import R, Watched, struck
from tests.host.kernel_log import Script, record, recorded
from tests.polling import others_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from genericdp.errors import Outcome
    from genericdp.host.kmsg import Log

DISK = r"I/O error, dev (?P<name>\w+),"
NOW = 1000.0


def watched(
    name: str,
    regex: str = DISK,
    *,
    where: dict[str, str] | None = None,
    ignore: Mapping[str, tuple[str, ...]] | None = None,
    recover_after_seconds: int | None = None,
    inode: int = 1,
    known_since: float | None = None,
) -> Device:
    """A device that a line names by its group ``name``."""
    check = KernelLogCheck(
        regex=regex, where={"name": name} if where is None else where, ignore=ignore or {}
    )
    probe = Probe(check=KernelLogCheck(regex=regex), recover_after_seconds=recover_after_seconds)
    return Device(
        id=name,
        key=name,
        path=f"/dev/{name}",
        identity=Identity(inode=inode),
        known_since=known_since,
        probes=(BoundProbe(probe=probe, check=check),),
    )


def error(name: str, *, sequence: int, seconds: float = 1.0) -> bytes:
    text = name if " " in name else f"I/O error, dev {name}, sector 0"
    return record(text, sequence=sequence, seconds=seconds)


class Following(Watched):
    """A log of a test, with a clock that stands still."""

    def __init__(self, opens: Callable[[], Log], now: float = NOW) -> None:
        self.now = now
        super().__init__(Root(Path("/")), run_probe=nothing, open_log=opens, now=lambda: self.now)

    async def look(self, *devices: Device, resource: str = R) -> None:
        """Watch exactly these devices, and wait until the log has been read."""
        self.watch(*devices, resource=resource)
        await self.probed(resource)

    @property
    def struck(self) -> list[str]:
        return sorted(self.reasons)


async def nothing(*_: object, **__: object) -> Outcome:
    """Stand for probes of which none is to be run."""
    raise NotImplementedError


@asynccontextmanager
async def following(log: Script | Callable[[], Log], now: float = NOW) -> AsyncIterator[Following]:
    made = Following(log.open if isinstance(log, Script) else log, now)
    try:
        yield made
    finally:
        made.health.forget(R)


async def test_a_line_strikes_the_device_it_names_at_once() -> None:
    script = Script()
    async with following(script) as log:
        log.watch(watched("sda"))
        assert log.reasons == {"sda": f"kernelLog: {NOT_PROBED}"}
        await log.probed()
        log.watch(watched("sda"), watched("sdb"))
        assert log.reasons == {}, "a log that is being followed is known"
        script.add(record("I/O error, dev sdb, sector 0", sequence=5, seconds=999.25))
        await log.until(lambda: bool(log.reasons))
        assert log.reasons == {"sdb": "kernelLog: [999.250000] I/O error, dev sdb, sector 0"}


async def test_a_reload_that_adds_a_probe_of_the_log_keeps_a_well_device_healthy() -> None:
    script = Script([record("nvme sda: reset", sequence=1)])
    async with following(script) as log:
        await log.look(watched("sda"))
        log.watch(watched("sda", r"nvme (?P<name>\w+): reset"))
        assert log.reasons == {}
        await log.until(lambda: log.struck == ["sda"])


CRASH = "firmware crashed"


@pytest.mark.parametrize(
    ("lines", "devices", "now", "struck"),
    [
        # D6: Unhealthy forever after one error.
        ({"sda": 800}, [watched("sda", recover_after_seconds=150)], 949.9, ["sda"]),
        ({"sda": 800}, [watched("sda", recover_after_seconds=150)], 950.0, []),
        ({"sda": 500}, [watched("sda", known_since=500.5)], NOW, []),
        ({"sda": 500}, [watched("sda", known_since=499.5)], NOW, ["sda"]),
        ({CRASH: 1}, [watched(value, CRASH, where={}) for value in "abc"], NOW, ["a", "b", "c"]),
    ],
    ids=[
        "not recovered yet",
        "recovered this long after its line",
        "the line is older than the device",
        "the device is older than the line",
        "without where a line strikes all devices of the resource",
    ],
)
async def test_a_line_in_the_log_strikes(
    lines: dict[str, int], devices: list[Device], now: float, struck: list[str]
) -> None:
    given = [
        error(name, sequence=entry, seconds=lines[name]) for entry, name in enumerate(lines, 1)
    ]
    async with following(Script(given), now) as log:
        await log.look(*devices)
        assert log.struck == struck


async def test_the_last_line_counts_from_when_it_is_read_as_it_comes() -> None:
    """The kernel's clock may stray."""
    script = Script([error("sda", sequence=1, seconds=800)])
    async with following(script, now=1049.9) as log:
        await log.look(watched("sda", recover_after_seconds=150))
        assert log.struck == []
        script.add(error("sda", sequence=2, seconds=899))
        await log.until(lambda: log.struck == ["sda"])


async def test_a_device_that_vanishes_and_returns_is_well() -> None:
    script = Script([error("sda", sequence=1)])
    async with following(script) as log:
        await log.look(watched("sda"))
        await log.look()
        assert log.struck == []
        log.now += 10
        await log.look(watched("sda"))
        assert log.struck == []
        script.add(error("sda", sequence=2))
        await log.until(lambda: log.struck == ["sda"])


async def test_a_device_that_took_the_place_of_another_is_well() -> None:
    """D6: the number of its node may be the same. What only has another ID is the same one."""
    async with following(Script([error("sda", sequence=1)])) as log:
        for again in (watched("sda"), watched("sda"), replace(watched("sda"), id="disk-1")):
            await log.look(again, watched("sdb"))
            assert log.struck == [again.id], "it stays struck from pass to pass"
        await log.look(watched("sda", inode=2), watched("sdb"))
        assert log.struck == []


async def test_a_device_that_is_found_after_its_line_is_struck_if_it_was_there() -> None:
    script = Script([error("sda", sequence=1, seconds=500)])
    async with following(script) as log:
        await log.look(watched("sdb"))
        await log.look(watched("sdb"), watched("sda", known_since=400.0))
        assert log.struck == ["sda"]
    assert script.closings == 1, "the log is not read again for it"


async def test_a_new_rule_is_looked_for_in_the_whole_log() -> None:
    script = Script([error("sda", sequence=1), record("nvme nvme0: reset", sequence=2)])
    async with following(script) as log:
        await log.look(watched("sda"))
        nvme = watched("nvme0", r"nvme (?P<name>\w+): reset")
        await log.look(nvme, resource="other")
        assert list(log.reasons_of("other")) == ["nvme0"]
        assert log.struck == ["sda"]
        await log.look(resource="other")
        log.health.forget("other")
        assert (log.struck, list(log.health.reports())) == (["sda"], [R])
    assert script.closings == 2


async def test_each_function_of_a_card_is_told_apart_where_the_line_does() -> None:
    regex = r"PCI:(?P<name>[0-9a-fA-F:.]+) (?P<what>\w+)"
    script = Script()
    async with following(script) as log:
        await log.look(*(watched(f"0000:3b:00.{n}", regex) for n in range(2)))
        script.add(record("PCI:0000:3B:00.1 one", sequence=1))
        await log.until(lambda: log.struck == ["0000:3b:00.1"])
        script.add(record("PCI:3b:00 both", sequence=2))
        await log.until(lambda: len(log.struck) == 2)
        assert {text.rpartition(" ")[2] for text in log.reasons.values()} == {"both"}


async def test_the_recorded_errors_of_two_gpus() -> None:
    regex = r"NVRM: Xid \(PCI:(?P<name>[0-9a-fA-F:.]+)\): (?P<code>\d+)"
    ignore = {"code": ("13", "31", "43", "45", "68", "109")}
    gpus = [watched(name, regex, ignore=ignore) for name in ("0000:3b:00.0", "0000:af:00.0")]
    async with following(Script(recorded("nvidia-xid.kmsg")), 96_000.0) as log:
        await log.look(*gpus)
        assert log.reasons == {
            "0000:af:00.0": "kernelLog: [95400.117431] NVRM: Xid (PCI:0000:af:00): 48,"
            " pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been"
            " detected on GPU in the framebuffer at partitio…"
        }


def refusing(script: Script) -> Callable[[], Log]:
    """Return what opens the log at the third try."""
    refusals = [OSError(errno.EPERM, os.strerror(errno.EPERM))] * 2

    def opens() -> Log:
        if refusals:
            raise refusals.pop()
        return script.open()

    return opens


WITHOUT_RIGHTS = (
    "the kernel's log cannot be read: Operation not permitted"
    " (needs CAP_SYSLOG or kernel.dmesg_restrict=0, and a pod a device cgroup with it)"
)


async def test_a_log_that_cannot_be_read_is_the_reason_of_all_its_devices() -> None:
    async with following(refusing(Script([error("sda", sequence=1)]))) as log:
        await log.look(watched("sda"), watched("sdb"))
        assert log.reasons == dict.fromkeys(("sda", "sdb"), f"kernelLog: {WITHOUT_RIGHTS}")
        reset = watched("nvme0", r"(?P<name>\w+): reset")
        await log.look(watched("sda"), watched("sdb"), reset)
        assert log.struck == ["nvme0", "sda", "sdb"], "a new rule has it opened at once"
        await log.look(watched("sda"), watched("sdb"), watched("sdc", "sdc: (?P<name>reset)"))
        await log.until(lambda: log.struck == ["sda"])


async def test_a_log_that_cannot_be_opened_is_tried_again_which_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "AGAIN_AFTER_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    async with following(refusing(Script([error("sda", sequence=1)]))) as log:
        log.watch(watched("sda"), watched("sdb"))
        await log.until(lambda: log.struck == ["sda"])
    assert caplog.messages == [WITHOUT_RIGHTS, "the kernel's log can be read again"]


async def test_a_log_that_ends_or_is_another_file_is_the_reason(tmp_path: Path) -> None:
    missing, other = tmp_path / "kmsg", tmp_path / "console"
    other.symlink_to("/dev/null")
    opens: Callable[[], Log]
    for opens, why in (
        (Script([b""]).open, "it has ended"),
        (partial(open_log, str(missing)), f"No such file or directory ({missing})"),
        (partial(open_log, str(other)), f"{other} is not the character device 1:11"),
    ):
        async with following(opens) as log:
            await log.look(watched("sda"))
            assert log.reasons == {"sda": f"kernelLog: the kernel's log cannot be read: {why}"}


async def test_lines_that_user_space_wrote_do_not_count() -> None:
    """Facilities 1 and 3 (daemon) are its own; it cannot write 0."""
    lines = [record(f"I/O error, dev d{n}, x", sequence=n, priority=n) for n in (7, 8, 24)]
    async with following(Script(lines)) as log:
        await log.look(*(watched(f"d{n}") for n in (7, 8, 24)))
        assert log.struck == ["d7"]


async def test_an_overrun_is_survived_and_its_losses_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flood in the kernel's log must not flood ours."""
    later = [record("fine", sequence=number) for number in range(9, 100, 3)]
    lost = OSError(errno.EPIPE, os.strerror(errno.EPIPE))
    script = Script([record("fine", sequence=1), lost, *later, error("sda", sequence=100)])
    async with following(script) as log:
        await log.look(watched("sda"))
        assert log.struck == ["sda"]
    assert caplog.messages == ["7 records of the kernel's log were lost: it is overrun"]


async def test_a_long_log_lets_the_loop_do_other_things() -> None:
    lines = [record("fine", sequence=number) for number in range(20_000)]
    async with following(Script(lines)) as log:
        log.watch(watched("sda"))
        turns = 0
        while log.reasons:
            await others_run()
            turns += 1
    assert turns >= 4


class Slow(Script):
    """Takes the whole turn of the loop for each record."""

    def read(self, most: int = -1, /) -> bytes | None:
        begun = time.perf_counter()
        while time.perf_counter() - begun <= SLICE_SECONDS:
            pass
        return super().read(most)


async def test_a_turn_that_is_over_with_the_last_record_does_not_hide_the_end() -> None:
    """As on a busy machine: then nothing is readable."""
    async with following(Slow([error("sda", sequence=1), error("sdb", sequence=2)])) as log:
        await log.look(watched("sda"), watched("sdb"), watched("sdc"))
        assert log.struck == ["sda", "sdb"]


async def test_devices_without_such_a_probe_open_no_log() -> None:
    script = Script()
    async with following(script) as log:
        await log.look()
        await log.look(replace(watched("a"), probes=()))
        assert log.reasons == {}
    assert script.closings == 0, "what was opened is closed at the end"


async def test_of_names_of_no_device_only_the_last_ones_are_remembered() -> None:
    """Those of all the lines of a year would fill the memory."""
    names = [f"x{number}" for number in range(MAX_NAMED + 100)]
    lines = [error(name, sequence=number) for number, name in enumerate(["sda", *names], 1)]
    async with following(Script(lines)) as log:
        await log.look(watched("sda"), watched("sdb"))
        first, last = names[:50], names[-50:]
        found = [watched(name, known_since=0.5) for name in (*first, *last)]
        log.watch(watched("sda"), *found)
        assert log.struck == sorted(["sda", *last])


@pytest.mark.parametrize(
    ("address", "line_has", "same"),
    [
        ("0000:3b:00.0", "0000:3b:00.0", True),
        ("0000:3b:00.0", "0000:3b:00", True),
        ("0000:3b:00", "0000:3b:00.1", True),
        ("0000:3b:00.0", "3b:00.0", True),
        ("3b:00", "0000:3B:00", True),
        ("0000:3b:00.0", "00000000:3B:00.0", True),
        ("10000:01:00.0", "00010000:01:00", True),
        ("0000:3b:00.0", "0000:3b:00.1", False),
        ("0000:3b:00.0", "0001:3b:00.0", False),
        ("0001:3b:00.0", "3b:00.0", False),
        ("0000:3b:00.0", "0000:3b:01.0", False),
        ("0000:3b:00.0", "0000:3c:00", False),
        ("sda", "sda", True),
        ("sda", "sdA", False),
        ("sda", "sdaa", False),
        ("0xDEAD", "0xdead", True),
        ("de-ad:BE", "DE-AD:be", True),
        ("Xdead", "xdead", False),
        ("1f", "0x1f", False),
        ("", "", True),
    ],
)
def test_texts_are_compared(address: str, line_has: str, same: bool) -> None:
    check = KernelLogCheck(regex=r"<(?P<name>.*)>", where={"name": address})
    assert struck(check, f"<{line_has}>") is same
    check = replace(check, where={"name": line_has})
    assert struck(check, f"<{address}>") is same


ERROR = KernelLogCheck(
    regex=r"(?P<bus>\w+) (?P<dev>\w+): error(?: (?P<code>\w+))?",
    where={"dev": "sda", "bus": "scsi"},
    ignore={"code": ("0x1F", "7")},
)
OPTIONAL = KernelLogCheck(regex=r"error(?: on (?P<dev>\w+))?", where={"dev": "sda"})


@pytest.mark.parametrize(
    ("check", "line", "strikes"),
    [
        (ERROR, "[x] scsi sda: error 8", True),
        (ERROR, "scsi sda: error", True),
        (ERROR, "scsi sdb: error 8", False),
        (ERROR, "usb sda: error 8", False),
        (ERROR, "scsi sda: error 0x1f", False),
        (ERROR, "scsi sda: fine", False),
        (OPTIONAL, "error on sda", True),
        (OPTIONAL, "error", False),  # a group that took no part names nothing
    ],
)
def test_a_line_counts_if_all_of_where_and_none_of_ignore_holds(
    check: KernelLogCheck[str], line: str, strikes: bool
) -> None:
    assert struck(check, line) is strikes
