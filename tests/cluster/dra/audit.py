"""Requests to the API server, from its audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster.control_plane import AUDIT_LOG
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

_WRITES = {"create", "update", "patch", "delete", "deletecollection"}


class Audit:
    """The requests from now on, as far as they are about dynamic resource allocation."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is the cluster's."""
        self._file = directory / AUDIT_LOG
        self._start = self._file.stat().st_size

    def requests(self, user: str = "") -> list[dict[str, Any]]:
        """Give those of a user, or of all, in their order."""
        with self._file.open() as log:
            log.seek(self._start)
            lines = [json.loads(line) for line in log if line.endswith("\n")]
        return [line for line in lines if user in {"", line["user"]["username"]}]

    def await_updates(self, user: str, count: int) -> None:
        """Wait until a user has written ResourceSlices, which is logged after it is seen, so:
        a number of updates that went well, and nothing else.
        """
        wanted = ["update 200"] * count
        eventually(lambda: self.writes(user), wanted.__eq__, what=f"{count} updates")

    def writes(self, user: str) -> list[str]:
        """Give each write of a user to a ResourceSlice: its verb and how it ended."""
        return [
            f"{request['verb']} {request['responseStatus']['code']}"
            for request in self.requests(user)
            if request["objectRef"]["resource"] == "resourceslices"
            and request["verb"] in _WRITES
            and "dryRun=" not in request["requestURI"]
        ]
