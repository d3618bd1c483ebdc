"""What of a state fits on one page: the Unhealthy first, and how many are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from genericdp.status.wording import needs_attention, unhealthy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.status.model import DeviceStatus, NotOfferedStatus, ResourceStatus

T = TypeVar("T")

MOST_DEVICES = 2000
"""On the page."""
MOST_OF_ONE = 500
"""Devices of a resource; as many that are not offered."""
MOST_RESOURCES = 500
MOST_NOT_OFFERED = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A resource, with what is shown of it."""

    resource: ResourceStatus
    unhealthy: tuple[DeviceStatus, ...]
    healthy: tuple[DeviceStatus, ...]
    not_offered: tuple[NotOfferedStatus, ...]

    @property
    def left_out(self) -> int:
        """How many devices are not shown."""
        return len(self.resource.devices) - len(self.unhealthy) - len(self.healthy)

    @property
    def not_offered_left_out(self) -> int:
        """How many of those that are not offered are not shown."""
        return len(self.resource.not_offered) - len(self.not_offered)


def chosen(resources: Sequence[ResourceStatus]) -> tuple[Chosen, ...]:
    """Choose what is shown, those first that need attention; else the order stays.

    Of all devices the Unhealthy ones are taken before any Healthy one.
    """
    shown = sorted(resources, key=lambda one: (one.registered, not needs_attention(one)))[
        :MOST_RESOURCES
    ]
    sick = _rationed([unhealthy(one)[:MOST_OF_ONE] for one in shown], MOST_DEVICES)
    well = _rationed(
        [
            tuple(device for device in one.devices if device.healthy)[: MOST_OF_ONE - len(taken)]
            for one, taken in zip(shown, sick, strict=True)
        ],
        MOST_DEVICES - sum(map(len, sick)),
    )
    aside = _rationed([one.not_offered[:MOST_OF_ONE] for one in shown], MOST_NOT_OFFERED)
    return tuple(
        Chosen(resource=one, unhealthy=unwell, healthy=healthy, not_offered=not_offered)
        for one, unwell, healthy, not_offered in zip(shown, sick, well, aside, strict=True)
    )


def _rationed(lists: Sequence[tuple[T, ...]], room: int) -> list[tuple[T, ...]]:
    """Return what there is room for of each list, in their order: the first are served first."""
    rations = []
    for one in lists:
        rations.append(one[:room])
        room -= len(rations[-1])
    return rations
