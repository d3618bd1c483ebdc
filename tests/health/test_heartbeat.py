"""Probes with ``changes``: what a device's file held when it was last read is kept with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.devices.device import BoundProbe
from genericdp.health.health import Probes
from genericdp.health.kinds.file import FileCheck
from genericdp.host.root import Root
from genericdp.observed import Observed, until
from genericdp.process.run import Commands
from tests.health.probed_devices import device, probe, watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.errors import Outcome
    from tests.health.probed_devices import Watched

OFTEN = 0.02
RARELY = 600.0
STILL = "/a is '17', as when it was last read (it must change)"


class Beats:
    """Devices whose files are read by real probes, and what came of each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._probes = Probes(Commands().run)
        self.outcomes: Observed[tuple[Outcome, ...]] = Observed(())

    async def run(self, *probe: Any, **settings: Any) -> Outcome:
        """Run a probe, and note what came of it."""
        outcome = await self._probes.run(*probe, **settings)
        self.outcomes.value = (*self.outcomes.value, outcome)
        return outcome

    def write(self, name: str, content: str) -> None:
        """Give a file another content at once: no probe sees half of it."""
        new = self.folder / "new"
        new.write_text(content)
        new.rename(self.folder / name)

    async def runs(self, count: int) -> list[str]:
        """Wait for so many more runs, and give why each failed."""
        before = len(self.outcomes.value)

        def enough() -> bool:
            return len(self.outcomes.value) >= before + count

        assert await until(enough, self.outcomes, timeout_seconds=60)
        return [one.reason for one in self.outcomes.value[before:][:count]]


@pytest.fixture
async def beats(tmp_path: Path) -> Beats:
    return Beats(tmp_path)


@pytest.fixture
async def prober(beats: Beats) -> AsyncIterator[Watched]:
    async with watching(Root(beats.folder), run_probe=beats.run) as watched:
        yield watched


def beating(name: str, *, inode: int = 1, **settings: float) -> Device:
    bound = BoundProbe(probe=probe(**settings), check=FileCheck(path=f"/{name}", changes=True))
    return replace(device(name, inode=inode), probes=(bound,))


async def test_a_device_that_stands_still_is_unhealthy_until_it_moves_again(
    beats: Beats, prober: Watched
) -> None:
    beats.write("a", "17")
    beats.write("b", "17")
    prober.watch(beating("a", period_seconds=OFTEN), beating("b", period_seconds=OFTEN))
    await prober.probed()
    assert prober.reasons == {}, "there is nothing to compare with"
    await prober.until(lambda: len(prober.reasons) == 2)
    assert prober.reasons["a"] == f"file: {STILL}"
    beats.write("a", "18")
    await prober.until(lambda: "a" not in prober.reasons)


async def test_what_cannot_be_read_is_no_other_content(beats: Beats, prober: Watched) -> None:
    beats.write("a", "17")
    prober.watch(beating("a", period_seconds=OFTEN, failure_threshold=1000))
    assert await beats.runs(2) == ["", STILL]
    (beats.folder / "a").unlink()
    assert "/a does not exist" in await beats.runs(2)
    beats.write("a", "17")
    assert (await beats.runs(2))[1] == STILL
    assert "" not in [one.reason for one in beats.outcomes.value[1:]]


@pytest.mark.parametrize("inode", [1, 2], ids=["replugged", "replaced"])
async def test_what_is_plugged_has_no_content_before(
    beats: Beats, prober: Watched, inode: int
) -> None:
    beats.write("a", "17")
    prober.watch(beating("a", period_seconds=RARELY))
    assert await beats.runs(1) == [""]
    if inode == 1:
        prober.watch()
    prober.watch(beating("a", inode=inode, period_seconds=RARELY))
    assert await beats.runs(1) == [""]


async def test_another_probe_begins_anew(beats: Beats, prober: Watched) -> None:
    beats.write("a", "17")
    prober.watch(beating("a", period_seconds=RARELY))
    assert await beats.runs(1) == [""]
    prober.watch(beating("a", period_seconds=RARELY + 1))
    assert await beats.runs(1) == [""]


async def test_the_same_device_again_keeps_its_content(beats: Beats, prober: Watched) -> None:
    beats.write("a", "17")
    one = beating("a", period_seconds=OFTEN, failure_threshold=1000)
    prober.watch(one)
    assert await beats.runs(1) == [""]
    prober.watch(one)
    assert await beats.runs(1) == [STILL]
