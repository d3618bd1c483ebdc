"""Held hardware: the hardware that pods and claims have, known by its identity and not by an ID.

An ID that names hardware today may name other hardware after an edit of the config. What counts
is the hardware: it is offered under no other name while a pod or claim has it under this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.device import share_number
from genericdp.devices.identity import Nature
from genericdp.model import ServedBy
from genericdp.printing import first_few, plural
from genericdp.reasons import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry
    from genericdp.devices.identity import HardwareIdentity


BY_CAPACITY = 0
"""The replicas of held devices that are shared by capacity."""


class Name(NamedTuple):
    """A name under which hardware is offered."""

    resource: str
    device_id: str
    served_by: ServedBy = ServedBy.DEVICE_PLUGIN

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.device_id} of {self.resource}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldDevice:
    """A name under which hardware was offered, and who has it under that name."""

    name: Name
    identities: tuple[HardwareIdentity, ...]
    """The identity of each member of the device."""
    replicas: int = 1
    """How many shares it had when a pod or claim got it; with 1, its holder has it exclusively, and
    with ``BY_CAPACITY`` a part of its capacity.
    """
    exclusive: bool = True
    """Whether no other resource may offer the same hardware."""
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The holders, by share, for messages: ``pod default/listen``, ``claim default/stick``."""
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The pods that use each claim, as ``default/listen``, by the claim as in ``holders``."""
    since: Mapping[str, float] = field(default_factory=dict)
    """Since when a share is held, in seconds since 1970, to be shown; without those that were held
    before the daemon started.
    """
    is_known: bool = True
    """Whether the holder is known; if not, there may be one."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Why shares must not be offered to others, by share."""

    @property
    def may_be_held(self) -> bool:
        """Return whether a pod or claim has it, as far as is known."""
        return bool(self.holders) or not self.is_known

    @property
    def holder(self) -> str:
        """Return the holders, for messages."""
        names = dict.fromkeys(who for several in self.holders.values() for who in several)
        return first_few([*names], 3) if names else "a pod, perhaps"

    def merged(self, other: HeldDevice) -> HeldDevice:
        """Return the union of what two holders of one name have.

        It is exclusive if either is, and has the lower number of replicas.
        """
        holders = dict(self.holders)
        for share, names in other.holders.items():
            holders[share] = tuple(dict.fromkeys((*holders.get(share, ()), *names)))
        return replace(
            self,
            identities=tuple(dict.fromkeys((*self.identities, *other.identities))),
            replicas=min(self.replicas, other.replicas),
            exclusive=self.exclusive or other.exclusive,
            holders=holders,
            pods={**other.pods, **self.pods},
            since={**other.since, **self.since},
            is_known=self.is_known and other.is_known,
            withheld={**self.withheld, **other.withheld},
        )

    def has(self, identity: HardwareIdentity) -> bool:
        """Return whether hardware at this place is a part of the held device."""
        return any(own.is_same(identity) for own in self.identities)


