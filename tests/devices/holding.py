"""A model of a kubelet that holds hardware, and decisions that know what it holds.

The model gives away only what the last list says is Healthy and what is free by its name. It also
knows the hardware behind each name, which no kubelet does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.decide import decide
from genericdp.devices.held import Held, HeldDevice, Name

from tests.devices.offering import offered_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry
    from genericdp.model import Resource, ServedBy

    from tests.devices.rack import Machine, Part


def is_unique(part: Part) -> bool:
    """Return whether a part has a fact that no other hardware has."""
    return not part.hardware.startswith(("stick 3", "stick 4", "can"))


class ShareName(NamedTuple):
    """A share as Kubernetes knows it, of a pod or (with DRA) of a claim."""

    served_by: ServedBy
    resource: str
    share: str


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A share that a pod or claim has."""

    name: ShareName
    listed: Entry[Device]
    """As it was in the list when it was given away."""
    part: Part
    """The hardware."""
    place: str
    """Where the hardware was."""

    @property
    def replicas(self) -> int:
        """The number of shares; 1: the holder has the hardware alone."""
        return self.listed.device.replicas

    def is_of(self, part: Part, place: str) -> bool:
        """Return whether hardware is known to be what is held.

        A stick without a serial number that has moved looks like an equal one.
        """
        return part == self.part and (is_unique(part) or place == self.place)

    def __str__(self) -> str:
        return f"{self.name.share} of {self.name.resource} by {self.name.served_by}: {self.part}"


@dataclass
class Node:
    """A machine with a daemon, a config, and a kubelet whose pods hold devices."""

    machine: Machine
    resources: tuple[Resource, ...]
    lists: DeviceLists = field(default_factory=dict)
    """The daemon's last; empty after its start."""
    holds: dict[ShareName, Hold] = field(default_factory=dict)
    now: float = 0.0

    def look(self, seconds: float = 1.0) -> DeviceLists:
        """Let the daemon decide."""
        self.now += seconds
        self.lists = decide(
            self.resources,
            self.machine.host,
            node_name="n",
            previous=self.lists,
            now=self.now,
            held=self._held(),
        ).lists
        return self.lists

    def _held(self) -> Held:
        """Return what the daemon knows of pods and claims."""
        held: dict[Name, HeldDevice] = {}
        for hold in self.holds.values():
            device = hold.listed.device
            name = Name(hold.name.resource, device.id, hold.name.served_by)
            known = held.get(name)
            holders = {**(known.holders if known else {}), hold.name.share: ("pod default/p",)}
            held[name] = HeldDevice(
                name=name,
                identities=device.identities,
                replicas=device.replicas,
                exclusive=device.exclusive,
                holders=holders,
            )
        return Held(held.values())

    def place(self, part: Part) -> str:
        """Return where hardware is."""
        return self.machine.rack.place(part.hardware).path

    def restart_daemon(self) -> None:
        """Let it forget what it has listed."""
        self.lists = {}

    def healthy(self) -> Iterator[tuple[ShareName, Entry[Device]]]:
        """Yield what the kubelet takes for Healthy, held or not."""
        for resource in self.resources:
            devices = self.lists[resource.name].devices if resource.name in self.lists else {}
            for listed in devices.values():
                for share in offered_shares(listed):
                    yield ShareName(resource.served_by, resource.name, share), listed

    def free(self) -> Iterator[tuple[ShareName, Entry[Device]]]:
        """Yield what the kubelet could give to a pod now."""
        return ((name, listed) for name, listed in self.healthy() if name not in self.holds)

    def give(self, name: ShareName, listed: Entry[Device]) -> Hold:
        """Start a pod with a share; return what it has got."""
        part = self.machine.parts[listed.device.path]
        hold = Hold(name=name, listed=listed, part=part, place=self.place(part))
        self.holds[name] = hold
        return hold

    def conflicts(self, name: ShareName, listed: Entry[Device]) -> list[Hold]:
        """Return the holds that forbid to give something away."""
        part, replicas = self.machine.parts[listed.device.path], listed.device.replicas
        return [
            hold
            for hold in self.holds.values()
            if hold.name != name
            and hold.is_of(part, self.place(part))
            and not (hold.replicas > 1 and replicas > 1)
        ]

    def foreign(self) -> Iterator[str]:
        """Yield the held names that are known to be those of other hardware now.

        Their holders would get it when their containers start again.
        """
        for name, listed in self.healthy():
            if (hold := self.holds.get(name)) is None:
                continue
            part = self.machine.parts[listed.device.path]
            if hold.part != part and is_unique(hold.part) and is_unique(part):
                yield f"{hold} is {part} now"
            for other in self.conflicts(name, listed):
                if other.listed.device.id != listed.device.id:
                    yield f"{hold} is {part} now, which is held as {other}"
