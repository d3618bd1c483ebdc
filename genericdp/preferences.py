"""Which of the free devices a container should rather get, as an answer to the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.offers import NOTHING
from genericdp.host.workers import in_worker
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import Preference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from genericdp.devices.offers import Offer
    from genericdp.devices.topology import Spot

Choose = Callable[..., list[str]]
"""As ``preferred_ids``."""

log = logging.getLogger(__name__)

MOST_DEVICES = 8
"""So many, the GPUs of a node, are decided about on the loop: that takes 1 ms even with 300 shares,
and going to a thread and back a tenth of that. The best 8 of 16 devices take up to 50 ms."""
MOST_BYTES = 1024
"""Of a request that is answered on the loop: 8 ids of any length, twice, or 300 short ones."""
MOST_PLACES = 32
"""PCI functions and the like of these devices together; each pair of them is compared."""
SECONDS = 1.0
"""What is not decided by then is left to the kubelet: it holds up the pods of the node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """What an offer says about devices, by id in natural order."""

    offer: Offer
    spots: Mapping[str, Spot]
    unhealthy: frozenset[str]

    @property
    def is_small(self) -> bool:
        places = sum(len(spot.syspaths) for spot in self.spots.values())
        return len(self.spots) <= MOST_DEVICES and places <= MOST_PLACES


class Preferences:
    """Answers for one resource. It keeps what an offer says until it is asked about another."""

    def __init__(
        self,
        resource: str,
        *,
        prefer: Preference = Preference.NONE,
        replicas: int = 1,
        choose: Choose | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self.prefer = prefer
        self.replicas = replicas
        self._resource = resource
        self._choose = choose
        self._seconds = seconds
        self._known = _known(NOTHING)
        self._failed = False

    async def answer(self, request: bytes, offer: Offer) -> bytes:
        """Give the ids for each container; none, which is no preference, if anything fails.

        An error would reject the pod (PRF-4), a wrong or late answer only costs the best choice.
        """
        try:
            async with asyncio.timeout(self._seconds):
                few = len(request) <= MOST_BYTES and len(offer.offered) <= MOST_DEVICES
                if few and self._choose is not None and (known := self._of(offer)).is_small:
                    return self._decided(request, known, self._choose)
                return await in_worker(lambda: self._decided_elsewhere(request, offer))
        except Exception:
            # Whatever it is, it comes again with each pod.
            if not self._failed:
                self._failed = True
                log.exception("%s: no preferred devices are told", self._resource)
            return b""

    def _of(self, offer: Offer) -> _Known:
        known = self._known
        if known.offer is not offer:
            known = self._known = _known(offer)
        return known

    def _decided_elsewhere(self, request: bytes, offer: Offer) -> bytes:
        if self._choose is None:
            # Not before the first registration: it costs 5 ms and is asked for by some pods only.
            from genericdp.devices.preferred import preferred_ids

            self._choose = preferred_ids
        return self._decided(request, self._of(offer), self._choose)

    def _decided(self, request: bytes, known: _Known, choose: Choose) -> bytes:
        response = api.PreferredAllocationResponse()
        for container in api.PreferredAllocationRequest.FromString(request).container_requests:
            available, must = _healthy_first(container, known.unhealthy)
            chosen = choose(
                available,
                must,
                container.allocation_size,
                known.spots,
                self.prefer,
                replicas=self.replicas,
            )
            response.container_responses.add(deviceIDs=chosen)
        return response.SerializeToString()


def _healthy_first(
    container: api.ContainerPreferredAllocationRequest, unhealthy: frozenset[str]
) -> tuple[Collection[str], Collection[str]]:
    """Give what to choose from and what must be given: others than these only where they lack.

    The kubelet may not know yet that they are Unhealthy, and Allocate would refuse them.
    """
    available, must = list(container.available_deviceIDs), list(container.must_include_deviceIDs)
    if not unhealthy:
        return available, must
    well = {share for share in available if share.partition("::")[0] not in unhealthy}
    well.update(must)
    return (well, must) if len(well) >= container.allocation_size else (available, well)


def _known(offer: Offer) -> _Known:
    return _Known(
        offer=offer,
        spots={name: one.device.spot for name, one in offer.offered.items()},
        unhealthy=frozenset(name for name, one in offer.offered.items() if one.unhealthy),
    )
