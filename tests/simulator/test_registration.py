"""Register, as a plugin on the wire sees it, also a second one: where the generations differ."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc
import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation
from tests.simulator.bare_plugin import RESOURCE, BarePlugin, refusal, registering
from tests.simulator.pods import every_generation, impatient, pod, show

UNKNOWN = grpc.StatusCode.UNKNOWN
DIAL_FAILED = "failed to dial device plugin: context deadline exceeded"
GOOD_NAMES = ("a/b", "x/A_b.c", "a.b-c.d/e", "d" * 244 + "/x", "a/" + "n" * 63)
BAD_NAMES = (
    *("", "a", "/a", "example.com/", "kubernetes.io/a", "foo.kubernetes.io/a", "a/-x", "a/b\n"),
    *("requests.example.com/a", "Example.com/a", "example_x.com/a", "a..b/c", "-a/b", "a/b/c"),
    *("a/" + "n" * 64, "d" * 245 + "/x"),
)
EMPTY_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What an HTTP/2 server has to say first; without it a dial does not succeed."""


@every_generation
async def test_a_registered_plugin_is_asked_for_its_list(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-12, LAW-1: the stream follows the answer."""
    plugin.show("a", "b")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)
    assert kubelet.observed.registrations == {RESOURCE: 1}
    assert kubelet.observed.accepted == {RESOURCE: 1}
    assert kubelet.observed.lists == {RESOURCE: 1}
    assert kubelet.paths(RESOURCE) == (str(plugin.directory / plugin.name),)


@impatient
async def test_register_dials_before_it_answers(kubelet: Kubelet, short_directory: Path) -> None:
    """REG-1: a socket that no one serves fails Register after the dial's budget."""
    plugin = BarePlugin(short_directory)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(short_directory / plugin.name))
        silent.listen()
        before = asyncio.get_running_loop().time()
        assert await refusal(plugin.register()) == (UNKNOWN, DIAL_FAILED)
        assert asyncio.get_running_loop().time() - before >= 1.0
    assert kubelet.devices(RESOURCE) == {}
    await plugin.stop()


