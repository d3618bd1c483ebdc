"""Scenarios of a node whose pods have devices: each one once, for every kind of node.

The simulated kubelet plays them in ``make test`` (``test_scenarios_simulated.py``), real ones in
``make e2e`` (``test_scenarios.py``), a cluster in ``make cluster-e2e``; each as far as it can.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from socket import AF_UNIX, socket
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from tests.polling import ask_until, poll_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

FUSE, LOOP, ADDED = "example.com/fuse", "example.com/loop", "example.com/added"
SIX, SEVEN = "example.com/loop6", "example.com/loop7"
ALL_FUSE = ("fuse", "fuse::1", "fuse::2")
HEAD = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
"""
BY_MODEL = f"""\
  - name: example.com/$(value.model)
    names: [{SIX}, {SEVEN}]
    values:
      model: {{text: $(device.name), regex: "loop[0-9]"}}
    match:
      - path: /dev/loop[67][0-9]
    forgetAfterSeconds: 2
"""


def fuse(shares: int = 3) -> str:
    """Return a resource of shares of one device, with all that a container can be given."""
    return f"""\
  - name: {FUSE}
    match:
      - path: /dev/fuse
    replicas: {shares}
    inject:
      devices: [{{path: $(device.path)}}]
      env: {{FUSE_ID: $(device.id)}}
      annotations: {{example.com/fuse: $(device.id)}}
"""


def loops(numbers: str = "6[0-9]", name: str = LOOP, more: str = "") -> str:
    """Return a resource of loop devices, all but number 69; ``more`` are lines of it."""
    return f"""\
  - name: {name}
    match:
      - path: /dev/loop{numbers}
    exclude:
      - path: /dev/loop69
    forgetAfterSeconds: 2
    inject:
      devices:
        - {{path: $(device.path), containerPath: /dev/disk$(allocation.index), permissions: r}}
      env: {{LOOP_DEVICES: $(device.path)}}
      annotations: {{example.com/loop: $(device.id)}}
{more}"""


def config(*resources: str) -> str:
    """Return a config of these resources."""
    return HEAD + "".join(resources)


START = config(fuse(), loops())
"""What each story begins with: three shares, and no loop device plugged in."""


class Calls(NamedTuple):
    """Counts of the kubelet's calls for a resource since it started."""

    registrations: int
    lists: int


class Given(NamedTuple):
    """The devices that a container has because it requested them."""

    nodes: Mapping[str, str]
    """Path in the container → path on the host and permissions."""
    env: Mapping[str, str]
    annotations: Mapping[str, str]


class Pod(Protocol):
    """A pod that runs until the test ends, or until it has to end."""

    name: str
    held: frozenset[tuple[str, str]]
    """Resource and ID of each device, as the kubelet lists them."""

    async def given(self) -> Given:
        """Return what its container was given."""

    async def check(self) -> None:
        """Fail unless the same container runs on with what it had, and the kubelet says so."""

    async def end(self) -> None:
        """Let it end; its devices are free for the next pod."""


class Node(Protocol):
    """A node with the daemon on it."""

    generation: str
    """Which one of the contract its kubelet is of: ``A`` or ``B``."""
    storm: int
    """How many restarts of its kubelet make a storm: one of a real one takes seconds."""
    directory: Path
    """Where plugins and kubelet have their sockets."""

    async def plug(self, *numbers: int) -> None:
        """Plug in loop devices."""

    async def unplug(self, *numbers: int) -> None:
        """Unplug loop devices."""

    async def edit(self, config: str) -> None:
        """Put another active config."""

    async def has(self, resource: str, *devices: str) -> None:
        """Wait until the kubelet has exactly these devices to give."""

    async def counts(self, resource: str, total: int, healthy: int) -> None:
        """Wait until the kubelet last heard about this many devices."""

    async def calls(self, resource: str) -> Calls:
        """Return how often the kubelet was called, once it has done with the last list."""

    async def pod(self, limits: Mapping[str, int]) -> Pod:
        """Run a pod."""

    async def refusal(self, limits: Mapping[str, int]) -> str:
        """Return why a pod does not run."""

    async def restart_daemon(self) -> None:
        """End the daemon in good order, until the kubelet has noticed, and start it."""

    async def kill_daemon(self) -> None:
        """Do the same as a crash does it, where there is a process to kill."""

    async def replace(self, config: str) -> None:
        """Do the same, and edit the config while there is not a daemon."""

    async def restart_kubelet(self) -> None:
        """End the kubelet in good order and start it."""

    async def kill_kubelet(self) -> None:
        """End the kubelet as a crash does and start it."""

    async def lose_checkpoint(self) -> None:
        """Restart the kubelet without what it has written down."""

    async def remove_directory(self) -> None:
        """Remove the directory of the sockets with all that is in it."""

    async def update(self) -> None:
        """Start a newer instance, and end the older one when the newer one has registered."""

    async def track_pods(self) -> None:
        """Start the daemon again so that it asks, and soon, what pods hold, and keeps a state."""

    async def holders(self) -> dict[str, str]:
        """Return who has which share, as the daemon's status says, or why that is unknown."""

    async def says(self, text: str) -> None:
        """Wait until the daemon has logged a string."""

    def second(self, config: str) -> AbstractAsyncContextManager[object]:
        """Run a second daemon with another config meanwhile, and end it as a crash does."""

    def never_without(
        self, wanted: Mapping[str, tuple[str, ...]]
    ) -> AbstractAsyncContextManager[object]:
        """Fail if the kubelet lacks one of these for a moment."""


