"""genericdp.health.health: probes and the kernel's log together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.device import BoundProbe
from genericdp.errors import Outcome
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.root import Root
from genericdp.model import Probe
from genericdp.reasons import NOT_PROBED, text_of
from tests.health.probed_devices import PATIENCE_SECONDS, R, device, probe, watching
from tests.host.kernel_log import Script, record

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from genericdp.devices.device import Device
    from tests.health.probed_devices import Watched

DISK = r"I/O error, dev (?P<name>\w+),"


def by_log(
    one: Device, *, recover: float | None = None, known_since: float | None = None
) -> Device:
    """The device with another probe: the kernel's log may name it."""
    check = KernelLogCheck(regex=DISK, where={"name": one.id})
    bound = BoundProbe(
        probe=Probe(
            check=KernelLogCheck(regex=DISK),
            recover_after_seconds=recover,  # type: ignore[arg-type]  # a fraction, to be fast
        ),
        check=check,
    )
    return replace(one, probes=(*one.probes, bound), known_since=known_since)


def error(name: str, sequence: int = 1, seconds: float = 1.0) -> bytes:
    return record(f"I/O error, dev {name}, sector 0", sequence=sequence, seconds=seconds)


class World:
    """A kernel log, and what the probes of a test find."""

    def __init__(self) -> None:
        self.log = Script()
        self.bad: set[str] = set()

    async def run(
        self, bound: BoundProbe, one: Device, *, resource: str, root: Root, before: bytes
    ) -> Outcome:
        ok, broken = Outcome(), Outcome(reason="broken")
        return broken if one.id in self.bad else ok

    def health(self, root: Path) -> AbstractAsyncContextManager[Watched]:
        return watching(Root(root), run_probe=self.run, open_log=self.log.open)


async def test_all_checks_must_pass_and_the_reasons_stand_side_by_side(tmp_path: Path) -> None:
    world = World()
    world.log.given = [error("a")]
    world.bad = {"a"}
    async with world.health(tmp_path) as one:
        one.watch(*(by_log(device(name, probe())) for name in "ab"))
        assert one.reasons["b"] == f"exec /b/0: {NOT_PROBED}; kernelLog: {NOT_PROBED}"
        await one.probed()
        why = "exec /a/0: broken; kernelLog: [1.000000] I/O error, dev a, sector 0"
        assert one.reasons == {"a": why}


async def test_a_report_says_which_device_it_is_about(tmp_path: Path) -> None:
    async with World().health(tmp_path) as one:
        first, other = device("a", probe()), device("a", probe(), inode=2)
        one.watch(first)
        await one.probed()
        before = one.health.reports()
        assert before == {R: {("a", first.identity): ()}}
        one.watch(other)
        ((named, reasons),) = one.health.reports()[R].items()
        assert named == ("a", other.identity)
        assert text_of(reasons) == f"exec /a/0: {NOT_PROBED}"
        assert not before[R]["a", first.identity], "it is a snapshot"


async def test_a_device_is_well_again_while_another_probe_of_it_hangs(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hang(*_: object, **__: object) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        raise NotImplementedError

    log = Script([error("a")])
    async with watching(Root(tmp_path), run_probe=hang, open_log=log.open) as one:
        one.watch(by_log(device("a", probe()), recover=0.2))
        await begun.wait()
        log.add(error("a", 2))
        await one.until(lambda: "I/O error" in one.reasons["a"])
        await one.until(lambda: one.reasons["a"] == f"exec /a/0: {NOT_PROBED}")


async def test_news_from_before_a_device_was_plugged_in_is_about_another_one(
    tmp_path: Path,
) -> None:
    """Also for the first one of its resource (change: ``watch`` always gives the past)."""
    world = World()
    world.log.given = [error("a")]
    async with world.health(tmp_path) as one:
        one.watch(delayed=False)
        one.watch(by_log(device("a")))
        await one.probed()
        assert one.reasons == {}
        world.log.add(error("a", 2))
        await one.until(lambda: list(one.reasons) == ["a"])


async def test_news_counts_for_a_device_that_was_there_before_its_probe(tmp_path: Path) -> None:
    world = World()
    world.log.given = [error("a")]
    async with world.health(tmp_path) as one:
        one.watch(device("a"), delayed=False)
        one.watch(by_log(device("a")))
        await one.until(lambda: list(one.reasons) == ["a"])


async def test_another_text_alone_is_told_late(tmp_path: Path) -> None:
    """A reconcile is not worth it: a temperature has another one with each probe."""
    probed, read = asyncio.Event(), 0

    async def warmer(*_: object, **__: object) -> Outcome:
        nonlocal read
        read += 1
        if read == 50:
            probed.set()
        return Outcome(reason=f"it has {read} C")

    async with watching(Root(tmp_path), run_probe=warmer, text_seconds=3600) as one:
        one.watch(device("a", probe(period_seconds=0.01)))
        await one.probed()
        told = one.wakes
        async with asyncio.timeout(PATIENCE_SECONDS):
            await probed.wait()
        assert one.wakes == told
    read = 0
    async with watching(Root(tmp_path), run_probe=warmer, text_seconds=0.01) as one:
        one.watch(device("a", probe(period_seconds=0.01)))
        await one.probed()
        first = one.reasons
        await one.until(lambda: one.reasons != first)
