"""Two daemons that serve the same resources: an update that rolls, and a second DaemonSet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP, config_in
from tests.e2e.cluster import loop
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.sampling import Sampler
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
ALL_FUSE = frozenset({"fuse", "fuse::1", "fuse::2"})
PROBED = "example.com/probed"
_RESOURCES = """\
  - name: example.com/probed
    match:
      - path: /dev/loop7[0-3]
    health:
      - exec: {command: [/bin/busybox, sleep, "0.1"]}
"""
GENEROUS_SECONDS = 5
"""For a machine that is busy; how long it really takes is printed."""


@pytest.fixture
def config(tmp_path: Path) -> str:
    return config_in(tmp_path) + _RESOURCES


def test_an_update_with_surge_takes_devices_away_for_a_second_at_most(bench: Bench) -> None:
    """K10, REG-13: also where probes take 100 ms, since the new instance has run them before."""
    loops = frozenset(f"loop{number}" for number in range(70, 74))
    for number in range(70, 74):
        loop.add(number)
    bench.await_listed(PROBED, *loops)
    already = len(bench.daemon.log())
    with Sampler(bench.resources, {FUSE: ALL_FUSE, PROBED: loops}) as sampler:
        bench.daemon.start_beside()
        bench.await_registered(FUSE, LOOP, PROBED, since=already)
        bench.daemon.stop_older()
        # A list that is older than the old one's end cannot hold this.
        loop.add(60)
        bench.await_listed(LOOP, "loop60")
        sampler.seconds_until_whole(time.monotonic())
    gap = sampler.longest_gap()
    print(
        f"\n--- kubelet {bench.node.version}: update with surge, {gap:.2f} s without all devices",
        flush=True,
    )
    assert gap < GENEROUS_SECONDS
    bench.pod("next", {FUSE: 1, LOOP: 1, PROBED: 4}).container()


@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_a_second_daemon_gets_the_pods_and_leaves_all_to_the_first_one_when_it_ends(
    bench: Bench, program: Path, tmp_path: Path, how: str
) -> None:
    """REG-9, REG-10: on both generations the last list counts, and the newest one allocates.

    On generation A the end of the newer one leaves the resource without an endpoint, and tells
    the older one nothing.
    """
    loop.add(60)
    loop.add(78)
    bench.await_listed(LOOP, "loop60")
    folder = tmp_path / "second"
    folder.mkdir()
    config = bench.daemon.config.replace("/dev/loop6[0-9]", "/dev/loop7[8-9]")
    with Daemon(program, folder, config, DEVICE_PLUGINS) as second:
        bench.await_listed(LOOP, "loop78")
        loop.add(61)
        bench.await_listed(LOOP, "loop60", "loop61")
        refusal = bench.pod("refused", {LOOP: 1}).refusal()
        print(f"\n--- kubelet {bench.node.version}, two daemons\n{refusal}", flush=True)
        assert f"desc = {LOOP}: there is no device 'loop6" in refusal
        loop.add(79)
        bench.await_listed(LOOP, "loop78", "loop79")
        bench.pod("given", {LOOP: 1, FUSE: 1}).container()
        eventually(
            lambda: "another instance of genericdp" in bench.daemon.log(),
            what="the first one says that it is not alone",
        )
        (second.stop if how == "SIGTERM" else second.kill)()
        since = time.monotonic()
        bench.await_listed(LOOP, "loop60", "loop61")
        print(f"all is back {time.monotonic() - since:.2f} s after its {how}", flush=True)
    loop.add(62)
    bench.await_listed(LOOP, "loop60", "loop61", "loop62")
    bench.await_listed(FUSE, *ALL_FUSE)
    bench.pod("next", {LOOP: 2, FUSE: 1}).container()