def holders_in(status: Mapping[str, Any]) -> dict[str, str]:
    """Return who has which share, or why that is unknown."""
    if not status["holders"]["known"]:
        return {"unknown": status["holders"]["reason"]}
    return {
        holder["share"]: holder["holder"]
        for resource in status["resources"]
        for device in resource["devices"]
        for holder in device["holders"]
    }


def unavailable(resource: str, requested: int, available: int) -> str:
    """Return how a kubelet refuses a pod that requests more than there is."""
    return (
        "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable"
        f" for {resource}. Requested: {requested}, Available: {available}, which is unexpected"
    )


async def plugged(node: Node, *numbers: int) -> tuple[str, ...]:
    """Plug in loop devices and wait for them."""
    await node.plug(*numbers)
    names = tuple(f"loop{number}" for number in numbers)
    await node.has(LOOP, *names)
    return names


async def _sockets(node: Node, count: int) -> set[str]:
    """Wait until daemons listen at this many; return their names."""
    found: set[str] = set()

    def listening() -> bool:
        found.clear()
        for path in node.directory.glob("genericdp-*.sock"):
            with socket(AF_UNIX) as connection, suppress(OSError):  # of one that was killed
                connection.connect(os.fspath(path))
                found.add(path.name)
        return len(found) == count

    await poll_until(listening, seconds=180)
    return found


async def _registrations(node: Node) -> tuple[int, ...]:
    """Return how often fuse and loop have been registered."""
    return tuple([(await node.calls(name)).registrations for name in (FUSE, LOOP)])


async def _registered(node: Node, *times: int) -> None:
    """Wait until fuse and loop have been registered so often."""
    await ask_until(partial(_registrations, node), times.__eq__, seconds=180)


async def _is_well(node: Node, *numbers: int) -> None:
    """Check the lists, that a change still arrives, and that a pod gets devices."""
    await node.has(FUSE, *ALL_FUSE)
    await node.has(LOOP, *(f"loop{number}" for number in numbers))
    await node.plug(68)
    await node.has(LOOP, *(f"loop{number}" for number in (*numbers, 68)))
    await node.pod({FUSE: 1, LOOP: 1})


