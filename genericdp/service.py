"""What one resource answers to the kubelet's calls."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.offers import NOTHING
from genericdp.errors import InvalidCallError, OverdueCallError, UnusableDeviceError
from genericdp.host.devicefiles import is_same
from genericdp.host.workers import in_worker
from genericdp.kubelet import messages
from genericdp.observed import Observed, until
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.devices.offers import Offer, Offered
    from genericdp.host.root import Root

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """An offer as the kubelet gets it."""

    offer: Offer
    entries: Mapping[str, bytes]
    """What each device with its shares is in the list."""
    whole: bytes


NO_LISTING = Listing(offer=NOTHING, entries={}, whole=b"")


def listing(offer: Offer, before: Listing = NO_LISTING) -> Listing:
    """Encode a list; what has not changed since ``before`` is not encoded again.

    For ten thousand new devices that takes 20 ms: not on the loop.
    """
    carried = not offer.without_numa_node
    known = before.offer.offered
    if carried != (not before.offer.without_numa_node):
        known = {}
    entries = {
        device_id: before.entries[device_id]
        if known.get(device_id) is one
        else _listed(one, carried=carried)
        for device_id, one in offer.offered.items()
    }
    return Listing(offer=offer, entries=entries, whole=b"".join(entries.values()))


CHECK_SECONDS = 5.0
"""How long Allocate may look at nodes: the kubelet waits for ever, and all its pods with it."""


class Service:
    """Answers for one resource, from its latest offer.

    It has no notion of who holds what: the kubelet owns that, and there is no call that would
    give a device back (ALL-3).
    """

    def __init__(
        self,
        resource: str,
        *,
        root: Root,
        look_again: Callable[[], None],
        check_seconds: float = CHECK_SECONDS,
        check: Callable[[Root, Sequence[Device]], str] | None = None,
    ) -> None:
        self._resource = resource
        self._root = root
        self._look_again = look_again
        self._check_seconds = check_seconds
        self._check = check or why_unusable
        self.listing = NO_LISTING
        """The latest offer."""
        self._list = Observed(b"")

    def set_offer(self, offer: Offer) -> bool:
        """As ``set_listing``, where the time that encoding takes does not matter."""
        return self.set_listing(listing(offer, self.listing))

    def set_listing(self, listing: Listing) -> bool:
        """Take the latest offer; streams get a new list if the kubelet would see a difference.

        Says whether they do.
        """
        self.listing = listing
        before, self._list.value = self._list.value, listing.whole
        return self._list.value != before

    def options(self) -> bytes:
        """Answer GetDevicePluginOptions."""
        return messages.options()

    async def lists(self) -> AsyncIterator[bytes]:
        """Give the list at once, then whenever it changes; a slow peer gets only the latest."""
        while True:
            sent = self._list.value
            log.debug("list of %d bytes sent", len(sent))
            yield sent
            await until(lambda sent=sent: self._list.value != sent, self._list)  # type: ignore[misc]

    async def allocate(self, request: bytes) -> bytes:
        """Answer Allocate: all that was asked for, or an error that says what is wrong."""
        begun = time.monotonic()
        try:
            containers = [await self._edits(ids) for ids in messages.requested_ids(request)]
        except (UnusableDeviceError, InvalidCallError, OverdueCallError) as error:
            log.warning("allocation refused: %s", error)
            raise
        log.debug("allocated in %.1f ms: %s", (time.monotonic() - begun) * 1000, containers)
        return messages.allocation(containers)

    async def preferred_allocation(self, request: bytes) -> bytes:
        """Answer GetPreferredAllocation: no preference; the options say that it need not ask."""
        del request
        return messages.preferred_allocation([])

    async def pre_start_container(self, request: bytes) -> bytes:
        """Answer PreStartContainer: there is nothing to do."""
        del request
        return b""

    async def _edits(self, shares: Iterable[str]) -> ContainerEdits:
        devices = [self._device(share) for share in dict.fromkeys(shares)]
        distinct = list({device.id: device for device in devices}.values())
        try:
            async with asyncio.timeout(self._check_seconds):
                reason = await in_worker(lambda: self._check(self._root, distinct))
        except TimeoutError as error:
            names = ", ".join(device.id for device in distinct)
            raise OverdueCallError(
                f"{self._resource}: looking at the nodes of {names} does not end"
            ) from error
        if reason:
            self._look_again()
            raise UnusableDeviceError(f"{self._resource}: {reason}")
        try:
            return edits(distinct)
        except (AllocationConflictError, UnusableValueError) as error:
            raise UnusableDeviceError(f"{self._resource}: {error}") from error

    def _device(self, share: str) -> Device:
        # An id holds no "::" itself.
        one = self.listing.offer.offered.get(share.partition("::")[0])
        if one is None or not one.device.has_share(share):
            raise InvalidCallError(f"{self._resource}: there is no device {share!r}")
        if one.unhealthy:
            raise UnusableDeviceError(
                f"{self._resource}: device {share} is Unhealthy: {one.unhealthy}"
            )
        return one.device


def why_unusable(root: Root, devices: Sequence[Device]) -> str:
    """Look at every node again, and say which is gone or another one now (D4, D5)."""
    for device in devices:
        places = {node.host_path: node.identity for node in device.nodes}
        for path, identity in (places or {device.path: device.identity}).items():
            same = is_same(root, path, identity)
            if same is None:
                return f"device {device.id}: {path} does not exist"
            if not same:
                return f"device {device.id}: {path} is another device than the one on offer"
    return ""


def _listed(one: Offered, *, carried: bool) -> bytes:
    device = one.device
    return b"".join(
        messages.listed_device(
            share, healthy=not one.unhealthy, numa_node=device.numa_node if carried else None
        )
        for share in device.shares
    )
