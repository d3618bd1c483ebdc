"""What a collection of the Kubernetes API contains, kept up to date by watching it."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.apiserver.client import ApiError
from genericdp.observed import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from genericdp.apiserver.client import ApiClient, Json

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReflectorTiming:
    """When to try again, in seconds."""

    first: float = 0.5
    most: float = 30.0
    settled: float = 10.0
    """After a watch that lasted this long the next may begin at once."""
    most_asked_for: float = 300.0
    """The longest Retry-After that is respected."""


class Reflector:
    """Lists and watches a collection; where that fails, tries again, ever more rarely."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        field_selector: str = "",
        *,
        timing: ReflectorTiming | None = None,
    ) -> None:
        self.objects: Observed[Mapping[str, Json] | None] = Observed(None)
        """By name, as last known; None: never listed."""
        self.failure = Observed("")
        """Why they are not being watched; empty if they are."""
        self._client = client
        self._path = path
        self._field_selector = field_selector
        self._timing = timing or ReflectorTiming()
        self._version = ""
        """Of the last news; empty: list first."""
        self._deleted: set[str] = set()
        """UIDs of objects that were forgotten before the watch said so."""
        self._writes = 0
        self._failures = 0
        """In a row."""

    async def run(self) -> Never:
        """List and watch, forever."""
        while True:
            asked_for = 0.0
            try:
                await self._follow()
                self._version = ""  # every few minutes: a list heals what a watch cannot
            except ApiError as error:
                if error.status is not None:  # not a lost connection: 410, or anything like it
                    self._version = ""
                if self._failures:
                    self._note(str(error))
                asked_for = min(error.retry_after or 0.0, self._timing.most_asked_for)
            await asyncio.sleep(max(self._pause(), asked_for))

    def observe(self, item: Json) -> None:
        """Take in an object that a write returned, before the watch says so."""
        self._writes += 1
        self._take("MODIFIED", item)

    def forget(self, name: str) -> None:
        """Take in that an object was deleted, before the watch says so."""
        self._writes += 1
        if item := (self.objects.value or {}).get(name):
            self._deleted.add(_uid(item))
            self._set(name, None)

    async def _follow(self) -> None:
        """Watch until the server ends that; list first where it is not known from when on."""
        now = asyncio.get_running_loop().time
        self._failures += 1
        if not self._version:
            await self._list()
        async with self._client.watch(
            self._path, resource_version=self._version, field_selector=self._field_selector
        ) as events:
            self._note("")
            began = now()
            try:
                async for kind, item in events:
                    if kind != "BOOKMARK":
                        self._take(kind, item)
                    self._version = str(item["metadata"].get("resourceVersion", ""))
            finally:
                if now() - began >= self._timing.settled:
                    self._failures = 0

    async def _list(self) -> None:
        while True:
            writes = self._writes
            listed, version = await self._client.list(self._path, self._field_selector)
            if writes == self._writes:  # else the list may be older than a write
                break
        self._deleted.clear()
        self.objects.value, self._version = {_name(item): item for item in listed}, version

    def _take(self, kind: str, item: Json) -> None:
        """Take in a change, unless something newer is known."""
        name, uid, known = _name(item), _uid(item), self.objects.value
        if known is None or (name in known and _version(known[name]) > _version(item)):
            return
        if kind == "DELETED":
            self._deleted.discard(uid)
            self._set(name, None)
        elif uid not in self._deleted:
            self._set(name, item)

    def _set(self, name: str, item: Json | None) -> None:
        others = {one: other for one, other in (self.objects.value or {}).items() if one != name}
        self.objects.value = others if item is None else {**others, name: item}

    def _note(self, failure: str) -> None:
        """Log what fails when it begins, changes and ends."""
        if failure == self.failure.value:
            return
        if failure:
            log.warning("%s; trying again", failure)
        else:
            log.info("the API server answers again: watching %s", self._path)
        self.failure.value = failure

    def _pause(self) -> float:
        """Return how long to wait before trying again: with jitter, so that nodes spread out."""
        if not self._failures:
            return 0.0
        # Beyond some failures the power would be too large for a float.
        pause = min(self._timing.first * 2.0 ** min(self._failures - 1, 30), self._timing.most)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311


def _name(item: Json) -> str:
    return str(item["metadata"].get("name", ""))


def _uid(item: Json) -> str:
    return str(item["metadata"].get("uid", ""))


def _version(item: Json) -> int:
    """Return a resourceVersion as a number, which it is in all that Kubernetes serves itself."""
    text = str(item["metadata"].get("resourceVersion"))
    return int(text) if text.isdecimal() and len(text) < 40 else 0
