"""A local copy of a collection of the Kubernetes API, kept up to date by list and watch."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING

from genericdp.apiserver.access import ApiAccessError
from genericdp.apiserver.client import ApiError, pause_after
from genericdp.observed import Observed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Never

    from genericdp.apiserver.client import ApiClient, Json

log = logging.getLogger(__name__)


class Reflector:
    """Lists and watches a collection; where that fails, tries again, ever more rarely.

    It lists when the server ends a watch, as it does every few minutes, since a list heals what a
    watch cannot; when an object has been deleted; and when it is asked to.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        field_selector: str = "",
        *,
        before_list: Callable[[], Awaitable[None]] | None = None,
        pause: float = 0.5,
    ) -> None:
        """Wait about ``pause`` seconds after the first failure.

        ``before_list`` is awaited before each list, and may raise ApiError. If it raises a 404, the
        objects are listed, but not watched before it succeeds.
        """
        self.objects: Observed[Mapping[str, Json] | None] = Observed(None)
        """The objects by name, as last known; None: they have never been listed."""
        self.lists = Observed(0)
        """How often they have been listed, and ``before_list`` succeeded."""
        self.failure = Observed("")
        """Why the collection is not being watched; empty if it is."""
        self._client = client
        self._path = path
        self._field_selector = field_selector
        self._before_list = before_list
        self._pause = pause
        self._version = ""
        """The resourceVersion to watch from; empty: list first."""
        self._list_at = inf
        """When to list again at the latest."""
        self._watching: asyncio.Timeout | None = None
        """Ends the watch then; None: there is none."""
        self._changes = 0
        """How often an object was observed or forgotten."""
        self._failures = 1
        """Failures since the last event; the first after one is not logged: a lost connection."""

    async def run(self) -> Never:
        """List and watch, forever."""
        while True:
            retry_after, resumed = 0.0, bool(self._version)
            try:
                if not resumed:
                    await self._list()
                await self._watch()
                self._version, self._failures = "", 0
            except TimeoutError:
                self._version = ""
                continue
            except ApiError as error:
                if error.status is not None:  # not a lost connection: 410, or anything like it
                    self._version = ""
                if error.status == 410 and resumed:
                    continue  # the server answers, but no longer knows what there was
                self._failed(error)
                retry_after = error.retry_after
            self._failures += 1
            await asyncio.sleep(pause_after(self._failures, self._pause, retry_after))

    def list_within(self, seconds: float) -> None:
        """List again within so many seconds, or as soon as the server answers."""
        self._list_at = min(self._list_at, asyncio.get_running_loop().time() + seconds)
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(self._list_at)

    def observe(self, item: Json) -> None:
        """Store an object, as a write of it before its watch event comes, unless it is outdated."""
        self._changes += 1
        name, known = _name(item), self.objects.value
        if known is not None and _version(known.get(name)) <= _version(item):
            self.objects.value = {**known, name: item}

    def forget(self, name: str) -> None:
        """Drop an object that a write deleted, before its watch event comes."""
        self._changes += 1
        if self.objects.value is not None:
            known = self.objects.value.items()
            self.objects.value = {one: item for one, item in known if one != name}

    async def _list(self) -> None:
        """List all objects; those whose version is known stay as they were observed."""
        failure = None
        try:
            if self._before_list is not None:
                await self._before_list()
        except ApiError as error:
            if error.status != 404:
                raise
            failure = error
        while True:
            self._list_at, changes = inf, self._changes
            listed, version = await self._client.list(self._path, self._field_selector)
            if changes == self._changes:  # else the list may be older than a write
                break
        known = {_identity(item): item for item in (self.objects.value or {}).values()}
        self.objects.value = {_name(item): known.get(_identity(item), item) for item in listed}
        if failure is not None:
            raise failure
        self._version = version
        self.lists.value += 1

    async def _watch(self) -> None:
        """Watch until the server ends the watch; raise TimeoutError once it is time to list."""
        try:
            async with (
                asyncio.timeout_at(self._list_at) as self._watching,
                self._client.watch(
                    self._path, resource_version=self._version, field_selector=self._field_selector
                ) as events,
            ):
                self._set_failure("")
                async for kind, item in events:
                    known = (self.objects.value or {}).get(_name(item))
                    if kind == "DELETED":
                        if known is not None:
                            self.list_within(0)
                    elif kind != "BOOKMARK" and _version(known) != _version(item):
                        self.observe(item)
                    self._version = str(item["metadata"].get("resourceVersion", ""))
                    self._failures = 0
        finally:
            self._watching = None

    def _failed(self, error: ApiError) -> None:
        if self._failures:
            self._set_failure(str(error))
        if isinstance(error, ApiAccessError):  # no server was asked: the pause need not grow
            self._failures = 0

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


def _identity(item: Json) -> tuple[str, object]:
    return _name(item), item["metadata"].get("resourceVersion")


def _version(item: Json | None) -> int:
    """Return an object's resourceVersion as a number, as it is for all built-in APIs."""
    if item is None:
        return -1
    text = str(item["metadata"].get("resourceVersion"))
    return int(text) if text.isdecimal() and len(text) < 40 else 0
