"""The kubelet's start, end and death, what stays in its directory, and what it knows then."""

from __future__ import annotations

import json
import socket

import pytest
from genericdp.simulator.devicemanager import CHECKPOINT
from tests.simulator.bare_plugin import RESOURCE
from tests.simulator.node import Node, pod


async def test_the_start_makes_the_directory_and_removes_sockets_and_links_to_them(
    node: Node,
) -> None:
    """KST-1, KST-2: as kubelets since 1.33 do."""
    kubelet = node.kubelet
    await kubelet.stop()
    kubelet.directory = node.directory / "new"
    await kubelet.start()
    assert kubelet.socket.is_socket()
    await kubelet.stop()
    (kubelet.directory / "sub").mkdir()
    for name in ("a.sock", "sub/b.sock"):
        with socket.socket(socket.AF_UNIX) as leftover:
            leftover.bind(str(kubelet.directory / name))
    (kubelet.directory / "file").touch()
    (kubelet.directory / "to-file").symlink_to("file")
    (kubelet.directory / "to-sock").symlink_to("sub/b.sock")
    await kubelet.start()
    left = {path.name for path in kubelet.directory.iterdir()}
    assert left == {"sub", "kubelet.sock", "file", "to-file"}


async def test_a_crash_leaves_a_socket_that_refuses_and_a_stop_leaves_none(node: Node) -> None:
    """KST-3: so the file's presence says nothing."""
    kubelet = node.kubelet
    await kubelet.crash()
    assert kubelet.socket.is_socket()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(kubelet.socket))
    with pytest.raises(RuntimeError, match="not running"):
        await kubelet.admit(pod(thing=1))
    await kubelet.restart()
    assert kubelet.socket.is_socket()
    await kubelet.stop()
    assert not kubelet.socket.exists()


async def test_after_a_restart_allocations_are_known_and_devices_are_not(node: Node) -> None:
    """KST-6, ALL-7, CKP-1: until the list arrives, a pod that requests some fails for good.

    What a pod had is replayed from the cached answer, and the plugin is not asked.
    """
    await node.show("a", "b")
    held = await node.admits(pod("held", thing=1))
    ids = node.held_by(held)[RESOURCE]
    await node.kubelet.crash()
    await node.kubelet.start()
    assert node.kubelet.devices(RESOURCE) == {}
    assert node.held_by(held) == {RESOURCE: ids}
    assert await node.refuses(pod("early", thing=1)) == (
        f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
    )
    plugin = await node.serve("a", "b")
    given = (await node.starts(held)).given
    assert given is not None
    assert given.env == {"IDS": ",".join(ids)}
    assert plugin.allocate_requests == []
    assert "Requested: 2, Available: 1" in await node.refuses(pod("other", thing=2))


async def test_without_a_checkpoint_nothing_is_known(node: Node) -> None:
    """KST-10, CKP-1: a pod that requests devices is admitted, and gets none."""
    await node.show("b", "a")
    checkpoint = node.directory / CHECKPOINT
    assert json.loads(checkpoint.read_text())["Data"]["RegisteredDevices"] == {RESOURCE: ["a", "b"]}
    await node.kubelet.stop()
    checkpoint.unlink()
    await node.kubelet.start()
    assert node.held_by(await node.admits(pod(thing=1))) == {}
