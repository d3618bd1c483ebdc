"""Descriptors that run short: real limits."""

from __future__ import annotations

import asyncio
import resource
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.host import descriptors
from genericdp.host.descriptors import Supply

from tests.polling import poll_until
from tests.resource_limits import spare_descriptors
from tests.test_daemon import GOOD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.test_daemon import Place

pytestmark = pytest.mark.slow


@pytest.fixture
def few_allowed() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard - 1, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_as_many_are_allowed_as_there_may_be(few_allowed: int) -> None:
    descriptors.raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_allowed, few_allowed)


@pytest.mark.parametrize(
    ("used", "most", "short"),
    [(992, 1024, False), (993, 1024, True), (64, 64, True), (40, 64, False), (49, 64, True),
     (2**20 - 40_000, 2**20, False), (2**20 - 30_000, 2**20, True)],
)  # fmt: skip
def test_it_is_short_when_few_are_left(used: int, most: int, short: bool) -> None:
    assert Supply(used=used, most=most).is_short is short


async def test_it_is_said_once_when_they_run_short_and_when_no_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(descriptors.watch(period_seconds=0.01))
        for shown, spare in ((0, 0), (2, 3)):  # none is left even to count them
            await asyncio.sleep(0.05)  # noqa: TID251 -- nothing is to come
            assert len(caplog.records) == shown
            with spare_descriptors(spare):
                await poll_until(lambda shown=shown: len(caplog.records) == shown + 1)  # type: ignore[misc]
                await asyncio.sleep(0.05)  # noqa: TID251 -- nothing is to come
            await poll_until(lambda shown=shown: len(caplog.records) == shown + 2)  # type: ignore[misc]
        watching.cancel()
    first, second, *_ = [record.getMessage() for record in caplog.records]
    assert len(caplog.records) == 4
    assert first.startswith("running out of file descriptors: ")
    assert second.startswith("there are enough file descriptors again: ")


needs_prlimit = pytest.mark.skipif(not shutil.which("prlimit"), reason="needs prlimit")


def written(place: Place, resources: int) -> None:
    """Write a config of this many; all want the same device."""
    head, entry, rest = GOOD.partition("  - name: example.com/serial\n")
    names = (entry.replace("serial", f"r{i}") + rest for i in range(resources))
    place.config.write_text(head + "".join(names))


FEW = ("prlimit", "--nofile=32:64", sys.executable)


@needs_prlimit
async def test_more_resources_than_descriptors_are_words_and_no_end(place: Place) -> None:
    """Some are served, the others say why not, the loop does not spin, and the end is as ever."""
    written(place, 60)
    async with place.serving(launch=FEW) as (kubelet, daemon):
        await daemon.says(" there are too few file descriptors: registering again in ")
        limits = Path(f"/proc/{daemon.process.pid}/limits").read_text()
        assert limits.partition("Max open files")[2].split()[:2] == ["64", "64"]
        await daemon.says(" are in use (each resource takes 2 or 3")
        served = kubelet.observed.registrations
        await poll_until(lambda: 0 < len(served) < 60)
        begun = _cpu_seconds(daemon.process.pid)
        await asyncio.sleep(2)  # noqa: TID251 -- measures what happens meanwhile
        assert _cpu_seconds(daemon.process.pid) - begun < 1.5
    said = sum(
        " there are too few file descriptors: registering again in " in line
        for line in daemon.lines
    )
    assert said <= 60, "once for each"


@needs_prlimit
async def test_a_smaller_config_is_taken_where_one_was_too_much(place: Place) -> None:
    """Found by a new user: no descriptor was left to read the config by which it was mended."""
    written(place, 5)
    async with place.serving(launch=FEW) as (kubelet, daemon):
        await daemon.says("active config: 5 resources (")
        written(place, 45)
        await daemon.says(" running out of file descriptors: ")
        written(place, 10)
        await daemon.says("active config: 10 resources, 0 added, 35 removed, 0 changed")
        served = kubelet.observed.registrations
        await kubelet.wait_for(lambda: {f"example.com/r{i}" for i in range(10)} <= served.keys())


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
