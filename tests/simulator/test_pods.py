"""Pods: which ids the kubelet picks, what it asks the plugin, and what a container is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from genericdp.devices.device import ContainerEdits
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import container, held_by, impatient, pod, refused, show

OTHER = "example.com/other"


async def test_one_call_for_each_container_and_resource(
    kubelet: Kubelet, plugin: BarePlugin, plugin_with: Callable[..., BarePlugin]
) -> None:
    """ALL-1: one container request in each call."""
    await show(kubelet, plugin, "a", "b", "c", "d")
    await plugin_with(resource=OTHER).serve("x")
    await kubelet.wait_for(lambda: kubelet.capacity(OTHER) == 1)
    asking = Pod(
        uid="pod",
        containers=(
            container("one", 2),
            Container(name="two", limits={RESOURCE: 1, OTHER: 1, "cpu": 3}),
        ),
    )
    assert (await kubelet.admit(asking)).admitted
    sizes = [len(r.container_requests[0].devices_ids) for r in plugin.allocate_requests]
    assert sizes == [2, 1]
    assert all(len(r.container_requests) == 1 for r in plugin.allocate_requests)
    assert held_by(kubelet, asking)["two"].keys() == {RESOURCE, OTHER}


async def test_ids_come_in_random_order(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-1: a plugin that needs an order has to sort."""
    names = [f"device-{n}" for n in range(8)]
    await show(kubelet, plugin, *names)
    orders = set()
    for number in range(5):
        asking = pod(str(number), thing=8)
        assert (await kubelet.admit(asking)).admitted
        orders.add(tuple(plugin.allocate_requests[-1].container_requests[0].devices_ids))
        kubelet.admitter.remove(asking)
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(names)}


