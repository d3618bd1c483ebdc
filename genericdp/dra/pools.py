"""The devices that DRA serves now, as claims name them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genericdp.devices.identity import Nature
from genericdp.dra.claims import ClaimError, are_same

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.dra.claims import Claim, Key, Result
    from genericdp.gate import Gate


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedPool:
    """The devices of a resource, as claims name them."""

    gate: Gate
    shares: Mapping[str, str]
    """The ID of a device, or of a share of it, by its name in the ResourceSlice."""


class Pools:
    """The pools that are served now."""

    def __init__(self, why_absent: Callable[[str], str]) -> None:
        """``why_absent`` returns why a pool is not served; empty if unknown."""
        self.by_name: Mapping[str, ServedPool] = {}
        self._why_absent = why_absent

    @property
    def gates(self) -> list[Gate]:
        """Those of the resources that are served."""
        return [pool.gate for pool in self.by_name.values()]

    def listed(self, key: Key) -> Entry[Device] | None:
        """Return the entry of a device; None if it is not on offer."""
        for gate in self.gates:
            if gate.resource == key[0]:
                return gate.devices.devices.get(key[1])
        return None

    def listed_for(self, result: Result, *, is_known: bool) -> Entry[Device] | None:
        """Return the entry of a result's device.

        None also if the config no longer shares it: it is withheld, but not from claims with a part
        of it.
        """
        listed = self.listed(result.key)
        has_part = is_known and bool(result.share_id)
        return None if has_part and listed and result.share in listed.withheld else listed

    def resolved(self, result: Result, before: Claim | None) -> Result:
        """Return a result with resource and share; raise ClaimError if they do not exist."""
        for known in () if before is None else before.results:
            if known.allocated == result.allocated:
                return replace(known, subrequest=result.subrequest)
        pool = self.by_name.get(result.pool)
        if pool is None and (why := self._why_absent(result.pool)):
            raise ClaimError(f"{result.pool} is not served by DRA now: {why}")
        if pool is None or result.device not in pool.shares:
            raise ClaimError(
                f"there is no device {result.device} in {result.pool} on this node any more"
            )
        return replace(result, resource=pool.gate.resource, share=pool.shares[result.device])

    def complete_devices(self) -> list[Device]:
        """Return the devices on offer of which no part is missing."""
        listed = (listed for gate in self.gates for listed in gate.devices.devices.values())
        return [entry.device for entry in listed if entry.is_present and entry.is_complete]

    def present(self) -> Iterable[HardwareIdentity]:
        """Yield the hardware on offer, healthy or not."""
        listed = (listed for gate in self.gates for listed in gate.devices.devices.values())
        return (own for entry in listed if entry.is_present for own in entry.device.identities)

    def is_hardware(self, known: Collection[HardwareIdentity], device: Device) -> bool:
        """Return whether a device is exactly the recorded hardware, with no part replaced."""
        now = device.identities
        has_other = any(
            mine.is_at_place_of(hold) and mine.nature_of(hold) is Nature.DIFFERENT
            for mine in now
            for hold in known
        )
        return not has_other and are_same(now, known, self.present)
