"""The kubelet or the daemon dies: the resources come back and running containers stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP
from tests.e2e.cluster import loop
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench
    from tests.e2e.cluster.pods import Container

pytestmark = pytest.mark.e2e
ALL_FUSE = ("fuse", "fuse::1", "fuse::2")


def assert_still_works(container: Container, process_id: int) -> None:
    assert container.process_id() == process_id
    sight = container.look()
    print(f"\n--- the container, once more\n{sight.text}", flush=True)
    assert sight.writes["/dev/fuse"] == "ok"
    assert sight.reads["/dev/disk0"] == "ok"


def test_a_killed_kubelet_comes_back_to_the_same_devices(bench: Bench) -> None:
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    pod = bench.pod("kept", {FUSE: 1, LOOP: 1})
    container = pod.container()
    process_id, held = container.process_id(), bench.resources.held(pod.name)
    assert held[LOOP] == {"loop60"}

    bench.node.kill_kubelet()
    loop.add(61)
    bench.node.start_kubelet()

    bench.await_listed(FUSE, *ALL_FUSE)
    bench.await_listed(LOOP, "loop60", "loop61")
    assert pod.container().id == container.id
    assert bench.resources.held(pod.name) == held
    assert_still_works(container, process_id)
    bench.pod("next", {FUSE: 2, LOOP: 1}).container()


def test_a_killed_daemon_comes_back_to_the_same_devices(bench: Bench) -> None:
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    pod = bench.pod("kept", {FUSE: 1, LOOP: 1})
    container = pod.container()
    process_id, held = container.process_id(), bench.resources.held(pod.name)

    bench.daemon.kill()
    eventually(
        lambda: bench.resources.allocatable().get(FUSE, frozenset()),
        frozenset().__eq__,
        what="the kubelet notices that the daemon has gone",
    )
    bench.daemon.start()

    bench.await_listed(FUSE, *ALL_FUSE)
    bench.await_listed(LOOP, "loop60")
    assert pod.container().id == container.id
    assert bench.resources.held(pod.name) == held
    assert_still_works(container, process_id)
    bench.pod("next", {FUSE: 2}).container()


def test_a_new_instance_takes_over_from_an_old_one(
    bench: Bench, program: Path, tmp_path: Path
) -> None:
    """K10: in a rolling update the end of the old instance takes nothing away for long."""
    folder = tmp_path / "second"
    folder.mkdir()
    with Daemon(program, folder, bench.daemon.config, DEVICE_PLUGINS) as second:
        eventually(
            lambda: all(f"{name}: registered" in second.log() for name in (FUSE, LOOP)),
            what="the new instance has registered",
        )
        bench.daemon.stop()
        # A list that is older than the old one's end cannot hold this.
        loop.add(60)
        bench.await_listed(LOOP, "loop60")
        bench.await_listed(FUSE, *ALL_FUSE)
        assert bench.pod("given", {FUSE: 1, LOOP: 1}).container().saw().reads["/dev/disk0"] == "ok"
