"""Records of prepared claims on disk: which hardware each claim has, and what its containers get.

A record outlives the daemon, a reboot and an upgrade. ``uid`` and ``holds`` keep their form in
every version of the format, so that an older daemon still knows which hardware is held.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from genericdp.cdi import Edits  # noqa: TC001 -- records are read by their types
from genericdp.devices.device import device_id_of
from genericdp.devices.held import HeldDevice, Name, sharing_of
from genericdp.devices.identity import HardwareIdentity  # noqa: TC001 -- records are read by their types
from genericdp.devices.inventory import Identity  # noqa: TC001 -- records are read by their types
from genericdp.durable import read_regular, remove_temporary, write
from genericdp.errors import DAMAGE, UnusableDeviceError, is_shortage, reason_of, why_damaged
from genericdp.host.workers import in_worker
from genericdp.jsonvalues import KEY, as_record, count_values, from_record, parse_json
from genericdp.model import ServedBy
from genericdp.printing import first_few
from genericdp.repeat import explained
from genericdp.settings import SERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeAlias

    Key: TypeAlias = tuple[str, str]
    """Resource and ID of a device, the same for all its shares."""

log = logging.getLogger(__name__)

_VERSION = 4
"""The version of records. ``uid`` and ``holds`` have the same form in all versions, so that no
hold is lost.
"""
SUFFIX = ".json"
_MAX_SERVED_BYTES = 1024 * 1024
"""Maximum size of the list of resources that DRA serves."""
RELEASE_SUFFIX = ".release"
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a record, both when it is written and when it is read."""
_MAX_VALUES = 300_000
"""Maximum number of values in a record. They have some 20 bytes each; parsed, this many need 30
MB.
"""


