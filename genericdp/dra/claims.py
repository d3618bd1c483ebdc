"""Records of prepared claims on disk: which devices of the node each claim has."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from genericdp.cdi.folder import remove_temporary, write
from genericdp.host.workers import in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

_VERSION = 1
_SUFFIX = ".json"
DAMAGE = (ValueError, TypeError, KeyError, RecursionError, IsADirectoryError)
"""What reading a damaged file raises."""
_MAX_BYTES = 1024 * 1024
"""Size of a record: a claim has at most 32 devices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimDevice:
    """A device that the scheduler has allocated to a claim."""

    request: str
    """The name of the request in the claim, without that of a subrequest."""
    pool: str
    device: str
    """Its name in the ResourceSlice."""
    resource: str = ""
    share: str = ""
    """The ID of the device, or of a share of it."""
    admin: bool = False
    """Whether other claims may have it too (``adminAccess``)."""
    hardware: tuple[str, ...] = field(default=(), compare=False)
    """As ``Device.hardware``: the same in whatever resource the config has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claim that is being prepared or has been."""

    uid: str
    namespace: str
    name: str
    boot_id: str = ""
    """The boot in which its hooks have run; empty: they have not."""
    per_request: bool = False
    """Whether ``$(allocation.index)`` starts at 0 for each request, as with plain limits."""
    devices: tuple[ClaimDevice, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimRecords:
    """The claims of this node, in memory and in a folder: one file for each."""

    def __init__(self, folder: Path, *, removed: Callable[[], None]) -> None:
        """``removed`` is called when the record of a claim has been removed."""
        self.claims: dict[str, Claim] = {}
        """The claims by UID; replaced, never changed in place."""
        self._folder = folder
        self._removed = removed

    def load(self) -> None:
        """Read all records, and rename damaged ones: their claims count as not prepared.

        Raise OSError.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for folder in (self._folder, self._folder.parent):
            remove_temporary(folder)
        self.claims = dict(self._read())

    def _read(self) -> Iterator[tuple[str, Claim]]:
        for path in sorted(self._folder.iterdir()):
            if path.suffix == _SUFFIX:
                try:
                    claim = _parsed(_content(path), path.stem)
                except DAMAGE:
                    put_aside(path, ": its claim counts as not prepared")
                else:
                    yield claim.uid, claim

    def reserve(self, claim: Claim) -> None:
        """Add a claim in memory: no other claim gets its devices from now on."""
        self.claims = {**self.claims, claim.uid: claim}

    async def write(self, claim: Claim) -> None:
        """Write a record; if it is not on disk afterwards, drop the claim. Raise OSError."""
        record = {
            "version": _VERSION,
            "uid": claim.uid,
            "namespace": claim.namespace,
            "name": claim.name,
            "bootID": claim.boot_id,
            "perRequest": claim.per_request,
            "devices": [asdict(one) for one in claim.devices],
        }
        content = f"{json.dumps(record, indent=2)}\n".encode()
        path = self._folder / f"{claim.uid}{_SUFFIX}"

        def put() -> None:
            # Somebody may have removed it.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(write(path, content, mode=0o600))

        try:
            await in_worker(put)
        except OSError:
            if not await in_worker(partial(os.path.exists, path)):
                self._drop(claim.uid)
            raise
        self.reserve(claim)

    async def remove(self, uid: str) -> None:
        """Remove a record, so that other claims can get the devices; raise OSError."""
        await in_worker(partial((self._folder / f"{uid}{_SUFFIX}").unlink, missing_ok=True))
        self._drop(uid)
        self._removed()

    def _drop(self, uid: str) -> None:
        self.claims = {key: one for key, one in self.claims.items() if key != uid}


def put_aside(path: Path, effect: str = "") -> None:
    """Rename a damaged file, log that with its ``effect``; raise OSError."""
    new = path.replace(path.with_suffix(".bad")).name
    log.warning("%s is damaged and was renamed to %s%s", path, new, effect)


def recorded_claims(folder: Path) -> list[Claim]:
    """Return the claims that have a record; none if there is no such folder. Raise OSError.

    Unlike ``ClaimRecords``, it changes nothing: another process may maintain the folder.
    """
    claims = []
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.suffix == _SUFFIX:
                with suppress(FileNotFoundError, *DAMAGE):  # just unprepared
                    claims.append(_parsed(_content(path), path.stem))
    return claims


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)


def _parsed(content: bytes, uid: str) -> Claim:
    """Return the claim of a record, which must have this UID; raise one of DAMAGE."""
    record: dict[str, Any] = json.loads(content)
    if (record["version"], record["uid"]) != (_VERSION, uid):
        raise ValueError(f"version {record['version']!r}, UID {record['uid']!r}")
    claim = Claim(
        uid=uid,
        namespace=record["namespace"],
        name=record["name"],
        boot_id=record["bootID"],
        per_request=record["perRequest"] is True,
        devices=tuple(
            ClaimDevice(**{**one, "hardware": tuple(one["hardware"])}) for one in record["devices"]
        ),
    )
    texts = [claim.namespace, claim.name, claim.boot_id]
    for one in claim.devices:
        texts += [one.request, one.pool, one.device, one.resource, one.share, *one.hardware]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a field is not a string")
    return claim
