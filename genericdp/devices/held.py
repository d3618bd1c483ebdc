"""Held hardware: what pods and claims have, known as hardware and not as an ID.

An ID that names hardware today may name other hardware after an edit of the config. What counts
is the hardware: it is offered under no other name until nothing has it under this one.
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
    """Of each member of the device."""
    replicas: int = 1
    """How many shares it had when it was given away; 1: its holder has it alone."""
    exclusive: bool = True
    """Whether no other resource may offer the same hardware."""
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Who has it, by share, for messages: ``pod default/listen``, ``claim default/stick``."""
    is_known: bool = True
    """Whether the holder is known; if not, there may be one."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Why shares must not be offered although only their holder has them, by share."""

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
        """Return what two holders of one name have together, and the stricter of what they say."""
        holders = dict(self.holders)
        for share, names in other.holders.items():
            holders[share] = tuple(dict.fromkeys((*holders.get(share, ()), *names)))
        return replace(
            self,
            identities=tuple(dict.fromkeys((*self.identities, *other.identities))),
            replicas=min(self.replicas, other.replicas),
            exclusive=self.exclusive or other.exclusive,
            holders=holders,
            is_known=self.is_known and other.is_known,
            withheld={**self.withheld, **other.withheld},
        )

    def has(self, identity: HardwareIdentity) -> bool:
        """Return whether hardware at its place is a part of it."""
        return any(own.is_same(identity) for own in self.identities)


class Held:
    """All hardware that pods and claims have or may have, by name and by hardware.

    A name that is proven to be free is not among them.
    """

    def __init__(
        self,
        devices: Iterable[HeldDevice] = (),
        *,
        former_ids: Mapping[str, Collection[str]] | None = None,
        is_upgrade: bool = False,
    ) -> None:
        """``former_ids``: IDs that pods hold and that may be of an earlier version, by resource.

        ``is_upgrade``: they surely are.
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
        """Iterate over what is held."""
        return iter(self.by_name.values())

    def of(self, identity: HardwareIdentity) -> list[HeldDevice]:
        """Return what is held of hardware at its place, under whatever name."""
        at_place = self._by_place.get((identity.location, identity.part), ())
        return [held for held in at_place if held.has(identity)]

    def moved(
        self, identity: HardwareIdentity, present: Collection[HardwareIdentity]
    ) -> Iterator[HeldDevice]:
        """Yield what is held of hardware that has moved to another place.

        Devices of equal serial numbers exist: one whose own place is occupied has not moved, nor
        has one that was offered at the place where it is now.
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
        """Return the hold for which a device cannot be offered under a name; None: it can.

        A hold never makes its own name unavailable, unless the name is that of other hardware.
        """
        if not self.by_name:  # as on most nodes
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
        """Return whether a device is the hardware of a name, or a part of it, wherever it is."""
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
    """Return whether the same hardware is at the same place, by a fact and not for lack of one."""
    return own.is_at_place_of(other) and own.nature_of(other) is Nature.EQUAL


def with_shares(entry: Entry[Device], name: Name, held: Held) -> Entry[Device]:
    """Return a listed device with the shares that are not offered because of who holds others.

    An edit of ``replicas`` gives no container what another one has alone, and takes from none the
    share that it has.
    """
    own, device = held.by_name.get(name), entry.device
    if own is None or not own.may_be_held:
        return entry
    config_replicas = device.replicas
    known = {number: share for share in own.holders if (number := share_number(share)) is not None}
    if not own.is_known and not own.holders:
        known = dict.fromkeys(range(own.replicas), "")
    most = max(known, default=0) + 1
    is_conflict = (own.replicas == 1) is not (config_replicas == 1)
    withheld = {}
    device = replace(device, replicas=max(config_replicas, most))
    for number, share in enumerate(device.shares):
        if number in known:
            continue
        if number >= config_replicas:
            withheld[share] = f"the config offers {plural(config_replicas, 'share')} of it"
        elif is_conflict:
            withheld[share] = f"{own.holder} holds it with replicas: {own.replicas}"
    withheld |= {share: why for share, why in own.withheld.items() if device.has_share(share)}
    reasons = {share: Reason(Code.SHARE_WITHHELD, why) for share, why in withheld.items()}
    has_former = device.replicas > config_replicas
    return replace(entry, device=device, withheld=reasons, has_former_shares=has_former)
