"""Preparation of claims: records, hooks and CDI specs for what the scheduler has allocated."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from genericdp.devices.transitions import State
from genericdp.dra.allocated import claim_of, malformed, pods_of, results_of
from genericdp.dra.claims import ClaimError
from genericdp.dra.given import (
    as_device,
    contradicting,
    identities_of,
    locate,
    recorded,
    with_hooks,
)
from genericdp.dra.holders import Holders
from genericdp.dra.specs import ClaimSpecs, warn_of_collisions
from genericdp.errors import DAMAGE, GenericdpError, reason_of
from genericdp.gate import CallTimeouts, Limit, counted, limited, log_given
from genericdp.host.workers import HangingError, finish, in_worker
from genericdp.printing import first_few, printable
from genericdp.repeat import Latch, explained

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path
    from typing import Never

    from genericdp.devices.device import Device
    from genericdp.dra.claims import Claim, ClaimRecords, Hold, Key
    from genericdp.dra.pools import Pools
    from genericdp.gate import Gate, RunHooks
    from genericdp.host.root import Root
    from genericdp.kubelet.dra import ClaimRef, DeviceHealth, PreparedDevice
    from genericdp.model import HookName
    from genericdp.policy import Policy
    from genericdp.settings import DraSettings
    from genericdp.tally import ResourceTally

    Devices: TypeAlias = dict[Key, Device]
    GetClaim: TypeAlias = Callable[[str, str], Awaitable[dict[str, Any] | None]]
    """Returns a claim by namespace and name, or None; raises GenericdpError."""

T = TypeVar("T")

log = logging.getLogger(__name__)

_HOOKS: tuple[HookName, ...] = ("allocate", "preStart")
"""The hooks of NodePrepareResources: with DRA, no call comes before a container starts."""
_WAITING = "waiting for the kubelet to unprepare it"


class ClaimPreparer:
    """Prepares and unprepares claims for the kubelet, which may repeat its calls.

    A call may be canceled at any ``await``, and the process killed at any time, so a claim's record
    is written first and removed last. A claim's holds end only through Unprepare, an administrator,
    a new allocation, or a reboot if the API server no longer has the claim.
    """

    def __init__(
        self,
        settings: DraSettings,
        *,
        records: ClaimRecords,
        cdi_directory: Path,
        boot_id: str,
        root: Root,
        pools: Pools,
        get_claim: GetClaim,
        run_hooks: RunHooks,
        policy: Callable[[], Policy | None],
        extended_resource: Callable[[], bool | None],
        changed: Callable[[], None],
    ) -> None:
        """``extended_resource`` returns the attribute of that name, or None if it is unknown.

        ``changed`` is called when other shares must not be offered.
        """
        self._driver, self._timing = settings.driver, settings.claim_timing
        self.records = records
        """Records of the claims that are prepared or being prepared."""
        self.specs = ClaimSpecs(cdi_directory, settings)
        self._boot_id, self._root = boot_id, root
        self._pools = pools
        self._get_claim = get_claim
        self._run_hooks, self._policy = run_hooks, policy
        self._extended_resource = extended_resource
        self._changed = changed
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by UID: calls about the same claim run one after another."""
        self.holders = Holders(settings.driver, records, pools, changed=changed)
        self._unwritten = Latch(log)
        """Why CDI specs could not be written."""
        self._unreleased: dict[str, Latch] = {}
        """Why claims that an administrator has released have not ended yet, by UID."""

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> dict[str, tuple[PreparedDevice, ...] | str]:
        """Return the devices of each claim, or why it cannot be prepared, by UID."""
        limit = Limit("NodePrepareResources", CallTimeouts().claims)
        answers = await _together(
            self._caught(self._prepare(ref, limit), ref, "prepared") for ref in claims
        )
        prepared = (self.records.claims.get(ref.uid) for ref in claims)
        warn_of_collisions(filter(None, prepared))
        return {ref.uid: answer for ref, answer in zip(claims, answers, strict=True)}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Return why each claim cannot be unprepared, by UID; empty if it was."""
        limit = _unprepare_limit()
        answers = await _together(
            self._caught(self._unprepare(ref.uid, limit), ref, "unprepared") for ref in claims
        )
        return {ref.uid: answer or "" for ref, answer in zip(claims, answers, strict=True)}

    async def _caught(self, work: Awaitable[Any], claim: ClaimRef, what: str) -> Any:  # noqa: ANN401
        """Return the result; if there is an error, log and return its text."""
        where = printable(f"claim {claim.namespace}/{claim.name}")
        try:
            result = await work
        except Exception as error:  # noqa: BLE001
            # A bug that affects one claim must not delay the others.
            result = explained(error, self.specs.directory)
            log.warning("%s cannot be %s: %s", where, what, result)
        else:
            log.debug("%s %s", where, what)
        return result

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    def health(self) -> Iterator[DeviceHealth]:
        """Yield the health of each device of a prepared claim, once for each claim."""
        for claim in self.records.claims.values():
            for result in claim.results:
                listed = self._pools.listed(result.key)
                is_known = listed and listed.state is not State.PROBING
                is_healthy = listed.is_healthy if listed and is_known else None
                why = listed.text if listed else "it is not on offer"
                yield {
                    "pool_name": result.pool,
                    "device_name": result.device,
                    "is_healthy": is_healthy,
                    "reason": why,
                }

    # Prepare

    async def _prepare(self, ref: ClaimRef, limit: Limit) -> tuple[PreparedDevice, ...]:
        tallies: list[ResourceTally] = []
        with counted(tallies):
            async with self._lock(ref.uid):
                asked = await self._get_allocated(ref, tallies)
                before = self.records.claims.get(asked.uid)
                if before is not None:
                    self.holders.note_gone(before, None)
                    if not before.is_allocated_as(asked):
                        before = await self._end_former(before, asked, limit)
                claim, fresh = await self._reserve(asked, before)
                devices = await self._ready_devices(
                    claim, fresh, limit, run_hooks=not claim.is_prepared
                )
                is_new = not claim.is_prepared
                is_checked = is_new and devices.keys() == {result.key for result in claim.results}
                if is_checked:
                    claim = self._renewed(claim, asked, fresh, devices)
                if is_new:
                    claim = replace(claim, is_prepared=True)
                    await finish(self.records.write(claim, is_new=before is None))
                    _log_given(claim, self.holders.pods.get(ref.uid, ()))
                if not is_checked:
                    claim, missing = await self._located(claim)
                    if missing:
                        raise ClaimError(next(iter(missing.values())))
                return await self._write_spec(claim)

    def _renewed(self, claim: Claim, asked: Claim, fresh: Devices, devices: Devices) -> Claim:
        """Return the record of a claim after its hooks, which may change devices.

        ``fresh`` are the devices before them. Raise ClaimError.
        """
        if devices == fresh:
            return claim
        claim = recorded(asked, claim.results, devices, self._extended_resource())
        if why := self.holders.why_refused(claim):
            raise ClaimError(why)
        self.records.reserve(claim)  # there was no await since the check
        return claim

    async def _get_allocated(self, ref: ClaimRef, tallies: list[ResourceTally]) -> Claim:
        """Return a claim with the results that the scheduler has allocated; raise ClaimError.

        Append the tallies of its resources to ``tallies``, so that the caller can count the result.
        """
        found = await self._get_claim(ref.namespace, ref.name)
        if found is None:
            raise ClaimError("there is no such claim any more")
        claim = claim_of(found, ref, driver=self._driver, boot_id=self._boot_id)
        names = {result.pool for result in claim.results}
        pools = self._pools.by_name.items()
        tallies += [pool.gate.tally for name, pool in pools if name in names]
        self.holders.pods[ref.uid] = pods_of(found)
        return claim

    async def _reserve(self, asked: Claim, before: Claim | None) -> tuple[Claim, Devices]:
        """Reserve the hardware of a claim; ``before`` is its current record.

        Return its record, and its devices that are on offer. Raise ClaimError or OSError.
        """
        has_neighbors = await self.holders.read_others()
        missing: Mapping[Key, str] = {}
        if before is not None:
            before, missing = await self._located(before)
        claim, fresh = self._planned(asked, before, missing)
        if self.holders.why_refused(claim):
            conflicts = self.holders.conflicts(claim)
            holders = {(holder.driver, holder.uid): holder for _, _, holder in conflicts}
            for holder in holders.values():
                with suppress(GenericdpError):  # then the record stays as it is
                    await self.check(holder)
            claim, fresh = self._planned(asked, before, missing)
            if why := self.holders.why_refused(claim):
                raise ClaimError(why)
        self.records.reserve(claim)  # there was no await since the check
        has_hooks = any(
            fresh[hold.key].hooks.keys() & _HOOKS for hold in claim.holds if hold.key in fresh
        )
        if claim is not before and (has_neighbors or has_hooks or claim.is_prepared):
            # The hardware stays reserved if the process is killed. Another driver may have written
            # a record meanwhile, so each driver first writes its own record, then reads the
            # others'.
            await finish(self.records.write(claim, is_new=before is None))
            await self.holders.read_others()
            if why := self.holders.why_refused(claim):
                if before is None:
                    await finish(self._forget(claim.uid))
                raise ClaimError(why)
        return claim, fresh

    def _planned(
        self, asked: Claim, before: Claim | None, missing: Mapping[Key, str]
    ) -> tuple[Claim, Devices]:
        """Return the record of a claim before its hooks, and its devices that are on offer.

        ``before`` is its current record, ``missing`` has reasons why devices in it are missing. In
        this boot, and if the config no longer has a device, the claim keeps what its containers
        got. Raise ClaimError.
        """
        results = tuple(self._pools.resolved(result, before) for result in asked.results)
        fresh: Devices = {}
        for result in results:
            known = () if before is None else identities_of(before, result.key)
            listed = self._pools.listed_for(result, is_known=bool(known))
            is_here = listed is not None and listed.is_present
            if listed is not None and (
                not known or (is_here and self._pools.is_hardware(known, listed.device))
            ):
                fresh[result.key] = listed.device
            elif before is None or not before.requests or result.key in missing:
                why = missing.get(result.key, "it is not on offer")
                if listed is not None and is_here:
                    now = " and ".join(map(str, listed.device.identities))
                    then = " and ".join(map(str, known))
                    why = f"it is other hardware now: {now}; the claim was prepared with {then}"
                raise ClaimError(f"device {result.device} of {result.pool}: {why}")
        is_prepared = before is not None and before.is_prepared and before.boot_id == self._boot_id
        if before is not None and before.requests:
            if is_prepared:
                return before, fresh
            if fresh.keys() != {result.key for result in results}:
                return replace(before, boot_id=self._boot_id, is_prepared=False), fresh
        claim = recorded(asked, results, fresh, self._extended_resource())
        return replace(claim, is_prepared=is_prepared), fresh

    async def _ready_devices(
        self, claim: Claim, fresh: Devices, limit: Limit, *, run_hooks: bool
    ) -> Devices:
        """Check its devices as in Allocate, run hooks, and return the devices; raise CallError.

        Devices that are not ``fresh`` are not on offer: they are from the claim's record.
        Hooks run for no device that is only for admin access.
        """
        held = {hold.key for hold in claim.holds}
        given = {device.key: device for device in claim.devices}

        async def ready(gate: Gate, hooks: Iterable[HookName], shares: Sequence[str]) -> Devices:
            def bind(device: Device) -> Device:
                return with_hooks(given.get((gate.resource, device.id)), _HOOKS, device)

            async with limited(gate.resource, limit) as unfinished:
                devices = await gate.admit(shares, hooks, unfinished, bind)
            return {(gate.resource, device.id): device for device in devices}

        works = []
        for gate in self._pools.gates:
            for is_held in (True, False):
                shares = [
                    result.share
                    for result in claim.results
                    if result.resource == gate.resource
                    and result.key in fresh
                    and (result.key in held) is is_held
                ]
                if shares:
                    works.append(ready(gate, _HOOKS if run_hooks and is_held else (), shares))
        found = {
            key: device for devices in await _together(works) for key, device in devices.items()
        }
        if missing := fresh.keys() - found.keys():
            raise ClaimError(f"{next(iter(missing))[0]} is not on offer on this node any more")
        return found

    # The end of a claim

    async def _unprepare(self, uid: str, limit: Limit) -> None:
        async with self._lock(uid):
            if (claim := self.records.claims.get(uid)) is not None:
                await self._release(claim, limit)
            else:
                await finish(self._forget(uid))

    async def _end_former(self, before: Claim, asked: Claim, limit: Limit) -> Claim | None:
        """Release devices of a claim that are no longer allocated to it; return those that it
        keeps. Raise ClaimError if these are not known: a device may be back later.
        """
        wanted = [
            self._pools.resolved(result, before) for result in asked.results if not result.admin
        ]
        held = {(hold.key, share) for hold in before.holds for share in hold.shares}
        if not before.results and held == {(result.key, result.held_share) for result in wanted}:
            return before  # only its holds show that it is the same allocation
        keep = {result.key for result in wanted} & {hold.key for hold in before.holds}
        return await self._release(before, limit, keep)

    async def _release(
        self, claim: Claim, limit: Limit, keep: Collection[Key] = ()
    ) -> Claim | None:
        """Run the release hooks of hardware that has no other holder, and forget the claim.

        It continues to hold ``keep``, which is returned. Raise CallError, or OSError.
        """
        ending = [hold for hold in claim.holds if hold.key not in keep]
        hooked = self._having_release_hook(claim, ending)
        if hooked:
            await self.holders.read_others()
            # If the claim is prepared again before the record is removed, its hooks must run again.
            claim = replace(claim, is_prepared=False)
            self.records.reserve(claim)
            # a full disk must not keep a pod Terminating
            with suppress(OSError, ClaimError):
                await finish(self.records.write(claim))
        passed: set[tuple[str, Key]] = set()

        async def run_last(resource: str) -> None:
            # There is no await between this check and the hooks: others may get a share meanwhile,
            # and their hooks run after those that have begun.
            mine = [hold for hold in ending if hold.resource == resource]
            last = [
                hold.key
                for hold in mine
                if hold.key in hooked and not self.holders.is_held(hold, claim)
            ]
            passed.update((claim.uid, hold.key) for hold in mine)
            self.holders.passed |= passed
            if devices := [hooked[key] for key in last]:
                async with limited(resource, limit) as unfinished:
                    await self._run_hooks("release", resource, devices, unfinished)

        try:
            await _together(map(run_last, dict.fromkeys(hold.resource for hold in ending)))
            if not keep:
                await finish(self._forget(claim.uid))
                return None
            claim = replace(
                claim,
                is_prepared=False,
                holds=tuple(hold for hold in claim.holds if hold.key in keep),
                devices=tuple(device for device in claim.devices if device.key in keep),
                results=(),
                requests=(),
                edits=(),
                is_foreign=False,
            )
            await finish(self.records.write(claim))
            return claim
        finally:
            self.holders.passed -= passed

    def _having_release_hook(self, claim: Claim, holds: Iterable[Hold]) -> Devices:
        """Return the devices to run release hooks for, with the hook of the config, else of the
        record.
        """
        given = {device.key: device for device in claim.devices}
        found: Devices = {}
        for hold in holds:
            listed, known = self._pools.listed(hold.key), given.get(hold.key)
            if (
                listed is not None
                and "release" in listed.device.hooks
                and self._pools.is_hardware(hold.identities, listed.device)
            ):
                try:
                    found[hold.key] = with_hooks(known, ("release",), listed.device)
                    continue
                except ClaimError as error:  # it uses a parameter that was not known then
                    log.warning(
                        "claim %s ends without the release hook of the config, but with that of"
                        " its record if it has one: %s",
                        claim,
                        error,
                    )
            if known is not None and known.release is not None:
                found[hold.key] = as_device(known, known.release, self._policy())
        return found

    async def _forget(self, uid: str) -> None:
        """Remove CDI spec and record, in this order, so that the claim is known until both are
        removed.
        """
        self.specs.ending.add(uid)
        try:
            await self.specs.remove(uid)
            await self.records.remove(uid)
        finally:
            self.specs.ending.remove(uid)
        if self.holders.gone.pop(uid, None) is not None:
            self._changed()

    async def honor_markers(self) -> bool:
        """Release the claims whose release an administrator has requested; return whether all
        are released.
        """
        if await self.records.reload_unreadable():
            self._changed()
        for unwritten in tuple(self.records.unwritten.values()):
            if not (lock := self._lock(unwritten.uid)).locked():
                async with lock:
                    await self.records.write_again([unwritten])
        before, self._unreleased = self._unreleased, {}
        for uid in await in_worker(self.records.markers, self.records.directory):
            claim = self.records.claims.get(uid, uid)
            try:
                await self._unprepare(uid, _unprepare_limit())
                log.warning("claim %s was released by an administrator", claim)
            except (GenericdpError, OSError) as error:
                why = explained(error, self.records.directory)
                latch = self._unreleased[uid] = before.get(uid) or Latch(log)
                latch.update(why, "claim %s cannot be released: %s", claim, why)
        return not self._unreleased

    # What the API server has of prepared claims

    async def watch(self) -> Never:
        """Ask the API server about each prepared claim, now and then."""
        while True:
            self.holders.forget_pods()
            with suppress(OSError):  # then as last read; Prepare needs them and says why
                await self.holders.read_others()
            for claim in (*self.records.claims.values(), *self.holders.other_claims):
                try:
                    await self.check(claim)
                except (GenericdpError, OSError) as error:
                    log.debug("claim %s stays as it is: %s", claim, error)
            now = asyncio.get_running_loop().time()
            for uid, gone in self.holders.gone.items():
                if not gone.is_old and now - gone.since >= self._timing.warn:
                    gone.is_old = True
                    log.warning(
                        "the kubelet has not unprepared claim %s for %d s, although the API server"
                        " no longer has it; once no container uses its devices, run `genericdp"
                        " claims release %s`",
                        self.records.claims.get(uid, uid),
                        self._timing.warn,
                        uid,
                    )
            await asyncio.sleep(self._timing.period * random.uniform(0.75, 1.25))  # noqa: S311

    async def check(self, claim: Claim) -> None:
        """Ask the API server about a claim: withhold its shares, or end it after a reboot.

        Raise GenericdpError or OSError; then nothing changes.
        """
        found = await self._get_claim(claim.namespace, claim.name)
        try:
            exists = found is not None and found["metadata"]["uid"] == claim.uid
            results = results_of(found, claim.driver) if found is not None and exists else ()
            if found is not None and exists and claim.driver == self._driver:
                self.holders.pods[claim.uid] = pods_of(found)
        except DAMAGE as error:
            raise malformed(error) from error
        allocated = {result.allocated for result in results}
        former = {result.key for result in claim.results if result.allocated not in allocated}
        if not exists:
            former |= {hold.key for hold in claim.holds}
        is_of_other_boot = claim.boot_id not in ("", self._boot_id)
        if claim.driver != self._driver:
            if not exists and is_of_other_boot:
                self.holders.end_elsewhere(claim)
        elif self.records.claims.get(claim.uid) is not claim or self._lock(claim.uid).locked():
            pass  # a call about it is in progress
        elif former and is_of_other_boot:
            async with self._lock(claim.uid):
                log.warning("claim %s has ended before the node has started", claim)
                keep = {hold.key for hold in claim.holds} - former
                await self._release(claim, _unprepare_limit(), keep)
        else:
            lacks = "has" if not exists else "allocates to it"
            why = f"which the API server no longer {lacks}: {_WAITING}"
            self.holders.note_gone(claim, why if former else None, former)

    # CDI specs

    async def _write_spec(self, claim: Claim) -> tuple[PreparedDevice, ...]:
        """Write the CDI spec of a claim; return its devices for the kubelet; raise ClaimError."""
        for variable in contradicting(claim.edits):
            log.warning(
                "claim %s: its requests give %s different values, of which a container that uses"
                " several of them gets one",
                claim,
                variable,
            )
        await finish(self.specs.put(claim, is_complete=True))
        names = self.specs.devices_of(claim)
        return tuple(
            {
                "request_names": [result.request],
                "pool_name": result.pool,
                "device_name": result.device,
                # The edits for all devices of a request come with its first device.
                "cdi_device_ids": names.pop(result.request, ()),
                "share_id": result.share_id or None,
            }
            for result in claim.results
        )

    async def _located(self, claim: Claim) -> tuple[Claim, Mapping[Key, str]]:
        """Return a claim with the current paths of its nodes, and why devices of it are missing.

        If a device has come back with different nodes, the record is written again, because the
        config may no longer have them. Raise ClaimError if the devices cannot be read, and OSError.
        """
        same_boot = claim.boot_id == self._boot_id
        work = partial(locate, self._root, claim, self._pools.complete_devices, same_boot=same_boot)
        try:
            now, missing = await in_worker(work, f"nodes of claim {claim}")
        except HangingError as error:
            raise ClaimError(f"reading the nodes of claim {claim} timed out") from error
        if now is not claim and self.records.claims.get(claim.uid) is claim:
            await finish(self.records.write(now))
        return now, missing

    async def update_specs(self) -> bool:
        """Update the CDI specs of prepared claims; return whether all are up to date.

        A spec that was removed is written again, and devices may have come back with different
        nodes.
        """
        trouble, is_complete = "", True
        for claim in tuple(self.records.claims.values()):
            is_present = claim.is_prepared and claim.boot_id == self._boot_id
            is_known = is_present and bool(claim.requests)
            if not is_known or self.records.claims.get(claim.uid) is not claim:
                continue
            if (lock := self._lock(claim.uid)).locked():  # perhaps a hook removed it
                is_complete = False
                continue
            async with lock:
                try:
                    await self._update_spec(claim)
                except ClaimError:
                    is_complete = False
                except OSError as error:
                    trouble = f"{self.specs.directory}: {reason_of(error).lower()}"
        self._unwritten.update(trouble, "CDI specs of claims cannot be written to %s", trouble)
        return is_complete and not trouble

    async def _update_spec(self, claim: Claim) -> None:
        claim, missing = await self._located(claim)
        if await finish(self.specs.put(claim, is_complete=not missing)):
            if missing:
                why = next(iter(missing.values()))
                log.warning("claim %s has no CDI spec until it is back: %s", claim, why)
            else:
                log.info("the CDI spec of claim %s is up to date again", claim)

    def remove_leftovers(self) -> None:
        """Remove CDI specs and metadata of claims that are not prepared, or were prepared before
        the node's boot.
        """
        records, boots = self.records, ("", self._boot_id)
        of_this_boot = {uid for uid, claim in records.claims.items() if claim.boot_id in boots}
        self.specs.remove_others(records.unreadable.keys() | of_this_boot)


def _unprepare_limit() -> Limit:
    return Limit("NodeUnprepareResources", CallTimeouts().claims)


async def _together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end, even if some fail; return their results, or raise the first error."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # none is an error


def _log_given(claim: Claim, pods: Sequence[str]) -> None:
    of_pod = f" of pod {printable(first_few(pods, 3))}" if pods else ""
    shares: dict[str, list[str]] = {}
    for hold in claim.holds:
        shares.setdefault(hold.resource, []).extend(hold.shares)
    for resource, given in shares.items():
        log_given(f"claim {printable(str(claim))}{of_pod}", resource, given)