class OfNodes:
    """For all nodes: a test class of theirs has these, and a fixture ``scene``."""

    async def test_devices_that_come_and_go_are_given_while_they_are_there(
        self, scene: Node
    ) -> None:
        await scene.has(LOOP)
        assert LOOP in await scene.refusal({LOOP: 1})
        await plugged(scene, 61)
        await scene.plug(69)  # excluded
        await scene.plug(60)
        await scene.has(LOOP, "loop60", "loop61")
        await scene.unplug(61)
        await scene.has(LOOP, "loop60")
        await scene.plug(61)
        await scene.has(LOOP, "loop60", "loop61")
        pod = await scene.pod({LOOP: 2})
        assert pod.held == {(LOOP, "loop60"), (LOOP, "loop61")}
        await pod.end()
        await scene.unplug(60, 61)
        await scene.has(LOOP)

    async def test_an_edit_touches_what_it_changes_and_nothing_else(self, scene: Node) -> None:
        """C7, KST-11, LAW-7: no call for an untouched resource; a removed one goes to 0."""
        added = loops("70", ADDED)
        await scene.plug(70)
        await plugged(scene, 60)
        of_fuse, of_loop = await scene.calls(FUSE), await scene.calls(LOOP)
        before = await _sockets(scene, 2)
        await scene.edit(config(fuse(2), loops(), added))
        await scene.has(FUSE, "fuse", "fuse::1")
        await scene.has(ADDED, "loop70")
        assert (await scene.calls(FUSE)).registrations == of_fuse.registrations
        assert await scene.calls(LOOP) == of_loop
        assert before < await _sockets(scene, 3)
        await scene.edit(config(fuse(2), added))
        await scene.has(LOOP)
        await _sockets(scene, 2)
        await scene.edit(START)
        await scene.has(LOOP, "loop60")
        await scene.has(ADDED)
        await scene.has(FUSE, *ALL_FUSE)
        assert (await scene.calls(FUSE)).registrations == of_fuse.registrations
        assert (await scene.calls(LOOP)).registrations == of_loop.registrations + 1

    async def test_a_new_model_registers_and_the_last_of_one_drains_and_leaves_others_alone(
        self, scene: Node
    ) -> None:
        """Resources whose names result from values, plugged, unplugged and edited."""
        await plugged(scene, 60)
        await scene.edit(config(fuse(), BY_MODEL))
        await scene.has(SIX, "loop60")
        of_six, sockets = await scene.calls(SIX), await _sockets(scene, 2)
        before = (await scene.calls(SEVEN)).registrations
        await scene.plug(70)
        await scene.has(SEVEN, "loop70")
        pod = await scene.pod({SEVEN: 1})
        await pod.end()
        await scene.unplug(70)
        assert await _sockets(scene, 2) == sockets
        await scene.has(SEVEN)
        await scene.plug(70)
        await scene.has(SEVEN, "loop70")
        assert (await scene.calls(SEVEN)).registrations == before + 2
        await scene.edit(config(fuse(), BY_MODEL.replace(f", {SEVEN}", "")))
        await scene.has(SEVEN)
        assert await _sockets(scene, 2) == sockets
        assert await scene.calls(SIX) == of_six

    async def test_a_pod_keeps_what_it_has_and_others_are_admitted_whatever_restarts(
        self, scene: Node
    ) -> None:
        """K2, C7, KST-6, KST-7, KST-11: daemon and kubelet, ended in good order and killed.

        K1: no stream from before swallows the first change after it.
        """
        names = await plugged(scene, *range(60, 64))
        pod = await scene.pod({FUSE: 1, LOOP: 1})
        of_daemon = (scene.restart_daemon, scene.kill_daemon)
        of_kubelet = (scene.restart_kubelet, scene.kill_kubelet)
        for number, restart in enumerate((*of_daemon, *of_kubelet), 64):
            await restart()
            await scene.has(FUSE, *ALL_FUSE)
            await scene.has(LOOP, *names)
            await pod.check()
            await scene.pod({LOOP: 1})
            await scene.plug(number)
            names = (*names, f"loop{number}")
            await scene.has(LOOP, *names)
        await scene.edit(config(fuse(4), loops()))
        await scene.has(FUSE, *ALL_FUSE, "fuse::3")
        await pod.check()

    async def test_an_update_takes_no_device_from_the_node_nor_from_a_pod(
        self, scene: Node
    ) -> None:
        """K10, REG-13. Kubelets of generation A cut off the newer instance, too (REG-9b)."""
        await self.update(scene)

    async def update(self, scene: Node) -> None:
        names = await plugged(scene, 60, 61)
        pod = await scene.pod({FUSE: 1, LOOP: 1})
        if scene.generation == "B":
            async with scene.never_without({FUSE: ALL_FUSE, LOOP: names}):
                await scene.update()
        else:
            await scene.update()
        # A list that is older than the older one's end cannot hold this.
        await scene.plug(62)
        await scene.has(LOOP, *names, "loop62")
        await scene.has(FUSE, *ALL_FUSE)
        await pod.check()
        await scene.pod({FUSE: 2, LOOP: 2})


