"""The answers of one resource to the kubelet's calls, and their protobuf."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from genericdp.devices.allocation import AllocationConflictError, edits_for_kubelet
from genericdp.devices.device import device_id_of, shares_by_device
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.preferred import preferred_ids
from genericdp.devices.restrictions import device_refusal
from genericdp.errors import CallError, InvalidCallError, OverdueCallError, UnusableDeviceError
from genericdp.host.devicefiles import DeviceFiles, is_same
from genericdp.host.workers import Work, in_worker, start
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import Preference
from genericdp.observed import Observed, Signal, until
from genericdp.printing import shortened
from genericdp.tally import ResourceTally
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager
    from typing import Any, TypeAlias

    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.host.root import Root
    from genericdp.model import HookName
    from genericdp.tally import AllocationResult

    RunHooks: TypeAlias = Callable[
        [HookName, str, Sequence[Device], dict[str, str]], Coroutine[Any, Any, None]
    ]
    """Runs that hook of each device of a resource that has one; raises UnusableDeviceError.

    If canceled, it adds to the dict, by device ID, the hook that each of them still waited for.
    """

log = logging.getLogger(__name__)
_MessageT = TypeVar("_MessageT", bound=Message)

_RESULTS: Mapping[type[BaseException], AllocationResult] = {
    UnusableDeviceError: "unusable",
    InvalidCallError: "invalid",
    OverdueCallError: "timeout",
    asyncio.CancelledError: "cancelled",
}
"""How what raises is counted."""
PREPARE_HOOKS: tuple[HookName, ...] = ("allocate", "preStart")
"""The hooks of NodePrepareResources: with DRA, no call comes before a container starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTimeouts:
    """How long calls of the kubelet may take, in seconds."""

    node_check: float = 5.0
    """How long Allocate may look at nodes: the kubelet waits forever, and all its pods with it."""
    allocate: float = 9.5
    """How long Allocate may take in all, hooks included (ALL-4)."""
    device_return: float = 2.0
    """How long a device that its own allocate hook has re-created may take to be usable again."""
    pre_start: float = 28.0
    """How long PreStartContainer may take: the kubelet gives up after 30 s (PRE-1)."""
    prepare: float = 40.0
    """How long the devices of a claim may take: the kubelet gives up after 45 s."""
    preferred: float = 1.0
    """How long choosing preferred devices may take: the pods of the node wait meanwhile."""


