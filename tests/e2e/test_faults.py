"""A crash loop of the daemon, next to what happens in the scenarios."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
STORM = 6
_SHORT_SECONDS = 0.8


def test_a_storm_of_daemon_crashes_leaves_nothing_that_hinders_the_next_start(
    bench: Bench,
) -> None:
    """KST-7, REG-11: each daemon ends at another moment of its registration."""
    loop.add(60)
    for number in range(STORM):
        bench.daemon.kill()
        said = bench.daemon.log()
        bench.daemon.start()
        time.sleep(number * _SHORT_SECONDS / STORM)  # noqa: TID251 -- a moment of its own
    # While Python itself starts SIGTERM ends it with the signal's own code.
    eventually(lambda: bench.daemon.log() != said, what="the last one has begun")
    bench.daemon.stop()
    bench.daemon.start()
    bench.await_listed(FUSE, "fuse", "fuse::1", "fuse::2")
    loop.add(61)
    bench.await_listed(LOOP, "loop60", "loop61")
    bench.pod("next", {FUSE: 1, LOOP: 1}).container()
