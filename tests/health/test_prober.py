"""Probes: when they run, their results, and what the kernel's log adds."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.device import BoundProbe
from genericdp.errors import Outcome
from genericdp.health.health import Probes
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.root import Root
from genericdp.model import Probe
from genericdp.observed import Observed, until
from genericdp.process.run import Commands
from genericdp.reasons import NOT_PROBED

from tests.health.probed_devices import R, device, probe, watching
from tests.host.kernel_log import Script, record
from tests.polling import others_run

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from genericdp.devices.device import Device

    from tests.health.probed_devices import Watched

DISK = r"I/O error, dev (?P<name>\w+),"
OFTEN, RARELY = 0.01, 600.0


class Runs:
    """The results of probes: an outcome for each program or file, none, or a file's content."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = Script()
        self.outcomes: defaultdict[str, Outcome | Exception | None] = defaultdict(Outcome)
        self.go = asyncio.Event()
        """Lets those go on that hang."""
        self.begun: Observed[tuple[str, ...]] = Observed(())
        self.reasons: Observed[tuple[str, ...]] = Observed(())
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._real = Probes(Commands().run)

    async def run(self, bound: BoundProbe, of: Device, *, resource: str, **keys: Any) -> Outcome:
        for name in (of.id, resource):
            self.running[name] += 1
            self.most[name] = max(self.most[name], self.running[name])
        try:
            outcome = await self._outcome(bound, of, resource=resource, **keys)
        finally:
            for name in (of.id, resource):
                self.running[name] -= 1
        self.reasons.value = (*self.reasons.value, outcome.reason)
        return outcome

    async def _outcome(self, bound: BoundProbe, *about: Any, **keys: Any) -> Outcome:
        check = bound.check
        assert isinstance(check, ExecCheck | FileCheck)
        path = check.command.argv[0] if isinstance(check, ExecCheck) else check.path
        self.begun.value = (*self.begun.value, path)
        if isinstance(check, FileCheck) and check.changes:
            return await self._real.run(bound, *about, **keys)
        if self.outcomes[path] is None:
            await self.go.wait()
        outcome = self.outcomes[path]
        assert outcome is not None
        if isinstance(outcome, Exception):
            raise outcome
        await others_run()
        return outcome

    async def after(self, count: int) -> None:
        """Wait until this many runs have begun."""
        assert await until(lambda: len(self.begun.value) >= count, self.begun, timeout_seconds=60)

    async def more(self, count: int) -> list[str]:
        """Wait for this many more runs, and give why each failed."""
        before, reasons = len(self.reasons.value), self.reasons
        enough = before + count
        assert await until(lambda: len(reasons.value) >= enough, reasons, timeout_seconds=60)
        return list(reasons.value[before:enough])

    def write(self, name: str, content: str) -> None:
        """Give a file another content at once: no probe sees half of it."""
        (new := self.directory / "new").write_text(content)
        new.rename(self.directory / name)

    def probing(self, **settings: Any) -> AbstractAsyncContextManager[Watched]:
        given = {"run_probe": self.run, "open_log": self.log.open, **settings}
        return watching(Root(self.directory), **given)


@pytest.fixture
async def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


async def test_probes_of_one_device_never_overlap_and_four_of_a_resource_run_at_once(
    runs: Runs,
) -> None:
    often = probe(period_seconds=OFTEN)
    async with runs.probing() as prober:
        prober.watch(*(device(f"d{number}", often, often) for number in range(20)))
        await runs.after(200)
    assert runs.most[R] == 4
    assert {runs.most[f"d{number}"] for number in range(20)} == {1}


async def test_a_device_that_is_replaced_is_probed_after_the_probe_of_the_former_one(
    runs: Runs,
) -> None:
    runs.outcomes |= {"/a/0": None, "/b/0": None}
    async with runs.probing() as prober:
        prober.watch(device("a", probe()), device("b", probe()))
        await runs.after(2)
        prober.watch(device("a", probe(), inode=2))
        await asyncio.sleep(0.05)  # noqa: TID251 -- may begin, may not
        prober.watch()
        prober.watch(device("a", probe(), inode=3))
        await asyncio.sleep(0.05)  # noqa: TID251 -- may begin, may not
        assert prober.reasons == {"a": f"exec /a/0: {NOT_PROBED}"}
        broken = Outcome(reason="broken")
        runs.outcomes |= {"/a/0": broken, "/b/0": broken}
        runs.go.set()
        await prober.probed()
        assert prober.reasons == {"a": "exec /a/0: broken"}
    assert runs.most["a"] == 1


