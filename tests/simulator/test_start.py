"""Container starts: PreStartContainer, and what the container gets in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import ContainerEdits
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.pods import Container, Pod
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import impatient

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.simulator.kubelet import Kubelet

OTHER = "example.com/other"
MAIN = Container(name="main", limits={RESOURCE: 2})
POD = Pod(uid="pod", containers=(MAIN,))
FAILED = "CreateContainerConfigError"


async def admitted(kubelet: Kubelet, plugin: BarePlugin) -> None:
    """Register a plugin with enough devices and admit the pod."""
    plugin.show("a", "b")
    await plugin.register()
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)
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
        plugin.show("a")
        await plugin.start()
        await plugin.register()
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
