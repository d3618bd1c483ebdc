"""What one resource answers to the kubelet's calls."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.bounding import why_refused
from genericdp.errors import InvalidCallError, OverdueCallError, UnusableDeviceError
from genericdp.host.devicefiles import Looker, is_same
from genericdp.host.workers import start
from genericdp.kubelet import messages
from genericdp.kubelet.messages import NO_DEVICES, DeviceList, device_list
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import Preference
from genericdp.observed import Observed, until
from genericdp.preferences import Preferences
from genericdp.tally import ResourceTally
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.devices.offers import Offer, Offered
    from genericdp.health.hooks import HookRunner
    from genericdp.host.root import Root
    from genericdp.tally import AllocationResult

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""How long Allocate may look at nodes: the kubelet waits forever, and all its pods with it."""
ALLOCATE_SECONDS = 9.5
"""How long Allocate may take in all, hooks included (ALL-4)."""
PRE_START_SECONDS = 28.0
"""How long PreStartContainer may take: the kubelet gives up after 30 s (PRE-1)."""
_RESULTS: Mapping[type[BaseException], AllocationResult] = {
    UnusableDeviceError: "unusable",
    InvalidCallError: "invalid",
    OverdueCallError: "timeout",
    asyncio.CancelledError: "cancelled",
}
"""As what an Allocate that raises is counted."""
_MOST_SHOWN = 256
"""So many characters of an id that there is not are shown."""
SETTLING_SECONDS = 2.0
"""How long a device that its own hook has made anew may take to be on offer again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Checking:
    """A look at the nodes of devices that is under way."""

    end: asyncio.Future[str]
    due: float
    """When it is said not to end, on the loop's clock."""


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
        hooks: HookRunner,
        pre_start: bool = False,
        preferences: Preferences | None = None,
        tally: ResourceTally | None = None,
        check_seconds: float = CHECK_SECONDS,
        allocate_seconds: float = ALLOCATE_SECONDS,
        settling_seconds: float = SETTLING_SECONDS,
        check: Callable[[Root, Sequence[Device]], str] | None = None,
    ) -> None:
        self._resource = resource
        self._root = root
        self._look_again = look_again
        self._hooks = hooks
        self.preferences = preferences or Preferences(resource)
        self._options = api.DevicePluginOptions(
            pre_start_required=pre_start,
            get_preferred_allocation_available=self.preferences.prefer is not Preference.NONE,
        )
        self._check_seconds = check_seconds
        self._allocate_seconds = allocate_seconds
        self._settling_seconds = settling_seconds
        self._check = check or why_unusable
        self._checking: dict[str, _Checking] = {}
        """By device, the look at its nodes that is under way, if any."""
        self._tally = tally or ResourceTally()
        self.devices = NO_DEVICES
        """The latest device list."""
        self._response = Observed(b"")
        """The latest ListAndWatchResponse."""
        self._looks = Observed(0)
        """How often the host has been looked at, or the offer has changed."""
        self._again = Observed(0)
        """How often what has been sent already was to be sent again."""

    def set_offer(self, offer: Offer) -> bool:
        """Do as ``set_devices``, where the time for serialization does not matter."""
        return self.set_devices(device_list(offer))

    def set_devices(self, devices: DeviceList) -> bool:
        """Set the device list; streams send it if the kubelet would see a difference.

        Return whether they do.
        """
        self.devices = devices
        before, self._response.value = self._response.value, devices.response
        self.looked()
        return self._response.value != before

    def looked(self) -> None:
        """Note that the host has been looked at again, even if the offer is the same."""
        self._looks.value += 1

    def options(self) -> api.DevicePluginOptions:
        """Answer GetDevicePluginOptions."""
        return self._options

    async def lists(self) -> AsyncIterator[bytes]:
        """Give the list at once, then whenever it changes; a slow peer gets only the latest."""
        while True:
            sent = self._response.value, self._again.value
            log.debug("list of %d bytes sent", len(sent[0]))
            self._tally.updates += 1
            yield sent[0]
            await until(
                lambda sent=sent: (self._response.value, self._again.value) != sent,  # type: ignore[misc]
                self._response,
                self._again,
            )

    def tell_again(self) -> None:
        """Send the list again, though it is the same: the kubelet may have another's."""
        self._again.value += 1

    async def allocate(self, request: bytes) -> bytes:
        """Answer Allocate: all that was asked for, or an error that says what is wrong."""
        begun = time.monotonic()
        try:
            async with self._answering("Allocate", self._allocate_seconds) as unfinished:
                containers = [
                    await self._edits(ids, unfinished) for ids in messages.allocate_ids(request)
                ]
        except BaseException as error:
            result = _RESULTS.get(type(error), "error")
            self._tally.allocated(result, time.monotonic() - begun)
            raise
        seconds = time.monotonic() - begun
        self._tally.allocated("success", seconds)
        log.debug("allocated in %.1f ms: %s", seconds * 1000, containers)
        return messages.allocation(containers)

    async def preferred_allocation(self, request: bytes) -> bytes:
        """Answer GetPreferredAllocation; never raises, that would reject the pod (PRF-4)."""
        return await self.preferences.answer(request, self.devices.offer)

    async def pre_start_container(self, request: bytes) -> bytes:
        """Answer PreStartContainer: the hooks have run, or an error that says which failed.

        A device that is Unhealthy counts as well: the container has it (LAW-10), and its hook may
        be what makes it well.
        """
        async with self._answering("PreStartContainer", PRE_START_SECONDS) as unfinished:
            devices = [self._offered(share).device for share in messages.pre_start_ids(request)]
            await self._hooks.pre_start(self._resource, _distinct(devices), unfinished)
        return b""

    @asynccontextmanager
    async def _answering(self, call: str, seconds: float) -> AsyncIterator[dict[str, str]]:
        """Enforce the timeout of a call, and log its failure.

        Yields a place for the hooks, by device, that had not ended when the time was over.
        """
        unfinished: dict[str, str] = {}
        try:
            try:
                async with asyncio.timeout(seconds):
                    yield unfinished
            except TimeoutError as error:
                why = f"{self._resource}: {call} took longer than {seconds:g} s"
                hooks = "; ".join(
                    f"device {name}: its {hook} has not ended" for name, hook in unfinished.items()
                )
                only = next(iter(unfinished)) if len(unfinished) == 1 else ""
                raise OverdueCallError(f"{why}: {hooks}" if hooks else why, device=only) from error
        except (UnusableDeviceError, InvalidCallError, OverdueCallError) as error:
            about = {"resource": self._resource, "device": error.device}
            # The kubelet shows the whole text; a line of the log begins with the resource anyway.
            why = str(error).removeprefix(f"{self._resource}: ")
            log.warning("%s refused: %s", call, why, extra=about)
            raise

    async def _edits(self, shares: Iterable[str], unfinished: dict[str, str]) -> ContainerEdits:
        shares = tuple(dict.fromkeys(shares))
        devices = self._devices(shares)
        if reason := await self._why_unusable(devices):
            self._refuse(reason, devices)
        if any(device.hooks.allocate for device in devices):
            await self._hooks.allocate(self._resource, devices, unfinished)
            devices = await self._devices_after_hooks(shares)
        try:
            return edits(devices)
        except (AllocationConflictError, UnusableValueError) as error:
            raise UnusableDeviceError(f"{self._resource}: {error}") from error

    async def _devices_after_hooks(self, shares: Sequence[str]) -> list[Device]:
        """Check the devices again: a hook may have re-created one, with another node.

        What is not there yet is checked again after each look at the host, and at the deadline.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settling_seconds
        devices: list[Device] = []
        while True:
            looks, is_last = self._looks.value, loop.time() >= deadline
            try:
                devices = self._devices(shares)
                reason = await self._why_unusable(devices)
            except (UnusableDeviceError, InvalidCallError) as error:
                reason = str(error).removeprefix(f"{self._resource}: ")
            if not reason:
                return devices
            if is_last:
                raise UnusableDeviceError(
                    f"{self._resource}: after its allocate hook: {reason}", device=_only(devices)
                )
            self._look_again()
            await until(
                lambda looks=looks: self._looks.value != looks,  # type: ignore[misc]
                self._looks,
                timeout_seconds=max(0.0, deadline - loop.time()),
            )

    def _refuse(self, reason: str, devices: Sequence[Device]) -> NoReturn:
        self._look_again()
        raise UnusableDeviceError(f"{self._resource}: {reason}", device=_only(devices))

    async def _why_unusable(self, devices: Sequence[Device]) -> str:
        """Return why the devices cannot be used, after a fresh look at their nodes.

        A look that hangs keeps its thread, so each device has one look at most. Whoever asks
        meanwhile waits for its end before looking again, but no longer than for any look.
        """
        due = asyncio.get_running_loop().time() + self._check_seconds
        waited_for = devices
        try:
            while earlier := [one for one in devices if one.id in self._checking]:
                waited_for = earlier
                checking = [self._checking[one.id] for one in earlier]
                async with asyncio.timeout_at(min(due, *(one.due for one in checking))):
                    await asyncio.wait([one.end for one in checking])
            waited_for = devices
            async with asyncio.timeout_at(due):
                return await asyncio.shield(self._begin_check(devices, due))
        except TimeoutError as error:
            names = ", ".join(device.id for device in waited_for)
            raise OverdueCallError(
                f"{self._resource}: looking at the nodes of {names} does not end",
                device=_only(waited_for),
            ) from error

    def _begin_check(self, devices: Sequence[Device], due: float) -> asyncio.Future[str]:
        end = start(lambda: self._check(self._root, devices))

        def forget(end: asyncio.Future[str]) -> None:
            for device in devices:
                del self._checking[device.id]
            end.exception()  # raised where it is waited for; nobody may do so any longer

        end.add_done_callback(forget)
        self._checking |= {one.id: _Checking(end=end, due=due) for one in devices}
        return end

    def _devices(self, shares: Iterable[str]) -> list[Device]:
        devices = []
        for share in shares:
            one = self._offered(share)
            if one.unhealthy:
                raise UnusableDeviceError(
                    f"{self._resource}: device {share} is Unhealthy: {one.unhealthy}",
                    device=one.device.id,
                )
            devices.append(one.device)
        return _distinct(devices)

    def _offered(self, share: str) -> Offered:
        # An id holds no "::" itself.
        one = self.devices.offer.offered.get(share.partition("::")[0])
        if one is None or not one.device.has_share(share):
            name = share if len(share) <= _MOST_SHOWN else f"{share[:_MOST_SHOWN]}…"
            why = f"{self._resource}: there is no device {name!r}"
            raise InvalidCallError(why, device=name)
        return one


def _distinct(devices: Iterable[Device]) -> list[Device]:
    """Give each device once: several shares of it are one device."""
    return list({device.id: device for device in devices}.values())


def _only(devices: Sequence[Device]) -> str:
    """Give the device's id, if there is but one."""
    return devices[0].id if len(devices) == 1 else ""


def why_unusable(root: Root, devices: Sequence[Device]) -> str:
    """Look at every node again, and say which is gone or another one now (D4, D5).

    What a policy allows is asked again, too: links may lead elsewhere by now.
    """
    looker = Looker(root)
    for device in devices:
        places = {node.host_path: node.identity for node in device.nodes}
        if not places:
            places = {one.path: one.identity for one in device.members}
        for path, identity in (places or {device.path: device.identity}).items():
            same = is_same(root, path, identity, looker)
            if same is None:
                return f"device {device.id}: {looker.trouble(path) or f'{path} does not exist'}"
            if not same:
                return f"device {device.id}: {path} is another device than the one on offer"
        if refusal := why_refused(device, looker.examine, looker.way):
            return f"device {device.id}: {refusal}"
    return ""