class Held:
    """All hardware that pods and claims have or may have, by name and by hardware.

    Names that are proven to be free are not included.
    """

    def __init__(
        self,
        devices: Iterable[HeldDevice] = (),
        *,
        former_ids: Mapping[str, Collection[str]] | None = None,
        is_upgrade: bool = False,
    ) -> None:
        """``former_ids``: IDs that pods hold and that may be of an earlier version, by resource.

        With ``is_upgrade``, they certainly are.
        """
        self.is_upgrade = is_upgrade
        self.by_name: dict[Name, HeldDevice] = {}
        for device in devices:
            other = self.by_name.get(device.name)
            self.by_name[device.name] = device if other is None else other.merged(device)
        self.former_ids = former_ids or {}
        self._by_place: dict[tuple[str, str], list[HeldDevice]] = {}
        self._by_fact: dict[tuple[str, str], list[HeldDevice]] = {}
        for held in self.by_name.values():
            for identity in held.identities:
                place = (identity.location, identity.part)
                self._by_place.setdefault(place, []).append(held)
                for fact in identity.unique:
                    self._by_fact.setdefault(fact, []).append(held)

    def __iter__(self) -> Iterator[HeldDevice]:
        """Iterate over the held devices."""
        return iter(self.by_name.values())

    def of(self, identity: HardwareIdentity) -> list[HeldDevice]:
        """Return the holds on hardware at this place, under any name."""
        at_place = self._by_place.get((identity.location, identity.part), ())
        return [held for held in at_place if held.has(identity)]

    def moved(
        self, identity: HardwareIdentity, present: Collection[HardwareIdentity]
    ) -> Iterator[HeldDevice]:
        """Yield the holds on hardware that has moved to another place.

        Different devices can have equal serial numbers: hardware whose old place is occupied has
        not moved, nor has hardware that was already offered at the new place.
        """
        if any(_is_surely(own, identity) for held in self.of(identity) for own in held.identities):
            return
        equal = [held for fact in identity.unique for held in self._by_fact.get(fact, ())]
        for held in {held.name: held for held in equal}.values():
            for own in held.identities:
                if identity.has_moved_from(own) and not any(
                    _is_surely(own, other) for other in present
                ):
                    yield held

    def blocking(
        self, name: Name, device: Device, present: Collection[HardwareIdentity]
    ) -> HeldDevice | None:
        """Return the hold that keeps a device from being offered under a name, or None.

        A hold never makes its own name unavailable, unless the name is that of other hardware.
        """
        if not self.by_name:  # the usual case
            return None
        own = self.by_name.get(name)
        if own is not None and own.may_be_held and not self._is_of(own, device, present):
            return own
        for identity in device.identities:
            for held in (*self.of(identity), *self.moved(identity, present)):
                if held.name != name and (held.exclusive or device.exclusive):
                    return held
        return None

    def _is_of(
        self, held: HeldDevice, device: Device, present: Collection[HardwareIdentity]
    ) -> bool:
        """Return whether a device is the hardware of a name, or a part of it, at any place."""
        return not device.identities or any(
            held.has(identity) or held in self.moved(identity, present)
            for identity in device.identities
        )


def why_blocked(held: HeldDevice, name: Name, device: Device) -> str:
    """Return why a hold keeps a device from being offered under a name."""
    if held.name == name:
        was = " and ".join(map(str, held.identities))
        now = " and ".join(map(str, device.identities))
        return f"{held.holder} has {name} for other hardware: it was {was}, now it is {now}"
    by = "" if held.name.served_by is name.served_by else f" through {held.name.served_by}"
    if held.holders:
        return f"{held.holder} has it as {held.name}{by}"
    if held.is_known:
        return f"it was {held.name}{by}, and the kubelet has yet to confirm that no pod holds that"
    return f"it was {held.name}{by}, and the kubelet has not said whether a pod holds that"


def _is_surely(own: HardwareIdentity, other: HardwareIdentity) -> bool:
    """Return whether the same hardware is certainly at the same place, as a unique fact shows."""
    return own.is_at_place_of(other) and own.nature_of(other) is Nature.EQUAL


def sharing_of(replicas: int) -> int:
    """Return a number for how a device is shared: not at all (1), in shares, or by capacity."""
    return min(replicas, 2)


def with_shares(entry: Entry[Device], name: Name, held: Held) -> Entry[Device]:
    """Return a listed device, with the shares that are not offered because of other shares'
    holders.

    An edit of ``replicas`` neither gives a container a device that another one has exclusively, nor
    takes away a share.
    """
    own, device = held.by_name.get(name), entry.device
    if own is None or not own.may_be_held:
        return entry
    config_replicas = device.replicas
    known = {number: share for share in own.holders if (number := share_number(share)) is not None}
    if not own.is_known and not own.holders:
        known = dict.fromkeys(range(own.replicas), "")
    most = max(known, default=0) + 1
    now = BY_CAPACITY if device.shares_capacity else config_replicas
    is_conflict = sharing_of(own.replicas) != sharing_of(now)
    withheld = {}
    device = replace(device, replicas=max(config_replicas, most))
    for number, share in enumerate(device.shares):
        if number in known:
            continue
        if number >= config_replicas:
            withheld[share] = f"the config offers {plural(config_replicas, 'share')} of it"
        elif is_conflict:
            how = f"replicas: {own.replicas}" if own.replicas else "sharing: capacity"
            withheld[share] = f"{own.holder} holds it with {how}"
    withheld |= {share: why for share, why in own.withheld.items() if device.has_share(share)}
    reasons = {share: Reason(Code.SHARE_WITHHELD, why) for share, why in withheld.items()}
    has_former = device.replicas > config_replicas
    return replace(entry, device=device, withheld=reasons, has_former_shares=has_former)
