"""What a collection of the Kubernetes API contains, kept up to date by watching it."""

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
        """By name, as last known; None: never listed."""
        self.failure = Observed("")
        """Why they are not being watched; empty if they are."""
        self._client = client
        self._path = path
        self._field_selector = field_selector
        self._pause = pause
        self._version = ""
        """Of the last news; empty: list first."""
        self._failures = 1
        """In a row, since there were news; the first after any is not told: a lost connection."""

    async def run(self) -> Never:
        """List and watch, forever."""
        while True:
            retry_after, resumed = 0.0, bool(self._version)
            try:
                await self._follow()
                # Every few minutes: a list heals what a watch cannot.
                self._version, self._failures = "", 0
            except ApiError as error:
                if error.status is not None:  # not a lost connection: 410, or anything like it
                    self._version = ""
                if error.status == 410 and resumed:
                    continue  # the server answers, but no longer knows what there was
                if self._failures:
                    self._note(str(error))
                retry_after = error.retry_after
            self._failures += 1
            await asyncio.sleep(pause_after(self._failures, self._pause, retry_after))

    def observe(self, item: Json) -> None:
        """Take in an object that a write returned, before the watch says so."""
        self._take("MODIFIED", item)

    def forget(self, name: str) -> None:
        """Take in that an object was deleted, before the watch says so."""
        known = self.objects.value or {}
        self.objects.value = {one: item for one, item in known.items() if one != name}

    async def _follow(self) -> None:
        """Watch until the server ends that; list first where it is not known from when on."""
        if not self._version:
            await self.refresh()
        async with self._client.watch(
            self._path, resource_version=self._version, field_selector=self._field_selector
        ) as events:
            self._note("")
            async for kind, item in events:
                if kind != "BOOKMARK":
                    self._take(kind, item)
                self._version = str(item["metadata"].get("resourceVersion", ""))
                self._failures = 0

    async def refresh(self) -> None:
        """List, whatever the watch says; raise ApiError."""
        while True:
            before = self.objects.value
            listed, version = await self._client.list(self._path, self._field_selector)
            if self.objects.value is before:  # else the list may be older than a write
                break
        self.objects.value, self._version = {_name(item): item for item in listed}, version

    def _take(self, kind: str, item: Json) -> None:
        """Take in a change, unless something newer is known."""
        name, known = _name(item), self.objects.value
        if known is None or (name in known and _version(known[name]) > _version(item)):
            return
        if kind == "DELETED":
            self.forget(name)
        else:
            self.objects.value = {**known, name: item}

    def _note(self, failure: str) -> None:
        """Log what fails when it begins, changes and ends."""
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
    """Return a resourceVersion as a number, which it is in all that Kubernetes serves itself."""
    text = str(item["metadata"].get("resourceVersion"))
    return int(text) if text.isdecimal() and len(text) < 40 else 0
