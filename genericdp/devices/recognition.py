"""Recognition: which device of the last list a device is, and so the ID that it keeps."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.transitions import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from genericdp.devices.device import Device, NamingRule
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.devices.held import Held, Name
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import Identity


class FormerDevices:
    """The devices of a resource's last list, recognized by their hardware."""

    def __init__(self, before: DeviceList) -> None:
        self._by_key: dict[str, list[Entry[Device]]] = {}
        self._by_appearance: dict[Identity, list[Entry[Device]]] = {}
        self._by_place: dict[tuple[str, str], list[Entry[Device]]] = {}
        self._hardware: dict[Identity, HardwareIdentity] = {}
        for listed in before.devices.values():
            device = listed.device
            if device.members:
                self._by_key.setdefault(device.key, []).append(listed)
            for appearance, hardware in zip(device.appearances, device.identities, strict=True):
                self._by_appearance.setdefault(appearance, []).append(listed)
                self._hardware[appearance] = hardware
                place = (hardware.location, hardware.part)
                self._by_place.setdefault(place, []).append(listed)

    def hardware_of(self, appearance: Identity) -> HardwareIdentity | None:
        """Return what a device was that has not been plugged in again since; None: unknown."""
        return self._hardware.get(appearance)

    def of(
        self,
        key: str,
        appearances: Sequence[Identity],
        identities: Sequence[HardwareIdentity],
        *,
        is_group: bool,
        groups: Collection[str] = (),
    ) -> list[Entry[Device]]:
        """Return what a device is in the list, what was there last first.

        A group is known by its text, or by its members if no other group has the text now. It may
        be listed under several IDs: the present one, and those that it has lost.
        """
        found: dict[str, Entry[Device]] = {}
        if is_group:
            found = {one.device.id: one for one in self._by_key.get(key, ())}
        for appearance, hardware in zip(appearances, identities, strict=True):
            place = (hardware.location, hardware.part)
            for listed in (
                *self._by_appearance.get(appearance, ()),
                *self._by_place.get(place, ()),
            ):
                device = listed.device
                if is_group and (not device.members or device.key == key or device.key in groups):
                    continue
                if bool(device.members) is is_group and _contains(device, appearances, identities):
                    found[device.id] = listed
        return sorted(found.values(), key=_last_seen, reverse=True)

    def of_device(self, device: Device) -> list[Entry[Device]]:
        """Return what a device that has been made is in the list."""
        return self.of(
            device.key, device.appearances, device.identities, is_group=bool(device.members)
        )


def _last_seen(listed: Entry[Device]) -> float:
    return listed.since if listed.state is State.MISSING else inf


def _contains(
    device: Device, appearances: Sequence[Identity], identities: Sequence[HardwareIdentity]
) -> bool:
    """Return whether a device has all of these: the same appearance, or the same hardware."""
    return all(
        appearance in device.appearances or any(own.is_same(hardware) for own in device.identities)
        for appearance, hardware in zip(appearances, identities, strict=True)
    )


class KeptId(NamedTuple):
    """An ID that a device has already."""

    id: str
    named_by: NamingRule | None = None
    """The rule that gave it; None: unknown."""
    weak: str = ""
    """As ``Device.weak_id``."""


class KeptIds:
    """The IDs that devices of a resource keep: no fact and no neighbor changes an ID."""

    def __init__(self, name: Name, former: FormerDevices, held: Held, rule: NamingRule) -> None:
        self.former = former
        self.rule = rule
        self._name = name
        self._held = held

    def kept(
        self,
        key: str,
        appearances: Sequence[Identity],
        identities: Sequence[HardwareIdentity],
        *,
        is_group: bool,
        groups: Collection[str],
    ) -> KeptId | None:
        """Return the ID that a device keeps; None: none.

        One that another rule gave is kept as long as it may be held.
        """
        listed = self.former.of(key, appearances, identities, is_group=is_group, groups=groups)
        for device in (one.device for one in listed):
            if device.named_by == self.rule or self._is_held(device.id):
                return KeptId(device.id, device.named_by, device.weak_id)
        if not listed:
            for hardware in identities:
                for held in self._held.of(hardware):
                    if (held.resource, held.served_by) == (
                        self._name.resource,
                        self._name.served_by,
                    ):
                        return KeptId(held.device_id)
        return None

    def _is_held(self, device_id: str) -> bool:
        return self._name._replace(device_id=device_id) in self._held.by_name

    def was_given(self, former_id: str, ids_now: Callable[[], Collection[str]]) -> bool:
        """Return whether an earlier version gave out an ID that a pod still holds.

        ``ids_now`` returns the default IDs of now: if it is unknown which version gave out the ID,
        one of these is what it seems to be.
        """
        held = self._held
        if former_id not in held.former_ids.get(self._name.resource, ()):
            return False
        return held.is_upgrade or former_id not in ids_now()
