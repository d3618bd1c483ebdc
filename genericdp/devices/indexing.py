"""Who has what, of all that is on offer: found without a look at every device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.offers import most_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.devices.assembling import Offers
    from genericdp.devices.device import Device
    from genericdp.devices.holders import Holders
    from genericdp.devices.offers import Offer, Offered

SEVERAL = ""
"""Stands for an id where several devices have something in common."""


@dataclass(slots=True)
class Index:
    """Which device of an offer has a path, a syspath, a candidate's key or an exclusive node."""

    offer: Offer
    ids: dict[str, str] = field(default_factory=dict)
    shares: int = 0
    share_bytes: int = 0
    """What one of them takes of a list at most."""

    @classmethod
    def of(cls, offer: Offer) -> Index:
        """Make one of all devices."""
        index = cls(offer)
        for device_id, one in offer.offered.items():
            index.enter(device_id, one)
        return index

    def enter(self, device_id: str, one: Offered) -> None:
        """Take a device in."""
        self.shares += one.device.replicas
        self.share_bytes = max(self.share_bytes, most_bytes(one.device))
        for text in _texts(one.device):
            self.ids[text] = device_id if self.ids.get(text, device_id) == device_id else SEVERAL

    def leave(self, device_id: str, one: Offered) -> None:
        """Take it out."""
        self.shares -= one.device.replicas
        for text in _texts(one.device):
            if self.ids.get(text) == device_id:
                del self.ids[text]

    def most_bytes_with(self, offered: Mapping[str, Offered]) -> int:
        """Give what the list takes at most with these devices in place of those of their ids."""
        before = self.offer.offered
        shares = self.shares - sum(before[i].device.replicas for i in offered if i in before)
        shares += sum(one.device.replicas for one in offered.values())
        each = max((most_bytes(one.device) for one in offered.values()), default=0)
        return shares * max(each, self.share_bytes)


@dataclass(slots=True)
class Standing:
    """What the last pass has decided."""

    offers: Offers
    due: float | None
    """When time alone changes a list, on the monotonic clock."""
    holders: Holders | None
    indexes: dict[str, Index] = field(default_factory=dict)
    """By resource, as they were brought up to date last."""

    def bring_up_to_date(self) -> None:
        """Make the indexes that are missing, or are of what was offered earlier."""
        for name, offer in self.offers.items():
            known = self.indexes.get(name)
            if known is None or known.offer is not offer:
                self.indexes[name] = Index.of(offer)


def _texts(device: Device) -> Iterator[str]:
    yield device.path
    if device.identity.syspath is not None:
        yield device.identity.syspath
    yield from claims(device)


def claims(device: Device) -> Iterator[str]:
    """Give what only one device may have."""
    yield from device.keys
    for node in device.nodes:
        if node.exclusive:
            yield node.key
