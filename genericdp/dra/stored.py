"""The ResourceSlices of a node in the API: a local copy, kept up to date by list and watch."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.apiserver.access import ApiAccessError
from genericdp.apiserver.client import SLICES, ApiError, node_path, pause_after
from genericdp.dra.slices import content_of, has_extended_resources
from genericdp.observed import Observed
from genericdp.printing import first_few

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Never

    from genericdp.apiserver.client import ApiClient, Json

log = logging.getLogger(__name__)

_MAX_FIELDS = 5  # in a log line


class Node(NamedTuple):
    """The Node's fields that slices depend on."""

    uid: str
    extended_resources: bool


class StoredSlices:
    """Lists, watches and writes the slices of a driver on a node, and gets the Node.

    Where listing and watching fails, it tries again, ever more rarely.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        driver: str,
        node_name: str,
        pause: float = 0.25,
        list_within: float = 60.0,
    ) -> None:
        """Wait about ``pause`` seconds after the first failure.

        List again ``list_within`` seconds after a slice was created: the watch may have told of its
        deletion before the API server answered.
        """
        self.driver = driver
        self.node_name = node_name
        self.pause = pause
        self.by_name: Observed[Mapping[str, Json] | None] = Observed(None)
        """The slices, as last known; None: they have never been listed.

        Those that we wrote last are as we sent them: fields that the API server or a webhook has
        changed are no reason to write them again.
        """
        self.node: Node | None = None
        """None: there is none, or none is known."""
        self.lists = 0
        """How often the slices have been listed."""
        self.failure = ""
        """Why they are not being watched; empty: they are."""
        self.changed = asyncio.Event()
        """Set when any of this has changed."""
        self._client = client
        self._answers: dict[str, Json] = {}
        """What the API server has made of what we wrote last, by name."""
        self._selector = f"spec.driver={driver},spec.nodeName={node_name}"
        self._list_within = list_within
        self._watch_from = ""
        """The resourceVersion to watch from; empty: list first."""
        self._writes = 0
        """How many writes have succeeded."""
        self._list_at = inf
        """When to list again at the latest."""
        self._watching: asyncio.Timeout | None = None  # ends the watch, if there is one
        self._failures = 1
        """Failures since the last event; the first after one is not logged: a lost connection."""
        self._logged: set[str] = set()
        """The fields that the API server changes or drops, as logged."""

    async def run(self) -> Never:
        """List and watch, forever.

        A list follows when the server ends a watch, as it does every few minutes, since it heals
        what a watch cannot.
        """
        while True:
            retry_after, resumed = 0.0, bool(self._watch_from)
            try:
                if not resumed:
                    await self._list()
                await self._watch()
                self._watch_from, self._failures = "", 0
            except TimeoutError:
                self._watch_from = ""
                continue
            except ApiError as error:
                if error.status is not None:  # not a lost connection: 410, or anything like it
                    self._watch_from = ""
                if error.status == 410 and resumed:
                    continue  # the server answers, but no longer has that resourceVersion
                self._set_failure(str(error))
                if isinstance(error, ApiAccessError):  # no server was asked: back off only a little
                    self._failures = min(self._failures, 2)
                retry_after = error.retry_after
            self._failures += 1
            await asyncio.sleep(pause_after(self._failures, self.pause, retry_after))

    def list_again(self, *, within: float) -> None:
        """List again within so many seconds, or as soon as the API server answers."""
        self._list_at = min(self._list_at, now() + within)
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(self._list_at)

    async def send(self, verb: str, one: Json) -> None:
        """Send a request of ``slices.plan``, and store the answer; raise ApiError."""
        metadata = one["metadata"]
        path = f"{SLICES}/{metadata.get('name')}"
        if verb == "delete":
            version = metadata["resourceVersion"]
            await self._client.delete(path, uid=metadata["uid"], resource_version=version)
            self._writes += 1
            known = (self.by_name.value or {}).items()
            self.by_name.value = {name: it for name, it in known if name != metadata["name"]}
            self._answers.pop(metadata["name"], None)
            return
        if verb == "update":
            answer = await self._client.update(path, one)
        else:
            answer = await self._client.create(SLICES, one)
            self.list_again(within=self._list_within)
        self._writes += 1
        if changed := set(_differences(content_of(one), content_of(answer))) - self._logged:
            log.warning(
                "the API server, or a webhook of it, changes or drops fields of ResourceSlices:"
                " %s; they stay as it stores them",
                first_few(sorted(changed), _MAX_FIELDS),
            )
            self._logged |= changed
        if self._is_ours(answer):
            self._answers[answer["metadata"]["name"]] = answer
        owners = {"ownerReferences": metadata["ownerReferences"]}
        self._store(answer | {"metadata": answer["metadata"] | owners, "spec": one["spec"]})

    def _is_ours(self, item: Json) -> bool:
        """Return whether a slice is of this driver and node, whatever the server was asked for."""
        spec, metadata = item.get("spec"), item["metadata"]
        return (
            isinstance(spec, dict)
            and (spec.get("driver"), spec.get("nodeName")) == (self.driver, self.node_name)
            and isinstance(metadata.get("name"), str)
            and isinstance(metadata.get("uid"), str)
            and str(metadata.get("resourceVersion")).isdecimal()
        )

    def _as_sent(self, item: Json) -> Json:
        """Return a slice as we have sent it, if it is what the server made of that."""
        name = item["metadata"]["name"]
        answer, known = self._answers.get(name), (self.by_name.value or {}).get(name)
        is_same = (
            answer is not None
            and _resource_version(answer) == _resource_version(item)
            and content_of(answer) == content_of(item)
        )
        return known if known is not None and is_same else item

    def _store(self, item: Json) -> None:
        """Store a slice, unless a newer version of it is known."""
        name, known = item["metadata"]["name"], self.by_name.value or {}
        if name not in known or _resource_version(known[name]) <= _resource_version(item):
            self.by_name.value = {**known, name: item}

    async def _list(self) -> None:
        """Get the Node, which may be another one, and list the slices; raise ApiError."""
        missing = None
        try:
            node = await self._client.get(node_path(self.node_name))
            version = str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))
            uid = str(node["metadata"].get("uid", ""))
            self.node = Node(uid, has_extended_resources(version))
        except ApiError as error:
            if error.status != 404:
                raise
            self.node = None
            message = f"the cluster has no Node {self.node_name} (see --node-name)"
            missing = ApiError(message, status=error.status)
        while True:
            self._list_at, writes = inf, self._writes
            listed, version = await self._client.list(SLICES, self._selector)
            if writes == self._writes:  # else the list may be older than a write
                break
        self.by_name.value = {
            one["metadata"]["name"]: self._as_sent(one) for one in listed if self._is_ours(one)
        }
        self.changed.set()
        if missing is not None:
            raise missing
        self._watch_from = version
        self.lists += 1

    async def _watch(self) -> None:
        """Watch until the server ends the watch; raise TimeoutError once it is time to list."""
        try:
            async with (
                asyncio.timeout_at(self._list_at) as self._watching,
                self._client.watch(
                    SLICES, resource_version=self._watch_from, field_selector=self._selector
                ) as events,
            ):
                self._set_failure("")
                async for kind, item in events:
                    if kind in ("ADDED", "MODIFIED", "DELETED") and not self._is_ours(item):
                        continue
                    known = (self.by_name.value or {}).get(item["metadata"].get("name"))
                    if kind == "DELETED" and known is not None:
                        self.list_again(within=0)
                    elif kind in ("ADDED", "MODIFIED") and (
                        known is None or _resource_version(known) != _resource_version(item)
                    ):
                        self._store(item)
                    self._watch_from = str(item["metadata"].get("resourceVersion", ""))
                    self._failures = 0
        finally:
            self._watching = None

    def _set_failure(self, failure: str) -> None:
        """Record a failure (empty: none), and log it when it begins, changes and ends."""
        if failure == self.failure or (failure and not self._failures):
            return
        if failure:
            log.warning("%s; trying again", failure)
        else:
            log.info("the API server answers again: watching %s", SLICES)
        self.failure = failure
        self.changed.set()


def _differences(sent: Any, stored: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield the paths of the fields in which two objects differ, without indexes of lists."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in {**sent, **stored}:
            yield from _differences(sent.get(key), stored.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for one, other in zip(sent, stored, strict=True):
            yield from _differences(one, other, f"{path}[]")
    elif sent != stored:
        yield path


def _resource_version(item: Json) -> int:
    """Return the resourceVersion, which is a number for all built-in APIs."""
    return int(item["metadata"]["resourceVersion"])


def now() -> float:
    """Return the time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()
