"""Records of prepared claims on disk: which hardware each claim has, and what it was given.

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

from genericdp.cdi.folder import read_regular, remove_temporary, write
from genericdp.devices.device import device_id_of
from genericdp.devices.held import HeldDevice
from genericdp.devices.identity import HardwareIdentity, identity_from_record
from genericdp.devices.inventory import Identity
from genericdp.errors import DAMAGE, UnusableDeviceError, is_shortage, reason_of, why_damaged
from genericdp.host.workers import in_worker
from genericdp.jsonvalues import count_values, parse_json
from genericdp.model import Command, Hook, ServedBy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from genericdp.cdi.spec import Edits

    Key: TypeAlias = tuple[str, str]
    """Resource and ID of a device, the same for all its shares."""

log = logging.getLogger(__name__)

_VERSION = 2
_FIRST_VERSION = 1
"""It has no holds: it names hardware by kernel names and inodes."""
SUFFIX = ".json"
RELEASE_SUFFIX = ".release"
MAX_BYTES = 4 * 1024 * 1024
"""Size of a record, both when it is written and when it is read."""
_MAX_VALUES = 300_000
"""Likewise. Those of a daemon have some 20 bytes each; parsed, so many need 30 MB."""


class ClaimError(UnusableDeviceError):
    """A claim cannot be prepared or unprepared now; the kubelet shows why and tries again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A device that the scheduler has allocated to a claim."""

    request: str
    """The name of the request in the claim, without that of a subrequest."""
    pool: str
    device: str
    """Its name in the ResourceSlice."""
    admin: bool = False
    """Whether it is for ``adminAccess``: then the claim holds nothing of it."""
    resource: str = ""
    share: str = ""
    """The ID of the device, or of a share of it."""

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, device_id_of(self.share)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """Shares of a device that a claim has, known as hardware."""

    resource: str
    device_id: str
    shares: tuple[str, ...]
    replicas: int
    exclusive: bool
    identities: tuple[HardwareIdentity, ...]

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, self.device_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A node or member of a device, as it was when a container was given it."""

    path: str
    """As the config found it; may be a link."""
    target: str
    """What the path led to."""
    instance: Identity
    identity: HardwareIdentity
    is_node: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenDevice:
    """A device of a claim: what it was, and what ends its use."""

    resource: str
    device_id: str
    places: tuple[Place, ...]
    release: Hook[str] | None = None

    @property
    def key(self) -> Key:
        """Resource and ID of the device."""
        return self.resource, self.device_id


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenRequest:
    """What the containers get that use a request of a claim."""

    name: str
    edits: Edits
    cdi: tuple[str, ...]
    """CDI devices of others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claim that is being prepared or has been."""

    uid: str
    namespace: str
    name: str
    driver: str
    boot_id: str = ""
    """The boot in which it was prepared, or was to be."""
    is_prepared: bool = False
    """Whether its hooks have run in that boot."""
    per_request: bool = False
    """Whether ``$(allocation.index)`` starts at 0 for each request, as with plain limits."""
    prepared_at: float = 0.0
    """In seconds since 1970, only for display."""
    holds: tuple[Hold, ...] = ()
    results: tuple[Result, ...] = ()
    devices: tuple[GivenDevice, ...] = ()
    requests: tuple[GivenRequest, ...] = ()
    source: bytes = field(default=b"", compare=False, repr=False)
    """The file itself, if another version of genericdp wrote it: only its holds are known."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableRecord:
    """A record that does not say which hardware its claim has."""

    path: Path
    why: str
    first_version: Mapping[str, Any] | None = None
    """The record if it is of the first version: the device list may complete it."""

    def __str__(self) -> str:
        return (
            f"the record {self.path} does not say which hardware its claim has ({self.why}):"
            f" no new claim is prepared until `genericdp claims release {self.path.stem}`, or"
            " until the file is removed"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedRecord:
    """A record as an administrator sees it."""

    path: Path
    uid: str
    driver: str
    namespace: str = ""
    name: str = ""
    devices: tuple[str, ...] = ()
    """``RESOURCE SHARE`` for each share that it holds."""
    prepared_at: float = 0.0
    """In seconds since 1970; 0: unknown."""
    boot_id: str = ""
    unreadable: str = ""
    """Why its holds cannot be read; empty: they can."""
    is_releasing: bool = False
    """Whether an administrator has released it, and the daemon has not done so yet."""


class ClaimRecords:
    """The claims of this node, in memory and in a directory: one file for each."""

    def __init__(self, folder: Path, *, removed: Callable[[], None]) -> None:
        """``removed`` is called when the record of a claim has been removed."""
        self.claims: dict[str, Claim] = {}
        """The claims by UID; replaced, never changed in place."""
        self.unreadable: dict[str, UnreadableRecord] = {}
        """The records that do not say what is held, by UID."""
        self.folder = folder
        self._removed = removed

    def load(self) -> None:
        """Read all records; raise OSError. What cannot be read stays where it is, and blocks."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for folder in (self.folder, self.folder.parent):
            remove_temporary(folder)
        self.claims, self.unreadable = {}, {}
        for path in sorted(self.folder.iterdir()):
            if path.suffix == SUFFIX:
                self._load(path)
        for record in self.unreadable.values():
            if record.first_version is None:
                log.warning("%s", record)

    def _load(self, path: Path) -> None:
        found = _read(path, self.folder.parent.name)
        if isinstance(found, Claim):
            self.claims[found.uid] = found
            if found.source:
                log.warning("%s: only its holds are known: another version wrote it", path)
        else:
            self.unreadable[path.stem] = found

    async def reload_unreadable(self) -> bool:
        """Read again what could not be read; return whether less is unreadable now."""
        before = tuple(self.unreadable.items())
        for uid, record in before:
            try:
                found = await in_worker(
                    partial(_read, record.path, self.folder.parent.name), str(record.path)
                )
            except FileNotFoundError:
                self.unreadable.pop(uid, None)
                continue
            if isinstance(found, Claim) and self.unreadable.pop(uid, None) is not None:
                self.reserve(found)
        return len(self.unreadable) < len(before)

    def markers(self) -> list[str]:
        """Return the UIDs of claims that an administrator has released; raise OSError."""
        return [path.stem for path in self.folder.iterdir() if path.suffix == RELEASE_SUFFIX]

    def reserve(self, claim: Claim) -> None:
        """Add a claim in memory: no other claim gets its hardware from now on."""
        self.claims = {**self.claims, claim.uid: claim}

    async def write(self, claim: Claim) -> None:
        """Write a record; if none is on disk afterwards, drop the claim unless it is prepared.

        Raise OSError, or ClaimError if it would be too big to be read again.
        """
        path = self.folder / f"{claim.uid}{SUFFIX}"

        def put() -> None:
            content = claim.source or _content_of(claim)
            _check_size(content)
            # The directory may have been removed.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(write(path, content, mode=0o600))

        def absent() -> bool:
            try:
                os.lstat(path)
            except OSError as error:
                # After any other error it may be there.
                return isinstance(error, FileNotFoundError | NotADirectoryError)
            return False

        try:
            await in_worker(put)
        except (OSError, ClaimError):
            before = self.claims.get(claim.uid)
            if not (before is not None and before.is_prepared) and await in_worker(absent):
                self._drop(claim.uid)
            raise
        self.reserve(claim)
        self.unreadable.pop(claim.uid, None)

    async def remove(self, uid: str) -> None:
        """Remove a record, so that other claims can get the hardware; raise OSError.

        A marker goes first: it must not release a claim that is prepared later.
        """

        def unlink() -> None:
            release_marker(self.folder, uid).unlink(missing_ok=True)
            path = self.folder / f"{uid}{SUFFIX}"
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


