"""Pods keep what they have, whatever becomes of neighbors, config, daemon and kubelet.

And no other pod gets it meanwhile, under whatever name: what is held is hardware, not an ID.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.listing import CHECKPOINT
from tests.e2e.cluster.versions import NEWEST
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench
    from tests.e2e.cluster.listing import Ids
    from tests.e2e.cluster.pods import Container, Pod

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(*NEWEST)]

PART, DISK = "example.com/part", "example.com/disk"
DISKS = frozenset({"loop70", "loop70p1", "loop70p2", "loop71", "loop71p1"})
OTHER_ID = "    id: disk-$(device.name)\n"
SHARES = "    replicas: 2\n"
ADDRESS = "127.0.0.1:10276"
"""Where the daemon listens."""
_NAME = re.compile(r"loop7[01](?:p\d)?")


def resource(name: str = PART, more: str = "") -> str:
    return f"""\
  - name: {name}
    match:
      - path: /dev/loop7[01]*
{more}    inject:
      devices:
        - path: $(device.path)
          containerPath: /dev/disk
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A pod that holds a device, and what it has had from the start."""

    pod: Pod
    container: Container
    process_id: int
    device: str
    """The kernel's name of it."""
    ids: Ids

    @property
    def share(self) -> str:
        """The ID under which the pod has it."""
        ((share,),) = self.ids.values()
        return share

    def check(self, bench: Bench) -> None:
        """Fail unless the container runs on and has what it had, and the kubelet says so."""
        assert self.pod.container().id == self.container.id
        assert self.container.process_id() == self.process_id
        assert device_in(self.container) == self.device
        assert bench.resources.held(self.pod.name) == self.ids


def device_in(container: Container) -> str:
    """Return the name that is written on the disk of a container; its number is that disk's."""
    name = container.run("head", "-n", "1", "/dev/disk").strip()
    number = Path("/dev", name).stat().st_rdev
    wanted = f"{os.major(number):x} {os.minor(number):x}"
    assert container.run("stat", "-c", "%t %T", "/dev/disk").strip() == wanted, name
    return name


