"""The CDI specs of claims, and the files with metadata that these mount."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.cdi import kind_of_ours, spec_of
from genericdp.dra.claims import MAX_BYTES
from genericdp.dra.metadata import content_of, mount_of
from genericdp.durable import read_regular, remove_temporary, write
from genericdp.host.workers import in_worker
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from genericdp.cdi import Edits
    from genericdp.dra.claims import Claim
    from genericdp.settings import DraSettings

log = logging.getLogger(__name__)

_SPEC_PREFIX = "genericdp-claim_"


class ClaimSpecs:
    """The CDI specs of the claims of a driver, a file for each, and the files that these mount."""

    def __init__(self, directory: Path, settings: DraSettings) -> None:
        driver = settings.driver
        self.directory = directory
        self.metadata = settings.metadata_directory.absolute()  # for a container runtime
        """The directory of what containers can read about their devices, a file for each request.
        """
        self._kind, self._prefix = f"{driver}/claim", f"{_SPEC_PREFIX}{driver}_"
        self.ending: set[str] = set()
        """The UIDs of claims whose spec and record are being removed."""

    def uid_of(self, name: str) -> str:
        """Return the UID of the claim whose spec or metadata has this file name, if it is one."""
        uid = name.removeprefix(self._prefix).removesuffix(".json")
        return uid if name.startswith(self._prefix) else uid.rpartition("_")[0]

    def _file(self, uid: str) -> Path:
        return self.directory / f"{self._prefix}{uid}.json"

    def devices_of(self, claim: Claim) -> dict[str, tuple[str, ...]]:
        """Return the CDI devices of each request of a claim: our own, and those of other
        programs.
        """
        given = zip(claim.requests, claim.edits_by_request, strict=True)
        return {
            request.name: (
                *([f"{self._kind}={claim.uid}_{number}"] if edits or request.metadata else ()),
                *request.cdi,
            )
            for number, (request, edits) in enumerate(given)
        }

    async def put(self, claim: Claim, *, is_complete: bool) -> bool:
        """Write the spec of a claim, or remove it; return whether it has changed. Raise OSError.

        The spec is removed if any device is missing: otherwise a restarted container would start
        with fewer or different devices. The files that it mounts are written before it.
        """

        def put() -> bool:
            given: dict[str, Edits] = {}
            contents: dict[Path, bytes] = {}
            for number, request in enumerate(claim.requests if is_complete else ()):
                given[name := f"{claim.uid}_{number}"] = edits = claim.edits[request.edits]
                if request.metadata is not None:
                    path = self.metadata / f"{name}.json"
                    mounts = [*edits.get("mounts", ()), mount_of(claim, request, path)]
                    given[name] = {**edits, "mounts": mounts}
                    contents[path] = content_of(claim, request)
            if contents:
                self.metadata.mkdir(mode=0o700, parents=True, exist_ok=True)
            contents[self._file(claim.uid)] = spec_of(self._kind, given)
            changed = False
            for path, content in contents.items():
                present = _content_of(path)
                changed |= content != present
                if not content:
                    path.unlink(missing_ok=True)
                elif content != present:
                    os.close(write(path, content))
            return changed

        return await in_worker(put)

    async def remove(self, uid: str) -> None:
        """Remove the spec of a claim, and the files that it mounts; raise OSError."""

        def unlink() -> None:
            self._file(uid).unlink(missing_ok=True)
            self._remove_metadata(uid.__eq__)

        await in_worker(unlink)

    def _remove_metadata(self, is_ended: Callable[[str], bool]) -> None:
        """Remove what containers can read of claims that have ended, by UID; raise OSError."""
        for path in self.metadata.glob("*.json"):
            if is_ended(self.uid_of(path.name)):
                path.unlink(missing_ok=True)

    def remove_others(self, uids: Collection[str]) -> None:
        """Remove the files of all claims except these, including specs with names of earlier
        builds.
        """
        remove_temporary(self.metadata)
        with suppress(OSError):
            self._remove_metadata(lambda uid: uid not in uids)
        with suppress(OSError):
            for path in self.directory.glob(f"{_SPEC_PREFIX}*.json"):
                is_ours = kind_of_ours(_content_of(path)) == self._kind
                if is_ours and path.stem.rpartition("_")[2] not in uids:
                    path.unlink(missing_ok=True)
                    log.info("%s removed: its claim is not prepared", path)


def _content_of(spec: Path) -> bytes:
    """Return the content of a CDI spec; empty if it is missing or not a spec; raise OSError."""
    try:
        return read_regular(spec, MAX_BYTES)
    except (FileNotFoundError, ValueError):
        return b""


def warn_of_collisions(claims: Iterable[Claim]) -> None:
    """Log which requests of a pod put different devices at one path, so that one hides the
    other.

    The kubelet requests all claims of a pod in one call.
    """
    places: dict[str, tuple[str, str]] = {}
    for claim in claims:
        for request, edits in zip(claim.requests, claim.edits_by_request, strict=True):
            name = f"request {request.name} of claim {claim}"
            for node in edits.get("deviceNodes", ()):
                host_path = node.get("hostPath", node["path"])
                other_path, other = places.setdefault(node["path"], (host_path, name))
                if other_path != host_path:
                    log.warning(
                        "%s and %s both give %s, and a container that uses both gets one of"
                        " them: put $(claim.name) and $(claim.request) into containerPath",
                        printable(other),
                        printable(name),
                        node["path"],
                    )
