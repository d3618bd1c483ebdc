"""Pods before the simulator's topology manager: who is refused, and what the plugin is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator.pods import Admission, Pod
from genericdp.simulator.settings import Topology
from genericdp.simulator.settings import TopologyPolicy as Policy
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import container, held_by, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.simulator.kubelet import Kubelet

Devices = dict[str, list[int] | None]
"""The NUMA nodes of each; None: without a topology."""

REFUSED = Admission(
    admitted=False,
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
TWO_EACH: Devices = {"a": [0], "b": [0], "c": [1], "d": [1]}
STRICT = (Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE)


def device(device_id: str, nodes: list[int] | None) -> pb.Device:
    topology = None if nodes is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=n) for n in nodes])
    return pb.Device(ID=device_id, health="Healthy", topology=topology)


class Machines:
    """Starts a kubelet of two NUMA nodes with a plugin of these devices."""

    def __init__(self, kubelet: Callable[..., Kubelet], plugin: Callable[..., BarePlugin]) -> None:
        self._kubelet = kubelet
        self._plugin = plugin
        self.plugins: dict[str, BarePlugin] = {}

    async def start(self, policy: Policy, **resources: Devices) -> Kubelet:
        kubelet = self._kubelet(topology=Topology(policy=policy, numa_nodes=(0, 1)))
        await kubelet.start()
        for name, devices in resources.items():
            await self.serve(kubelet, name, devices)
        return kubelet

    async def serve(self, kubelet: Kubelet, name: str, devices: Devices) -> None:
        plugin = self._plugin(resource=f"example.com/{name}")
        plugin.answers.preferred_available = True
        plugin.send([device(*one) for one in devices.items()])
        await plugin.start()
        await plugin.register()
        self.plugins[name] = plugin
        await kubelet.wait_for(lambda: kubelet.allocatable(plugin.resource) == len(devices))


@pytest.fixture
def machines(
    kubelet_with: Callable[..., Kubelet], plugin_with: Callable[..., BarePlugin]
) -> Machines:
    return Machines(kubelet_with, plugin_with)


LAW_8: dict[str, tuple[Devices, int]] = {
    "id -1": ({"a": [-1], "b": [-1]}, 1),
    "an id that the machine does not have": ({"a": [7], "b": [7]}, 1),
    "more than there are with a topology": ({"a": [0], "b": None}, 2),
}


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("case", LAW_8)
async def test_a_topology_that_is_wrong_refuses_pods_though_devices_are_free(
    machines: Machines, case: str, policy: Policy
) -> None:
    """LAW-8: under the strict policies alone."""
    devices, amount = LAW_8[case]
    kubelet = await machines.start(policy, thing=devices)
    admission = await kubelet.admit(pod(thing=amount))
    assert admission == (REFUSED if policy in STRICT else Admission(admitted=True))


@pytest.mark.parametrize("policy", Policy)
async def test_devices_without_any_topology_have_no_preference(
    machines: Machines, policy: Policy
) -> None:
    """LAW-8."""
    kubelet = await machines.start(policy, thing={"a": None, "b": None})
    assert (await kubelet.admit(pod(thing=2))).admitted


@pytest.mark.parametrize("policy", Policy)
async def test_more_than_a_node_holds_is_refused_by_one_policy_only(
    machines: Machines, policy: Policy
) -> None:
    kubelet = await machines.start(policy, thing=TWO_EACH)
    admission = await kubelet.admit(pod(thing=3))
    refused = policy is Policy.SINGLE_NUMA_NODE
    assert admission == (REFUSED if refused else Admission(admitted=True))


async def test_restricted_refuses_what_would_fit_one_node_were_the_machine_idle(
    machines: Machines,
) -> None:
    kubelet = await machines.start(Policy.RESTRICTED, thing={"a": [0], "b": [0], "c": [1]})
    taken = pod("taken", thing=1)
    assert (await kubelet.admit(taken)).admitted
    assert held_by(kubelet, taken)["main"][RESOURCE] < {"a", "b"}
    assert await kubelet.admit(pod("pair", thing=2)) == REFUSED
    kubelet.admitter.remove(taken)
    assert (await kubelet.admit(pod("pair", thing=2))).admitted


@pytest.mark.parametrize("policy", [*STRICT, Policy.BEST_EFFORT])
async def test_a_choice_among_aligned_devices_is_the_plugins(
    machines: Machines, policy: Policy
) -> None:
    """PRF-1 a, PRF-5: only the aligned ones are offered."""
    kubelet = await machines.start(policy, thing={"a": [1], "b": [1], "c": [1], "d": [0, 5]})
    machines.plugins["thing"].answers.preferred = ["a", "c", "d"]
    asking = pod(thing=2)
    assert (await kubelet.admit(asking)).admitted
    (request,) = machines.plugins["thing"].preferred_requests
    assert sorted(request.available_deviceIDs) == ["a", "b", "c"]
    assert (list(request.must_include_deviceIDs), request.allocation_size) == ([], 2)
    assert held_by(kubelet, asking)["main"][RESOURCE] == {"a", "c"}


async def test_nobody_is_asked_when_the_aligned_ones_are_just_enough(machines: Machines) -> None:
    """PRF-1."""
    kubelet = await machines.start(Policy.SINGLE_NUMA_NODE, thing=TWO_EACH)
    asking = pod(thing=2)
    assert (await kubelet.admit(asking)).admitted
    assert held_by(kubelet, asking)["main"][RESOURCE] == {"a", "b"}
    assert machines.plugins["thing"].preferred_requests == []


async def test_aligned_devices_come_first_and_must_be_included(machines: Machines) -> None:
    """PRF-1 b, PRF-2: two resources meet on one node, which has too few of one of them."""
    kubelet = await machines.start(
        Policy.BEST_EFFORT, thing={"a": [0], "b": [1], "c": [1]}, other={"x": [0]}
    )
    machines.plugins["thing"].answers.preferred = ["a", "c"]
    asking = pod(thing=2, other=1)
    # Each alone is preferred: {b, c} on node 1, {x} on node 0. Together nothing is.
    assert (await kubelet.admit(asking)).admitted
    (request,) = machines.plugins["thing"].preferred_requests
    assert sorted(request.available_deviceIDs) == ["a", "b", "c"]
    assert (list(request.must_include_deviceIDs), request.allocation_size) == (["a"], 2)
    assert held_by(kubelet, asking)["main"][RESOURCE] == {"a", "c"}


async def test_devices_without_node_are_the_last_to_be_taken(machines: Machines) -> None:
    """PRF-3: at random, but first those that are on some node."""
    kubelet = await machines.start(
        Policy.BEST_EFFORT,
        thing={"a": [0], "b": [1], "n": None, "m": None},
        other={"x": [0], "y": [0]},
    )
    asking = pod(thing=2, other=2)
    assert (await kubelet.admit(asking)).admitted
    assert held_by(kubelet, asking)["main"][RESOURCE] == {"a", "b"}


async def test_each_container_is_aligned_for_itself(machines: Machines) -> None:
    """The scope is the container."""
    kubelet = await machines.start(Policy.SINGLE_NUMA_NODE, thing=TWO_EACH)
    asking = Pod(uid="pod", containers=(container("one", 2), container("two", 2)))
    assert (await kubelet.admit(asking)).admitted
    held = {name: ids[RESOURCE] for name, ids in held_by(kubelet, asking).items()}
    assert held == {"one": {"a", "b"}, "two": {"c", "d"}}


async def test_a_pod_that_is_refused_half_way_leaves_nothing_behind(machines: Machines) -> None:
    kubelet = await machines.start(Policy.SINGLE_NUMA_NODE, thing=TWO_EACH)
    asking = Pod(uid="pod", containers=(container("one", 1), container("two", 3)))
    assert await kubelet.admit(asking) == REFUSED
    assert (await kubelet.admit(pod("a", thing=2))).admitted
    assert (await kubelet.admit(pod("b", thing=2))).admitted