class ClaimError(UnusableDeviceError):
    """A claim cannot be prepared or unprepared now; the kubelet shows why and tries again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A device that the scheduler has allocated to a claim."""

    request: str
    """The name of the request in the claim, without that of a subrequest."""
    subrequest: str = ""
    """The name of the alternative that the scheduler has chosen, if there are several."""
    pool: str
    device: str
    """Its name in the ResourceSlice."""
    admin: bool = False
    """Whether it is for ``adminAccess``: then the claim does not hold it."""
    resource: str = ""
    share: str = ""
    """The ID of the device, or of a share of it."""
    share_id: str = field(default="", metadata={KEY: "shareID"})
    """The scheduler's name for a part of the device's capacity; empty for all of the device."""
    consumed: dict[str, int] = field(default_factory=dict)
    """How much of each capacity that part has."""

    @property
    def held_share(self) -> str:
        """The share that it holds, or its part of the capacity; no other result has the same."""
        return f"{self.share}::{self.share_id}" if self.share_id else self.share

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, device_id_of(self.share)

    @property
    def asked(self) -> str:
        """The request with its subrequest, as in ``request/subrequest``."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request

    @property
    def allocated(self) -> tuple[str, str, str, bool, str]:
        """A result of the scheduler."""
        return self.request, self.pool, self.device, self.admin, self.share_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Shares of a device that a claim has, known by the hardware's identity."""

    resource: str
    device_id: str = field(metadata={KEY: "id"})
    shares: tuple[str, ...]
    replicas: int
    """How many shares it had, or ``BY_CAPACITY``."""
    exclusive: bool
    identities: tuple[HardwareIdentity, ...]

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, self.device_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A node or member of a device, as it was when a container got it."""

    path: str
    """As the config found it; may be a link."""
    target: str
    """The target of the path."""
    instance: Identity
    identity: HardwareIdentity
    is_node: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseHook:
    """A command that runs once no holder has a device."""

    argv: tuple[str, ...]
    env: dict[str, str]
    timeout_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenDevice:
    """A device of a claim: its identity, and the hooks that end its use."""

    resource: str
    device_id: str = field(metadata={KEY: "id"})
    places: tuple[Place, ...]
    """At least one."""
    release: ReleaseHook | None = None
    parameters: dict[str, str]
    """What its hooks insert for parameters of the claim, by name."""

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, self.device_id


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenRequest:
    """The edits of containers that use a request of a claim."""

    name: str
    edits: int
    """The index in the claim's ``edits``: those of several requests may be equal, and long."""
    cdi: tuple[str, ...]
    """CDI devices from other programs."""
    metadata: dict[str, Any] | None = None
    """What its containers can read about its devices, as Kubernetes has it; None for nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """An entry of ``config`` in a claim or DeviceClass, for our driver."""

    requests: tuple[str, ...]
    """Requests, or subrequests as ``request/subrequest``; all if empty."""
    opaque: Any
    """The parameters as they are written."""
    source: str = ""
    """An addition to messages, if the claim is not its source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claim that is being or has been prepared."""

    uid: str
    namespace: str
    name: str
    driver: str
    boot_id: str = field(default="", metadata={KEY: "bootID"})
    """The boot in which it was or is being prepared."""
    is_prepared: bool = False
    """Whether its hooks have run in that boot."""
    per_request: bool = False
    """Whether ``$(allocation.index)`` starts at 0 for each request, as with plain limits."""
    pod_claim: str = ""
    """Its name in the spec of its pod, if a template made it."""
    prepared_at: float = 0.0
    """In seconds since 1970, only for display."""
    holds: tuple[Hold, ...] = ()
    results: tuple[Result, ...] = ()
    devices: tuple[GivenDevice, ...] = ()
    requests: tuple[GivenRequest, ...] = ()
    edits: tuple[Edits, ...] = ()
    configurations: tuple[Configuration, ...] = ()
    """What it and its DeviceClasses give as parameters."""
    # Without ``compare``, a field is not in the record.
    is_foreign: bool = field(default=False, compare=False)
    """Whether a different version of genericdp wrote the record, so that only its holds are
    known.
    """

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def held(
        self,
        withheld: Mapping[tuple[str, str], str] | None = None,
        pods: tuple[str, ...] = (),
    ) -> list[HeldDevice]:
        """Return its holds; ``withheld`` has reasons why shares must not be offered, by resource
        and share, and ``pods`` are those that use it.
        """
        reasons, holder = withheld or {}, f"claim {self}"
        return [
            HeldDevice(
                name=Name(hold.resource, hold.device_id, ServedBy.DRA),
                identities=hold.identities,
                replicas=hold.replicas,
                exclusive=hold.exclusive,
                holders=dict.fromkeys(hold.shares, (holder,)),
                pods={holder: pods},
                since=dict.fromkeys(hold.shares, self.prepared_at),
                withheld={
                    share: reasons[hold.resource, share]
                    for share in hold.shares
                    if (hold.resource, share) in reasons
                },
            )
            for hold in self.holds
        ]

    def is_allocated_as(self, asked: Claim) -> bool:
        """Return whether it has what the scheduler has allocated, with the same parameters."""
        known, now = (
            [(result.allocated, result.subrequest) for result in claim.results]
            for claim in (self, asked)
        )
        return known == now and self.configurations == asked.configurations

    @property
    def edits_by_request(self) -> list[Edits]:
        """The edits of containers for each request."""
        return [self.edits[request.edits] for request in self.requests]


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The file of a claim."""

    path: Path
    claim: Claim | None = None
    """None if the record does not show which hardware its claim has."""
    why: str = ""
    """Why it does not; empty if it does."""
    resources: frozenset[str] | None = None
    """Those of which its claim may have devices; None if it may have any."""

    def may_hold(self, resource: str) -> bool:
        """Return whether its claim may have devices of a resource, but does not show which."""
        return self.claim is None and (self.resources is None or resource in self.resources)

    @property
    def uid(self) -> str:
        """The UID of the claim."""
        return self.path.stem

    @property
    def driver(self) -> str:
        """The DRA driver that has prepared the claim."""
        return self.path.parent.parent.name if self.claim is None else self.claim.driver

    @property
    def is_releasing(self) -> bool:
        """Return whether an administrator has requested its release, and the daemon has yet to
        release it.
        """
        return release_marker(self.path.parent, self.uid).exists()

    def __str__(self) -> str:
        names = "" if self.resources is None else f" for {first_few(sorted(self.resources), 3)}"
        return (
            f"the record {self.path} does not say which hardware its claim has ({self.why}):"
            f" no new claim is prepared{names} until `genericdp claims release {self.uid}`, or"
            " until the file is removed"
        )