def release_marker(folder: Path, uid: str) -> Path:
    """Return the file by which an administrator releases a claim: an empty one will do.

    ``folder`` has the claim's record. The daemon runs release hooks, then removes both.
    """
    return folder / f"{uid}{RELEASE_SUFFIX}"


def record_folders(kubelet_root: Path) -> list[Path]:
    """Return the directories in which drivers on this node, ours or not, may have records.

    Raise OSError for lack of descriptors or memory.
    """
    try:
        return sorted(path for path in kubelet_root.glob("plugins/*/claims") if path.is_dir())
    except OSError as error:
        if is_shortage(error):
            raise
        return []


def listed_records(folder: Path) -> list[ListedRecord]:
    """Return the records in a directory, readable or not, for an administrator; raise OSError.

    Nothing is changed: a daemon may maintain the directory.
    """
    listed = []
    for path in sorted(folder.iterdir()):
        if path.suffix != SUFFIX:
            continue
        with suppress(FileNotFoundError):  # just unprepared
            found = _read(path, folder.parent.name)
            is_releasing = release_marker(folder, path.stem).exists()
            if isinstance(found, UnreadableRecord):
                known = found.first_version or {}
                record = ListedRecord(
                    path=path,
                    uid=path.stem,
                    driver=folder.parent.name,
                    namespace=str(known.get("namespace", "")),
                    name=str(known.get("name", "")),
                    unreadable=found.why,
                    is_releasing=is_releasing,
                )
            else:
                shares = ((hold.resource, share) for hold in found.holds for share in hold.shares)
                record = ListedRecord(
                    path=path,
                    uid=found.uid,
                    driver=found.driver,
                    namespace=found.namespace,
                    name=found.name,
                    devices=tuple(f"{resource} {share}" for resource, share in shares),
                    prepared_at=found.prepared_at,
                    boot_id=found.boot_id,
                    is_releasing=is_releasing,
                )
            listed.append(record)
    return listed