class OfKubelets(OfNodes):
    """For nodes whose kubelet no one else needs."""

    async def test_a_container_is_given_what_the_config_says(self, scene: Node) -> None:
        await plugged(scene, 60, 62)
        given = await (await scene.pod({FUSE: 2, LOOP: 2})).given()
        assert given.nodes == {
            "/dev/fuse": "/dev/fuse rw",
            "/dev/disk0": "/dev/loop60 r",
            "/dev/disk1": "/dev/loop62 r",
        }
        assert given.env == {"FUSE_ID": "fuse", "LOOP_DEVICES": "/dev/loop60,/dev/loop62"}
        assert given.annotations == {FUSE: "fuse", LOOP: "loop60,loop62"}

    async def test_pods_share_a_device_and_are_refused_more_than_there_is(
        self, scene: Node
    ) -> None:
        """ALL-5: the kubelet counts shares, and those that are held after a crash, too."""
        (first,) = (await scene.pod({FUSE: 1})).held
        assert await scene.refusal({FUSE: 3}) == unavailable(FUSE, 3, 2)
        second, third = (await scene.pod({FUSE: 2})).held
        assert {first, second, third} == {(FUSE, share) for share in ALL_FUSE}
        for _ in range(2):
            assert await scene.refusal({FUSE: 1}) == unavailable(FUSE, 1, 0)
            await scene.kill_kubelet()
            await scene.has(FUSE, *ALL_FUSE)

    async def test_an_update_waits_for_the_probes_of_the_newer_instance(self, scene: Node) -> None:
        """It runs them before it registers: they take nothing away."""
        probe = "    health: [{exec: {command: [/bin/sleep, '0.1']}}]\n"
        await scene.replace(config(fuse(), loops(more=probe)))
        await self.update(scene)

    async def test_a_second_daemon_gets_the_pods_and_leaves_all_to_the_first_one_when_it_ends(
        self, scene: Node
    ) -> None:
        """REG-9, REG-10: on both generations the last list counts, and the newest one allocates.

        On generation A the end of the newer one leaves the resource without an endpoint, and shows
        the older one nothing.
        """
        await scene.plug(78)
        await plugged(scene, 60)
        # With fewer shares, else its list would pass for that of the first one after its end.
        async with scene.second(config(fuse(2), loops("7[89]"))):
            await scene.has(LOOP, "loop78")
            await scene.plug(61)
            await scene.has(LOOP, "loop60", "loop61")
            assert f"desc = {LOOP}: there is no device 'loop6" in await scene.refusal({LOOP: 1})
            await scene.plug(79)
            await scene.has(LOOP, "loop78", "loop79")
            await scene.pod({LOOP: 1, FUSE: 1})
        await scene.has(LOOP, "loop60", "loop61")
        await scene.plug(62)
        await scene.has(LOOP, "loop60", "loop61", "loop62")
        await scene.has(FUSE, *ALL_FUSE)
        await scene.pod({LOOP: 2, FUSE: 1})

    async def test_a_storm_of_kubelet_restarts_ends_with_one_registration_of_each(
        self, scene: Node
    ) -> None:
        """KST-3, KST-5: each kubelet ends soon after the daemon has begun to register with it."""
        for _ in range(scene.storm // 2):
            await scene.kill_kubelet()
            await scene.restart_kubelet()
        await _is_well(scene)
        await _registered(scene, 1, 1)
        await _sockets(scene, 2)

    @pytest.mark.parametrize(
        "is_made", [False, True], ids=["by the kubelet", "by an administrator"]
    )
    async def test_a_deleted_directory_takes_nothing_away_and_the_next_kubelet_has_all(
        self, scene: Node, is_made: bool
    ) -> None:
        """KST-1, KST-3, KST-9: open streams live on; the directory's watch survives its end."""
        await plugged(scene, 60)
        before = await _registrations(scene)
        await scene.remove_directory()
        if is_made:
            scene.directory.mkdir(mode=0o750)
        await scene.plug(61)
        await scene.has(LOOP, "loop60", "loop61")
        await _registered(scene, *before)
        await scene.restart_kubelet()
        await _is_well(scene, 60, 61)
        await _registered(scene, 1, 1)

    async def test_the_daemons_sockets_may_be_deleted(self, scene: Node) -> None:
        """KST-9: the open streams live on, and the next kubelet is given new sockets."""
        before = await _registrations(scene)
        async with scene.never_without({FUSE: ALL_FUSE}):
            for path in scene.directory.glob("genericdp-*.sock"):
                path.unlink()
            await plugged(scene, 60)
            await scene.pod({FUSE: 1, LOOP: 1})
        await _registered(scene, *before)
        await scene.kill_kubelet()
        await _is_well(scene, 60)

    async def test_a_vanished_device_stays_unhealthy_until_its_pod_has_ended(
        self, scene: Node
    ) -> None:
        """LAW-10, PRS-1: a kubelet calls a device healthy that is missing from the list."""
        await scene.track_pods()
        await plugged(scene, 60)
        pod = await scene.pod({LOOP: 1})
        await scene.plug(61)
        await scene.has(LOOP, "loop60", "loop61")
        await scene.unplug(60, 61)
        await scene.counts(LOOP, 1, 0)
        await pod.check()
        await plugged(scene, 60)
        await scene.unplug(60)
        await scene.counts(LOOP, 1, 0)
        await pod.end()
        await scene.counts(LOOP, 0, 0)
        await plugged(scene, 60)