class ClaimRecords:
    """The claims of this node, in memory and in a directory: one file for each."""

    def __init__(self, directory: Path, *, removed: Callable[[], None]) -> None:
        """``removed`` is called when the record of a claim has been removed."""
        self.claims: dict[str, Claim] = {}
        """The claims by UID; replaced, never changed in place."""
        self.unreadable: dict[str, Record] = {}
        """The records that do not show what is held, by UID."""
        self.unwritten: dict[str, Claim] = {}
        """Those of the claims whose records were removed and could not be written again."""
        self.directory = directory
        self._removed = removed

    def by_uid(self, found: Collection[Record]) -> tuple[dict[str, Claim], dict[str, Record]]:
        """Return the claims of records, with those whose records were removed, and the records
        that cannot be read.
        """
        claims = self.unwritten | {record.uid: claim for record in found if (claim := record.claim)}
        return claims, {record.uid: record for record in found if record.uid not in claims}

    def load(self) -> None:
        """Read all records; raise OSError.

        A record that cannot be read stays, and blocks new claims. Claims without a record stay,
        too, as they are in memory.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        for directory in (self.directory, self.directory.parent):
            remove_temporary(directory)
        self.claims, self.unreadable = self.by_uid(read_records(self.directory))
        for record in self.unreadable.values():
            log.warning("%s", record)
        for claim in self.claims.values():
            if claim.is_foreign:
                path = self._path(claim.uid)
                log.warning("%s: only its holds are known: another version wrote it", path)

    def _path(self, uid: str) -> Path:
        return self.directory / f"{uid}{SUFFIX}"

    async def reload_unreadable(self) -> bool:
        """Read unreadable records again; return whether fewer are unreadable now."""
        before = tuple(self.unreadable.items())
        for uid, record in before:
            try:
                found = (await in_worker(partial(_read, record.path), record.path)).claim
            except FileNotFoundError:
                self.unreadable.pop(uid, None)
                continue
            if found is not None and self.unreadable.pop(uid, None) is not None:
                self.reserve(found)
        return len(self.unreadable) < len(before)

    def markers(self) -> list[str]:
        """Return the UIDs of claims that an administrator has released; raise OSError."""
        return [path.stem for path in self.directory.iterdir() if path.suffix == RELEASE_SUFFIX]

    def reserve(self, claim: Claim) -> None:
        """Add a claim in memory: no other claim gets its hardware from now on."""
        self.claims = {**self.claims, claim.uid: claim}

    async def write(self, claim: Claim, *, is_new: bool = False) -> None:
        """Write a record; if none of a new claim is on disk afterwards, drop the claim.

        Raise OSError, or ClaimError if it would be too big to be read again.
        """
        path = self._path(claim.uid)

        def put() -> None:
            if claim.is_foreign and os.path.lexists(path):
                return  # the record has more than we know
            record = {"version": _VERSION, **as_record(claim)}
            content = f"{json.dumps(record)}\n".encode()
            _check_size(content)
            # The directory may have been removed.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(write(path, content, mode=0o600))

        def absent() -> bool:
            try:
                os.lstat(path)
            except OSError as error:
                # After any other error the record may exist.
                return isinstance(error, FileNotFoundError | NotADirectoryError)
            return False

        try:
            await in_worker(put)
        except (OSError, ClaimError):
            if is_new and await in_worker(absent):
                self._drop(claim.uid)
            raise
        self.reserve(claim)
        self.unreadable.pop(claim.uid, None)
        self.unwritten.pop(claim.uid, None)

    async def write_again(self, claims: Iterable[Claim]) -> None:
        """Write records that were removed; log those that cannot be written."""
        for claim in tuple(claims):
            try:
                await self.write(claim)
            except (OSError, ClaimError) as error:
                why = explained(error, self.directory)
                if claim.uid not in self.unwritten:
                    log.error("the record of claim %s cannot be written again: %s", claim, why)
                self.unwritten[claim.uid] = claim

    async def remove(self, uid: str) -> None:
        """Remove a record, so that other claims can get the hardware; raise OSError.

        A marker is removed first, so that it cannot release a claim that is prepared later.
        """

        def unlink() -> None:
            release_marker(self.directory, uid).unlink(missing_ok=True)
            path = self._path(uid)
            try:
                path.unlink(missing_ok=True)
            except (IsADirectoryError, PermissionError):
                path.rmdir()

        await in_worker(unlink)
        self._drop(uid)
        self._removed()

    def _drop(self, uid: str) -> None:
        self.claims = {key: other for key, other in self.claims.items() if key != uid}
        self.unreadable.pop(uid, None)
        self.unwritten.pop(uid, None)


def release_marker(directory: Path, uid: str) -> Path:
    """Return the path of the marker with which an administrator releases a claim: an empty file.

    ``directory`` has the claim's record. The daemon runs release hooks, then removes both.
    """
    return directory / f"{uid}{RELEASE_SUFFIX}"


def record_directories(kubelet_root: Path) -> list[Path]:
    """Return the directories in which drivers on this node, ours or not, may have records.

    Raise OSError for lack of descriptors or memory.
    """
    try:
        # Not glob, which takes a lack of descriptors for an empty directory.
        directories = sorted(path / "claims" for path in (kubelet_root / "plugins").iterdir())
        return [directory for directory in directories if directory.is_dir()]
    except OSError as error:
        if is_shortage(error):
            raise
        return []


def read_records(directory: Path) -> list[Record]:
    """Return the records in a directory, readable or not; raise OSError.

    Nothing is changed, because a daemon may maintain the directory.
    """
    found = []
    for path in sorted(directory.iterdir()):
        if path.suffix == SUFFIX:
            with suppress(FileNotFoundError):  # just unprepared
                found.append(_read(path))
    return found


def read_served(file: Path) -> frozenset[str]:
    """Return the names of the resources that a driver serves; raise OSError or one of DAMAGE."""
    record = json.loads(read_regular(file, _MAX_SERVED_BYTES))
    return frozenset(name for name in record["resources"] if isinstance(name, str))


async def read_others(own: Path) -> tuple[bool, list[Record]]:
    """Return whether other drivers may have records on this node, and these.

    A record that cannot be read may be about any device that its driver has served. Without a list
    of these, the directory belongs to a program that is not genericdp. Raise OSError for lack of
    descriptors or memory, and if reading hangs: an overlooked claim would lose its hardware.
    """

    def read() -> tuple[bool, list[Record]]:
        others = [path for path in record_directories(own.parent.parent.parent) if path != own]
        found: list[Record] = []
        for directory in others:
            try:
                records = read_records(directory)
                if any(record.claim is None for record in records):
                    records = [*_limited(records, directory.with_name(SERVED))]
                found += records
            except OSError as error:
                if is_shortage(error):
                    raise
        return bool(others), found

    return await in_worker(read, "the claims of other drivers")


def _limited(records: Iterable[Record], served: Path) -> Iterator[Record]:
    """Yield the records of a driver; those that cannot be read with the resources that it serves.

    Raise OSError for lack of descriptors or memory.
    """
    try:
        resources = read_served(served)
    except FileNotFoundError:
        yield from (record for record in records if record.claim is not None)
        return
    except (OSError, *DAMAGE) as error:
        if is_shortage(error):
            raise
        resources = None
    yield from (replace(record, resources=resources) for record in records)


def are_same(
    wanted: Collection[HardwareIdentity],
    held: Collection[HardwareIdentity],
    present: Callable[[], Iterable[HardwareIdentity]] = tuple,
) -> bool:
    """Return whether both have any hardware in common.

    Hardware that is ``present`` at its old place has not moved, even if serial numbers are equal.
    ``present`` is used only for hardware that may have moved, since it lists everything on offer.
    """
    for mine in wanted:  # no generator: each Prepare compares the holds of all claims
        for other in held:
            if mine.is_same(other) or (
                mine.has_moved_from(other)
                and not any(identity.is_same(other) for identity in present())
            ):
                return True
    return False


def has_all(claim: Claim, wanted: Hold) -> bool:
    """Return whether a claim already holds these shares, of exactly this hardware."""
    return any(
        held.key == wanted.key
        and {*wanted.shares} <= {*held.shares}
        and all(are_same([identity], held.identities) for identity in wanted.identities)
        for held in claim.holds
    )


def is_shared(wanted: Hold, held: Hold) -> bool:
    """Return whether two claims may have the same hardware at the same time."""
    if wanted.key == held.key:
        is_other_share = set(held.shares).isdisjoint(wanted.shares)
        return is_other_share and sharing_of(wanted.replicas) == sharing_of(held.replicas) != 1
    return not (wanted.exclusive or held.exclusive)


def _check_size(content: bytes) -> None:
    """Raise ClaimError if a record is too big to be read again."""
    for count, most, what in (
        (len(content), MAX_BYTES, "bytes"),
        (count_values(content), _MAX_VALUES, "values"),
    ):
        if count > most:
            size = f"{count:,} {what}, of {most:,} at most"
            raise ClaimError(f"its record would have {size} (allocate fewer devices to it)")


def _read(path: Path) -> Record:
    """Return the record in a file, readable or not.

    Raise FileNotFoundError, or OSError for lack of descriptors or memory.
    """
    try:
        claim = _parsed(parse_json(read_regular(path, MAX_BYTES), _MAX_VALUES), path)
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_shortage(error):
            raise  # the error is not about the record
        return Record(path=path, why=reason_of(error).lower())
    except DAMAGE as error:
        return Record(path=path, why=f"it is damaged: {why_damaged(error)}")
    return Record(path=path, claim=claim)


def _parsed(record: Mapping[str, Any], path: Path) -> Claim:
    """Return the claim of a record; without its details if only its holds are known.

    Raise one of DAMAGE.
    """
    if record["uid"] != path.stem:
        raise ValueError(f"its UID is {record['uid']!r}")
    holds = from_record(tuple[Hold, ...], record["holds"])
    try:
        if record["version"] != _VERSION:
            raise ValueError(f"its version is {record['version']!r}")
        claim = from_record(Claim, record)
        nodes = (edit for edits in claim.edits_by_request for edit in edits.get("deviceNodes", ()))
        if not (
            all(device.places for device in claim.devices)
            and all({"path", "permissions"} <= node.keys() for node in nodes)
        ):
            raise ValueError("a device has no node")
    except DAMAGE:
        return Claim(
            uid=path.stem,
            namespace=str(record.get("namespace", "?")),
            name=str(record.get("name", "?")),
            driver=str(record.get("driver", path.parent.parent.name)),
            boot_id=str(record.get("bootID", "")),
            is_prepared=record.get("prepared") is True,
            holds=holds,
            is_foreign=True,
        )
    return claim
