"""What lines of the kernel's log make of devices, and until when."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from genericdp.devices.checks import BoundProbe, LogWatch
from genericdp.devices.device import Device
from genericdp.devices.inventory import Identity
from genericdp.health.kernellog import MOST_NAMED, KernelLog
from genericdp.model import KernelLogCheck, Probe
from tests.host.kernel_log import Script, record, recorded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

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
) -> Device:
    """A device that a line names by its group ``name``."""
    check = LogWatch(
        regex=regex, where={"name": name} if where is None else where, ignore=ignore or {}
    )
    probe = Probe(check=KernelLogCheck(regex=regex), recover_after_seconds=recover_after_seconds)
    return Device(
        id=name,
        key=name,
        path=f"/dev/{name}",
        identity=Identity(inode=inode),
        probes=(BoundProbe(probe=probe, check=check),),
    )


def error(name: str, *, sequence: int, seconds: float = 1.0) -> bytes:
    return record(f"I/O error, dev {name}, sector 0", sequence=sequence, seconds=seconds)


class Following:
    """A log of a test with a clock that stands still, and the resources that were told of."""

    def __init__(self, opens: Callable[[], Log]) -> None:
        self.now = NOW
        self.changed: list[str] = []
        self._moved = asyncio.Event()
        self.log = KernelLog(self._tell, open_log=opens, now=lambda: self.now)

    def _tell(self, resource: str) -> None:
        self.changed.append(resource)
        self._moved.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self._moved.clear()
                await self._moved.wait()

    async def watch(self, *devices: Device, resource: str = "r", **appeared: float) -> None:
        self.log.watch(resource, devices, appeared=appeared)
        async with asyncio.timeout(60):
            await self.log.caught_up()

    @property
    def reasons(self) -> dict[str, str]:
        return self.log.reasons("r")

    @property
    def struck(self) -> list[str]:
        return sorted(self.reasons)


@asynccontextmanager
async def following(script: Script) -> AsyncIterator[Following]:
    made = Following(script.open)
    try:
        yield made
    finally:
        made.log.close()


async def test_a_line_strikes_the_device_it_names_at_once() -> None:
    script = Script()
    async with following(script) as log:
        await log.watch(watched("sda"), watched("sdb"))
        assert (log.reasons, log.changed) == ({}, [])
        script.add(record("I/O error, dev sdb, sector 0", sequence=5, seconds=999.25))
        await log.until(lambda: bool(log.changed))
        assert log.reasons == {"sdb": "[999.250000] I/O error, dev sdb, sector 0"}
        assert log.log.next_recovery(NOW) is None
    assert log.changed == ["r"]


async def test_lines_before_the_start_of_the_daemon_count() -> None:
    """A restart makes nothing Healthy: the log is read from its start."""
    async with following(Script([error("sda", sequence=1)])) as log:
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda"]


async def test_it_recovers_so_long_after_the_last_line() -> None:
    """D6: Unhealthy forever after one error."""
    script = Script([error("sda", sequence=1, seconds=800), error("sda", sequence=2, seconds=900)])
    async with following(script) as log:
        await log.watch(watched("sda", recover_after_seconds=150))
        assert log.log.next_recovery(NOW) == 1050
        log.now = 1049.9
        assert log.struck == ["sda"]
        script.add(error("sda", sequence=3, seconds=1044))
        await log.until(lambda: log.log.next_recovery(log.now) != 1050)
        # As it is read when it comes, it counts from then: the kernel's clock may stray.
        assert log.log.next_recovery(log.now) == 1199.9
        log.now = 1199.9
        assert log.struck == []
        assert log.log.next_recovery(log.now) is None


async def test_a_device_that_vanishes_and_returns_is_well() -> None:
    script = Script([error("sda", sequence=1)])
    async with following(script) as log:
        await log.watch(watched("sda"))
        await log.watch()
        assert log.struck == []
        log.now += 10
        await log.watch(watched("sda"))
        assert log.struck == []
        script.add(error("sda", sequence=2))
        await log.until(lambda: log.struck == ["sda"])


async def test_a_device_that_took_the_place_of_another_is_well() -> None:
    """D6: the number of its node may be the same."""
    async with following(Script([error("sda", sequence=1)])) as log:
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda"]
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda"], "the same one stays struck from pass to pass"
        await log.watch(watched("sda", inode=2), watched("sdb"))
        assert log.struck == []


async def test_lines_that_are_older_than_a_device_do_not_count() -> None:
    script = Script([error("sda", sequence=1, seconds=500), error("sdb", sequence=2, seconds=500)])
    async with following(script) as log:
        await log.watch(watched("sda"), watched("sdb"), sda=500.5, sdb=499.5)
        assert log.struck == ["sdb"]


async def test_a_device_that_is_found_after_its_line_is_struck_if_it_was_there() -> None:
    script = Script([error("sda", sequence=1, seconds=500)])
    async with following(script) as log:
        await log.watch(watched("sdb"))
        await log.watch(watched("sdb"), watched("sda"), sda=400.0)
        assert log.struck == ["sda"]
    assert script.closed == 1, "the log is not read again for it"


async def test_a_new_rule_is_looked_for_in_the_whole_log() -> None:
    script = Script([error("sda", sequence=1), record("nvme nvme0: reset", sequence=2)])
    async with following(script) as log:
        await log.watch(watched("sda"))
        nvme = watched("nvme0", r"nvme (?P<name>\w+): reset")
        await log.watch(nvme, resource="other")
        assert list(log.log.reasons("other")) == ["nvme0"]
        assert log.struck == ["sda"]
        await log.watch(resource="other")
        assert log.struck == ["sda"]
    assert script.closed == 2


async def test_each_function_of_a_card_is_told_apart_where_the_line_does() -> None:
    regex = r"PCI:(?P<name>[0-9a-fA-F:.]+) (?P<what>\w+)"
    script = Script()
    async with following(script) as log:
        await log.watch(*(watched(f"0000:3b:00.{n}", regex) for n in range(2)))
        script.add(record("PCI:0000:3B:00.1 one", sequence=1))
        await log.until(lambda: log.struck == ["0000:3b:00.1"])
        script.add(record("PCI:3b:00 both", sequence=2))
        await log.until(lambda: len(log.struck) == 2)
        assert {text.rpartition(" ")[2] for text in log.reasons.values()} == {"both"}


async def test_without_where_a_line_strikes_all_devices_of_the_resource() -> None:
    script = Script([record("firmware crashed", sequence=1)])
    async with following(script) as log:
        await log.watch(*(watched(f"d{n}", "firmware crashed", where={}) for n in range(3)))
        assert log.struck == ["d0", "d1", "d2"]


async def test_the_recorded_errors_of_two_gpus() -> None:
    regex = r"NVRM: Xid \(PCI:(?P<name>[0-9a-fA-F:.]+)\): (?P<code>\d+)"
    ignore = {"code": ("13", "31", "43", "45", "68", "109")}
    gpus = [watched(one, regex, ignore=ignore) for one in ("0000:3b:00.0", "0000:af:00.0")]
    async with following(Script(recorded("nvidia-xid.kmsg"))) as log:
        log.now = 96_000.0
        await log.watch(*gpus)
        assert log.reasons == {
            "0000:af:00.0": "[95400.117431] NVRM: Xid (PCI:0000:af:00): 48, pid='<unknown>',"
            " name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in"
            " the framebuffer at partitio…"
        }


async def test_a_log_that_cannot_be_read_is_the_reason_of_all_its_devices() -> None:
    refusals = [OSError(errno.EPERM, os.strerror(errno.EPERM))] * 2
    script = Script([error("sda", sequence=1)])

    def opens() -> Log:
        if refusals:
            raise refusals.pop()
        return script.open()

    log = Following(opens)
    try:
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda", "sdb"]
        assert "cannot be read: Operation not permitted (needs CAP_SYSLOG" in log.reasons["sdb"]
        assert log.changed == ["r"]
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda", "sdb"]
        await log.watch(watched("sda"), watched("sdb"))
        assert log.struck == ["sda"], "each look at the host tries it again"
    finally:
        log.log.close()


async def test_devices_without_such_a_probe_open_no_log() -> None:
    script = Script()
    async with following(script) as log:
        await log.watch()
        bare = Device(id="a", key="a", path="/dev/a", identity=Identity(inode=1))
        await log.watch(bare)
        assert log.reasons == {}
    assert script.closed == 0, "what was opened is closed at the end"


async def test_of_names_of_no_device_only_the_last_ones_are_remembered() -> None:
    """Those of all the lines of a year would fill the memory."""
    names = [f"x{n}" for n in range(MOST_NAMED + 100)]
    lines = [error(name, sequence=n) for n, name in enumerate(names, start=2)]
    async with following(Script([error("sda", sequence=1), *lines])) as log:
        await log.watch(watched("sda"))
        first, last = names[:50], names[-50:]
        found = dict.fromkeys((*first, *last), 0.5)
        log.log.watch("r", map(watched, ("sda", *found)), appeared=found)
        assert log.struck == sorted(["sda", *last])


async def test_a_resource_that_is_forgotten_is_told_no_more() -> None:
    script = Script()
    async with following(script) as log:
        await log.watch(watched("sda"), resource="gone")
        await log.watch(watched("sda"))
        log.log.forget("gone")
        script.add(error("sda", sequence=1))
        await log.until(lambda: log.struck == ["sda"])
        assert log.log.reasons("gone") == {}
    assert log.changed == ["r"]
