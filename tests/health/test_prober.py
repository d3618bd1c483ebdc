"""Which probe runs when, and what comes of it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from genericdp.errors import Outcome
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.host.root import Root
from genericdp.observed import Observed, until
from genericdp.reasons import NOT_PROBED
from tests.health.probed_devices import R, device, probe, watching

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import pytest

    from genericdp.devices.device import BoundProbe, Device
    from tests.health.probed_devices import Watched

OK = Outcome()


class Probes:
    """Stands for what probes would find: an outcome for each file, or none forever."""

    def __init__(self) -> None:
        self.outcomes: defaultdict[str, Outcome | Exception | None] = defaultdict(lambda: OK)
        self.runs: Observed[tuple[str, ...]] = Observed(())
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def run(
        self, bound: BoundProbe, one: Device, *, resource: str, root: Root, before: bytes
    ) -> Outcome:
        check = bound.check
        assert isinstance(check, ExecCheck | FileCheck)
        path = check.command.argv[0] if isinstance(check, ExecCheck) else check.path
        for name in (one.id, resource, "all"):
            self.running[name] += 1
            self.most[name] = max(self.most[name], self.running[name])
        self.runs.value = (*self.runs.value, path)
        try:
            outcome = self.outcomes[path]
            while outcome is None:
                await asyncio.Event().wait()
            if isinstance(outcome, Exception):
                raise outcome
            await asyncio.sleep(0)
            return outcome
        finally:
            for name in (one.id, resource, "all"):
                self.running[name] -= 1

    async def after(self, count: int) -> None:
        assert await until(lambda: len(self.runs.value) >= count, self.runs, timeout_seconds=60)


def probing(probes: Probes, root: Path, **settings: object) -> AbstractAsyncContextManager[Watched]:
    return watching(Root(root), run_probe=probes.run, **settings)


async def test_a_state_that_did_not_change_wakes_nobody(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        prober.watch(device("a", probe(period_seconds=0.01)))
        await probes.after(10)
    assert prober.wakes <= 2


async def test_probes_of_one_device_never_overlap_and_four_of_a_resource_run_at_once(
    tmp_path: Path,
) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        often = probe(period_seconds=0.01)
        prober.watch(*(device(f"d{i}", often, often) for i in range(20)))
        await probes.after(200)
    assert probes.most[R] == 4
    assert {probes.most[f"d{i}"] for i in range(20)} == {1}


async def test_a_device_that_is_replaced_is_probed_after_the_probe_of_the_former_one(
    tmp_path: Path,
) -> None:
    running, most = 0, 0
    begun, go = asyncio.Event(), asyncio.Event()

    async def run(*_: object, **__: object) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        begun.set()
        await go.wait()
        running -= 1
        return Outcome(reason=f"broken: {most}")

    async with watching(Root(tmp_path), run_probe=run) as prober:
        prober.watch(device("a", probe()), device("b", probe()))
        await begun.wait()
        prober.watch(device("a", probe(), inode=2))
        await asyncio.sleep(0.05)
        prober.watch()
        prober.watch(device("a", probe(), inode=3))
        await asyncio.sleep(0.05)
        assert prober.reasons == {"a": f"exec /a/0: {NOT_PROBED}"}
        go.set()
        await prober.probed()
        assert prober.reasons == {"a": "exec /a/0: broken: 2"}, "a and b at once, not a twice"


async def test_the_initial_delay_counts_only_for_devices_that_appear_later(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        old = device("old", probe(initial_delay_seconds=60))
        prober.watch(old, delayed=False)
        await prober.probed()
        new = device("new", probe(initial_delay_seconds=0.1))
        asked = asyncio.get_running_loop().time()
        prober.watch(old, new)
        await probes.after(2)
        assert asyncio.get_running_loop().time() - asked >= 0.1
    assert probes.runs.value == ("/old/0", "/new/0")


async def test_a_device_that_vanishes_and_returns_has_to_prove_itself_anew(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        prober.watch(device("a", probe()))
        await prober.probed()
        prober.watch()
        assert prober.reasons == {}
        prober.watch(device("a", probe(initial_delay_seconds=5)))
        assert prober.reasons == {"a": f"exec /a/0: {NOT_PROBED}"}


async def test_a_reload_that_adds_a_probe_keeps_a_well_device_healthy(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        prober.watch(device("a", probe()))
        await prober.probed()
        probes.outcomes["/a/1"] = Outcome(reason="broken")
        often = probe(period_seconds=0.02, failure_threshold=2)
        prober.watch(device("a", probe(period_seconds=60), often))
        assert prober.reasons == {}
        await prober.until(lambda: bool(prober.reasons))
        assert probes.runs.value.count("/a/1") >= 2


async def test_the_same_devices_again_change_nothing(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        one = device("a", probe())
        prober.watch(one)
        await prober.probed()
        for _ in range(20):
            prober.watch(one)
            prober.watch(device("a", probe()))
            await asyncio.sleep(0)
        assert prober.reasons == {}
    assert probes.runs.value == ("/a/0",)


async def test_a_mistake_of_ours_in_one_probe_ends_no_other_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """K6:."""
    probes = Probes()
    probes.outcomes["/a/0"] = ValueError("oops")
    async with probing(probes, tmp_path) as prober:
        prober.watch(device("a", probe()), device("b", probe()))
        await prober.probed()
        assert prober.reasons == {"a": "exec /a/0: unexpected failure: oops"}
    assert "unexpected failure" in caplog.text


async def test_resources_without_probes_cost_nothing(tmp_path: Path) -> None:
    probes = Probes()
    async with probing(probes, tmp_path) as prober:
        prober.watch(device("a"))
        assert not prober.wakes
        assert prober.reasons == {}
        assert prober.health.results(R) == {"a": ()}


async def test_files_do_not_wait_for_hanging_commands_of_their_resource(tmp_path: Path) -> None:
    probes = Probes()
    probes.outcomes |= {f"/h{i}/0": None for i in range(40)}
    async with probing(probes, tmp_path) as prober:
        hanging = [device(f"h{i}", probe()) for i in range(40)]
        files = [device(f"f{i}", probe(period_seconds=0.2), file=True) for i in range(20)]
        prober.watch(*hanging, *files)
        await probes.after(4 + 3 * 20)
