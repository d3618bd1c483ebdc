"""Preparation of claims: records, hooks and CDI specs for what the scheduler has allocated."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from genericdp.cdi.folder import write
from genericdp.cdi.spec import container_edits, kind_of_ours, spec_of
from genericdp.devices.allocation import AllocationConflictError, edits_at
from genericdp.devices.device import device_id_of, share_number
from genericdp.devices.natural import natural_key
from genericdp.dra.claims import Claim, ClaimDevice
from genericdp.errors import UnusableDeviceError, explained, reason_of
from genericdp.host.workers import finish, in_worker
from genericdp.kubelet.servicer import PREPARE_HOOKS, counted
from genericdp.kubelet.v1.dra_pb2 import Device as PreparedDevice
from genericdp.printing import printable
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from genericdp.cdi.spec import Edits
    from genericdp.devices.device import Device
    from genericdp.dra.claims import ClaimRecords
    from genericdp.kubelet.servicer import Servicer
    from genericdp.kubelet.v1.dra_pb2 import Claim as ClaimRef
    from genericdp.tally import ResourceTally

    Devices: TypeAlias = dict[tuple[str, str], Device]
    """By resource and ID."""
    GetClaim: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any] | None]]
    """Returns a claim by namespace and name, None if there is none; raises GenericdpError."""

log = logging.getLogger(__name__)

_SPEC_PREFIX = "genericdp-claim_"
_PLAIN_LIMITS = "resource.kubernetes.io/extended-resource-claim"
"""An annotation of the claims that the scheduler makes for plain ``limits``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedPool:
    """The devices of a resource, as claims name them."""

    servicer: Servicer
    resource: str
    shares: Mapping[str, str]
    """The ID of a device, or of a share of it, by its name in the ResourceSlice."""


class ClaimError(UnusableDeviceError):
    """A claim cannot be prepared or unprepared now; the kubelet shows why and tries again."""


