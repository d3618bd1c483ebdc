"""Register, as a plugin on the wire sees it, also a second one: where the generations differ."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest
from tests.simulator.bare_plugin import RESOURCE, refusal, registering
from tests.simulator.node import Node, every_generation, impatient, only_a, only_b, pod

UNKNOWN = grpc.StatusCode.UNKNOWN
DIAL_FAILED = "failed to dial device plugin: context deadline exceeded"


@every_generation
async def test_a_registered_plugin_is_asked_for_its_list(node: Node) -> None:
    """REG-12, LAW-1: the stream follows the answer; the end of another resource ends none."""
    await node.show("a", "b")
    observed = node.kubelet.observed
    assert observed.registrations == observed.accepted == observed.lists == {RESOURCE: 1}
    assert node.kubelet.paths(RESOURCE) == (str(node.directory / node.plugin.name),)
    other = await node.serve("a", resource="example.com/other")
    await other.stop()
    await node.kubelet.wait_for(lambda: node.kubelet.allocatable("example.com/other") == 0)
    assert node.kubelet.allocatable(RESOURCE) == 2


@impatient
@pytest.mark.parametrize("endpoint", ["silent.sock", "nothing.sock", "", "/absolute/x.sock"])
async def test_register_dials_before_it_answers(node: Node, endpoint: str) -> None:
    """REG-1, REG-6: a socket that no one serves fails Register after the dial's budget."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(node.directory / "silent.sock"))
        silent.listen()
        before = asyncio.get_running_loop().time()
        register = node.plugin.register(endpoint=endpoint)
        assert await refusal(register) == (UNKNOWN, DIAL_FAILED)
        assert asyncio.get_running_loop().time() - before >= 0.3
    assert node.kubelet.devices(RESOURCE) == {}


async def test_the_plugin_is_asked_for_its_options_while_its_register_is_under_way(
    node: Node,
) -> None:
    """REG-2, REG-7, REG-8: the failure of this call is the registration's."""
    failed = "failed to get device plugin options: rpc error: code = "
    node.plugin.answers.options_error = "not now"
    said = f"{failed}FailedPrecondition desc = not now"
    assert await refusal(node.plugin.register()) == (UNKNOWN, said)
    node.plugin.answers.options_hang = True
    node.plugin.options_asked.clear()
    async with asyncio.TaskGroup() as group:
        registering = group.create_task(refusal(node.plugin.register()))
        await node.plugin.options_asked.wait()
        assert not registering.done()
        await node.plugin.stop()
    code, text = registering.result()
    assert code is UNKNOWN
    assert text.startswith(failed)


async def test_version_and_name_are_checked_in_this_order(node: Node) -> None:
    """REG-4, REG-5, MET-1: with the kubelet's text, and counted before the check."""
    said = (
        'requested API version "{}" is not supported by kubelet. Supported version is ["v1beta1"]'
    )
    for version in ("", "v1", "v1beta1 "):
        register = node.plugin.register(version=version, resource="a")
        assert await refusal(register) == (UNKNOWN, said.format(version))
    for name in ("a", "kubernetes.io/a", "d" * 245 + "/x", "a/" + "n" * 64):
        register = node.plugin.register(resource=name)
        assert await refusal(register) == (UNKNOWN, f'the ResourceName "{name}" is invalid')
    assert node.kubelet.observed.registrations["a"] == 4
    assert node.kubelet.observed.accepted == {}


@every_generation
async def test_a_caller_that_gives_up_leaves_a_ghost_registration(node: Node) -> None:
    """REG-2, REG-3: the kubelet continues; its stream comes to a plugin that has given up."""
    node.kubelet.faults.register_delay_seconds = 0.2
    node.plugin.show("a")
    async with registering(node.plugin):
        await node.kubelet.wait_for(lambda: node.kubelet.observed.registrations[RESOURCE] == 1)
        assert node.kubelet.observed.accepted == {}
    await node.has(a="Healthy")


