"""The gate: checks devices and runs their hooks before a container gets them."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.device import device_id_of, device_refusal
from genericdp.devices.devicelist import NOTHING, share_reasons
from genericdp.errors import CallError, InvalidCallError, OverdueCallError, UnusableDeviceError
from genericdp.host.calls import HangsError, give_up
from genericdp.host.devicefiles import DeviceFiles, is_same
from genericdp.host.workers import Work, start
from genericdp.observed import Signal, until
from genericdp.printing import first_few, shortened
from genericdp.reasons import text_of
from genericdp.tally import ResourceTally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.host.root import Root
    from genericdp.model import HookName
    from genericdp.tally import AllocationResult

    RunHooks: TypeAlias = Callable[
        [HookName, str, Sequence[Device], dict[str, str]], Coroutine[Any, Any, None]
    ]
    """Runs a hook for each device of a resource that has it; raises UnusableDeviceError. If
    canceled, it adds the unfinished hook of each device to the dict, by device ID.
    """

log = logging.getLogger(__name__)

MAX_LOGGED = 20
"""Shares that the log names of one call; a container may get thousands."""
_RESULTS: dict[type[BaseException], AllocationResult] = {
    UnusableDeviceError: "unusable",
    InvalidCallError: "invalid",
    OverdueCallError: "timeout",
    asyncio.CancelledError: "cancelled",
}
"""The result that is counted for each kind of exception."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTimeouts:
    """The limits for calls of the kubelet, in seconds."""

    node_check: float = 5.0
    """How long Allocate may read nodes: the kubelet and all of its pods wait meanwhile."""
    allocate: float = 9.5
    """How long Allocate may take in total, including hooks (ALL-4)."""
    device_return: float = 2.0
    """How long a device that its own allocate hook has re-created may take to be usable again."""
    pre_start: float = 28.0
    """How long PreStartContainer may take: the kubelet gives up after 30 s (PRE-1)."""
    claims: float = 40.0
    """How long a call about claims may take: the kubelet gives up after 45 s."""
    preferred: float = 1.0
    """How long choosing preferred devices may take: the pods of the node wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The time limit of a call of the kubelet, from now on."""

    call: str
    seconds: float
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())


class Gate:
    """The gate that every device of a resource passes before a container gets it.

    It does not record which pod holds a device: the kubelet does that, without a call that releases
    a device (ALL-3), as do the records of claims.
    """

    def __init__(
        self,
        resource: str,
        *,
        root: Root,
        look_again: Callable[[], None],
        run_hooks: RunHooks,
        timeouts: CallTimeouts | None = None,
        tally: ResourceTally | None = None,
    ) -> None:
        self.resource = resource
        self.devices = NOTHING
        """The latest device list."""
        self.timeouts = timeouts or CallTimeouts()
        self.tally = tally or ResourceTally()
        self._root = root
        self._look_again = look_again
        self._run_hooks = run_hooks
        self._reconciles = Signal()
        """Sent when the device list has been set, even to the same one."""
        self._checks: dict[str, Work[str]] = {}
        """The check of a device's nodes, by device ID, if one is in progress or has just ended."""

    def set_devices(self, devices: DeviceList) -> None:
        """Set the device list; devices that a call awaits after a hook are checked again."""
        self.devices = devices
        self._reconciles.send()

    async def admit(
        self,
        shares: Sequence[str],
        hooks: Iterable[HookName],
        unfinished: dict[str, str],
        with_hooks: Callable[[Device], Device] = lambda device: device,
    ) -> list[Device]:
        """Check the shares' devices, run these hooks, and check again; return each device once.

        ``unfinished`` is the dict that ``limited`` yields. ``with_hooks`` returns a device with the
        hooks to run. Raise CallError.
        """
        try:
            devices = await self._usable_devices(shares)
        except (UnusableDeviceError, OverdueCallError):
            self._look_again()
            raise
        for hook in hooks:
            if any(hook in device.hooks for device in devices):
                running = [with_hooks(device) for device in devices]
                await self._run_hooks(hook, self.resource, running, unfinished)
                devices = await self._devices_after_hook(shares, hook)
        return devices

    async def pre_start(self, shares: Sequence[str], unfinished: dict[str, str]) -> None:
        """Run the preStart hooks of devices that a container already has; raise CallError.

        Unhealthy devices are accepted (LAW-10), because a hook may repair them.
        """
        devices = _distinct(self._listed(share).device for share in shares)
        await self._run_hooks("preStart", self.resource, devices, unfinished)

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
        listed = {share: self._listed(share) for share in shares}
        for share, entry in listed.items():
            if reasons := share_reasons(entry, share):
                why = f"device {share} is Unhealthy: {text_of(reasons)}"
                raise UnusableDeviceError(why, device=entry.device.id)
        devices = _distinct(entry.device for entry in listed.values())
        if reason := await self._check_nodes(devices):
            raise UnusableDeviceError(reason, device=_only_id(devices))
        return devices

    async def _check_nodes(self, devices: Sequence[Device]) -> str:
        """Return why the devices cannot be used, after reading their nodes again.

        A check that hangs occupies a thread, so each device has at most one. A call that arrives
        meanwhile waits for its end and then checks again.
        """
        while busy := [check for device in devices if (check := self._checks.get(device.id))]:
            await self._end_of(busy[0])
        check = self._start_check(devices)
        await self._end_of(check)
        return check.result()

    async def _end_of(self, check: Work[str]) -> None:
        """Wait for the end of a check; raise OverdueCallError if it hangs."""
        if await check.ends(self.timeouts.node_check):
            self._forget(check)
            return
        give_up(check)
        self._forget(check)  # the next check is refused at once if it would hang
        check.add_done_callback(lambda _: self._look_again())
        raise _overdue(check.what)

    def _start_check(self, devices: Sequence[Device]) -> Work[str]:
        names = [device.id for device in devices]
        work = partial(why_unusable, self._root, devices)
        check = start(work, ", ".join(names), is_one_call=True)
        self._checks |= dict.fromkeys(names, check)
        check.add_done_callback(self._forget)
        return check

    def _forget(self, check: Work[str]) -> None:
        self._checks = {name: other for name, other in self._checks.items() if other is not check}
        if check.done():
            check.exception()  # raised where it is awaited, if that still happens

    def _listed(self, share: str) -> Entry[Device]:
        listed = self.devices.devices.get(device_id_of(share))
        if listed is None or not listed.device.has_share(share):
            name = shortened(share)
            raise InvalidCallError(f"there is no device {name!r}", device=name)
        return listed