async def test_the_dial_succeeds_as_soon_as_the_plugin_serves(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-2: the plugin answers GetDevicePluginOptions while its Register is under way."""
    async with asyncio.TaskGroup() as group:
        plugin.answers.options_hang = True
        registering = group.create_task(refusal(plugin.register()))
        await plugin.options_asked.wait()
        assert not registering.done()
        await plugin.stop()
    code, text = registering.result()
    assert code is UNKNOWN
    assert text.startswith("failed to get device plugin options: rpc error: code = ")


async def test_the_kubelet_names_localhost_when_it_dials(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """TRN-1: seen on the wire; a plugin's gRPC may refuse the socket's path as a host."""
    plugin = plugin_with()
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EMPTY_SETTINGS)
        while data := await reader.read(4096):
            received.extend(data)
            if b"GetDevicePluginOptions" in received:
                break
        writer.close()

    server = await asyncio.start_unix_server(listen, plugin.directory / plugin.name)
    async with server:
        code, text = await refusal(plugin.register())
    assert (code, text.split(":")[0]) == (UNKNOWN, "failed to get device plugin options")
    assert b"localhost" in received
    assert plugin.name.encode() not in received


@pytest.mark.parametrize("version", ["", "v1", "v1beta1 "])
async def test_other_versions_are_refused(
    kubelet: Kubelet, plugin: BarePlugin, version: str
) -> None:
    """REG-4, MET-1: with the kubelet's text, and counted before the check."""
    text = (
        f'requested API version "{version}" is not supported by kubelet.'
        ' Supported version is ["v1beta1"]'
    )
    assert await refusal(plugin.register(version=version)) == (UNKNOWN, text)
    assert kubelet.observed.registrations == {RESOURCE: 1}
    assert kubelet.observed.accepted == {}


async def test_the_version_is_checked_before_the_name(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """REG-4, REG-5: in this order."""
    _, text = await refusal(plugin.register(version="v1", resource="a"))
    assert "API version" in text
    assert await refusal(plugin.register(resource="a")) == (
        UNKNOWN,
        'the ResourceName "a" is invalid',
    )


async def test_good_and_bad_resource_names(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """REG-5: the length of the domain counts with the prefix of the quota's name."""
    for name in GOOD_NAMES:
        await plugin.register(resource=name)
    for name in BAD_NAMES:
        code, text = await refusal(plugin.register(resource=name))
        assert (code, text[:17], text[-12:]) == (UNKNOWN, "the ResourceName ", '" is invalid')


@impatient
async def test_an_endpoint_that_leads_nowhere_fails_the_dial(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-6: an absolute path is looked for below the kubelet's directory."""
    endpoints = ("", "/absolute/x.sock", "nothing.sock")
    found = await asyncio.gather(
        *(refusal(plugin.register(endpoint=endpoint)) for endpoint in endpoints)
    )
    assert found == [(UNKNOWN, DIAL_FAILED)] * 3


async def test_an_endpoint_may_lie_in_a_sub_directory(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin], short_directory: Path
) -> None:
    """REG-6: joined, not checked; ``..`` too."""
    (short_directory / "sub").mkdir()
    plugin = plugin_with(name="sub/x.sock")
    plugin.show("a")
    await plugin.start()
    await plugin.register(endpoint="other/../sub/x.sock")
    await kubelet.wait_for(lambda: kubelet.devices(RESOURCE) == {"a": "Healthy"})


async def test_a_failed_options_call_fails_register(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """REG-7, REG-8: options come from the call, its failure is the registration's."""
    plugin.answers.options_error = "not now"
    text = (
        "failed to get device plugin options: rpc error: code = FailedPrecondition desc = not now"
    )
    assert await refusal(plugin.register()) == (UNKNOWN, text)


async def test_while_the_kubelet_is_away_register_is_unavailable(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-8, KST-3: no socket, or a stale one that refuses."""
    await kubelet.stop()
    assert (await refusal(plugin.register()))[0] is grpc.StatusCode.UNAVAILABLE
    await kubelet.start()
    await kubelet.crash()
    assert (await refusal(plugin.register()))[0] is grpc.StatusCode.UNAVAILABLE


@every_generation
async def test_a_caller_that_gives_up_leaves_a_ghost_registration(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-2, REG-3: the kubelet continues; its stream comes to a plugin that has given up."""
    kubelet.faults.register_delay_seconds = 0.5
    plugin.show("a")
    async with registering(plugin):
        await kubelet.wait_for(lambda: kubelet.observed.registrations[RESOURCE] == 1)
        assert kubelet.observed.accepted == {}
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 1)


async def test_a_caller_that_gives_up_may_also_end_it(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """REG-3: the other kubelets, which use the caller's context."""
    kubelet.faults.honours_cancel = True
    plugin.answers.options_hang = True
    async with registering(plugin):
        await plugin.options_asked.wait()
    plugin.answers.options_hang = False
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 1)
    assert kubelet.observed.accepted == {RESOURCE: 1}


only_a = pytest.mark.parametrize("generation", [Generation.A])
only_b = pytest.mark.parametrize("generation", [Generation.B])


@only_a
async def test_a_second_register_of_a_live_socket_opens_a_second_stream(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-9a: both streams push."""
    plugin.show("a")
    await plugin.register()
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 2)
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    plugin.show("a", "b")
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 4)


@only_a
async def test_the_end_of_an_old_plugin_cuts_off_the_new_one(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-9b, REG-13: register the new, then stop the old; the new one has to register again."""
    old, new = [await plugin_with().serve("a", "b") for _ in range(2)]
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    await old.stop()
    await kubelet.wait_for(lambda: kubelet.paths(RESOURCE) == ())
    assert kubelet.devices(RESOURCE) == {"a": "Unhealthy", "b": "Unhealthy"}
    await new.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)


@impatient
@only_a
async def test_a_failed_register_makes_the_kubelet_blind_for_the_old_plugin(
    kubelet: Kubelet, plugin: BarePlugin
) -> None:
    """REG-9c: its death goes unnoticed, its devices stay healthy."""
    await show(kubelet, plugin, "a")
    assert await refusal(plugin.register(endpoint="nothing.sock")) == (UNKNOWN, DIAL_FAILED)
    await plugin.stop()
    await kubelet.wait_for(lambda: kubelet.paths(RESOURCE) == ())
    assert kubelet.devices(RESOURCE) == {"a": "Healthy"}
    await kubelet.restart()
    assert kubelet.devices(RESOURCE) == {}


@only_a
async def test_a_register_that_races_with_the_old_streams_end_is_canceled(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-9d: the old stream's end closes the new connection in the middle of its first call."""
    old, new = await plugin_with().serve("a"), plugin_with()
    await new.start()
    await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 1)
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
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-10: the newest gets the calls; when it goes the other takes over."""
    old, new = [await plugin_with().serve("a", "b") for _ in range(2)]
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    assert (await kubelet.admit(pod("first", thing=1))).admitted
    assert (len(old.allocate_requests), len(new.allocate_requests)) == (0, 1)
    await new.stop()
    await kubelet.wait_for(lambda: len(kubelet.paths(RESOURCE)) == 1)
    assert kubelet.devices(RESOURCE) == {"a": "Healthy", "b": "Healthy"}
    assert (await kubelet.admit(pod("second", thing=1))).admitted
    assert len(old.allocate_requests) == 1
    await old.stop()
    await kubelet.wait_for(lambda: set(kubelet.devices(RESOURCE).values()) == {"Unhealthy"})


@only_b
async def test_a_live_path_cannot_be_registered_twice_and_is_poisoned(
    kubelet: Kubelet, plugin: BarePlugin, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-10: the attempt hides the live plugin's end; only another path helps then."""
    path = kubelet.directory / plugin.name
    refused = (UNKNOWN, f"device plugin already connected: {path}")
    await show(kubelet, plugin, "a")
    assert await refusal(plugin.register()) == refused
    await plugin.stop()
    await kubelet.wait_for(lambda: len(kubelet.paths(RESOURCE)) == 1)
    assert kubelet.devices(RESOURCE) == {"a": "Healthy"}
    again = plugin_with(name=plugin.name)
    await again.start()
    assert await refusal(again.register()) == refused
    await plugin_with().serve("b")
    await kubelet.wait_for(lambda: kubelet.devices(RESOURCE) == {"b": "Healthy"})


@every_generation
async def test_unique_paths_work_with_every_kubelet(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """REG-11: end the old one, then register another path: never a failure, never a gap left."""
    for number in range(5):
        plugin = await plugin_with().serve(f"device-{number}")
        await kubelet.wait_for(partial(_has_only, kubelet, f"device-{number}"))
        await plugin.stop()
        await kubelet.wait_for(lambda: kubelet.streams(RESOURCE) == 0)
    assert kubelet.observed.accepted == {RESOURCE: 5}


@every_generation
async def test_resources_do_not_disturb_each_other(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """K6 needs it: one resource's end leaves the others alone."""
    first = await plugin_with().serve("a")
    await plugin_with(resource="example.com/other").serve("a")
    await kubelet.wait_for(lambda: kubelet.allocatable("example.com/other") == 1)
    await first.stop()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 0)
    assert kubelet.allocatable("example.com/other") == 1


def _has_only(kubelet: Kubelet, device_id: str) -> bool:
    return kubelet.devices(RESOURCE) == {device_id: "Healthy"}