async def test_the_initial_delay_counts_only_for_devices_that_appear_later(runs: Runs) -> None:
    async with runs.probing() as prober:
        old = device("old", probe(initial_delay_seconds=60))
        prober.watch(old, delayed=False)
        await prober.probed()
        asked = asyncio.get_running_loop().time()
        prober.watch(old, device("new", probe(initial_delay_seconds=0.1)))
        await runs.after(2)
        assert asyncio.get_running_loop().time() - asked >= 0.1
    assert runs.begun.value == ("/old/0", "/new/0")


async def test_a_device_that_vanishes_and_returns_has_to_prove_itself_anew(runs: Runs) -> None:
    async with runs.probing() as prober:
        prober.watch(device("a", probe()))
        await prober.probed()
        prober.watch()
        assert prober.reasons == {}
        prober.watch(device("a", probe(initial_delay_seconds=5)))
        assert prober.reasons == {"a": f"exec /a/0: {NOT_PROBED}"}


async def test_a_reload_that_adds_a_probe_keeps_a_well_device_healthy(runs: Runs) -> None:
    runs.outcomes["/a/1"] = Outcome(reason="broken")
    async with runs.probing() as prober:
        prober.watch(device("a", probe()))
        await prober.probed()
        often = probe(period_seconds=0.02, failure_threshold=2)
        prober.watch(device("a", probe(period_seconds=60), often))
        assert prober.reasons == {}
        await prober.until(lambda: bool(prober.reasons))
        assert runs.begun.value.count("/a/1") >= 2


async def test_a_reload_that_changes_a_probe_makes_no_broken_device_healthy(runs: Runs) -> None:
    runs.outcomes["/a/0"] = Outcome(reason="broken")
    async with runs.probing() as prober:
        prober.watch(device("a", probe()))
        await prober.probed()
        prober.watch(device("a", probe(period_seconds=60)))
        assert prober.reasons == {"a": f"exec /a/0: {NOT_PROBED}"}


async def test_results_stay_where_only_the_text_of_a_probe_differs(runs: Runs) -> None:
    runs.outcomes["/a/0"] = Outcome(reason="broken")
    async with runs.probing() as prober:
        prober.watch(first := device("a", probe()))
        await prober.probed()
        prober.watch(replace(first, probes=device("b", probe()).probes))
        assert prober.reasons == {"a": "exec /b/0: broken"}


async def test_the_same_devices_again_change_nothing_and_those_without_probes_cost_nothing(
    runs: Runs,
) -> None:
    async with runs.probing() as prober:
        prober.watch(device("bare"))
        assert (prober.wakes, prober.health.results(R)) == (0, {"bare": ()})
        prober.watch(device("a", probe()))
        await prober.probed()
        wakes = prober.wakes
        for _ in range(20):
            prober.watch(device("a", probe()))
            await others_run()
        assert (prober.reasons, prober.wakes) == ({}, wakes)
    assert runs.begun.value == ("/a/0",)