class Servicer:
    """Answers for one resource, from its latest device list.

    It does not record which pod holds what: the kubelet owns that, and there is no call that
    releases a device (ALL-3).
    """

    def __init__(
        self,
        resource: str,
        *,
        root: Root,
        look_again: Callable[[], None],
        run_hooks: RunHooks,
        pre_start: bool = False,
        prefer: Preference = Preference.NONE,
        replicas: int = 1,
        timeouts: CallTimeouts | None = None,
        tally: ResourceTally | None = None,
    ) -> None:
        self.prefer = prefer
        self.replicas = replicas
        self.options = api.DevicePluginOptions(
            pre_start_required=pre_start,
            get_preferred_allocation_available=prefer is not Preference.NONE,
        )
        """The answer to GetDevicePluginOptions."""
        self.devices = NOTHING
        """The latest device list."""
        self.in_progress = Observed(0)
        """How many calls of the kubelet have not been answered yet."""
        self.timeouts = timeouts or CallTimeouts()
        self._resource = resource
        self._root = root
        self._look_again = look_again
        self._run_hooks = run_hooks
        self.tally = tally or ResourceTally()
        self._response = Observed((b"", 0))
        """The latest ListAndWatchResponse, and how often streams were to send one once more."""
        self._reconciles = Signal()
        """Sent when the device list has been set, which may be the same."""
        self._checks: dict[str, Work[str]] = {}
        """By device ID, the check of its nodes that is in progress, if any."""
        self._preferring_failed = False

    def set_devices(self, devices: DeviceList) -> bool:
        """Set the device list; return whether its bytes differ, so that streams send it."""
        self._reconciles.send()
        before, resends = self._response.value
        response = before
        if devices.devices != self.devices.devices:
            try:
                response = encode_list(devices)
            except Exception:
                # A mistake of ours in one resource must not stop the others (K6).
                log.exception("%s: its device list cannot be encoded", self._resource)
                return False
        self.devices = devices
        self._response.value = response, resends
        return response != before

    async def device_lists(self) -> AsyncIterator[bytes]:
        """Yield the list at once and at each change (LAW-1); a slow client gets only the latest."""
        while True:
            has_changed, (sent, _) = self._response.watch(), self._response.value
            log.debug("list of %d bytes sent", len(sent))
            self.tally.updates += 1
            yield sent
            await until(has_changed, self._response)

    def resend(self) -> None:
        """Send the same list again: the kubelet may have another instance's."""
        response, resends = self._response.value
        self._response.value = response, resends + 1

    async def allocate(self, request: bytes) -> bytes:
        """Answer Allocate: with all that was asked for, or an error that says what is wrong."""
        with counted([self.tally]):
            async with self._limited("Allocate", self.timeouts.allocate) as unfinished:
                asked = parsed(api.AllocateRequest, request).container_requests
                containers = [await self._edits(one.devices_ids, unfinished) for one in asked]
        log.debug("allocated: %s", containers)
        return allocation(containers)

    async def prepare(self, shares: Sequence[str], *, run_hooks: bool) -> list[Device]:
        """Return the devices of shares, each once, checked as for Allocate.

        ``run_hooks``: after their hooks. Raise CallError.
        """
        hooks = PREPARE_HOOKS if run_hooks else ()
        async with self._limited("NodePrepareResources", self.timeouts.prepare) as unfinished:
            return await self._ready_devices(shares, unfinished, hooks)

    async def preferred_allocation(self, request: bytes) -> bytes:
        """Answer GetPreferredAllocation; return no preference if anything fails.

        An error would reject the pod (PRF-4); a late answer would only make it wait.
        """
        choose = partial(
            preferred_allocation, request, self.devices, self.prefer, replicas=self.replicas
        )
        try:
            async with asyncio.timeout(self.timeouts.preferred):
                return await in_worker(choose)
        except Exception:
            if not self._preferring_failed:  # it would fail again with each pod
                self._preferring_failed = True
                log.exception("%s: choosing preferred devices has failed", self._resource)
            return b""

    async def pre_start_container(self, request: bytes) -> bytes:
        """Answer PreStartContainer once all hooks have succeeded.

        Unhealthy devices are accepted: the container has them already (LAW-10), and a hook may be
        what repairs them.
        """
        async with self._limited("PreStartContainer", self.timeouts.pre_start) as unfinished:
            shares = parsed(api.PreStartContainerRequest, request).devices_ids
            devices = [self._listed(share).device for share in shares]
            await self._run_hooks("preStart", self._resource, _distinct(devices), unfinished)
        return b""

    def _limited(self, call: str, seconds: float) -> AbstractAsyncContextManager[dict[str, str]]:
        return _limited(self._resource, call, seconds)

    async def _edits(self, shares: Sequence[str], unfinished: dict[str, str]) -> ContainerEdits:
        devices = await self._ready_devices(shares, unfinished, ("allocate",))
        try:
            return edits_for_kubelet(devices, shares_by_device(shares))
        except (AllocationConflictError, UnusableValueError) as error:
            raise UnusableDeviceError(str(error)) from error

    async def _ready_devices(
        self, shares: Sequence[str], unfinished: dict[str, str], hooks: Iterable[HookName]
    ) -> list[Device]:
        """Return the devices of shares once they have been checked and the hooks have run."""
        try:
            devices = await self._usable_devices(shares)
        except UnusableDeviceError:
            self._look_again()
            raise
        for name in hooks:
            if any(name in device.hooks for device in devices):
                await self._run_hooks(name, self._resource, devices, unfinished)
                devices = await self._devices_after_hook(shares, name)
        return devices

    async def _devices_after_hook(self, shares: Sequence[str], hook: HookName) -> list[Device]:
        """Check the devices again: a hook may have re-created one, with another node.

        A device that is not back yet is checked again after each reconcile, and at the deadline.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeouts.device_return
        while True:
            has_reconciled, is_last = self._reconciles.watch(), loop.time() >= deadline
            try:
                return await self._usable_devices(shares)
            except (UnusableDeviceError, InvalidCallError) as error:
                if is_last:
                    why = f"after its {hook} hook: {error}"
                    raise UnusableDeviceError(why, device=error.device) from error
            self._look_again()
            rest = max(0.0, deadline - loop.time())
            await until(has_reconciled, self._reconciles, timeout_seconds=rest)

    async def _usable_devices(self, shares: Iterable[str]) -> list[Device]:
        """Return the devices of the shares; raise CallError if one cannot be used now."""
        listed = [(share, self._listed(share)) for share in shares]
        for share, one in listed:
            if reason := one.why_share_unhealthy(share):
                why = f"device {share} is Unhealthy: {reason}"
                raise UnusableDeviceError(why, device=one.device.id)
        devices = _distinct(one.device for _, one in listed)
        if reason := await self._check_nodes(devices):
            raise UnusableDeviceError(reason, device=_only_id(devices))
        return devices

    async def _check_nodes(self, devices: Sequence[Device]) -> str:
        """Return why the devices cannot be used, after a fresh look at their nodes.

        A check that hangs keeps its thread, so each device has at most one. A call that comes
        meanwhile waits for its end and then checks again.
        """
        while busy := [self._checks[one.id] for one in devices if one.id in self._checks]:
            await self._end_of(busy[0], devices)
        check = self._start_check(devices)
        await self._end_of(check, devices)
        return check.result()

    async def _end_of(self, check: Work[str], devices: Sequence[Device]) -> None:
        """Wait for the end of a check; raise OverdueCallError if it hangs."""
        if not await check.ends(self.timeouts.node_check):
            stuck = [device for device in devices if device.id in self._checks]
            why = f"looking at the nodes of {', '.join(one.id for one in stuck)} does not end"
            raise OverdueCallError(why, device=_only_id(stuck))

    def _start_check(self, devices: Sequence[Device]) -> Work[str]:
        check = start(partial(why_unusable, self._root, devices), is_one_call=True)

        def forget(check: Work[str]) -> None:
            for device in devices:
                del self._checks[device.id]
            check.exception()  # raised where it is awaited, if anybody still waits

        check.add_done_callback(forget)
        self._checks |= dict.fromkeys((device.id for device in devices), check)
        return check

    def _listed(self, share: str) -> ListedDevice:
        one = self.devices.devices.get(device_id_of(share))
        if one is None or not one.device.has_share(share):
            name = shortened(share)
            raise InvalidCallError(f"there is no device {name!r}", device=name)
        return one


async def release(run_hooks: RunHooks, resource: str, devices: Sequence[Device]) -> None:
    """Run the release hooks of devices, which may be offered no longer; raise CallError."""
    seconds = CallTimeouts().prepare
    async with _limited(resource, "NodeUnprepareResources", seconds) as unfinished:
        await run_hooks("release", resource, devices, unfinished)


@asynccontextmanager
async def _limited(resource: str, call: str, seconds: float) -> AsyncIterator[dict[str, str]]:
    """Enforce a timeout and log failures of a call.

    Yield a dict for the hooks, by device ID, that have not ended when the time is up.
    """
    unfinished: dict[str, str] = {}
    try:
        try:
            async with asyncio.timeout(seconds):
                yield unfinished
        except TimeoutError as error:
            why = f"{call} took longer than {seconds:g} s"
            hooks = "; ".join(
                f"device {name}: its {hook} has not ended" for name, hook in unfinished.items()
            )
            only = next(iter(unfinished)) if len(unfinished) == 1 else ""
            raise OverdueCallError(f"{why}: {hooks}" if hooks else why, device=only) from error
    except CallError as error:
        about = {"resource": resource, "device": error.device}
        log.warning("%s refused: %s", call, error, extra=about)
        # The kubelet shows the whole text; a line of the log begins with the resource anyway.
        raise type(error)(f"{resource}: {error}", device=error.device) from error


@contextmanager
def counted(tallies: Iterable[ResourceTally]) -> Iterator[None]:
    """Count an Allocate or the preparation of a claim, with what ``tallies`` are in the end."""
    began = time.monotonic()
    result: AllocationResult = "success"
    try:
        yield
    except BaseException as error:
        result = next((name for kind, name in _RESULTS.items() if isinstance(error, kind)), "error")
        raise
    finally:
        for one in tallies:
            one.allocated(result, time.monotonic() - began)


def _distinct(devices: Iterable[Device]) -> list[Device]:
    """Return each device once: several shares of it are one device."""
    return list({device.id: device for device in devices}.values())


def _only_id(devices: Sequence[Device]) -> str:
    """Return the device's ID if there is only one."""
    return devices[0].id if len(devices) == 1 else ""


