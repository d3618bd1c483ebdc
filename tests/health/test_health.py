"""genericdp.health.health: probes and the kernel's log together, told in few words."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.checks import BoundProbe, LogWatch
from genericdp.health.health import Health
from genericdp.health.thresholds import NOT_PROBED
from genericdp.host.root import Root
from genericdp.model import KernelLogCheck, Probe
from genericdp.observed import Observed, until
from genericdp.process.outcome import Outcome
from tests.health.made import device, probe
from tests.host.kernel_log import Script, record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.health.kinds import Run

R = "example.com/r"
DISK = r"I/O error, dev (?P<name>\w+),"


def by_log(
    one: Device, *, recover: float | None = None, initialized_usec: int | None = None
) -> Device:
    """The device with another probe: the kernel's log may name it."""
    check = LogWatch(regex=DISK, where={"name": one.id})
    bound = BoundProbe(
        probe=Probe(
            check=KernelLogCheck(regex=DISK),
            recover_after_seconds=recover,  # type: ignore[arg-type]  # a fraction, to be fast
        ),
        check=check,
    )
    return replace(one, probes=(*one.probes, bound), initialized_usec=initialized_usec)


def error(name: str, sequence: int = 1, seconds: float = 1.0) -> bytes:
    return record(f"I/O error, dev {name}, sector 0", sequence=sequence, seconds=seconds)


class Told:
    """What a kubelet would hear."""

    def __init__(self) -> None:
        self.log = Script()
        self.lists: Observed[tuple[dict[str, str], ...]] = Observed(())
        self.bad: set[str] = set()
        self.held: asyncio.Event | None = None

    def changed(self, resource: str, reasons: Mapping[str, str]) -> None:
        self.lists.value = (*self.lists.value, dict(reasons))

    async def run(self, runs: Sequence[Run], resource: str, root: Root) -> Sequence[Outcome]:
        if self.held is not None:
            await self.held.wait()
        ok, broken = Outcome(), Outcome(reason="broken")
        return [broken if one.id in self.bad else ok for _, one in runs]

    async def after(self, count: int) -> dict[str, str]:
        assert await until(lambda: len(self.lists.value) >= count, self.lists, timeout_seconds=5)
        return self.lists.value[count - 1]


@asynccontextmanager
async def health(told: Told, root: Path) -> AsyncIterator[Health]:
    one = Health(Root(root), changed=told.changed, run_probes=told.run, open_log=told.log.open)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(one.run())
        try:
            yield one
        finally:
            running.cancel()


async def test_a_burst_of_changes_is_told_at_once_and_what_follows_together(tmp_path: Path) -> None:
    """LAW-7: a list costs the kubelet a write (change: ``_tell`` calls ``_changed``)."""
    told = Told()
    often = probe(period_seconds=0.01, failure_threshold=1)
    async with health(told, tmp_path) as one:
        one.watch(R, {f"d{i}": device(f"d{i}", often) for i in range(40)})
        await one.first_round(R)
        told.bad = {f"d{i}" for i in range(40)}
        broken: dict[str, str] = {}
        count = 1
        while len([name for name, why in broken.items() if why]) < 40:
            broken |= await told.after(count)
            count += 1
    assert count <= 6
    assert broken == {f"d{i}": f"exec /d{i}/0: broken" for i in range(40)}


async def test_all_checks_must_pass_and_the_reasons_stand_side_by_side(tmp_path: Path) -> None:
    told = Told()
    told.log.given = [error("a")]
    told.bad = {"a"}
    async with health(told, tmp_path) as one:
        one.watch(R, {name: by_log(device(name, probe())) for name in "ab"})
        assert one.reason(R, "b") == f"exec /b/0: {NOT_PROBED}"
        assert await one.first_round(R)
        why = "exec /a/0: broken; kernelLog: [1.000000] I/O error, dev a, sector 0"
        assert one.reasons(R) == {"a": why}
        assert one.reason(R, "a") == why


async def test_a_device_is_well_again_when_the_line_is_long_enough_ago(tmp_path: Path) -> None:
    told = Told()
    async with health(told, tmp_path) as one:
        one.watch(R, {"a": by_log(device("a"), recover=0.2)}, delayed=False)
        assert await one.first_round(R)
        assert one.reasons(R) == {}
        told.log.add(error("a"))
        assert list(await told.after(1)) == ["a"]
        assert "I/O error" in one.reason(R, "a")
        assert await told.after(2) == {"a": ""}


async def test_news_from_before_udev_knew_the_device_is_about_another_one(tmp_path: Path) -> None:
    """A stick that was pulled and replaced while no daemon ran."""
    told = Told()
    told.log.given = [error("a", 1, 5.0), error("b", 2, 15.0)]
    async with health(told, tmp_path) as one:
        devices = {name: by_log(device(name), initialized_usec=10_000_000) for name in "ab"}
        one.watch(R, devices, delayed=False)
        assert await one.first_round(R)
        assert list(one.reasons(R)) == ["b"]


async def test_news_from_before_a_device_was_plugged_in_is_about_another_one(
    tmp_path: Path,
) -> None:
    """Also for the first one of its resource (change: ``_appeared`` ignores ``before``)."""
    told = Told()
    told.log.given = [error("a")]
    async with health(told, tmp_path) as one:
        one.watch(R, {}, delayed=False)
        one.watch(R, {"a": by_log(device("a"))})
        assert await one.first_round(R)
        assert one.reasons(R) == {}
        told.log.add(error("a", 2))
        assert list(await told.after(1)) == ["a"]


async def test_news_counts_for_a_device_that_was_there_before_its_probe(tmp_path: Path) -> None:
    told = Told()
    told.log.given = [error("a")]
    async with health(told, tmp_path) as one:
        one.watch(R, {"a": device("a")}, delayed=False)
        one.watch(R, {"a": by_log(device("a"))})
        assert await one.first_round(R)
        assert list(one.reasons(R)) == ["a"]


async def test_a_resource_that_is_gone_is_not_told_of(tmp_path: Path) -> None:
    told = Told()
    told.log.given = [error("a")]
    async with health(told, tmp_path) as one:
        one.watch(R, {"a": by_log(device("a"))}, delayed=False)
        await one.first_round(R)
        before = told.lists.value  # on a busy machine its burst is over already
        one.forget(R)
        assert one.reasons(R) == {}
        await asyncio.sleep(0.15)  # longer than a burst
    assert told.lists.value == before


async def test_the_first_round_is_not_waited_for_longer_than_said(tmp_path: Path) -> None:
    told = Told()
    told.held = asyncio.Event()
    async with health(told, tmp_path) as one:
        one.watch(R, {"a": device("a", probe())}, delayed=False)
        assert not await one.first_round(R, timeout_seconds=0.05)
        told.held.set()
        assert await one.first_round(R)
