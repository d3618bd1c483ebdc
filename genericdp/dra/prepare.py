"""Preparation of claims: records, hooks and CDI specs for what the scheduler has allocated."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from genericdp.cdi.folder import write
from genericdp.cdi.spec import container_edits, kind_of_ours, rendered, spec_with
from genericdp.devices.allocation import AllocationConflictError, edits_at
from genericdp.devices.device import device_id_of
from genericdp.devices.natural import natural_key
from genericdp.dra.claims import Claim, ClaimDevice
from genericdp.errors import GenericdpError, reason_of
from genericdp.host.workers import in_worker
from genericdp.kubelet.dra import ClaimRef, PreparedDevice
from genericdp.printing import printable
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from genericdp.cdi.spec import Edits
    from genericdp.devices.device import Device
    from genericdp.dra.claims import ClaimRecords
    from genericdp.kubelet.servicer import Servicer

    Pools: TypeAlias = Mapping[str, "Pool"]
    """What is offered, by the name of the pool."""
    GetClaim: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any] | None]]
    """Returns a claim by namespace and name, None if there is none; raises GenericdpError."""

log = logging.getLogger(__name__)

_PREFIX = "genericdp-claim_"
_PLAIN_LIMITS = "resource.kubernetes.io/extended-resource-claim"
"""An annotation of the claims that the scheduler makes for plain ``limits``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The devices of one resource, as claims name them."""

    servicer: Servicer
    resource: str
    shares: Mapping[str, str]
    """The ID of a device, or of a share of it, by its name in the ResourceSlice."""


class ClaimError(GenericdpError):
    """Why a claim cannot be prepared or unprepared now; the kubelet shows it and tries again."""


@dataclass(slots=True)
class _Lock:
    """Of one claim; it is dropped when nobody waits for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class ClaimPreparer:
    """Prepares and unprepares claims for the kubelet, each as often as it asks."""

    def __init__(
        self,
        driver: str,
        *,
        records: ClaimRecords,
        cdi_folder: Path,
        boot_id: str,
        get_claim: GetClaim,
    ) -> None:
        self.pools: Pools = {}
        """What is offered now."""
        self._driver = driver
        self._kind = f"{driver}/claim"
        self._records = records
        self._cdi_folder = cdi_folder
        self._boot_id = boot_id
        self._get_claim = get_claim
        self._locks: dict[str, _Lock] = {}
        self._specs: dict[str, bytes] = {}
        """The specs as written last, by UID."""
        self._trouble: dict[str, str] = {}
        """Why a spec could not be written, as logged."""

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> dict[str, tuple[PreparedDevice, ...] | str]:
        """Return the devices of each claim, by UID, or why it cannot be prepared."""
        return {one.uid: await self._told(self._prepare(one), one, "prepared") for one in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Return, by UID, why a claim cannot be unprepared; empty: it is."""
        return {
            one.uid: await self._told(self._unprepare(one.uid), one, "unprepared") or ""
            for one in claims
        }

    async def _told(self, work: Awaitable[Any], claim: ClaimRef, what: str) -> Any:  # noqa: ANN401
        """Return a result, or the text of an error, which is logged."""
        where = printable(f"claim {claim.namespace}/{claim.name}")
        try:
            result = await work
        except GenericdpError as error:
            why = str(error)
        except OSError as error:
            why = f"{error.filename or self._cdi_folder}: {reason_of(error).lower()}"
        except Exception as error:
            # A mistake of ours about one claim must not hold up the others.
            log.exception("%s cannot be %s", where, what)
            return repr(error)
        else:
            log.debug("%s %s", where, what)
            return result
        log.warning("%s cannot be %s: %s", where, what, why)
        return why

    async def _prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        claim = self._located(await self._allocated(ref))
        async with self._locked(claim.uid):
            before = self._records.claims.get(claim.uid)
            if before is not None and before.devices == claim.devices:
                claim = before
            elif before is not None:  # it has been allocated anew
                await self._release(before)
            run_hooks = claim.boot_id != self._boot_id
            if run_hooks:
                # Recorded first: if the process is killed within a hook, the device is still taken.
                await self._make_free(claim)
                await in_worker(partial(self._records.write, claim))
            devices = await self._checked(claim, run_hooks=run_hooks)
            if run_hooks:
                claim = replace(claim, boot_id=self._boot_id)
                self._records.reserve(claim)
                await in_worker(partial(self._records.write, claim))
            return await self._give(claim, devices)

    async def _allocated(self, ref: ClaimRef) -> Claim:
        """Return what the scheduler has allocated; raise ClaimError."""
        found = await self._get_claim(ref.namespace, ref.name)
        if found is None:
            raise ClaimError("there is no such claim any more")
        if (uid := found["metadata"]["uid"]) != ref.uid:
            raise ClaimError(f"it has been made anew: its UID is {uid} now")
        return _claim_of(found, self._driver)

    def _located(self, claim: Claim) -> Claim:
        """Return a claim with the resource and share of each of its devices; raise ClaimError."""
        located = []
        for one in claim.devices:
            pool = self.pools.get(one.pool)
            share = None if pool is None else pool.shares.get(one.device)
            if pool is None or share is None:
                what = f"pool {one.pool}" if pool is None else f"device {one.device} in {one.pool}"
                raise ClaimError(f"there is no {what} on this node any more")
            located.append(replace(one, resource=pool.resource, share=share))
        return replace(claim, devices=tuple(located))

    async def _make_free(self, claim: Claim) -> None:
        """Take its devices from claims that no longer are; raise ClaimError if one still is."""
        for holder in self._holders(claim):
            try:
                found = await self._get_claim(holder.namespace, holder.name)
            except GenericdpError as error:
                raise ClaimError(
                    f"claim {holder} has a device of it, and whether it still is cannot be known:"
                    f" {error}"
                ) from error
            if found is not None and found["metadata"]["uid"] == holder.uid:
                theirs = {(one.pool, one.device) for one in _claim_of(found, self._driver).devices}
                for one in claim.devices:
                    if (one.pool, one.device) in theirs:
                        raise ClaimError(f"device {one.device} is prepared for claim {holder}")
            log.warning("claim %s is over, which the kubelet has not told: unprepared", holder)
            async with self._locked(holder.uid):
                await self._release(holder)
        # Nothing is awaited from here on until the claim is entered.
        if holders := self._holders(claim):
            raise ClaimError(f"a device of it is being prepared for claim {holders[0]}")
        self._records.reserve(claim)

    def _holders(self, claim: Claim) -> list[Claim]:
        """Return the other claims that have a device of a claim, but for admin access."""
        wanted = {(one.pool, one.device) for one in claim.devices if not one.admin}
        return [
            other
            for other in self._records.claims.values()
            if other.uid != claim.uid
            and any((it.pool, it.device) in wanted for it in other.devices if not it.admin)
        ]

    async def _checked(self, claim: Claim, *, run_hooks: bool) -> dict[tuple[str, str], Device]:
        """Return the devices by pool and name, checked as at an Allocate, with their hooks run."""
        found: dict[tuple[str, str], Device] = {}
        by_pool: dict[str, list[ClaimDevice]] = {}
        for one in claim.devices:
            by_pool.setdefault(one.pool, []).append(one)
        for pool, asked in by_pool.items():
            shares = dict.fromkeys(one.share for one in asked)
            if (served := self.pools.get(pool)) is None:
                raise ClaimError(f"there is no pool {pool} on this node any more")
            devices = await served.servicer.prepare(shares, run_hooks=run_hooks)
            found |= {(pool, one.device): devices[one.share] for one in asked}
        return found

    async def _give(
        self, claim: Claim, devices: Mapping[tuple[str, str], Device]
    ) -> tuple[PreparedDevice, ...]:
        """Write the CDI spec of a claim; return what the kubelet is told of its devices."""
        try:
            given, names = self._edits_of(claim, devices)
        except (AllocationConflictError, UnusableValueError) as error:
            raise ClaimError(str(error)) from error
        for variable in _contradicting(given.values()):
            log.warning(
                "claim %s: its requests give %s different values, of which a container that uses"
                " several of them gets one",
                claim,
                variable,
            )
        await in_worker(partial(self._write_spec, claim.uid, self._spec_of(given)))
        return tuple(
            PreparedDevice(
                requests=(one.request,),
                pool=one.pool,
                device=one.device,
                # With the first device of a request come the edits for all of them.
                cdi_names=names.pop(one.request, ()),
            )
            for one in claim.devices
        )

    def _spec_of(self, given: Mapping[str, Edits]) -> bytes:
        """Return the content of a CDI spec; empty if there is nothing in it."""
        spec = spec_with(self._kind, given)
        return b"" if spec is None else rendered(spec)

    def _edits_of(
        self, claim: Claim, devices: Mapping[tuple[str, str], Device]
    ) -> tuple[dict[str, Edits], dict[str, tuple[str, ...]]]:
        """Return the CDI devices of a claim, by name, and the full CDI names by request.

        There is one for each request: of several, only the last value of an environment variable
        would count. What ``devices`` lacks is left out. Raise AllocationConflictError and
        UnusableValueError.
        """
        given: dict[str, Edits] = {}
        names: dict[str, tuple[str, ...]] = {}
        for number, request in enumerate(dict.fromkeys(one.request for one in claim.devices)):
            asked = [one for one in claim.devices if one.request == request]
            indexes = _indexes(asked if claim.per_request else claim.devices)
            present = {
                indexes[_key(one)]: devices[one.pool, one.device]
                for one in asked
                if (one.pool, one.device) in devices
            }
            edits = edits_at(sorted(present.items()))
            name = f"{claim.uid}_{number}"
            given[name] = container_edits(edits, present.values())
            names[request] = (*([f"{self._kind}={name}"] if given[name] else ()), *edits.cdi)
        return given, names

    def _write_spec(self, uid: str, spec: bytes) -> None:
        """Have this as the spec of a claim, empty for none; raise OSError."""
        path = self._path_of_spec(uid)
        if spec:
            os.close(write(path, spec))
        else:
            path.unlink(missing_ok=True)
        self._specs[uid] = spec

    def _path_of_spec(self, uid: str) -> Path:
        return self._cdi_folder / f"{_PREFIX}{uid}.json"

    async def _unprepare(self, uid: str) -> None:
        async with self._locked(uid):
            if (claim := self._records.claims.get(uid)) is not None:
                await self._release(claim)
            else:
                await in_worker(partial(self._path_of_spec(uid).unlink, missing_ok=True))

    async def _release(self, claim: Claim) -> None:
        """Run the release hooks of devices whose last claim this is, and forget it."""
        others = {
            _key(one)
            for other in self._records.claims.values()
            if other.uid != claim.uid
            for one in other.devices
        }
        released: dict[str, dict[str, None]] = {}
        for one in claim.devices:
            if _key(one) not in others:
                released.setdefault(one.resource, {})[device_id_of(one.share)] = None
        by_resource = {pool.resource: pool.servicer for pool in self.pools.values()}
        for resource, device_ids in released.items():
            if resource in by_resource:
                await by_resource[resource].release(device_ids)
        await in_worker(partial(self._remove, claim.uid))
        self._records.forget(claim.uid)
        self._specs.pop(claim.uid, None)
        self._trouble.pop(claim.uid, None)

    def _remove(self, uid: str) -> None:
        """Remove spec and record, in this order: until both are gone the claim is known."""
        self._path_of_spec(uid).unlink(missing_ok=True)
        self._records.remove(uid)

    @asynccontextmanager
    async def _locked(self, uid: str) -> AsyncIterator[None]:
        """Have no two calls at work on one claim; a slow one holds up no other claim."""
        one = self._locks.setdefault(uid, _Lock())
        one.users += 1
        try:
            async with one.lock:
                yield
        finally:
            one.users -= 1
            if not one.users:
                del self._locks[uid]

    async def update_specs(self) -> bool:
        """Write the specs of prepared claims again where devices have come back as other nodes.

        What is not there has no entry: a container that starts again must not get another device.
        Return whether all could be written.
        """
        for uid in tuple(self._records.claims):
            async with self._locked(uid):
                claim = self._records.claims.get(uid)
                if claim is not None and claim.boot_id == self._boot_id:
                    await self._update_spec(claim)
        return not any(self._trouble.values())

    async def _update_spec(self, claim: Claim) -> None:
        if any(one.pool not in self.pools for one in claim.devices):
            return  # nobody looks after these devices any more
        present = {
            (one.pool, one.device): device
            for one in claim.devices
            if (device := self._present(one)) is not None
        }
        with suppress(AllocationConflictError, UnusableValueError):
            spec, trouble = self._spec_of(self._edits_of(claim, present)[0]), ""
            if self._specs.get(claim.uid) == spec:
                return
            try:
                await in_worker(partial(self._write_spec, claim.uid, spec))
                log.info("the CDI spec of claim %s is up to date again", claim)
            except OSError as error:
                trouble = reason_of(error).lower()
            if trouble and self._trouble.get(claim.uid) != trouble:
                log.warning("the CDI spec of claim %s cannot be written: %s", claim, trouble)
            self._trouble[claim.uid] = trouble

    def _present(self, one: ClaimDevice) -> Device | None:
        """Return a device of a claim if it is there, healthy or not."""
        listed = self.pools[one.pool].servicer.devices.devices.get(device_id_of(one.share))
        if listed is None or listed.gone_since is not None or listed.missing:
            return None
        return listed.device

    def remove_leftovers(self) -> None:
        """Remove specs of claims that are not recorded, as of a damaged record."""
        with suppress(OSError):
            for path in self._cdi_folder.glob(f"{_PREFIX}*.json"):
                uid = path.stem.removeprefix(_PREFIX)
                if uid not in self._records.claims and _is_of_kind(path, self._kind):
                    path.unlink(missing_ok=True)
                    log.info("%s removed: its claim is not prepared", path)


def _is_of_kind(path: Path, kind: str) -> bool:
    return path.is_file() and not path.is_symlink() and kind_of_ours(path.read_bytes()) == kind


def _key(one: ClaimDevice) -> tuple[str, str]:
    """Return the same for all shares of a device."""
    return one.resource, device_id_of(one.share)


def _indexes(devices: Iterable[ClaimDevice]) -> dict[tuple[str, str], int]:
    """Return ``$(allocation.index)`` of devices, whether or not they are there now."""
    keys = sorted({_key(one) for one in devices}, key=lambda key: (key[0], natural_key(key[1])))
    return {key: index for index, key in enumerate(keys)}


def _contradicting(given: Iterable[Edits]) -> set[str]:
    """Return the names of environment variables that have different values in several edits."""
    values: dict[str, set[str]] = {}
    for one in given:
        for variable in one.get("env", ()):
            name, _, value = variable.partition("=")
            values.setdefault(name, set()).add(value)
    return {name for name, its in values.items() if len(its) > 1}


def _claim_of(found: Mapping[str, Any], driver: str) -> Claim:
    """Return what a ResourceClaim has been allocated of a driver; raise ClaimError.

    The names of alternatives (``request/alternative``) are those of their request.
    """
    metadata = found["metadata"]
    allocation = found.get("status", {}).get("allocation")
    if allocation is None:
        raise ClaimError("nothing is allocated to it")
    devices = allocation.get("devices", {})
    for one in devices.get("config") or ():
        if one.get("opaque", {}).get("driver") == driver:
            raise ClaimError(f"it has parameters for {driver}, which takes none")
    return Claim(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        per_request=(metadata.get("annotations") or {}).get(_PLAIN_LIMITS) == "true",
        devices=tuple(
            ClaimDevice(
                request=one["request"].partition("/")[0],
                pool=one["pool"],
                device=one["device"],
                admin=one.get("adminAccess") is True,
            )
            for one in devices.get("results") or ()
            if one["driver"] == driver
        ),
    )