def why_unusable(root: Root, devices: Sequence[Device]) -> str:
    """Look at every node again; return which is gone or another one now, or "" (D4, D5).

    The policy is checked again, too: links may lead elsewhere by now.
    """
    files = DeviceFiles(root)
    for device in devices:
        places = {node.host_path: node.identity for node in device.nodes}
        if not places:
            places = {one.path: one.identity for one in device.members}
        for path, identity in (places or {device.path: device.identity}).items():
            same = is_same(root, path, identity, files)
            if same is None:
                why = files.why_unreadable.get(path)
                what = f"cannot be read ({why})" if why else "does not exist"
                return f"device {device.id}: {path} {what}"
            if not same:
                return f"device {device.id}: {path} is another device than the one on offer"
        if refusal := device_refusal(device, files.examine, files.mount_target):
            return f"device {device.id}: {refusal}"
    return ""


def encode_list(devices: DeviceList) -> bytes:
    """Return a serialized ListAndWatchResponse; for a thousand devices this takes 2.5 ms."""
    response = api.ListAndWatchResponse()
    is_without_topology = bool(devices.without_numa_node)  # goes through all devices
    for listed in devices.devices.values():
        topology = _topology(() if is_without_topology else listed.device.numa_nodes)
        for share in listed.device.shares:
            health = "Unhealthy" if listed.why_share_unhealthy(share) else "Healthy"
            response.devices.add(ID=share, health=health, topology=topology)
    return response.SerializeToString()


