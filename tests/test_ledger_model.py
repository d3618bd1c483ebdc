"""Whatever happens, the ledger frees nothing that a pod has, and everything once no pod has it.

A model of a kubelet starts pods with what is Healthy. A pod that it has just admitted may be
missing from its answers for a minute. The property tries 30 histories of 150 steps.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.devices.making import node, resource
from tests.devices.offering import offered_shares
from tests.test_ledger import RENAMED, SERIAL, TIMING, Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.model import Resource

pytestmark = pytest.mark.slow

TTYS = tuple(node(f"/dev/ttyUSB{number}", (188, number), inode=number + 1) for number in range(3))
OTHER = resource("y", "/dev/ttyUSB*", forget_after_seconds=300)
FIRST_ONLY = resource("y", "/dev/ttyUSB0", id="first", forget_after_seconds=300)
CONFIGS: Sequence[list[Resource]] = (
    *([SERIAL], [RENAMED], [OTHER], [OTHER, SERIAL], [FIRST_ONLY, RENAMED], []),
)
PAUSES = (1.0, 9.0, 10.0, 20.0, 61.0, 310.0)
STEPS = 150


class Pod(NamedTuple):
    """A pod and what it has."""

    name: str
    resource: str
    share: str
    path: str
    """Of the hardware."""
    admitted_at: float


class Offer(NamedTuple):
    """The devices that the kubelet could give to a pod."""

    resource: str
    share: str
    path: str


class Node:
    """A daemon, and a kubelet with pods."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.plugged = dict.fromkeys(TTYS)
        self.pods: dict[str, Pod] = {}
        self.started = 0
        self.kubelet, self.kubelet_since = 1, 0.0
        self.daemon = Daemon(directory=directory)
        self.look()

    def look(self) -> None:
        self.daemon.look(*self.plugged, now=self.now)
        self.check()

    def step(self) -> None:
        """Let something happen."""
        events = {
            self.time_passes: 1,
            self.the_kubelet_answers: 8,
            self.a_device_comes_or_goes: 3,
            self.the_config_is_edited: 3,
            self.a_pod_starts: 5,
            self.a_pod_ends: 2,
            self.the_kubelet_restarts: 1,
            self.the_daemon_restarts: 1,
        }
        (event,) = self.random.choices(list(events), weights=list(events.values()))
        event()

    def time_passes(self) -> None:
        self.now += self.random.choice(PAUSES)
        self.look()

    def the_kubelet_answers(self) -> None:
        """Ask it, once it surely knows its pods."""
        self.now += self.random.choice(PAUSES[:-1])
        if self.now - self.kubelet_since < TIMING.pods_known:
            return
        hides_new_pods = self.random.random() < 0.7
        holders: dict[str, dict[str, tuple[str, ...]]] = {}
        for pod in self.pods.values():
            if not hides_new_pods or self.now - pod.admitted_at >= TIMING.pods_known:
                holders.setdefault(pod.resource, {})[pod.share] = (pod.name,)
        self.daemon.answer(self.now, holders, kubelet=(1, 1, self.kubelet))
        self.look()

    def a_device_comes_or_goes(self) -> None:
        file = self.random.choice(TTYS)
        if file in self.plugged:
            del self.plugged[file]
        else:
            self.plugged[file] = None
        self.look()

    def the_config_is_edited(self) -> None:
        self.daemon.resources = self.random.choice(CONFIGS)
        self.look()

    def a_pod_starts(self) -> None:
        taken = {(pod.resource, pod.share) for pod in self.pods.values()}
        free = [offer for offer in self.offers() if (offer.resource, offer.share) not in taken]
        if free:
            self.started += 1
            name = f"pod default/p{self.started}"
            self.pods[name] = Pod(name, *self.random.choice(free), admitted_at=self.now)

    def a_pod_ends(self) -> None:
        if self.pods:
            del self.pods[self.random.choice(sorted(self.pods))]

    def the_kubelet_restarts(self) -> None:
        self.kubelet += 1
        self.kubelet_since = self.now

    def the_daemon_restarts(self) -> None:
        self.now += self.random.choice(PAUSES)
        self.daemon.restart(self.now)
        self.look()

    def offers(self) -> Iterator[Offer]:
        for name, list_ in self.daemon.lists.items():
            for listed in list_.devices.values():
                for share in offered_shares(listed):
                    yield Offer(name, share, listed.device.path)

    def check(self) -> None:
        """Check that what a pod has may be held, and is offered under no other name."""
        held = {held.name[:2] for held in self.daemon.ledger.held(self.now)}
        for pod in self.pods.values():
            assert (pod.resource, pod.share) in held, pod
            for offer in self.offers():
                is_its_own = (pod.resource, pod.share) == (offer.resource, offer.share)
                assert pod.path != offer.path or is_its_own, (pod, offer)

    def check_the_end(self) -> None:
        """Check that without pods everything comes to be offered under its present name."""
        self.pods.clear()
        self.kubelet_since = self.now - TIMING.pods_known
        for seconds in (10, 60, 10, 300, 60, 10, 60, 10):
            self.now += seconds
            self.daemon.answer(self.now, kubelet=(1, 1, self.kubelet))
            self.look()
        wanted = Daemon(resources=self.daemon.resources)
        wanted.look(*self.plugged, now=self.now)
        names = {(name, device) for name, list_ in wanted.lists.items() for device in list_.devices}
        assert {(offer.resource, offer.share) for offer in self.offers()} == names
        held = {held.name[:2] for held in self.daemon.ledger.held(self.now)}
        assert held == names


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30), deadline=None)
def test_what_a_pod_has_is_held_until_it_ends_and_then_free(seed: int) -> None:
    with TemporaryDirectory() as directory:
        life = Node(Path(directory), Random(seed))
        for _ in range(STEPS):
            life.step()
        life.check_the_end()
