"""Which vanished devices pods may still hold, as far as the kubelet has said; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from genericdp.devices.devicelist import DeviceList


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocatedDevices:
    """The kubelet's last answer; before the first one, any device may be held."""

    asked_at: float = -inf
    """On the monotonic clock, in seconds."""
    devices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The ids of what containers hold at least a share of, by resource."""

    def have_let_go(self, resource: str, device_id: str, due: float) -> bool:
        """Say whether a device that was to be forgotten at ``due`` can be.

        It has been Unhealthy since before that, so nobody can have got it after the answer.
        """
        return self.asked_at >= due and device_id not in self.devices.get(resource, ())


def holders_of(shares: Mapping[str, Iterable[str]], *, asked_at: float) -> AllocatedDevices:
    """Give what is held, from the shares that all containers have of each resource."""
    # An id holds no "::" itself.
    devices = {
        name: frozenset(share.partition("::")[0] for share in held) for name, held in shares.items()
    }
    return AllocatedDevices(asked_at=asked_at, devices=devices)


def next_question(
    offers: Mapping[str, DeviceList],
    forget_after_seconds: Mapping[str, float],
    last_asked: float,
    *,
    pace_seconds: float,
) -> float | None:
    """Give when to ask who holds what: once a device is to be forgotten, then at that pace.

    Gives None as long as none has vanished.
    """
    dues = (due for _, _, due in _vanished(offers, forget_after_seconds))
    first = min(dues, default=None)
    return None if first is None else max(first, last_asked + pace_seconds)


def are_news(
    holders: AllocatedDevices,
    offers: Mapping[str, DeviceList],
    forget_after_seconds: Mapping[str, float],
) -> bool:
    """Say whether a device can be forgotten now that is still listed."""
    return any(holders.have_let_go(*one) for one in _vanished(offers, forget_after_seconds))


def _vanished(
    offers: Mapping[str, DeviceList], forget_after_seconds: Mapping[str, float]
) -> Iterator[tuple[str, str, float]]:
    """Give resource and id of each vanished device, and when it is to be forgotten."""
    for name, offer in offers.items():
        if name not in forget_after_seconds:
            continue  # it is leaving, with all its devices
        for device_id, one in offer.devices.items():
            if one.gone_since is not None:
                yield name, device_id, one.gone_since + forget_after_seconds[name]