def recorded_claims(folder: Path) -> tuple[list[Claim], list[UnreadableRecord]]:
    """Return the claims that have a record, and what cannot be read; raise OSError.

    Unlike ``ClaimRecords``, it changes nothing: another process may maintain the directory.
    """
    claims, unreadable = [], []
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.suffix == SUFFIX:
                with suppress(FileNotFoundError):  # just unprepared
                    found = _read(path, folder.parent.name)
                    if isinstance(found, Claim):
                        claims.append(found)
                    else:
                        unreadable.append(found)
    return claims, unreadable


def claims_of_others(own: Path) -> tuple[bool, list[Claim]]:
    """Return whether other drivers may have records on this node, and their claims.

    What is not in our format belongs to a driver that is not ours. Raise OSError for lack of
    descriptors or memory: a claim that is not seen would lose its hardware.
    """
    folders = [folder for folder in record_folders(own.parent.parent.parent) if folder != own]
    found = []
    for folder in folders:
        try:
            found += recorded_claims(folder)[0]
        except OSError as error:
            if is_shortage(error):
                raise
    return bool(folders), found


async def read_others(own: Path) -> tuple[bool, list[Claim]]:
    """Return the same, read off the loop; raise OSError, also if that hangs."""
    return await in_worker(partial(claims_of_others, own), "the claims of other drivers")


def held_devices(
    claims: Iterable[Claim], withheld: Callable[[Claim, str, str], str] = lambda *_: ""
) -> list[HeldDevice]:
    """Return what claims hold, each device of each claim.

    ``withheld`` returns why a share, of which it is given resource and name, must not be offered.
    """
    return [
        HeldDevice(
            resource=hold.resource,
            device_id=hold.device_id,
            served_by=ServedBy.DRA,
            identities=hold.identities,
            replicas=hold.replicas,
            exclusive=hold.exclusive,
            holders=dict.fromkeys(hold.shares, (f"claim {claim}",)),
            withheld={
                share: why
                for share in hold.shares
                if (why := withheld(claim, hold.resource, share))
            },
        )
        for claim in claims
        for hold in claim.holds
    ]


def are_same(
    wanted: Collection[HardwareIdentity],
    held: Collection[HardwareIdentity],
    present: Collection[HardwareIdentity] = (),
) -> bool:
    """Return whether any hardware is in both.

    Hardware that is ``present`` elsewhere has not moved from there, whatever its serial says.
    """
    return any(
        mine.is_same(other)
        or (mine.has_moved_from(other) and not any(identity.is_same(other) for identity in present))
        for mine in wanted
        for other in held
    )


def is_shared(wanted: Hold, held: HeldDevice) -> bool:
    """Return whether two holders may have the same hardware at once."""
    if held.served_by is not ServedBy.DRA:
        return False  # the kubelet counts these shares, the scheduler those
    if wanted.key == (held.resource, held.device_id):
        is_other_share = held.holders.keys().isdisjoint(wanted.shares)
        return wanted.replicas > 1 and held.replicas > 1 and is_other_share
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


def put_aside(path: Path) -> None:
    """Rename a damaged file, and log that; raise OSError."""
    new = path.replace(path.with_suffix(".bad")).name
    log.warning("%s is damaged and was renamed to %s", path, new)


def _read(path: Path, driver: str) -> Claim | UnreadableRecord:
    """Return the claim of a record of a driver, or why it cannot be read.

    Raise FileNotFoundError, or OSError for lack of descriptors or memory.
    """
    record: Any = None
    try:
        content = read_regular(path, MAX_BYTES)
        record = parse_json(content, _MAX_VALUES)
        return _parsed(record, content, path.stem, driver)
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_shortage(error):
            raise  # it says nothing about the record
        return UnreadableRecord(path=path, why=reason_of(error).lower())
    except DAMAGE as error:
        if isinstance(record, dict) and record.get("version") == _FIRST_VERSION:
            why = "it is of an earlier version, and its devices are not on offer as they were"
            return UnreadableRecord(path=path, why=why, first_version=record)
        return UnreadableRecord(path=path, why=f"it is damaged: {why_damaged(error)}")


