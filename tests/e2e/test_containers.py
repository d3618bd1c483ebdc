"""What a container gets from a real kubelet and runtime, seen from inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP
from tests.e2e.cluster import loop

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.cluster.pods import Sight

pytestmark = pytest.mark.e2e
EPERM = "Operation not permitted"


def show(title: str, sight: Sight) -> None:
    """Print what a container saw, for the person who runs this."""
    print(f"\n--- {title}\n{sight.text}", flush=True)


def test_a_container_sees_the_nodes_of_the_config_and_no_others(bench: Bench) -> None:
    loop.add(60)
    loop.add(61)
    bench.await_listed(LOOP, "loop60", "loop61")
    without = bench.pod("without").container().saw()
    show("a container without devices", without)
    given = bench.pod("given", {FUSE: 1, LOOP: 2}).container().saw()
    show(f"a container with 1 {FUSE} and 2 {LOOP}", given)

    assert "/dev/null" in without.nodes, "the runtime's defaults are there"
    assert set(without.nodes) <= set(given.nodes)
    added = {path: kind for path, kind in given.nodes.items() if path not in without.nodes}
    assert added == {"/dev/fuse": "c a e5", "/dev/disk0": "b 7 3c", "/dev/disk1": "b 7 3d"}


def test_permissions_are_those_of_the_config(bench: Bench) -> None:
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    sight = bench.pod("given", {FUSE: 1, LOOP: 1}).container().saw()

    assert sight.reads["/dev/disk0"] == "ok"
    assert sight.writes["/dev/disk0"] == EPERM, "granted as r"
    assert sight.reads["/dev/fuse"] == "ok"
    assert sight.writes["/dev/fuse"] == "ok", "granted as rw"
    assert sight.reads["stranger"] == EPERM, "made in the container, granted by nobody"


def test_env_and_mounts_are_those_of_the_config(bench: Bench) -> None:
    loop.add(60)
    loop.add(62)
    bench.await_listed(LOOP, "loop60", "loop62")
    pod = bench.pod("given", {FUSE: 2, LOOP: 2}, "/opt/read-only /opt/writable")
    sight = pod.container().saw()
    show(f"a container with 2 {FUSE} and 2 {LOOP}", sight)

    assert sight.env["FUSE_DEVICE"] == "/dev/fuse", "two shares of one device are one device"
    assert sight.env["FUSE_ID"] == "fuse"
    assert sight.env["LOOP_DEVICES"] == "/dev/loop60,/dev/loop62"
    assert sight.files == {"/opt/read-only": "of-the-host", "/opt/writable": "of-the-host"}
    assert sight.writes["/opt/read-only"] == "Read-only file system"
    assert sight.writes["/opt/writable"] == "ok"
    assert (bench.folder / "writable/made-by-the-container").exists()
    assert not (bench.folder / "read-only/made-by-the-container").exists()
