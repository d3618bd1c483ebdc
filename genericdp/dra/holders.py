"""The claims that have hardware, and conflicts between them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.held import BY_CAPACITY
from genericdp.dra.claims import are_same, has_all, is_shared, read_others

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from genericdp.devices.held import HeldDevice
    from genericdp.dra.claims import Claim, ClaimRecords, Hold, Key, Record
    from genericdp.dra.pools import Pools

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class GoneClaim:
    """Shares of a prepared claim that the scheduler considers free."""

    since: float
    """On the loop's clock."""
    shares: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why not to offer each, by resource and share."""
    why: str = ""
    """A relative clause about the claim's devices."""
    is_old: bool = False
    """Whether the log already says that this lasts."""


class Holders:
    """All claims of the node: those of this driver, and those of drivers with other names."""

    def __init__(
        self, driver: str, records: ClaimRecords, pools: Pools, *, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when other shares must not be offered."""
        self._driver, self._records, self._pools = driver, records, pools
        self._changed = changed
        self.gone: dict[str, GoneClaim] = {}
        """Claims that the API server no longer has, by UID."""
        self._others: Sequence[Record] = ()
        """Records of drivers with other names, as last read."""
        self._reads_begun = self._read_taken = 0
        """The numbers of the last read of other drivers' claims, and of the read that
        ``_others`` is from.
        """
        self.pods: dict[str, tuple[str, ...]] = {}
        """The pods that use claims of this driver, as the API server last said, by UID."""
        self.passed: set[tuple[str, Key]] = set()
        """UID and device of claims that are ending and no longer count as holders."""
        self._ended_elsewhere: set[tuple[str, str]] = set()
        """Driver and UID of claims of other drivers that ended with a reboot, as the API server
        confirms.
        """

    async def holds(self) -> list[HeldDevice]:
        """Return the holds of claims, including those of other drivers; raise OSError."""
        await self.read_others()
        return self.known_holds()

    def known_holds(self) -> list[HeldDevice]:
        """Return the holds of claims; those of other drivers as last read."""
        found = []
        for claim in (*self._records.claims.values(), *self.other_claims):
            gone = self.gone.get(claim.uid)
            pods = self.pods.get(claim.uid, ())
            found += claim.held(gone.shares if gone else None, pods)
        return found

    @property
    def other_claims(self) -> list[Claim]:
        """The claims of drivers with other names, as last read."""
        return [record.claim for record in self._others if record.claim is not None]

    @property
    def unreadable(self) -> list[Record]:
        """The records that do not show what their claims hold."""
        others = (record for record in self._others if record.claim is None)
        return [*self._records.unreadable.values(), *others]

    def forget_pods(self) -> None:
        """Forget the pods of claims that have ended."""
        self.pods = {uid: pods for uid, pods in self.pods.items() if uid in self._records.claims}

    async def read_others(self) -> bool:
        """Read the records of other drivers; return whether there may be any. Raise OSError."""
        self._reads_begun += 1
        number = self._reads_begun
        has_neighbors, others = await read_others(self._records.directory)
        if number > self._read_taken:  # otherwise a read that began later has already ended
            self._read_taken = number
            self._others = [
                other for other in others if (other.driver, other.uid) not in self._ended_elsewhere
            ]
        return has_neighbors

    def why_refused(self, claim: Claim) -> str:
        """Return why a claim cannot have its hardware now; empty if it can."""
        mine = self._records.claims.get(claim.uid)
        for record in self.unreadable:
            for hold in claim.holds if record.uid != claim.uid else ():
                has_it = mine is not None and has_all(mine, hold)
                if record.may_hold(hold.resource) and not has_it:
                    return str(record)
        for hold, held, holder in self.conflicts(claim):
            result = next(result for result in claim.results if result.key == hold.key)
            what = f"device {result.device} of {result.pool}"
            who = f"claim {holder}"
            name = "" if hold.key == held.key else f" as {held.device_id} of {held.resource}"
            driver = "" if holder.driver == self._driver else f" by the DRA driver {holder.driver}"
            gone = self.gone.get(holder.uid)
            why = f", {gone.why}" if gone is not None else ""
            is_full = hold.key == held.key and is_shared(hold, held)
            how = "has too little capacity left next to" if is_full else "is prepared for"
            return f"{what} {how} {who}{name}{driver}{why}"
        return ""

    def conflicts(self, claim: Claim) -> Iterable[tuple[Hold, Hold, Claim]]:
        """Yield the holds of other claims on a claim's hardware, each with its claim."""
        for hold in claim.holds:
            has_room = self._has_room(claim, hold)
            for other, holder in self._other_holds(claim):
                if are_same(hold.identities, other.identities, self._pools.present) and not (
                    is_shared(hold, other) and (other.key != hold.key or has_room)
                ):
                    yield hold, other, holder

    def _has_room(self, claim: Claim, hold: Hold) -> bool:
        """Return whether a device has enough capacity for a new claim and those that hold it.

        The scheduler no longer counts claims that were deleted by force.
        """
        if hold.replicas != BY_CAPACITY or claim.is_prepared:
            return True
        if (listed := self._pools.listed(hold.key)) is None:
            return True
        holders = [holder for held, holder in self._other_holds(claim) if held.key == hold.key]
        if any(holder.is_foreign for holder in holders):  # how much it has is not known
            return False
        used = Counter[str]()
        for result in (result for holder in (claim, *holders) for result in holder.results):
            if result.key == hold.key and not result.admin:
                used.update(result.consumed)
        amounts = listed.device.capacity.items()
        return all(used[name] <= (value.amount or 0) for name, value in amounts)

    def _other_holds(self, claim: Claim) -> Iterable[tuple[Hold, Claim]]:
        """Yield all holds of other claims, each with its claim.

        Devices that pods hold through the device plugin are not on offer: ``decide`` ensures that.
        """
        own = (other for other in self._records.claims.values() if other.uid != claim.uid)
        return ((held, holder) for holder in (*own, *self.other_claims) for held in holder.holds)

    def is_held(self, hold: Hold, claim: Claim) -> bool:
        """Return whether the hardware has another holder, under any name."""
        return any(
            are_same(hold.identities, held.identities)
            for held, holder in self._other_holds(claim)
            if (holder.uid, held.key) not in self.passed
        )

    def note_gone(self, claim: Claim, why: str | None, keys: Collection[Key] = ()) -> None:
        """Record why shares of a claim must not be offered; None if they are the scheduler's."""
        if why is None:
            if self.gone.pop(claim.uid, None) is not None:
                self._changed()
            return
        shares = {
            (hold.resource, share): f"claim {claim} has it, {why}"
            for hold in claim.holds
            if hold.key in keys
            for share in hold.shares
        }
        now = asyncio.get_running_loop().time()
        gone = self.gone.setdefault(claim.uid, GoneClaim(since=now))
        if (gone.shares, gone.why) != (shares, why):
            gone.shares, gone.why = shares, why
            log.warning("claim %s has devices, %s", claim, why)
            self._changed()

    def end_elsewhere(self, claim: Claim) -> None:
        """Forget a claim of another driver that has ended, whose record stays."""
        ended = (claim.driver, claim.uid)
        self._ended_elsewhere.add(ended)
        self._others = [other for other in self._others if (other.driver, other.uid) != ended]
