"""The kubelet's start, end and death, and what stays in its directory."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from genericdp.simulator.devicemanager import CHECKPOINT
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import held_by

POD = Pod(uid="pod", containers=(Container(name="main", limits={RESOURCE: 1}),))


async def registered(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin], *ids: str
) -> BarePlugin:
    plugin = await plugin_with().serve(*ids)
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == len(ids))
    return plugin


async def test_the_directory_is_made_when_it_is_missing(
    kubelet_with: Callable[..., Kubelet], short_directory: Path
) -> None:
    """KST-1: with the kubelet's mode."""
    kubelet = kubelet_with()
    kubelet.directory = kubelet.directory / "new"
    await kubelet.start()
    assert (kubelet.directory / "kubelet.sock").is_socket()
    assert stat.S_IMODE(kubelet.directory.stat().st_mode) & 0o007 == 0


async def test_the_start_removes_sockets_and_links_to_them(
    kubelet: Kubelet, short_directory: Path
) -> None:
    """KST-2: as kubelets since 1.33 do."""
    await kubelet.crash()
    (short_directory / "sub").mkdir()
    for name in ("a.sock", "sub/b.sock"):
        with socket.socket(socket.AF_UNIX) as leftover:
            leftover.bind(str(short_directory / name))
    (short_directory / "file").touch()
    (short_directory / "to-file").symlink_to("file")
    (short_directory / "to-sub").symlink_to("sub")
    (short_directory / "to-sock").symlink_to("sub/b.sock")
    (short_directory / CHECKPOINT).write_text(
        '{"Data": {"PodDeviceEntries": [], "RegisteredDevices": {}}}'
    )
    await kubelet.start()
    left = {"sub", CHECKPOINT, "kubelet.sock", "file", "to-file", "to-sub"}
    assert {path.name for path in short_directory.iterdir()} == left


async def test_a_crash_leaves_a_socket_that_refuses_and_a_stop_leaves_none(
    kubelet: Kubelet, short_directory: Path
) -> None:
    """KST-3: so the file's presence says nothing."""
    await kubelet.crash()
    assert kubelet.socket.is_socket()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(kubelet.socket))
    await kubelet.restart()
    assert kubelet.socket.is_socket()
    await kubelet.stop()
    assert not kubelet.socket.exists()


async def test_after_a_restart_resources_are_known_without_devices(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """KST-6: until the list arrives a pod that requests some fails for good."""
    await registered(kubelet, plugin_with, "a", "b")
    await kubelet.crash()
    await kubelet.start()
    assert kubelet.devices(RESOURCE) == {}
    refused = await kubelet.admit(POD)
    assert (refused.admitted, refused.reason) == (False, "UnexpectedAdmissionError")
    assert refused.message == (
        "Allocate failed due to no healthy devices present;"
        f" cannot allocate unhealthy devices {RESOURCE}, which is unexpected"
    )
    await registered(kubelet, plugin_with, "a", "b")
    assert (await kubelet.admit(POD)).admitted


async def test_allocations_and_answers_survive_a_restart(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """ALL-7, CKP-1: the cached answer is replayed, the plugin is not asked."""
    await registered(kubelet, plugin_with, "a", "b")
    assert (await kubelet.admit(POD)).admitted
    held = held_by(kubelet, POD)
    await kubelet.crash()
    await kubelet.start()
    assert held_by(kubelet, POD) == held
    plugin = await registered(kubelet, plugin_with, "a", "b")
    started = await kubelet.start_container(POD, POD.containers[0])
    assert started.given is not None
    assert started.given.env == {"IDS": next(iter(held["main"][RESOURCE]))}
    assert plugin.allocate_requests == []
    other = Pod(uid="other", containers=(Container(name="main", limits={RESOURCE: 2}),))
    assert "Requested: 2, Available: 1" in (await kubelet.admit(other)).message


async def test_the_checkpoint_is_written_with_each_list(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """CKP-1: the file's mode is the kubelet's."""
    plugin = await registered(kubelet, plugin_with, "a", "b")
    data = _checkpoint(kubelet)
    assert data == {"PodDeviceEntries": [], "RegisteredDevices": {RESOURCE: ["a", "b"]}}
    assert stat.S_IMODE((kubelet.directory / CHECKPOINT).stat().st_mode) == 0o600
    plugin.show("b")
    await kubelet.wait_for(lambda: kubelet.observed.lists[RESOURCE] == 2)
    assert _checkpoint(kubelet)["RegisteredDevices"] == {RESOURCE: ["b"]}
    await kubelet.admit(POD)
    entry = _checkpoint(kubelet)["PodDeviceEntries"][0]
    assert (entry["PodUID"], entry["ContainerName"]) == ("pod", "main")
    assert (entry["ResourceName"], entry["DeviceIDs"]) == (RESOURCE, ["b"])
    assert not list(kubelet.directory.glob(".*"))


async def test_without_a_checkpoint_nothing_is_known(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """KST-10: a pod that requests devices is admitted, and gets none."""
    await registered(kubelet, plugin_with, "a")
    await kubelet.stop()
    (kubelet.directory / CHECKPOINT).unlink()
    await kubelet.start()
    assert (await kubelet.admit(POD)).admitted
    assert held_by(kubelet, POD) == {"main": {}}


@pytest.mark.parametrize("gone", [False, True])
async def test_a_removed_socket_file_changes_nothing_for_a_live_stream(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin], gone: bool
) -> None:
    """KST-9: the kubelet does not look; nor when its whole directory goes."""
    plugin = await registered(kubelet, plugin_with, "a")
    for path in kubelet.directory.iterdir():
        if gone or path.name == plugin.name:
            path.unlink()
    if gone:
        kubelet.directory.rmdir()
    plugin.show("a", "b")
    await kubelet.wait_for(lambda: kubelet.allocatable(RESOURCE) == 2)


async def test_many_restarts_leave_nothing_behind(
    kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]
) -> None:
    """KST-3, REG-11: graceful and not, in turn; the fixture counts tasks and descriptors."""
    for number in range(20):
        plugin = await registered(kubelet, plugin_with, "a", f"device-{number}")
        await (kubelet.stop() if number % 2 else kubelet.crash())
        await plugin.stop()
        await kubelet.start()
    assert kubelet.observed.accepted == {RESOURCE: 20}
    assert {path.name for path in kubelet.directory.iterdir()} == {"kubelet.sock", CHECKPOINT}


def _checkpoint(kubelet: Kubelet) -> Any:
    return json.loads((kubelet.directory / CHECKPOINT).read_text())["Data"]
