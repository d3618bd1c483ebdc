"""A real kubelet's topology manager on a machine of two NUMA nodes, which are made up.

The kubelet and the daemon see them in mount namespaces of their own (``cluster/numa.py``): real
loop devices, in whose directories of sysfs a ``numa_node`` lies. Kernel and runtime see none of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.numa import machine_in
from tests.e2e.cluster.versions import NEWEST
from tests.e2e.scenarios import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(*NEWEST)]
PROCESSORS = ([0], [1])
"""Of each NUMA node."""
NODES = {70: 0, 71: 1, 72: 1, 73: 1}
"""Loop device → NUMA node."""
LINKS = {70: "a", 71: "b", 72: "a", 73: "b"}
"""Devices with equal ones belong together, for ``closeness``."""
ALL = {f"loop{number}" for number in NODES}
LINKED = "example.com/linked"
_RESOURCES = """\
  - name: example.com/linked
    match:
      - path: /dev/loop7[0-3]
    values:
      link: {text: $(attribute.link)}
    closeness: {value: link}
    inject:
      devices:
        - path: $(device.path)
          containerPath: /dev/linked$(allocation.index)
"""
REFUSAL = (
    "TopologyAffinityError: Pod was rejected: Resources cannot be allocated with Topology locality"
)


@pytest.fixture
def config() -> str:
    return START + _RESOURCES


@contextmanager
def aligned(bench: Bench, policy: str) -> Iterator[None]:
    """Start kubelet and daemon on the machine that is made up, with all loop devices plugged in."""
    for number in NODES:
        loop.add(number)
    loops = {n: {"numa_node": str(NODES[n]), "link": LINKS[n]} for n in NODES}
    view = machine_in(bench.directory / "machine", PROCESSORS, loops)
    bench.daemon.stop()
    bench.node.stop_kubelet()
    bench.node.start_kubelet(policy, view)
    bench.daemon.view = view
    bench.daemon.start()
    bench.await_listed(LINKED, *ALL)
    try:
        yield
    finally:
        bench.node.stop_kubelet()
        bench.node.start_kubelet()


def test_a_container_gets_the_devices_of_one_node_that_belong_together_or_none(
    bench: Bench,
) -> None:
    """LAW-8, PRF-5: the kubelet says which node, the daemon which of its three devices."""
    with aligned(bench, "single-numa-node"):
        assert bench.pod("greedy", {LINKED: 4}).refusal() == REFUSAL
        pair = bench.pod("pair", {LINKED: 2})
        sight = pair.container().saw()
        assert bench.resources.held(pair.name) == {LINKED: {"loop71", "loop73"}}
        nodes = {path: sight.nodes[path] for path in ("/dev/linked0", "/dev/linked1")}
        assert nodes == {"/dev/linked0": "b 7 47", "/dev/linked1": "b 7 49"}
        assert sight.reads["/dev/linked1"] == "ok"
        assert bench.pod("split", {LINKED: 2}).refusal() == REFUSAL
        for name in ("third", "fourth"):
            bench.pod(name, {LINKED: 1}).container()


def test_more_than_one_node_holds_is_given_where_as_few_as_possible_do(bench: Bench) -> None:
    with aligned(bench, "restricted"):
        greedy = bench.pod("greedy", {LINKED: 4})
        greedy.container()
        assert bench.resources.held(greedy.name) == {LINKED: ALL}