def entry_bytes(share: str, numa_nodes: Sequence[int]) -> int:
    """Return the size of a share in a list, as Unhealthy: the largest that it can be (LAW-6)."""
    response = api.ListAndWatchResponse()
    response.devices.add(ID=share, health="Unhealthy", topology=_topology(numa_nodes))
    return response.ByteSize()


def _topology(numa_nodes: Sequence[int]) -> api.TopologyInfo | None:
    # The kubelet takes an empty TopologyInfo for a NUMA constraint that no node satisfies.
    nodes = [api.NUMANode(ID=node) for node in numa_nodes]
    return api.TopologyInfo(nodes=nodes) if nodes else None


def parsed(kind: type[_MessageT], request: bytes) -> _MessageT:
    """Return the message; raise InvalidCallError."""
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise InvalidCallError(f"{kind.__name__} cannot be parsed: {error}") from error


def allocation(containers: Iterable[ContainerEdits]) -> bytes:
    """Return the answer to Allocate: one entry for each container, in their order (ALL-2)."""
    answer = api.AllocateResponse()
    for edits in containers:
        response = answer.container_responses.add(envs=edits.env, annotations=edits.annotations)
        for mount in edits.mounts:
            response.mounts.add(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.read_only,
            )
        for device in edits.devices:
            response.devices.add(
                container_path=device.container_path,
                host_path=device.host_path,
                permissions=device.permissions,
            )
        for name in edits.cdi:
            response.cdi_devices.add(name=name)
    return answer.SerializeToString()


def preferred_allocation(
    request: bytes, devices: DeviceList, preference: Preference, *, replicas: int
) -> bytes:
    """Return the answer with the preferred IDs for each container; raise DecodeError."""
    spots = {name: listed.device.spot for name, listed in devices.devices.items()}
    unhealthy = {
        share
        for listed in devices.devices.values()
        for share in (listed.device.shares if listed.reasons else listed.withheld)
    }
    response = api.PreferredAllocationResponse()
    for container in api.PreferredAllocationRequest.FromString(request).container_requests:
        available, must = _healthy_first(container, unhealthy)
        size = container.allocation_size
        chosen = preferred_ids(available, must, size, spots, preference, replicas=replicas)
        response.container_responses.add(deviceIDs=chosen)
    return response.SerializeToString()


def _healthy_first(
    container: api.ContainerPreferredAllocationRequest, unhealthy: Collection[str]
) -> tuple[Collection[str], Collection[str]]:
    """Return the IDs to choose from and those that must be chosen: healthy ones if they suffice.

    The kubelet may not know yet that a device is Unhealthy, and Allocate would refuse it.
    """
    available, must = container.available_deviceIDs, container.must_include_deviceIDs
    healthy = {share for share in available if share not in unhealthy}.union(must)
    enough = len(healthy) >= container.allocation_size
    return (healthy, must) if enough else (available, healthy)