class ClaimPreparer:
    """Prepares and unprepares claims for the kubelet, which may repeat its calls.

    A call may be canceled at any ``await``, and the process killed anywhere: a claim's record is
    written first and removed last.
    """

    def __init__(
        self,
        driver: str,
        *,
        records: ClaimRecords,
        cdi_folder: Path,
        boot_id: str,
        get_claim: GetClaim,
        why_absent: Callable[[str], str],
    ) -> None:
        """``why_absent`` returns why a pool is not offered; empty: not known."""
        self.pools: Mapping[str, ServedPool] = {}
        """The pools that are offered now, by name."""
        self._driver = driver
        self._kind = f"{driver}/claim"
        self._records = records
        self._cdi_folder = cdi_folder
        self._boot_id = boot_id
        self._get_claim = get_claim
        self._why_absent = why_absent
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By UID: calls about the same claim run one after another."""
        self._trouble = ""
        """Why CDI specs could not be written, as logged."""

    @property
    def claims(self) -> Mapping[str, Claim]:
        """The claims that are prepared, or are being, by UID."""
        return self._records.claims

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> dict[str, tuple[PreparedDevice, ...] | str]:
        """Return the devices of each claim, or why it cannot be prepared, by UID."""
        return {one.uid: await self._caught(self._prepare(one), one, "prepared") for one in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Return why each claim cannot be unprepared, by UID; empty: it is."""
        return {
            one.uid: await self._caught(self._unprepare(one.uid), one, "unprepared") or ""
            for one in claims
        }

    async def _caught(self, work: Awaitable[Any], claim: ClaimRef, what: str) -> Any:  # noqa: ANN401
        """Return the result, or the text of the error, and log it."""
        where = printable(f"claim {claim.namespace}/{claim.name}")
        try:
            result = await work
        except Exception as error:  # noqa: BLE001
            # A bug that concerns one claim must not hold up the others.
            result = explained(error, self._cdi_folder)
            log.warning("%s cannot be %s: %s", where, what, result)
        else:
            log.debug("%s %s", where, what)
        return result

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        tallies: list[ResourceTally] = []
        with counted(tallies):
            async with self._lock(ref.uid):
                claim = await self._get_allocated(ref, tallies)
                return await self._prepare_allocated(claim)

    async def _prepare_allocated(self, claim: Claim) -> tuple[PreparedDevice, ...]:
        before = self.claims.get(claim.uid)
        if before is not None and before.devices != claim.devices:  # it was allocated again
            await self._release(before)
            before = None
        claim = before or claim
        run_hooks = claim.boot_id != self._boot_id
        if run_hooks:  # not prepared yet since the node has booted
            await self._free_devices_of(claim)
            self._records.reserve(claim)
            if any(
                pool.servicer.having_hooks([device_id_of(one.share)], *PREPARE_HOOKS)
                for one in claim.devices
                if (pool := self.pools.get(one.pool)) is not None
            ):
                # The device stays taken if the process is killed during one.
                await finish(self._records.write(claim))
        devices = await self._ready_devices(claim, run_hooks=run_hooks)
        if run_hooks:
            claim = replace(claim, boot_id=self._boot_id)
            await finish(self._records.write(claim))
        return await self._write_spec(claim, devices)

    async def _get_allocated(self, ref: ClaimRef, tallies: list[ResourceTally]) -> Claim:
        """Return a claim with the devices that the scheduler has allocated; raise ClaimError.

        Append to ``tallies`` those of its resources, for the caller to count the result.
        """
        found = await self._get_claim(ref.namespace, ref.name)
        if found is None:
            raise ClaimError("there is no such claim any more")
        try:
            if (uid := found["metadata"]["uid"]) != ref.uid:
                raise ClaimError(f"it has been made anew: its UID is {uid} now")
            if not (results := _results(found, self._driver)):
                raise ClaimError(f"nothing of {self._driver} is allocated to it")
            asked = {one["pool"] for one in results}
            tallies += [one.servicer.tally for name, one in self.pools.items() if name in asked]
            for one in found["status"]["allocation"]["devices"].get("config") or ():
                if one.get("opaque", {}).get("driver") == self._driver:
                    raise ClaimError(f"it has parameters for {self._driver}, which takes none")
            notes = found["metadata"].get("annotations") or {}
            return Claim(
                uid=uid,
                namespace=ref.namespace,
                name=ref.name,
                per_request=notes.get(_PLAIN_LIMITS) == "true",
                devices=tuple(map(self._device, results)),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ClaimError(f"the API server has no proper ResourceClaim: {error!r}") from error

    def _device(self, result: Mapping[str, Any]) -> ClaimDevice:
        """Return the device of an allocation result; raise ClaimError."""
        pool, name = result["pool"], result["device"]
        if pool not in self.pools and (why := self._why_absent(pool)):
            raise ClaimError(f"{pool} is not served by DRA now: {why}")
        if pool not in self.pools or name not in self.pools[pool].shares:
            raise ClaimError(f"there is no device {name} in {pool} on this node any more")
        share = self.pools[pool].shares[name]
        listed = self.pools[pool].servicer.devices.devices.get(device_id_of(share))
        return ClaimDevice(
            # The kubelet expects the request without the subrequest (``request/subrequest``).
            request=result["request"].partition("/")[0],
            pool=pool,
            device=name,
            resource=self.pools[pool].resource,
            share=share,
            admin=result.get("adminAccess") is True,
            hardware=() if listed is None else tuple(map(str, listed.device.identities)),
        )

    async def _free_devices_of(self, claim: Claim) -> None:
        """Unprepare ended claims that hold its devices; raise ClaimError if another claim has one.

        The caller must await nothing between this and ``reserve``: another call could get them.
        """
        wanted = {(one.pool, one.device) for one in claim.devices if not one.admin}

        def holders() -> list[Claim]:
            return [
                other
                for other in self.claims.values()
                if other.uid != claim.uid
                and any((it.pool, it.device) in wanted for it in other.devices if not it.admin)
            ]

        for holder in holders():
            if has := await self._device_still_held(holder, wanted):
                raise ClaimError(f"device {has} is prepared for claim {holder}")
            await self._release_ended(holder)
        if others := holders():
            raise ClaimError(f"claim {others[0]}, which has a device of it, is being worked on")

    async def unprepare_ended(self, used: Collection[tuple[str, str]]) -> None:
        """Unprepare ended claims, except ``used``: namespace and name of claims that pods use."""
        for claim in tuple(self.claims.values()):
            devices = {(one.pool, one.device) for one in claim.devices}
            try:
                is_used = (claim.namespace, claim.name) in used
                if not (is_used or await self._device_still_held(claim, devices)):
                    await self._release_ended(claim)
            except Exception:
                log.debug("claim %s stays prepared", claim, exc_info=True)

    async def _device_still_held(self, claim: Claim, devices: Collection[tuple[str, str]]) -> str:
        """Return the name of one of the devices that the claim still has; empty: it has none."""
        found = await self._get_claim(claim.namespace, claim.name)
        if found is None or found["metadata"]["uid"] != claim.uid:
            return ""
        has = (
            one for one in _results(found, self._driver) if (one["pool"], one["device"]) in devices
        )
        return next((one["device"] for one in has), "")

    async def _release_ended(self, claim: Claim) -> None:
        """Unprepare a claim that is deleted or no longer allocated, if nobody works on it."""
        lock = self._lock(claim.uid)
        # The caller may hold the lock of another claim: waiting for this one could be a deadlock.
        if not lock.locked() and self.claims.get(claim.uid) is claim:
            async with lock:
                log.warning("claim %s is over, but was not unprepared: unprepared", claim)
                await self._release(claim)

    async def _ready_devices(self, claim: Claim, *, run_hooks: bool) -> Devices:
        """Return its devices once checked as in Allocate, and hooks have run; raise CallError."""
        found: Devices = {}
        for name in dict.fromkeys(one.pool for one in claim.devices):
            if (pool := self.pools.get(name)) is None:
                raise ClaimError(f"there is no {name} on this node any more")
            shares = [one.share for one in claim.devices if one.pool == name]
            devices = await pool.servicer.prepare(shares, run_hooks=run_hooks)
            found |= {(pool.resource, one.id): one for one in devices}
        return found

    async def _write_spec(self, claim: Claim, devices: Devices) -> tuple[PreparedDevice, ...]:
        """Write the CDI spec of a claim; return its devices for the kubelet."""
        given, names = self._edits(claim, devices)
        for variable in _contradicting(given.values()):
            log.warning(
                "claim %s: its requests give %s different values, of which a container that uses"
                " several of them gets one",
                claim,
                variable,
            )
        await finish(self._put_spec(claim.uid, given))
        return tuple(
            PreparedDevice(
                request_names=[one.request],
                pool_name=one.pool,
                device_name=one.device,
                # The edits for all devices of a request come with its first device.
                cdi_device_ids=names.pop(one.request, ()),
            )
            for one in claim.devices
        )

    def _edits(
        self, claim: Claim, devices: Devices
    ) -> tuple[dict[str, Edits], dict[str, tuple[str, ...]]]:
        """Return the CDI devices of a claim, by name, and the full CDI names by request.

        There is one CDI device for each request: of several, only the last value of an environment
        variable would count. Devices that ``devices`` lacks are omitted. Raise ClaimError.
        """
        given: dict[str, Edits] = {}
        names: dict[str, tuple[str, ...]] = {}
        for number, request in enumerate(dict.fromkeys(one.request for one in claim.devices)):
            asked = [one for one in claim.devices if one.request == request]
            indexes = _indexes(asked if claim.per_request else claim.devices)
            keys = sorted({*map(_key, asked)} & devices.keys(), key=lambda key: indexes[key])
            try:
                edits = edits_at(
                    (
                        indexes[key],
                        devices[key],
                        [share_number(one.share) for one in asked if _key(one) == key],
                    )
                    for key in keys
                )
            except (AllocationConflictError, UnusableValueError) as error:
                raise ClaimError(str(error)) from error
            name = f"{claim.uid}_{number}"
            given[name] = container_edits(edits, [devices[key] for key in keys])
            names[request] = (*([f"{self._kind}={name}"] if given[name] else ()), *edits.cdi)
        return given, names

    async def _put_spec(self, uid: str, given: Mapping[str, Edits]) -> bool:
        """Write the CDI spec of a claim, or remove an empty one; return whether it has changed."""
        content, path = spec_of(self._kind, given), self._spec_file(uid)

        def put() -> bool:
            present = path.read_bytes() if path.exists() else b""
            if not content:
                path.unlink(missing_ok=True)
            elif content != present:
                os.close(write(path, content))
            return content != present

        return await in_worker(put)

    def _spec_file(self, uid: str) -> Path:
        return self._cdi_folder / f"{_SPEC_PREFIX}{uid}.json"

    async def _unprepare(self, uid: str) -> None:
        async with self._lock(uid):
            if (claim := self.claims.get(uid)) is not None:
                await self._release(claim)
            else:
                await finish(self._forget(uid))

    async def _release(self, claim: Claim) -> None:
        """Run the release hooks of devices that no other claim has, and forget the claim."""
        servicers = {one.resource: one.servicer for one in self.pools.values()}
        for resource in dict.fromkeys(one.resource for one in claim.devices):
            # For each resource again: during a hook, others may get a share of the next device.
            held = {
                _key(one)
                for other in self.claims.values()
                if other.uid != claim.uid
                for one in other.devices
            }
            mine = dict.fromkeys(_key(one) for one in claim.devices if one.resource == resource)
            last = [device_id for _, device_id in mine.keys() - held]
            if resource in servicers and (
                devices := servicers[resource].having_hooks(last, "release")
            ):
                # If it is prepared again before it is removed, its hooks have to run again.
                claim = replace(claim, boot_id="")
                self._records.reserve(claim)
                with suppress(OSError):  # a full disk must not keep a pod Terminating
                    await finish(self._records.write(claim))
                await servicers[resource].release(devices)
        await finish(self._forget(claim.uid))

    async def _forget(self, uid: str) -> None:
        """Remove CDI spec and record, in this order: until both are gone the claim is known."""
        await in_worker(partial(self._spec_file(uid).unlink, missing_ok=True))
        await self._records.remove(uid)

    async def update_specs(self) -> bool:
        """Update the CDI specs of prepared claims; return whether all are up to date.

        Devices may have come back as other nodes. Those that are gone are in no spec: a container
        that starts again must not get another device.
        """
        trouble, is_complete = "", True
        for claim in tuple(self.claims.values()):
            lock = self._lock(claim.uid)
            if lock.locked():  # by a hook, perhaps
                is_complete = False
            elif self.claims.get(claim.uid) is claim:
                async with lock:
                    try:
                        await self._update_spec(claim)
                    except OSError as error:
                        trouble = f"{self._cdi_folder}: {reason_of(error).lower()}"
        if trouble and trouble != self._trouble:
            log.warning("CDI specs of claims cannot be written to %s", trouble)
        self._trouble = trouble
        return is_complete and not trouble

    async def _update_spec(self, claim: Claim) -> None:
        if claim.boot_id != self._boot_id or any(it.pool not in self.pools for it in claim.devices):
            return  # it is not prepared yet, or a resource of it is not served any more
        present: Devices = {}
        for one in claim.devices:
            listed = self.pools[one.pool].servicer.devices.devices.get(device_id_of(one.share))
            if listed is not None and listed.gone_since is None and not listed.missing:
                present[_key(one)] = listed.device  # healthy or not
        with suppress(ClaimError):
            if await finish(self._put_spec(claim.uid, self._edits(claim, present)[0])):
                log.info("the CDI spec of claim %s is up to date again", claim)

    def remove_leftovers(self) -> None:
        """Remove CDI specs of claims without a record, such as those whose record was damaged."""
        with suppress(OSError):
            for path in self._cdi_folder.glob(f"{_SPEC_PREFIX}*.json"):
                is_ours = path.is_file() and kind_of_ours(path.read_bytes()) == self._kind
                if is_ours and path.stem.removeprefix(_SPEC_PREFIX) not in self.claims:
                    path.unlink(missing_ok=True)
                    log.info("%s removed: its claim is not prepared", path)


def _key(one: ClaimDevice) -> tuple[str, str]:
    """Return resource and ID of a device, the same for all shares; not its hardware."""
    return one.resource, device_id_of(one.share)


def _indexes(devices: Iterable[ClaimDevice]) -> dict[tuple[str, str], int]:
    """Return ``$(allocation.index)`` by resource and ID; devices that are gone count, too."""
    keys = sorted({_key(one) for one in devices}, key=lambda key: (key[0], natural_key(key[1])))
    return {key: index for index, key in enumerate(keys)}


def _contradicting(given: Iterable[Edits]) -> set[str]:
    """Return the environment variables that have different values in several edits."""
    values: dict[str, set[str]] = {}
    for one in given:
        for variable in one.get("env", ()):
            name, _, value = variable.partition("=")
            values.setdefault(name, set()).add(value)
    return {name for name, its in values.items() if len(its) > 1}


def _results(found: Mapping[str, Any], driver: str) -> list[Mapping[str, Any]]:
    """Return the allocation results of a ResourceClaim that are for a driver."""
    allocation = found.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results") or ()
    return [one for one in results if one["driver"] == driver]