async def test_an_empty_answer_leaks_the_ids(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-2: they are free again only when some other pod goes."""
    await show(kubelet, plugin, "a", "b", "c")
    holder = pod("holder", thing=1)
    assert (await kubelet.admit(holder)).admitted
    plugin.answers.allocate = []
    text = await refused(kubelet, pod(thing=2))
    assert text.startswith("no containers return in allocation response")
    plugin.answers.allocate = None
    assert await refused(kubelet, pod("next", thing=1)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
    )
    kubelet.admitter.remove(holder)
    assert (await kubelet.admit(pod("next", thing=3))).admitted


async def test_only_the_first_of_several_answers_counts(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-2: the others are ignored."""
    plugin.answers.allocate = [
        pb.ContainerAllocateResponse(envs={"N": "1"}),
        pb.ContainerAllocateResponse(envs={"N": "2"}),
    ]
    await show(kubelet, plugin, "a")
    asking = pod(thing=1)
    assert (await kubelet.admit(asking)).admitted
    started = await kubelet.start_container(asking, asking.containers[0])
    assert started.given is not None
    assert started.given.env == {"N": "1"}


async def test_devices_of_a_removed_pod_are_free_at_the_next_allocation(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-3: there is not a call that says so."""
    await show(kubelet, plugin, "a")
    first, second = pod("first", thing=1), pod("second", thing=1)
    assert (await kubelet.admit(first)).admitted
    assert "Available: 0" in await refused(kubelet, second)
    kubelet.admitter.remove(first)
    assert held_by(kubelet, first) == {"main": {RESOURCE: frozenset({"a"})}}
    assert (await kubelet.admit(second)).admitted
    assert held_by(kubelet, first) == {"main": {}}


async def test_an_error_of_the_plugin_refuses_the_pod_and_frees_the_ids(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """ALL-5: with its code and text in Go's words."""
    await show(kubelet, plugin, "a")
    plugin.answers.allocate_error = "a: no such device"
    assert await refused(kubelet, pod(thing=1)) == (
        "rpc error: code = FailedPrecondition desc = a: no such device"
    )
    plugin.answers.allocate_error = None
    assert (await kubelet.admit(pod("again", thing=1))).admitted


async def test_a_pod_is_refused_in_the_kubelets_words(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """ALL-9: each check in its order, a request for none included."""
    assert (await kubelet.admit(pod("unknown", thing=1))).admitted
    await show(kubelet, plugin, "a", unhealthy=2)
    assert await refused(kubelet, pod(thing=2)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
    )
    plugin.show(unhealthy=["a"])
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    for amount in (0, 1):
        assert await refused(kubelet, pod(thing=amount)) == (
            f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        )


@pytest.mark.parametrize(
    ("preferred", "wanted"),
    [(["c", "d"], {"c", "d"}), (["c"], {"c"}), (["c", "nonsense", "c"], {"c"}), ([], set())],
)
async def test_what_the_plugin_prefers_is_taken_and_the_rest_made_up(
    kubelet: Kubelet, plugin: BarePlugin, preferred: list[str], wanted: set[str]
) -> None:
    """PRF-1, PRF-3: unknown ids and repeats are ignored."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred = preferred
    await show(kubelet, plugin, "a", "b", "c", "d", unhealthy=1)
    asking = pod(thing=2)
    assert (await kubelet.admit(asking)).admitted
    held = held_by(kubelet, asking)["main"][RESOURCE]
    assert wanted <= held <= {"a", "b", "c", "d"}
    assert len(held) == 2
    (request,) = plugin.preferred_requests
    assert sorted(request.available_deviceIDs) == ["a", "b", "c", "d"]
    assert (list(request.must_include_deviceIDs), request.allocation_size) == ([], 2)


async def test_of_too_many_preferred_ids_some_are_taken(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRF-3: which ones is chance."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred = ["b", "c", "d"]
    await show(kubelet, plugin, "a", "b", "c", "d")
    taken: set[str] = set()
    for number in range(20):
        asking = pod(str(number), thing=1)
        assert (await kubelet.admit(asking)).admitted
        taken |= held_by(kubelet, asking)["main"][RESOURCE]
        kubelet.admitter.remove(asking)
    assert len(taken) > 1
    assert taken <= {"b", "c", "d"}


async def test_the_plugin_is_not_asked_what_it_prefers_unless_it_said_so(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRF-1, REG-7: the kubelet picks at random."""
    await show(kubelet, plugin, "a", "b")
    assert (await kubelet.admit(pod(thing=1))).admitted
    assert plugin.preferred_requests == []


async def test_a_failed_preference_refuses_the_pod(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """PRF-4: the reason never to fail it."""
    plugin.answers.preferred_available = True
    plugin.answers.preferred_error = "oops"
    await show(kubelet, plugin, "a")
    assert await refused(kubelet, pod(thing=1)) == (
        "device plugin GetPreferredAllocation rpc failed with err:"
        " rpc error: code = FailedPrecondition desc = oops"
    )


MAIN = Container(name="main", limits={RESOURCE: 2})
POD = Pod(uid="pod", containers=(MAIN,))
FAILED = "CreateContainerConfigError"


async def admitted(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """Register a plugin with enough devices and admit the pod."""
    await show(kubelet, plugin, "a", "b")
    assert (await kubelet.admit(POD)).admitted


async def test_the_plugin_is_called_before_every_start(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRE-1: restarts too, with the container's ids."""
    plugin.answers.pre_start_required = True
    await admitted(kubelet, plugin)
    for _ in range(2):
        assert (await kubelet.start_container(POD, MAIN)).given == ContainerEdits(
            env={"IDS": "a,b"}
        )
    assert [sorted(ids) for ids in plugin.pre_start_requests] == [["a", "b"]] * 2


async def test_a_plugin_that_does_not_require_it_is_not_called(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRE-1, ALL-7: the start is served from the cached answer."""
    await admitted(kubelet, plugin)
    assert (await kubelet.start_container(POD, MAIN)).given is not None
    assert plugin.pre_start_requests == []
    assert len(plugin.allocate_requests) == 1


async def test_a_failed_call_fails_the_start_and_may_be_repeated(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """PRE-1: the pod stays."""
    plugin.answers.pre_start_required = True
    plugin.answers.pre_start_error = "reset failed"
    await admitted(kubelet, plugin)
    start = await kubelet.start_container(POD, MAIN)
    assert (start.given, start.reason) == (None, FAILED)
    assert start.message == (
        "device plugin PreStartContainer rpc failed with err:"
        " rpc error: code = FailedPrecondition desc = reset failed"
    )
    plugin.answers.pre_start_error = None
    assert (await kubelet.start_container(POD, MAIN)).given is not None


@impatient
async def test_a_call_that_hangs_is_given_up(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """PRE-1: after 30 s in a real kubelet."""
    plugin.answers.pre_start_required = True
    plugin.answers.pre_start_hangs = True
    await admitted(kubelet, plugin)
    assert (await kubelet.start_container(POD, MAIN)).message.endswith(
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )


async def test_without_plugin_starts_go_on(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """KST-8: from the stored answer."""
    await admitted(kubelet, plugin)
    await plugin.stop()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert (await kubelet.start_container(POD, MAIN)).given is not None


async def test_a_required_call_to_a_plugin_that_is_gone_fails_at_once(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """KST-8, PRE-2: the price of the option."""
    plugin.answers.pre_start_required = True
    await admitted(kubelet, plugin)
    await plugin.stop()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert (await kubelet.start_container(POD, MAIN)).message.endswith("has been stopped")


async def test_after_a_restart_the_call_is_skipped_until_the_plugin_is_back(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """KST-8: the options are unknown, and the kubelet says nothing."""
    plugin.answers.pre_start_required = True
    await admitted(kubelet, plugin)
    await kubelet.crash()
    await kubelet.start()
    assert (await kubelet.start_container(POD, MAIN)).given is not None
    assert plugin.pre_start_requests == []


async def test_two_resources_that_disagree_are_merged_by_chance(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """ALL-6, D9: the first one wins, and which one is first changes from start to start."""
    both = Container(name="main", limits={RESOURCE: 1, OTHER: 1})
    asking = Pod(uid="both", containers=(both,))
    for resource in (RESOURCE, OTHER):
        plugin = plugin_with(resource=resource)
        plugin.answers.allocate = [_answer(resource)]
        await plugin.serve("a")
    await kubelet.wait_for(lambda: kubelet.allocatable(OTHER) == 1)
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)
    assert (await kubelet.admit(asking)).admitted
    winners = set()
    for _ in range(20):
        given = (await kubelet.start_container(asking, both)).given
        assert given is not None
        assert given.env.keys() == {"NAME", f"OF_{RESOURCE}", f"OF_{OTHER}"}
        winner = given.env["NAME"]
        assert [device.host_path for device in given.devices] == [f"/dev/{winner}"]
        assert [mount.host_path for mount in given.mounts] == [f"/opt/{winner}"]
        assert given.annotations == {"name": winner}
        assert sorted(given.cdi) == sorted(["v/c=same", f"v/c={RESOURCE}", f"v/c={OTHER}"])
        winners.add(winner)
    assert winners == {RESOURCE, OTHER}


async def test_a_kubelet_that_does_not_run_cannot_be_asked(kubelet: Kubelet) -> None:
    await kubelet.crash()
    with pytest.raises(RuntimeError, match="not running"):
        await kubelet.admit(POD)
    with pytest.raises(RuntimeError, match="not running"):
        await kubelet.start_container(POD, MAIN)


def _answer(resource: str) -> pb.ContainerAllocateResponse:
    """Give an answer that quarrels with that of any other resource."""
    return pb.ContainerAllocateResponse(
        envs={"NAME": resource, f"OF_{resource}": "1"},
        devices=[
            pb.DeviceSpec(container_path="/dev/x", host_path=f"/dev/{resource}", permissions="rw")
        ],
        mounts=[pb.Mount(container_path="/opt", host_path=f"/opt/{resource}", read_only=True)],
        annotations={"name": resource},
        cdi_devices=[pb.CDIDevice(name="v/c=same"), pb.CDIDevice(name=f"v/c={resource}")],
    )