def _parsed(record: Mapping[str, Any], content: bytes, uid: str, driver: str) -> Claim:
    """Return the claim of a record; without its details if only its holds are known.

    Raise one of DAMAGE.
    """
    if record["uid"] != uid:
        raise ValueError(f"its UID is {record['uid']!r}")
    claim = Claim(
        uid=uid,
        namespace=str(record.get("namespace", "?")),
        name=str(record.get("name", "?")),
        driver=str(record.get("driver", driver)),
        boot_id=str(record.get("bootID", "")),
        holds=tuple(map(_hold, record["holds"])),
    )
    try:
        if record["version"] != _VERSION:
            raise ValueError(f"its version is {record['version']!r}")
        requests = record["requests"]
        return replace(
            claim,
            is_prepared=record["prepared"] is True,
            per_request=record["perRequest"] is True,
            prepared_at=float(record["preparedAt"]),
            results=tuple(map(_result, record["results"])),
            devices=tuple(map(_given_device, record["devices"])),
            requests=tuple(
                GivenRequest(
                    name=_text(request["name"]),
                    edits=_edits(record["edits"][request["edits"]]),
                    cdi=_texts(request["cdi"]),
                )
                for request in requests
            ),
        )
    except DAMAGE:
        return replace(claim, source=content)


def _result(record: Mapping[str, Any]) -> Result:
    return Result(
        request=_text(record["request"]),
        pool=_text(record["pool"]),
        device=_text(record["device"]),
        admin=record["admin"] is not False,
        resource=_text(record["resource"]),
        share=_text(record["share"]),
    )


def _hold(record: Mapping[str, Any]) -> Hold:
    if not isinstance(replicas := record["replicas"], int):
        raise TypeError(f"replicas are {replicas!r}")
    return Hold(
        resource=_text(record["resource"]),
        device_id=_text(record["id"]),
        shares=_texts(record["shares"]),
        replicas=replicas,
        exclusive=record["exclusive"] is not False,
        identities=tuple(map(identity_from_record, record["identities"])),
    )


def _given_device(record: Mapping[str, Any]) -> GivenDevice:
    release = record["release"]
    if not record["places"]:
        raise ValueError("a device has no places")
    return GivenDevice(
        resource=_text(record["resource"]),
        device_id=_text(record["id"]),
        places=tuple(map(_place, record["places"])),
        release=None
        if release is None
        else Hook(
            command=Command(argv=_texts(release["argv"]), env=_by_name(release["env"])),
            timeout_seconds=int(release["timeoutSeconds"]),
        ),
    )


def _place(record: Mapping[str, Any]) -> Place:
    number = record["number"]
    return Place(
        path=_text(record["path"]),
        target=_text(record["target"]),
        instance=Identity(
            inode=int(record["inode"]),
            device_number=None if number is None else (int(number[0]), int(number[1])),
            syspath=None if record["syspath"] is None else _text(record["syspath"]),
            plugged=_text(record["plugged"]),
        ),
        identity=identity_from_record(record["identity"]),
        is_node=record["node"] is True,
    )


def _edits(record: Mapping[str, Any]) -> Edits:
    edits = {key: list(value) for key, value in record.items()}
    for node in edits.get("deviceNodes", ()):
        _texts((node["path"], node.get("hostPath", ""), node["permissions"]))
    return edits


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(_text, values))


def _by_name(values: Mapping[object, object]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in values.items()}


def _content_of(claim: Claim) -> bytes:
    """Return the record of a claim; equal edits of several requests are in it once."""
    edits: list[Edits] = []
    for request in claim.requests:
        if request.edits not in edits:
            edits.append(request.edits)
    record = {
        "version": _VERSION,
        "uid": claim.uid,
        "namespace": claim.namespace,
        "name": claim.name,
        "driver": claim.driver,
        "bootID": claim.boot_id,
        "prepared": claim.is_prepared,
        "perRequest": claim.per_request,
        "preparedAt": claim.prepared_at,
        "holds": [
            {
                "resource": hold.resource,
                "id": hold.device_id,
                "shares": hold.shares,
                "replicas": hold.replicas,
                "exclusive": hold.exclusive,
                "identities": [identity.as_record() for identity in hold.identities],
            }
            for hold in claim.holds
        ],
        "results": [
            {
                "request": result.request,
                "pool": result.pool,
                "device": result.device,
                "admin": result.admin,
                "resource": result.resource,
                "share": result.share,
            }
            for result in claim.results
        ],
        "devices": [
            {
                "resource": device.resource,
                "id": device.device_id,
                "places": list(map(_place_record, device.places)),
                "release": device.release
                and {
                    "argv": device.release.command.argv,
                    "env": dict(device.release.command.env),
                    "timeoutSeconds": device.release.timeout_seconds,
                },
            }
            for device in claim.devices
        ],
        "edits": edits,
        "requests": [
            {"name": request.name, "edits": edits.index(request.edits), "cdi": request.cdi}
            for request in claim.requests
        ],
    }
    return f"{json.dumps(record)}\n".encode()


def _place_record(place: Place) -> dict[str, Any]:
    return {
        "path": place.path,
        "target": place.target,
        "inode": place.instance.inode,
        "number": place.instance.device_number,
        "syspath": place.instance.syspath,
        "plugged": place.instance.plugged,
        "identity": place.identity.as_record(),
        "node": place.is_node,
    }