async def test_a_caller_that_gives_up_may_also_end_it(node: Node) -> None:
    """REG-3: the other kubelets, which use the caller's context."""
    node.kubelet.faults.honours_cancel = True
    node.plugin.answers.options_hang = True
    async with registering(node.plugin):
        await node.plugin.options_asked.wait()
    node.plugin.answers.options_hang = False
    await node.show("a")
    assert node.kubelet.observed.accepted == {RESOURCE: 1}


@only_a
async def test_a_second_register_of_a_live_socket_opens_a_second_stream(node: Node) -> None:
    """REG-9a: both streams push."""
    lists = node.kubelet.observed.lists
    await node.show("a")
    await node.plugin.register()
    await node.kubelet.wait_for(lambda: lists[RESOURCE] == node.kubelet.streams(RESOURCE) == 2)
    node.plugin.show("a", "b")
    await node.kubelet.wait_for(lambda: lists[RESOURCE] == 4)


@only_a
async def test_the_end_of_an_old_plugin_cuts_off_the_new_one(node: Node) -> None:
    """REG-9b, REG-13: register the new, then stop the old; the new one has to register again."""
    old, new = [await node.serve("a", "b") for _ in range(2)]
    await old.stop()
    await node.kubelet.wait_for(lambda: node.kubelet.paths(RESOURCE) == ())
    await node.has(a="Unhealthy", b="Unhealthy")
    await new.register()
    await node.has(a="Healthy", b="Healthy")


@impatient
@only_a
async def test_a_failed_register_makes_the_kubelet_blind_for_the_old_plugin(node: Node) -> None:
    """REG-9c: its death goes unnoticed, its devices stay healthy."""
    await node.show("a")
    assert await refusal(node.plugin.register(endpoint="nothing.sock")) == (UNKNOWN, DIAL_FAILED)
    await node.plugin.stop()
    await node.kubelet.wait_for(lambda: node.kubelet.paths(RESOURCE) == ())
    assert node.kubelet.devices(RESOURCE) == {"a": "Healthy"}


@only_a
async def test_a_register_that_races_with_the_old_streams_end_is_canceled(node: Node) -> None:
    """REG-9d: the old stream's end closes the new connection in the middle of its first call."""
    old, new = await node.serve("a"), node.plugin
    new.answers.options_hang = True
    async with asyncio.TaskGroup() as group:
        registering = group.create_task(refusal(new.register()))
        await new.options_asked.wait()
        await old.stop()
    assert registering.result() == (
        UNKNOWN,
        "failed to get device plugin options: rpc error: code = Canceled"
        " desc = grpc: the client connection is closing",
    )


@only_b
async def test_another_path_is_accepted_beside_the_first_and_the_last_one_remains(
    node: Node,
) -> None:
    """REG-10: the newest gets the calls; when it goes the other takes over."""
    old, new = [await node.serve("a", "b") for _ in range(2)]
    await node.admits(pod("first", thing=1))
    assert (len(old.allocate_requests), len(new.allocate_requests)) == (0, 1)
    await new.stop()
    await node.kubelet.wait_for(lambda: len(node.kubelet.paths(RESOURCE)) == 1)
    await node.has(a="Healthy", b="Healthy")
    await node.admits(pod("second", thing=1))
    assert len(old.allocate_requests) == 1
    await old.stop()
    await node.has(a="Unhealthy", b="Unhealthy")


@only_b
async def test_a_live_path_cannot_be_registered_twice_and_is_poisoned(node: Node) -> None:
    """REG-10: the attempt hides the live plugin's end; only another path helps then."""
    path = node.directory / node.plugin.name
    refused = (UNKNOWN, f"device plugin already connected: {path}")
    await node.show("a")
    assert await refusal(node.plugin.register()) == refused
    await node.plugin.stop()
    await node.kubelet.wait_for(lambda: len(node.kubelet.paths(RESOURCE)) == 1)
    assert node.kubelet.devices(RESOURCE) == {"a": "Healthy"}
    again = node.another(name=node.plugin.name)
    await again.start()
    assert await refusal(again.register()) == refused
    await node.serve("b")
    await node.has(b="Healthy")
