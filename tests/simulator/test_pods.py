"""Lists and pods: which ids the kubelet picks, what it asks the plugin, what a container gets."""

from __future__ import annotations

import pytest
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.client import MAX_LIST_BYTES
from tests.simulator.bare_plugin import RESOURCE
from tests.simulator.node import Node, impatient, pod

NONE_HEALTHY = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"


async def test_each_list_replaces_everything(node: Node) -> None:
    """LAW-1, LAW-2, LAW-3: what a list does not have is missing; an empty one takes all away."""
    node.kubelet.faults.stream_delay_seconds = 3600.0
    await node.plugin.register()
    assert node.kubelet.capacity(RESOURCE) == node.plugin.streams == 0, "registration gives nothing"
    node.kubelet.faults.stream_delay_seconds = 0.0
    plugin = await node.serve("a", "b")
    await node.has(a="Healthy", b="Healthy")
    plugin.show("b", unhealthy=["c"])
    await node.has(b="Healthy", c="Unhealthy")
    plugin.show()
    await node.has()
    assert node.kubelet.observed.lists[RESOURCE] == 3


async def test_an_id_counts_for_each_of_its_healths_and_only_one_word_is_healthy(
    node: Node,
) -> None:
    """LAW-4, LAW-5: the same health twice counts once, an empty id counts."""
    ids = [("a", "Healthy"), ("a", "Healthy"), ("a", "Unhealthy"), ("", "Healthy")]
    words = [(word, word) for word in ("healthy", "HEALTHY", "Healthy ", "Unknown", "")]
    node.plugin.send([pb.Device(ID=name, health=health) for name, health in [*ids, *words]])
    await node.plugin.register()
    await node.kubelet.wait_for(lambda: node.kubelet.capacity(RESOURCE) == 8)
    assert node.kubelet.allocatable(RESOURCE) == 2