class Case:
    """The holders, and other pods that try to get what these have."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._without = bench.daemon.config
        """The config without the resources of this module."""
        self.holders: list[Holder] = []

    def edited(self, *resources: str) -> str:
        """Return a config with these resources."""
        return self._without + "".join(resources)

    @property
    def shares(self) -> set[str]:
        """The IDs under which pods hold devices."""
        return {one.share for one in self.holders}

    @property
    def left(self) -> str:
        """The device that no pod holds."""
        (left,) = DISKS - {one.device for one in self.holders}
        return left

    def hold(self, count: int) -> None:
        """Have this many more pods hold a device each."""
        pods = [self._bench.pod("holder", {PART: 1}) for _ in range(count)]
        for pod in pods:
            container = pod.container()
            holder = Holder(
                pod=pod,
                container=container,
                process_id=container.process_id(),
                device=device_in(container),
                ids=self._bench.resources.held(pod.name),
            )
            self.holders.append(holder)

    def end(self) -> None:
        """Have the pods end."""
        for holder in self.holders:
            holder.pod.withdraw()
        self.holders.clear()

    def check(self, what: str, *free: str) -> None:
        """Fail unless each pod has what it had, and other pods get what is ``free``, no more."""
        for holder in self.holders:
            holder.check(self._bench)
        eventually(
            self.offered,
            lambda found: all(len(under) == 1 for under in found.values()),
            what="each device is Healthy under one name",
        )
        got = self._try_to_get(len(free) + 2)
        assert got == sorted(free), what

    def offered(self) -> dict[str, set[str]]:
        """Return under which names devices are Healthy, by their kernel names."""
        found: dict[str, set[str]] = {}
        for resource, ids in self._bench.resources.allocatable().items():
            for share in ids if resource in {PART, DISK} else ():
                device_id = share.partition("::")[0]
                (name,) = _NAME.findall(device_id)
                found.setdefault(name, set()).add(f"{resource} {device_id}")
        return found

    def _try_to_get(self, count: int) -> list[str]:
        """Have this many pods ask for each resource; return the devices they get, and end them."""
        known = {PART, DISK} & self._bench.node.registrations().keys()
        pods = [self._bench.pod("other", {name: 1}) for name in known for _ in range(count)]
        got = [name for pod in pods if (name := self._outcome(pod))]
        for pod in pods:
            pod.withdraw()
        for pod in pods:
            eventually(pod.state, lambda state: not state, what=f"{pod.name} is gone")
        return sorted(got)

    @staticmethod
    def _outcome(pod: Pod) -> str:
        """Return the device that a pod has got; empty if the kubelet has refused the pod."""
        state = eventually(
            pod.state, lambda state: state.get("phase") in {"Failed", "Running"}, what=pod.name
        )
        if state["phase"] == "Failed":
            assert state["reason"] == "UnexpectedAdmissionError", state
            return ""
        return device_in(pod.container())


@pytest.fixture
def disks(bench: Bench) -> Iterator[None]:
    """Plug in two loop devices with partitions."""
    files = {70: loop.names_on(70, 1, 2), 71: loop.names_on(71, 1, 2)}
    for number, image in files.items():
        (bench.folder / f"disk{number}").write_bytes(image)
    with loop.plugged(70, bench.folder / "disk70"), loop.plugged(71, bench.folder / "disk71"):
        for number, partition in ((70, 1), (70, 2), (71, 1)):
            loop.add_partition(number, partition)
        yield


@pytest.fixture
def case(bench: Bench, disks: None) -> Case:
    """Start the daemon so that it knows what pods hold, and soon."""
    case = Case(bench)
    daemon = bench.daemon
    daemon.stop()
    daemon.program = (sys.executable, "-m", "tests.e2e.prompt")
    daemon.options = (
        *daemon.options,
        f"--state-dir={bench.folder}/state",
        f"--pod-resources={bench.resources.socket}",
        f"--listen={ADDRESS}",
    )
    daemon.config = case.edited(resource())
    daemon.start()
    bench.await_listed(PART, *DISKS)
    return case


def said(bench: Bench, text: str) -> bool:
    """Return whether the daemon has logged a text."""
    return text in bench.daemon.log()


def holders_shown(program: Path) -> dict[str, str]:
    """Return who has which share, as ``genericdp status`` says, or why that is unknown."""
    words = (str(program), "status", f"--address={ADDRESS}", "--output=json")
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    if asked.returncode:
        return {"unknown": asked.stderr}
    status = json.loads(asked.stdout)
    if not status["holders"]["known"]:
        return {"unknown": status["holders"]["reason"]}
    return {
        one["share"]: one["holder"]
        for resource in status["resources"]
        for device in resource["devices"]
        for one in device["holders"]
    }


def test_containers_keep_their_devices_and_no_other_pod_gets_one_of_them(
    bench: Bench, case: Case
) -> None:
    case.hold(len(DISKS) - 1)
    case.check("at first", case.left)
    a_neighbor_comes_and_goes(bench, case)
    the_daemon_restarts(bench, case)
    ids_change(bench, case)
    names_change(bench, case)
    bench.daemon.reload(case.edited(resource(more=SHARES)))
    bench.await_listed(PART, *case.shares, case.left, f"{case.left}::1")
    case.check("two shares of each device", case.left, case.left)

    bench.daemon.reload(case.edited(resource(DISK, OTHER_ID)))
    bench.await_listed(DISK, f"disk-{case.left}")
    case.check("another name and other IDs", case.left)
    case.end()
    bench.await_listed(DISK, *(f"disk-{name}" for name in DISKS))
    case.check("after the pods have ended", *DISKS)


def a_neighbor_comes_and_goes(bench: Bench, case: Case) -> None:
    loop.add_partition(71, 2)
    bench.await_listed(PART, *DISKS, "loop71p2")
    case.check("a partition of a neighbor is made", case.left, "loop71p2")
    loop.remove_partition(71, 2)
    bench.await_listed(PART, *DISKS)
    case.check("it is removed", case.left)


def the_daemon_restarts(bench: Bench, case: Case) -> None:
    bench.daemon.stop()
    bench.daemon.start()
    bench.await_listed(PART, *DISKS)
    case.check("the daemon is restarted", case.left)
    bench.daemon.kill()
    bench.daemon.start()
    bench.await_listed(PART, *DISKS)
    case.check("the daemon is killed and started", case.left)


def ids_change(bench: Bench, case: Case) -> None:
    """In the config; a pod whose ID is held is not rejected when the kubelet restarts."""
    listed = (*case.shares, f"disk-{case.left}")
    bench.daemon.reload(case.edited(resource(more=OTHER_ID)))
    bench.await_listed(PART, *listed)
    case.check("other IDs", case.left)
    bench.daemon.kill()
    bench.daemon.start()
    bench.await_listed(PART, *listed)
    case.check("the daemon is killed and started, with these IDs", case.left)
    bench.node.kill_kubelet()
    bench.node.start_kubelet()
    bench.await_listed(PART, *listed)
    case.check("the kubelet is killed and started, with these IDs", case.left)


def names_change(bench: Bench, case: Case) -> None:
    bench.daemon.kill()
    bench.daemon.config = case.edited(resource(DISK))
    bench.daemon.start()
    bench.await_listed(DISK, case.left)
    case.check("another name, edited while there is no daemon", case.left)
    bench.node.stop_kubelet()
    bench.node.start_kubelet()
    bench.await_listed(DISK, case.left)
    case.check("the kubelet is restarted, with this name", case.left)
    bench.daemon.reload(case.edited(resource(), resource(DISK)))
    bench.await_listed(PART, *DISKS)
    case.check("both names, the former one first", case.left)
    bench.daemon.reload(case.edited(resource(DISK), resource()))
    bench.await_listed(DISK, case.left)
    bench.await_listed(PART, *case.shares)
    case.check("the other order", case.left)


def test_a_device_of_which_pods_have_shares_is_given_to_no_pod_alone(
    bench: Bench, case: Case, program: Path
) -> None:
    bench.daemon.reload(case.edited(resource(more=SHARES)))
    bench.await_count(PART, 2 * len(DISKS))
    case.hold(2 * len(DISKS) - 1)
    pods = {one.share: f"pod default/{one.pod.name}" for one in case.holders}
    eventually(lambda: holders_shown(program), pods.__eq__, what="status shows who has each share")
    bench.daemon.reload(case.edited(resource()))
    bench.await_listed(PART, *case.shares)
    case.check("one share of each device")
    case.end()
    bench.await_listed(PART, *DISKS)


def test_what_a_kubelet_has_lost_is_held_until_the_pods_end(
    bench: Bench, case: Case, program: Path
) -> None:
    """It gives a device to a second pod itself, but no edit has the daemon do so."""
    case.hold(len(DISKS) - 1)
    left, shares = case.left, case.shares
    pods = {one.share: f"pod default/{one.pod.name}" for one in case.holders}
    eventually(lambda: holders_shown(program), pods.__eq__, what="status shows who has each share")
    bench.node.stop_kubelet()
    CHECKPOINT.unlink()
    bench.node.start_kubelet()
    for share, pod in pods.items():
        lost = f"the kubelet lists {pod} without device {share}, which it had"
        eventually(partial(said, bench, lost), bool, what=f"log: {lost}")

    bench.daemon.reload(case.edited(resource(more=OTHER_ID)))
    bench.await_listed(PART, *shares, f"disk-{left}")
    eventually(lambda: holders_shown(program), pods.__eq__, what="status shows the same")
    for holder in case.holders:
        assert bench.resources.held(holder.pod.name) == {}
        assert holder.container.process_id() == holder.process_id
        assert device_in(holder.container) == holder.device
    case.end()
    bench.await_listed(PART, *(f"disk-{name}" for name in DISKS))
    eventually(lambda: holders_shown(program), {}.__eq__, what="status shows no holder")