async def test_a_mistake_of_ours_in_one_probe_ends_no_other_one(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    """K6."""
    runs.outcomes["/a/0"] = ValueError("oops")
    async with runs.probing() as prober:
        prober.watch(device("a", probe()), device("b", probe()))
        await prober.probed()
        assert prober.reasons == {"a": "exec /a/0: unexpected failure: oops"}
    assert "unexpected failure" in caplog.text


async def test_files_do_not_wait_for_hanging_commands_of_their_resource(runs: Runs) -> None:
    runs.outcomes |= {f"/h{number}/0": None for number in range(40)}
    hanging = [device(f"h{number}", probe()) for number in range(40)]
    often = probe(period_seconds=0.2)
    async with runs.probing() as prober:
        prober.watch(
            *hanging, *(device(f"f{each_number}", often, file=True) for each_number in range(20))
        )
        await runs.after(4 + 3 * 20)


async def test_another_text_alone_is_told_late(runs: Runs) -> None:
    """A reconcile is not worth it: a temperature has another one with each probe."""
    warm = device("a", probe(period_seconds=OFTEN))
    async with runs.probing(text_seconds=3600) as prober:
        runs.outcomes["/a/0"] = Outcome(reason="it has 1 C")
        prober.watch(warm)
        await prober.probed()
        reported = prober.wakes
        for degrees in range(20):
            runs.outcomes["/a/0"] = Outcome(reason=f"it has {degrees} C")
            await runs.more(2)
        assert prober.wakes == reported
    async with runs.probing(text_seconds=0.01) as prober:
        prober.watch(warm)
        await prober.probed()
        runs.outcomes["/a/0"] = Outcome(reason="it has 99 C")
        await prober.until(lambda: prober.reasons == {"a": "exec /a/0: it has 99 C"})


def by_log(of: Device, *, recover: float | None = None) -> Device:
    """The device with another probe: the kernel's log may name it."""
    bound = BoundProbe(
        probe=Probe(
            check=KernelLogCheck(regex=DISK),
            recover_after_seconds=recover,  # type: ignore[arg-type]  # a fraction, to be fast
        ),
        check=KernelLogCheck(regex=DISK, where={"name": of.id}),
    )
    return replace(of, probes=(*of.probes, bound))


def error(name: str, sequence: int = 1) -> bytes:
    return record(f"I/O error, dev {name}, sector 0", sequence=sequence)


async def test_all_checks_must_pass_and_the_reasons_stand_side_by_side(runs: Runs) -> None:
    runs.log.given = [error("a")]
    runs.outcomes["/a/0"] = Outcome(reason="broken")
    async with runs.probing() as prober:
        prober.watch(*(by_log(device(name, probe())) for name in "ab"))
        assert prober.reasons["b"] == f"exec /b/0: {NOT_PROBED}; kernelLog: {NOT_PROBED}"
        await prober.probed()
        why = "exec /a/0: broken; kernelLog: [1.000000] I/O error, dev a, sector 0"
        assert prober.reasons == {"a": why}


async def test_a_device_is_well_again_while_another_probe_of_it_hangs(runs: Runs) -> None:
    runs.log.given = [error("a")]
    runs.outcomes["/a/0"] = None
    async with runs.probing() as prober:
        prober.watch(by_log(device("a", probe()), recover=0.2))
        await runs.after(1)
        runs.log.add(error("a", 2))
        await prober.until(lambda: "I/O error" in prober.reasons["a"])
        await prober.until(lambda: prober.reasons["a"] == f"exec /a/0: {NOT_PROBED}")
        await others_run()
    assert runs.most["a"] == 1, "it is not run once more next to the one that hangs"


STILL = "/a is '17', as when it was last read (it must change)"


def beating(name: str, *, inode: int = 1, **settings: float) -> Device:
    """A device whose file must hold something else each time it is read."""
    bound = BoundProbe(probe=probe(**settings), check=FileCheck(path=f"/{name}", changes=True))
    return replace(device(name, inode=inode), probes=(bound,))


async def test_a_device_that_stands_still_is_unhealthy_until_it_moves_again(runs: Runs) -> None:
    runs.write("a", "17")
    runs.write("b", "17")
    async with runs.probing() as prober:
        prober.watch(beating("a", period_seconds=OFTEN), beating("b", period_seconds=OFTEN))
        await prober.probed()
        assert prober.reasons == {}, "there is nothing to compare with"
        await prober.until(lambda: len(prober.reasons) == 2)
        assert prober.reasons["a"] == f"file: {STILL}"
        runs.write("a", "18")
        await prober.until(lambda: "a" not in prober.reasons)


async def test_what_cannot_be_read_is_no_other_content(runs: Runs) -> None:
    runs.write("a", "17")
    async with runs.probing() as prober:
        prober.watch(beating("a", period_seconds=OFTEN, failure_threshold=1000))
        assert await runs.more(2) == ["", STILL]
        (runs.directory / "a").unlink()
        assert "/a does not exist" in await runs.more(2)
        runs.write("a", "17")
        assert (await runs.more(2))[1] == STILL
        assert "" not in runs.reasons.value[1:]


@pytest.mark.parametrize(
    ("period", "is_unplugged", "again", "reason"),
    [
        (RARELY, True, beating("a", period_seconds=RARELY), ""),
        (RARELY, False, beating("a", inode=2, period_seconds=RARELY), ""),
        (RARELY, False, beating("a", period_seconds=RARELY + 1), ""),
        (0.1, False, beating("a", period_seconds=0.1), STILL),
    ],
    ids=["replugged", "replaced", "another probe", "the same"],
)
async def test_what_is_plugged_or_probed_anew_has_no_content_before(
    runs: Runs, period: float, is_unplugged: bool, again: Device, reason: str
) -> None:
    runs.write("a", "17")
    async with runs.probing() as prober:
        prober.watch(beating("a", period_seconds=period))
        assert await runs.more(1) == [""]
        if is_unplugged:
            prober.watch()
        prober.watch(again)
        assert await runs.more(1) == [reason]