async def test_a_list_beyond_four_mebibytes_ends_the_stream(node: Node) -> None:
    """LAW-6."""
    names = [f"{n:09000}" for n in range(MAX_LIST_BYTES // 9020)]
    await node.show(*names)
    node.plugin.show(*names, *(f"more-{name}" for name in names[:2]))
    await node.kubelet.wait_for(lambda: node.kubelet.allocatable(RESOURCE) == 0)
    assert (node.kubelet.observed.lists[RESOURCE], node.kubelet.streams(RESOURCE)) == (1, 0)


@pytest.mark.parametrize("end", ["by the plugin", "by a reset", "with the plugin"])
async def test_a_stream_that_ends_is_never_opened_again(node: Node, end: str) -> None:
    """KST-7, K3: not the kubelet's business; the plugin has to register again."""
    await node.show("a")
    match end:
        case "by the plugin":
            node.plugin.end_streams()
        case "by a reset":
            node.kubelet.break_streams(RESOURCE)
        case _:
            await node.plugin.stop()
    await node.has(a="Unhealthy")
    assert (node.kubelet.streams(RESOURCE), node.plugin.streams) == (0, 1)


async def test_ids_come_in_random_order(node: Node) -> None:
    """ALL-1: a plugin that needs an order has to sort."""
    await node.show(*(names := [f"device-{n}" for n in range(8)]))
    for number in range(5):
        asking = await node.admits(pod(str(number), thing=8))
        node.kubelet.admitter.remove(asking)
    orders = [r.container_requests[0].devices_ids for r in node.plugin.allocate_requests]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == names for order in orders)


async def test_an_empty_answer_leaks_the_ids(node: Node) -> None:
    """ALL-2: they are free again only when some other pod goes."""
    await node.show("a", "b", "c")
    holder = await node.admits(pod("holder", thing=1))
    node.plugin.answers.allocate = []
    text = await node.refuses(pod(thing=2))
    assert text.startswith("no containers return in allocation response")
    first, second = (pb.ContainerAllocateResponse(envs={"N": number}) for number in "12")
    node.plugin.answers.allocate = [first, second]
    assert await node.refuses(pod("next", thing=1)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
    )
    node.kubelet.admitter.remove(holder)
    given = (await node.starts(await node.admits(pod("next", thing=3)))).given
    assert given is not None
    assert given.env == {"N": "1"}, "only the first of several answers counts"


async def test_devices_of_a_removed_pod_are_free_at_the_next_allocation(node: Node) -> None:
    """ALL-3: there is not a call that says so."""
    await node.show("a")
    first = await node.admits(pod("first", thing=1))
    assert "Available: 0" in await node.refuses(pod("second", thing=1))
    node.kubelet.admitter.remove(first)
    assert node.held_by(first) == {RESOURCE: frozenset({"a"})}
    await node.admits(pod("second", thing=1))
    assert node.held_by(first) == {}


async def test_a_pod_is_refused_in_the_kubelets_words(node: Node) -> None:
    """ALL-5, ALL-9: each check in its order, a request for none included."""
    await node.admits(pod("unknown", thing=1))
    await node.show("a", unhealthy=2)
    assert await node.refuses(pod(thing=2)) == (
        f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
    )
    node.plugin.answers.allocate_error = "a: no such device"
    error = "rpc error: code = FailedPrecondition desc = a: no such device"
    assert [await node.refuses(pod(thing=1)) for _ in range(2)] == [error] * 2, "its id is free"
    node.plugin.show(unhealthy=["a"])
    await node.has(a="Unhealthy")
    assert [await node.refuses(pod(thing=amount)) for amount in (0, 1)] == [NONE_HEALTHY] * 2


async def test_a_failed_preference_refuses_the_pod(node: Node) -> None:
    """PRF-4: the reason never to fail it."""
    node.plugin.answers.preferred_available = True
    node.plugin.answers.preferred_error = "oops"
    await node.show("a")
    assert await node.refuses(pod(thing=1)) == (
        "device plugin GetPreferredAllocation rpc failed with err:"
        " rpc error: code = FailedPrecondition desc = oops"
    )


@impatient
async def test_a_plugin_that_requires_it_is_called_before_every_start(node: Node) -> None:
    """PRE-1: restarts too. A failed call, or one that hangs, fails the start, and the pod stays."""
    failed = "device plugin PreStartContainer rpc failed with err: rpc error: code = "
    answers = node.plugin.answers
    answers.pre_start_required = True
    answers.pre_start_error = "reset failed"
    await node.show("a", "b")
    asking = await node.admits(pod(thing=2))
    start = await node.starts(asking)
    assert (start.given, start.reason) == (None, "CreateContainerConfigError")
    assert start.message == f"{failed}FailedPrecondition desc = reset failed"
    answers.pre_start_error = None
    for _ in range(2):
        given = (await node.starts(asking)).given
        assert given is not None
        assert given.env == {"IDS": "a,b"}
    assert [sorted(ids) for ids in node.plugin.pre_start_requests] == [["a", "b"]] * 3
    answers.pre_start_hangs = True
    start = await node.starts(asking)
    assert start.message == f"{failed}DeadlineExceeded desc = context deadline exceeded"


@pytest.mark.parametrize("required", [False, True])
async def test_without_the_plugin_a_start_needs_it_only_if_a_call_is_required(
    node: Node, required: bool
) -> None:
    """KST-8, PRE-2: the price of the option. After a restart of the kubelet it is unknown."""
    node.plugin.answers.pre_start_required = required
    await node.show("a")
    asking = await node.admits(pod(thing=1))
    await node.plugin.stop()
    await node.has(a="Unhealthy")
    assert ((await node.starts(asking)).given is None) == required
    await node.kubelet.restart()
    assert (await node.starts(asking)).given is not None
    assert node.plugin.pre_start_requests == []
    assert len(node.plugin.allocate_requests) == 1