@asynccontextmanager
async def limited(resource: str, limit: Limit) -> AsyncIterator[dict[str, str]]:
    """Enforce the time limit of a call and log its failures; raise CallError.

    Yield a dict for the hooks, by device ID, that have not ended when the time is up.
    """
    unfinished: dict[str, str] = {}
    try:
        try:
            async with asyncio.timeout_at(limit.began + limit.seconds):
                yield unfinished
        except TimeoutError as error:
            why = f"{limit.call} took longer than {limit.seconds:g} s"
            hooks = "; ".join(
                f"device {name}: its {hook} has not ended" for name, hook in unfinished.items()
            )
            only = next(iter(unfinished)) if len(unfinished) == 1 else ""
            raise OverdueCallError(f"{why}: {hooks}" if hooks else why, device=only) from error
    except CallError as error:
        about = {"resource": resource, "device": error.device}
        log.warning("%s refused: %s", limit.call, error, extra=about)
        # The kubelet shows the whole text; a line of our log begins with the resource anyway.
        raise type(error)(f"{resource}: {error}", device=error.device) from error


@contextmanager
def counted(tallies: Iterable[ResourceTally]) -> Iterator[None]:
    """Count an Allocate call or a claim's preparation; ``tallies`` is read only at the end."""
    began = time.monotonic()
    result: AllocationResult = "success"
    try:
        yield
    except BaseException as error:
        result = next((name for kind, name in _RESULTS.items() if isinstance(error, kind)), "error")
        raise
    finally:
        for tally in tallies:
            tally.allocated(result, time.monotonic() - began)


def log_given(holder: str, resource: str, shares: Sequence[str]) -> None:
    """Log who gets shares of a resource."""
    about = {"resource": resource, "device": shares[0] if len(shares) == 1 else ""}
    log.info("%s gets %s", holder, first_few(shares, MAX_LOGGED), extra=about)


def _distinct(devices: Iterable[Device]) -> list[Device]:
    """Return each device once: several shares of it are one device."""
    return list({device.id: device for device in devices}.values())


def _overdue(names: str) -> OverdueCallError:
    only = "" if "," in names else names  # which no ID contains
    return OverdueCallError(f"reading the nodes of {names} timed out", device=only)


def _only_id(devices: Sequence[Device]) -> str:
    """Return the device's ID if there is only one."""
    return devices[0].id if len(devices) == 1 else ""


def why_unusable(root: Root, devices: Sequence[Device]) -> str:
    """Read every node again; return which is missing or replaced, or "" (D4, D5).

    The policy is checked again, too, because links may lead elsewhere by now. Raise
    OverdueCallError for nodes that are known to hang.
    """
    files = DeviceFiles(root)
    for device in devices:
        try:
            if why := _why_unusable(root, device, files):
                return f"device {device.id}: {why}"
        except HangsError:
            raise _overdue(device.id) from None
    return ""


def _why_unusable(root: Root, device: Device, files: DeviceFiles) -> str:
    places = {node.host_path: node.identity for node in device.nodes}
    if not places:
        places = {member.path: member.identity for member in device.members}
    for path, identity in (places or {device.path: device.identity}).items():
        same = is_same(root, path, identity, files)
        if same is None:
            why = files.why_unreadable.get(path)
            return f"{path} cannot be read ({why})" if why else f"{path} does not exist"
        if not same:
            return f"{path} is another device than the one on offer"
    return device_refusal(device, device.given_mounts, files.examine, files.mount_target)
