"""A local copy of a collection of the Kubernetes API, kept up to date by list and watch."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from genericdp.apiserver.client import ApiError, pause_after
from genericdp.observed import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from genericdp.apiserver.client import ApiClient, Json

log = logging.getLogger(__name__)


class Reflector:
    """Lists and watches a collection; where that fails, tries again, ever more rarely."""

    def __init__(
        self, client: ApiClient, path: str, field_selector: str = "", *, pause: float = 0.5
    ) -> None:
        """Wait about ``pause`` seconds after the first failure."""
        self.objects: Observed[Mapping[str, Json] | None] = Observed(None)
        """The objects by name, as last known; None: they have never been listed."""
        self.failure = Observed("")
        """Why the collection is not being watched; empty if it is."""
        self._client = client
        self._path = path
        self._field_selector = field_selector
        self._pause = pause
        self._version = ""
        """The resourceVersion to watch from; empty: list first."""
        self._failures = 1
        """Failures since the last event; the first after one is not logged: a lost connection."""

    async def run(self) -> Never:
        """List and watch, forever."""
        while True:
            retry_after, resumed = 0.0, bool(self._version)
            try:
                await self._list_and_watch()
                # Every few minutes: a list heals what a watch cannot.
                self._version, self._failures = "", 0
            except ApiError as error:
                if error.status is not None:  # not a lost connection: 410, or anything like it
                    self._version = ""
                if error.status == 410 and resumed:
                    continue  # the server answers, but no longer knows what there was
                if self._failures:
                    self._set_failure(str(error))
                retry_after = error.retry_after
            self._failures += 1
            await asyncio.sleep(pause_after(self._failures, self._pause, retry_after))

    def observe(self, item: Json) -> None:
        """Store an object that a write returned, before its watch event comes."""
        self._apply("MODIFIED", item)

    def forget(self, name: str) -> None:
        """Drop a deleted object, before its watch event comes."""
        known = self.objects.value or {}
        self.objects.value = {one: item for one, item in known.items() if one != name}

    async def _list_and_watch(self) -> None:
        """Watch until the server ends the watch; list first if the version is not known."""
        if not self._version:
            await self.refresh()
        async with self._client.watch(
            self._path, resource_version=self._version, field_selector=self._field_selector
        ) as events:
            self._set_failure("")
            async for kind, item in events:
                if kind != "BOOKMARK":
                    self._apply(kind, item)
                self._version = str(item["metadata"].get("resourceVersion", ""))
                self._failures = 0

    async def refresh(self) -> None:
        """List all objects anew; raise ApiError."""
        while True:
            before = self.objects.value
            listed, version = await self._client.list(self._path, self._field_selector)
            if self.objects.value is before:  # else the list may be older than a write
                break
        self.objects.value, self._version = {_name(item): item for item in listed}, version

    def _apply(self, kind: str, item: Json) -> None:
        """Apply a change, unless a newer version of the object is known."""
        name, known = _name(item), self.objects.value
        if known is None or (name in known and _version(known[name]) > _version(item)):
            return
        if kind == "DELETED":
            self.forget(name)
        else:
            self.objects.value = {**known, name: item}

    def _set_failure(self, failure: str) -> None:
        """Record a failure (empty: none), and log it when it begins, changes and ends."""
        if failure == self.failure.value:
            return
        if failure:
            log.warning("%s; trying again", failure)
        else:
            log.info("the API server answers again: watching %s", self._path)
        self.failure.value = failure


def _name(item: Json) -> str:
    return str(item["metadata"].get("name", ""))


def _version(item: Json) -> int:
    """Return an object's resourceVersion as a number, as it is for all built-in APIs."""
    text = str(item["metadata"].get("resourceVersion"))
    return int(text) if text.isdecimal() and len(text) < 40 else 0
