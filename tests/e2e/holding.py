"""Pods keep what they have, whatever becomes of neighbors, config, daemon and kubelet.

And no other pod gets it meanwhile, under whatever name: what is held is hardware, not an ID.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.e2e.scenarios import LOOP, config, fuse, loops, plugged
from tests.polling import ask_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.e2e.scenarios import Node, Pod

DISK = "example.com/disk"
ALL = tuple(f"loop{number}" for number in range(60, 65))
OTHER_ID = "    id: disk-$(device.name)\n"
SHARES = "    replicas: 2\n"


async def _held(scene: Node, count: int) -> tuple[list[Pod], set[str]]:
    """Run this many pods that hold one each; return them and what they hold."""
    pods = [await scene.pod({LOOP: 1}) for _ in range(count)]
    return pods, {share for pod in pods for _, share in pod.held}


async def _others_get(
    scene: Node, holders: Sequence[Pod], free: Mapping[str, Sequence[str]]
) -> None:
    """Check that each pod has what it had, and that others get what is free, and no more."""
    for pod in holders:
        await pod.check()
    for resource, devices in free.items():
        others = [await scene.pod({resource: 1}) for _ in devices]
        nodes = [(await pod.given()).nodes["/dev/disk0"] for pod in others]
        assert sorted(nodes) == sorted(f"/dev/{device} r" for device in devices)
        assert (await scene.refusal({resource: 1})).startswith("UnexpectedAdmissionError: ")
        for pod in others:
            await pod.end()


async def _status_shows(scene: Node, holders: Sequence[Pod]) -> None:
    """Wait until the status shows who has each share."""
    wanted = {share: f"pod default/{pod.name}" for pod in holders for _, share in pod.held}
    await ask_until(scene.holders, wanted.__eq__, seconds=180)


class OfHeldHardware:
    """For nodes whose kubelet no one else needs."""

    async def test_pods_keep_their_devices_and_no_other_pod_gets_one_of_them(
        self, scene: Node
    ) -> None:
        await scene.track_pods()
        await plugged(scene, *range(60, 65))
        holders, shares = await _held(scene, 4)
        (left,) = {*ALL} - shares
        others_get = partial(_others_get, scene, holders)
        await others_get({LOOP: [left]})
        await scene.plug(65)
        await scene.has(LOOP, *ALL, "loop65")
        await others_get({LOOP: [left, "loop65"]})
        await scene.unplug(65)
        for restart in (scene.restart_daemon, scene.kill_daemon):
            await restart()
            await scene.has(LOOP, *ALL)
            await others_get({LOOP: [left]})
        await self.other_ids(scene, holders, shares, left)
        await self.other_names(scene, holders, shares, left)
        await scene.edit(config(fuse(), loops(more=SHARES)))
        await scene.has(LOOP, *shares, left, f"{left}::1")
        await others_get({LOOP: [left, left]})
        await scene.edit(config(fuse(), loops(name=DISK, more=OTHER_ID)))
        await scene.has(DISK, f"disk-{left}")
        await others_get({DISK: [left], LOOP: []})
        for pod in holders:
            await pod.end()
        await scene.has(DISK, *(f"disk-{name}" for name in ALL))
        await _others_get(scene, [], {DISK: ALL})

    async def other_ids(
        self, scene: Node, holders: Sequence[Pod], shares: set[str], left: str
    ) -> None:
        """A pod whose ID is held is not rejected when the kubelet restarts."""

        async def nothing() -> None:
            pass

        await scene.replace(config(fuse(), loops(more=OTHER_ID)))
        for happen in (nothing, scene.kill_daemon, scene.kill_kubelet):
            await happen()
            await scene.has(LOOP, *shares, f"disk-{left}")
            await _others_get(scene, holders, {LOOP: [left]})

    async def other_names(
        self, scene: Node, holders: Sequence[Pod], shares: set[str], left: str
    ) -> None:
        others_get = partial(_others_get, scene, holders)
        await scene.replace(config(fuse(), loops(name=DISK)))
        await scene.has(DISK, left)
        await others_get({DISK: [left], LOOP: []})
        await scene.restart_kubelet()
        await scene.has(DISK, left)
        await others_get({DISK: [left]})
        await scene.edit(config(fuse(), loops(), loops(name=DISK)))
        await scene.has(LOOP, *ALL)
        await scene.has(DISK)
        await others_get({LOOP: [left], DISK: []})
        await scene.edit(config(fuse(), loops(name=DISK), loops()))
        await scene.has(DISK, left)
        await scene.has(LOOP, *shares)
        await others_get({DISK: [left], LOOP: []})

    async def test_what_a_kubelet_has_lost_is_held_until_the_pods_end(self, scene: Node) -> None:
        """It gives a device to a second pod itself, but no edit has the daemon do so."""
        await scene.track_pods()
        await plugged(scene, *range(60, 65))
        holders, shares = await _held(scene, 4)
        (left,) = {*ALL} - shares
        await _status_shows(scene, holders)
        had = {share: pod for pod in holders for _, share in pod.held}
        await scene.lose_checkpoint()
        for share, pod in had.items():
            lists = f"the kubelet lists pod default/{pod.name} without device"
            await scene.says(f"{lists} {share}, which it had")
        await scene.edit(config(fuse(), loops(more=OTHER_ID)))
        await scene.has(LOOP, *shares, f"disk-{left}")
        await _status_shows(scene, holders)
        for pod in holders:
            pod.held = frozenset()
            await pod.check()
            await pod.end()
        await scene.has(LOOP, *(f"disk-{name}" for name in ALL))
        await _status_shows(scene, [])
