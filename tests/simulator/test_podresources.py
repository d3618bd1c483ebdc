"""The simulated kubelet's pod-resources service (PRS-1)."""

from __future__ import annotations

from genericdp.kubelet.podresources import list_pods, pod_holders
from tests.simulator.bare_plugin import RESOURCE
from tests.simulator.node import Node, pod


async def holders(node: Node) -> dict[str, tuple[str, ...]]:
    """Return the pods that hold each device, as the service says."""
    answer = await list_pods(node.directory / "pods" / "kubelet.sock", timeout_seconds=30)
    return dict(pod_holders(answer).holders.get(RESOURCE, {}))


async def test_it_lists_active_pods_and_frees_what_others_held(node: Node) -> None:
    """PRS-1: to be asked is one of the two moments at which the kubelet lets go."""
    await node.show("a", "b")
    first, other = (
        await node.admits(pod("first", thing=1)),
        await node.admits(pod("other", thing=1)),
    )
    (of_first,), (of_other,) = node.held_by(first)[RESOURCE], node.held_by(other)[RESOURCE]
    wanted = {of_first: ("pod default/first",), of_other: ("pod default/other",)}
    assert await holders(node) == wanted
    node.kubelet.admitter.remove(first)
    assert node.held_by(first), "nothing happens until someone asks"
    assert (await holders(node)).keys() == {of_other}
    assert node.held_by(first) == {}


async def test_a_kubelet_that_has_just_started_knows_no_pods(node: Node) -> None:
    """KST-6: before it has heard of them, no answer means that a device is free."""
    await node.show("a")
    await node.admits(pod("one", thing=1))
    node.kubelet.admitter.sources_ready = False
    assert await holders(node) == {}
    node.kubelet.admitter.sources_ready = True
    assert await holders(node) == {"a": ("pod default/one",)}
