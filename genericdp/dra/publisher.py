"""ResourceSlices in the API: a local copy, kept up to date by list and watch, and what to write."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.apiserver import SLICES, node_path, slice_path, version_of
from genericdp.dra.slices import (
    NEWER_FIELDS,
    Pool,
    content_of,
    devices_of,
    fields_of,
    has_extended_resources,
    is_ending,
    is_well_formed,
    layout_of,
    next_layout,
    plan,
    pool_name,
    with_times,
)
from genericdp.errors import ApiAccessError, ApiError
from genericdp.observed import Observed, Signal, any_change, until
from genericdp.printing import first_few, plural, printable, shortened
from genericdp.repeat import Backoff, Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Never

    from genericdp.apiserver import ApiClient, Json
    from genericdp.devices.devicelist import DeviceList
    from genericdp.dra.slices import Layout

log = logging.getLogger(__name__)

_MAX_NAMES = 5  # in a log line
_MAX_LOGGED = 100
"""Maximum number of fields in the log: a server may invent new ones with each answer."""
_LONGEST_PAUSE = 30.0
_EARLY_SECONDS = 1.0
"""A watch that ends sooner was useless."""
_MAX_WITHOUT_ACCESS = 2
_MAX_EARLY = 3
"""How many watches in a row may end so early before status and log say so."""
_NO_WATCH_LASTS = (
    f"no watch of {SLICES} lasts: the API server ends each, or says that listed slices are deleted"
)
_NOT_SENT = "the API server's answer is not the ResourceSlice that was sent"
_NOT_LISTED = "the API server has not said yet which ResourceSlices there are"
_NOT_WRITTEN = "its ResourceSlices have not been written yet"
_PROBING = "waiting for the first probe results of its devices"
_UNDONE = "another client keeps changing or deleting its ResourceSlices"
_CONFLICTS = (404, 409)  # deleted or changed meanwhile
_REFUSALS = (*_CONFLICTS, 422)
"""The status of answers that concern one slice only: other slices can still be written."""
_UNSURE = (None, *_CONFLICTS)
"""The status of answers after which the state of a slice is unknown."""
_OTHERS = ""
"""The key for all pools that are not wanted: a server may invent any number of them."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The random end of a generated name, omitted in reasons, which would otherwise differ each
time.
"""
_MAX_UNDONE = 2
"""How many times in a row pools may be written again before status and log say so."""
_MAX_DELETIONS = 2
"""Maximum number of slices of a pool that are deleted when it is written again: a server may
invent new ones with each list.
"""


class Node(NamedTuple):
    """The Node's fields that slices depend on."""

    uid: str
    extended_resources: bool


class NewerFields:
    """The newer fields of devices that the API server keeps, and those that it drops."""

    def __init__(self) -> None:
        self.dropped: Observed[frozenset[str]] = Observed(frozenset())
        self.known: frozenset[str] = frozenset()
        """The fields of which it is known whether it keeps them."""
        self._dropping = Latch(log)

    def forget(self) -> None:
        """Forget everything: another version may answer from now on."""
        self.known = self.dropped.value = frozenset()

    def note(self, sent: Json, answer: Json) -> None:
        """Learn from an answer to a slice that was sent."""
        if fields := fields_of(sent):
            self.known |= fields
            self.dropped.value |= fields - fields_of(answer)
            ended = "the API server keeps all fields of devices"
            self._dropping.update(self.why, "%s", self.why, ended=ended)

    @property
    def why(self) -> str:
        """Return which fields the API server drops, and what follows; empty if none."""
        return "; ".join(
            f"the API server drops {name} of devices, because of its version or a feature gate:"
            f" {effect}"
            for name, effect in NEWER_FIELDS.items()
            if name in self.dropped.value
        )


class StoredSlices:
    """Lists, watches and writes the slices of a driver on a node, and gets the Node.

    It lists again whenever a watch has ended or failed, for any reason, and ever more rarely if
    that keeps happening.
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

        List again ``list_within`` seconds after a slice was created: the watch may have reported
        its deletion before the API server answered.
        """
        self.driver, self.node_name = driver, node_name
        self.by_name: Observed[Mapping[str, Json] | None] = Observed(None)
        """The slices, as last known; None if they have never been listed. Our own last writes are
        stored as we sent them, so that fields that the API server or a webhook changes do not cause
        another write.
        """
        self.node: Node | None = None
        """None if it is missing or unknown."""
        self.listed = Signal()
        """Sent when the slices have been listed."""
        self.failure = Observed("")
        """Why they are not being watched; empty if they are."""
        self._failing = Latch(log)
        self._client, self._pause = client, pause
        self._backoff = self.new_backoff()
        self._sent: dict[str, tuple[Json, Json]] = {}
        """Our last writes, as the API server stored them and as we sent them, by name."""
        self._selector = f"spec.driver={driver},spec.nodeName={node_name}"
        self._list_within = list_within
        self._watch_from = ""
        """The resourceVersion to watch from; if empty, list first."""
        self._written = Signal()
        """Sent when a write has ended."""
        self._list_at = inf
        """When to list again at the latest."""
        self._watching_since = inf  # when the server agreed to watch; infinite if it has not
        self._watching: asyncio.Timeout | None = None  # set to end the watch, if there is one
        self._proof = 0.0  # how long a watch has to last until the last failure no longer counts
        self.fields = NewerFields()
        self._logged: set[str] = set()
        """The fields that the API server changes or drops, as logged."""
        self._malformed = Latch(log)

    async def run(self) -> Never:
        """List and watch, forever.

        When the server ends a watch, as it does every few minutes, a list follows, which corrects
        what a watch has missed.
        """
        while True:
            error, resumed, self._watching_since = None, bool(self._watch_from), inf
            try:
                if not resumed:
                    await self._list()
                await self._watch()
            except TimeoutError:
                pass
            except ApiError as it:
                error = it
            if error is None or error.status is not None:
                self._watch_from = ""
            else:  # a lost connection
                self.fields.forget()
            if error is not None and error.status == 410 and resumed:
                error = None  # the server answers, but no longer has that resourceVersion
            pause = self._count_round(error)
            await asyncio.sleep(pause if error is None else max(pause, error.retry_after))

    def _count_round(self, error: ApiError | None) -> float:
        """Record how listing and watching ended; return the seconds until it begins again."""
        watched = now() - self._watching_since
        if isinstance(error, ApiAccessError):  # no request was sent: back off only a little
            self._backoff.attempts = min(self._backoff.attempts, _MAX_WITHOUT_ACCESS)
        pause = self._backoff.count_attempt(now(), at_once=error is None)
        self._proof = min(pause, _EARLY_SECONDS) if watched >= 0 else 0.0
        attempts = self._backoff.attempts
        if error is None:
            if watched < _EARLY_SECONDS and attempts > _MAX_EARLY:
                self._set_failure(_NO_WATCH_LASTS)
        elif attempts > 1 or not (error.is_lost and watched >= 0):  # the watch may have lasted long
            self._set_failure(str(error))
        return pause

    def new_backoff(self) -> Backoff:
        """Return the backoff for requests that the API server makes necessary repeatedly."""
        return Backoff(self._pause, _LONGEST_PAUSE)

    def list_again(self, *, within: float) -> None:
        """List again within this many seconds, or as soon as the API server answers."""
        self._list_at = min(self._list_at, now() + within)
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(self._list_at)

    async def send(self, verb: str, slice_: Json) -> bool:
        """Send a request of ``slices.plan``, and store the answer; raise ApiError.

        Return whether the API server keeps all fields that matter; otherwise it stores nothing.
        """
        try:
            return await self._send(verb, slice_)
        finally:
            self._written.send()  # even after an error: the request may have been carried out

    async def _send(self, verb: str, slice_: Json) -> bool:
        metadata = slice_["metadata"]
        path = slice_path(metadata.get("name", ""))
        if verb == "delete":
            version = metadata["resourceVersion"]
            await self._client.delete(path, uid=metadata["uid"], resource_version=version)
            known = (self.by_name.value or {}).items()
            self.by_name.value = {
                name: slice_ for name, slice_ in known if name != metadata["name"]
            }
            self._sent.pop(metadata["name"], None)
            return True
        send = (
            partial(self._client.update, path)
            if verb == "update"
            else partial(self._client.create, SLICES)
        )
        # Without taints in it, a device that is not Healthy would be given to pods.
        if not (fields := fields_of(slice_)) <= self.fields.known:
            answer = await send(slice_, dryRun="All")
            if not (self._is_ours(answer) and is_well_formed(answer)):
                raise ApiError(_NOT_SENT)
            self.fields.note(slice_, answer)
        if fields & self.fields.dropped.value:
            return False
        answer = await send(slice_)
        if verb == "create":
            self.list_again(within=self._list_within)
        if not (self._is_ours(answer) and _is_usable(answer)):
            raise ApiError(_NOT_SENT)
        self.fields.note(slice_, answer)
        slice_ = with_times(slice_, answer)
        changed = set(_differences(content_of(slice_), content_of(answer))) - self._logged
        if changed and len(self._logged) < _MAX_LOGGED:
            log.warning(
                "the API server, or a webhook of it, changes or drops fields of ResourceSlices:"
                " %s; they stay as it stores them",
                first_few([shortened(path) for path in sorted(changed)], _MAX_NAMES),
            )
            self._logged |= changed
        owners = {"ownerReferences": metadata["ownerReferences"]}
        sent = answer | {"metadata": answer["metadata"] | owners, "spec": slice_["spec"]}
        self._sent[answer["metadata"]["name"]] = answer, sent
        self._store(sent)
        return True

    def _is_ours(self, item: Json) -> bool:
        """Return whether a slice belongs to this driver and node, whatever the request was."""
        spec = item.get("spec")
        return isinstance(spec, dict) and (spec.get("driver"), spec.get("nodeName")) == (
            self.driver,
            self.node_name,
        )

    def _usable(self, items: Iterable[Json]) -> list[Json]:
        """Return the slices of this driver and node; log those that are malformed."""
        own = [item for item in items if self._is_ours(item)]
        usable = [item for item in own if _is_usable(item)]
        names = (item["metadata"].get("name") for item in own if not _is_usable(item))
        malformed = [printable(shortened(str(name))) for name in names]
        which = repr(malformed) if malformed else ""
        message = "the API server has malformed ResourceSlices of this node, which are ignored: %s"
        self._malformed.update(which, message, first_few(malformed, _MAX_NAMES))
        return usable

    def _as_sent(self, item: Json) -> Json:
        """Return a slice as we sent it, if the server stored it in this form."""
        answer, sent = self._sent.get(item["metadata"]["name"], (None, item))
        is_same = (
            answer is not None
            and _resource_version(answer) == _resource_version(item)
            and content_of(answer) == content_of(item)
        )
        return sent if is_same else item

    def _store(self, item: Json) -> None:
        """Store a slice, unless a newer version of it is known."""
        name, known = item["metadata"]["name"], self.by_name.value or {}
        if name not in known or _resource_version(known[name]) <= _resource_version(item):
            self.by_name.value = {**known, name: item}

    async def _list(self) -> None:
        """Get the Node, which may be a new one, and list the slices; raise ApiError."""
        node = await self._client.find(node_path(self.node_name))
        self.node = None if node is None else _node(node)
        while True:
            self._list_at, has_written = inf, self._written.watch()
            listed, version = await self._client.list(SLICES, self._selector)
            if not has_written():  # otherwise the list may be older than a write
                break
        found = {
            slice_["metadata"]["name"]: self._as_sent(slice_) for slice_ in self._usable(listed)
        }
        self._sent = {name: slice_ for name, slice_ in self._sent.items() if name in found}
        self.by_name.value = found
        self.listed.send()
        if node is None:
            message = f"the cluster has no Node {self.node_name} (see --node-name)"
            raise ApiError(message, status=404)
        self._watch_from = version

    async def _watch(self) -> None:
        """Watch until the server ends the watch; raise TimeoutError once it is time to list."""
        try:
            async with (
                asyncio.timeout_at(self._list_at) as self._watching,
                self._client.watch(
                    SLICES, resource_version=self._watch_from, field_selector=self._selector
                ) as events,
            ):
                self._watching_since = now()
                loop = asyncio.get_running_loop()
                proven = loop.call_later(self._proof, self._set_failure, "")
                try:
                    async for kind, item in events:
                        self._note(kind, item)
                finally:
                    proven.cancel()
        finally:
            self._watching = None

    def _note(self, kind: str, item: Json) -> None:
        """Apply an event of the watch."""
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            if not (self._is_ours(item) and _is_usable(item)):
                return
            known = (self.by_name.value or {}).get(item["metadata"]["name"])
            if kind != "DELETED":
                if known is None or _resource_version(known) != _resource_version(item):
                    self._store(item)
            elif known is not None:
                self.list_again(within=0)
        self._watch_from = version_of(item)

    def _set_failure(self, failure: str) -> None:
        """Record a failure (empty for none), and log it when it begins, changes and ends."""
        ended = f"the API server answers again: watching {SLICES}"
        self._failing.update(failure, "%s; trying again", failure, ended=ended)
        self.failure.value = failure


@dataclass(slots=True, eq=False)
class _Published:
    """The state of a pool between reconciles."""

    trouble: Latch
    """Why the pool is not as it should be, as logged."""
    layout: Layout = field(default_factory=dict)
    """The layout; if empty, it is read from the slices in the API."""
    wanted: tuple[Any, ...] = ()
    """Everything that its slices consist of."""
    written: tuple[Any, ...] | None = None
    """The same at the last write; None if there was none."""
    is_repeated: bool = False
    """Whether the last write repeated the content of an earlier one."""
    todo: Sequence[tuple[str, Json]] = ()
    """The requests that turn the slices in the API into the wanted ones."""
    error: str = ""
    """Why the last write failed; empty if it did not, or if the pool is as it should be."""
    is_known: Callable[[], bool] = lambda: True
    """Whether the effect of the last write is known; otherwise the next list shows it."""
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why shares cannot be in a slice, by ID, as logged."""

    def set_plan(self, wanted: tuple[Any, ...], todo: Sequence[tuple[str, Json]]) -> None:
        """Set the wanted content, and the requests for it."""
        self.wanted, self.todo = wanted, todo
        if self.error and not todo and self.is_known():
            # A failed write that is no longer needed: no other client has undone it.
            self.error, self.written = "", None


class Publisher:
    """Writes ResourceSlices whenever those in the API are not the wanted ones.

    New content is written at once, the same content ever more rarely, so that the API server is not
    flooded if another client changes the slices. When the publisher is canceled, the slices stay:
    the kubelet deletes them unless the driver registers again soon.
    """

    def __init__(
        self,
        slices: StoredSlices,
        *,
        wanted: Observed[Mapping[str, DeviceList] | None],
        registered: Observed[bool],
        probed_within: float = 5.0,
    ) -> None:
        """``wanted`` returns the device lists to publish, by resource; None if they are not known
        yet.

        Write nothing before ``registered`` has been true once. Wait ``probed_within`` seconds for
        first results of probes, so that a restart takes no device away.
        """
        self.wanted = wanted
        self.state: Observed[Mapping[str, str]] = Observed({})
        """Why slices are not as they should be, by resource; empty if they are. For slices that
        cannot be deleted: by pool.
        """
        self.slices = slices
        self._registered = registered
        self._probed_within = probed_within
        self._probed_by = inf
        self._pools: dict[str, _Published] = {}
        self._node: Node | None = None
        """The Node when slices were written last."""
        self._backoff = slices.new_backoff()
        """Counts writes that failed or repeated earlier ones."""
        self._retry_at = -inf
        self._failure = ""
        """Why the server accepts no write at all; empty if it does, as far as is known."""

    async def run(self) -> Never:
        """Reconcile, then wait for a change, forever."""
        self._probed_by = now() + self._probed_within
        slices = self.slices
        values = (slices.listed, slices.failure, slices.by_name, slices.fields.dropped, self.wanted)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(slices.run(), name="watch of ResourceSlices")
            await until(lambda: self._registered.value, self._registered)
            while True:
                has_news = any_change(*values)
                due = await self._reconcile()
                seconds = None if due == inf else max(0.0, due - now())
                await until(has_news, *values, timeout_seconds=seconds)

    async def _reconcile(self) -> float:
        """Compare and write; return when to do so again if nothing changes until then."""
        wanted, stored, node = self.wanted.value, self.slices.by_name.value, self.slices.node
        if wanted is None:
            return inf
        if stored is None or node is None:
            self.state.value = dict.fromkeys(wanted, self.slices.failure.value or _NOT_LISTED)
            return inf
        resources = {pool_name(self.slices.node_name, name): name for name in wanted}
        slices: dict[str, list[Json]] = {name: [] for name in (*resources, _OTHERS)}
        for slice_ in stored.values():
            slices.get(slice_["spec"]["pool"]["name"], slices[_OTHERS]).append(slice_)
        self._pools = {name: self._pools.get(name) or _new(resources.get(name)) for name in slices}
        others = self._pools[_OTHERS]
        gone = [("delete", slice_) for slice_ in slices[_OTHERS] if not is_ending(slice_)]
        others.set_plan(tuple(resources), gone)
        waiting = {}
        for name, resource in resources.items():
            is_probed = wanted[resource].is_probed or now() >= self._probed_by
            if not (self._pools[name].layout or is_probed):
                waiting[name] = _PROBING
            else:
                self._plan(name, resource, node, wanted[resource], slices[name])
        began = now()
        await self._write_due(node)
        state = {}
        for name, resource in resources.items():
            state[resource] = waiting.get(name) or self._why(self._pools[name], len(slices[name]))
        if why := self._why(others, 0):
            state |= {slice_["spec"]["pool"]["name"]: why for slice_ in slices[_OTHERS]}
        self.state.value = state
        dues = [self._probed_by] if waiting else []
        dues += [self._retry_at] if any(pool.todo for pool in self._pools.values()) else []
        return min((due for due in dues if due > began), default=inf)

    def _plan(
        self, name: str, resource: str, node: Node, devices: DeviceList, observed: Sequence[Json]
    ) -> None:
        """Plan the slices of a pool, and the requests for them."""
        published, slices = self._pools[name], self.slices
        offered = devices_of(
            resource,
            devices,
            driver=slices.driver,
            extended_resource=node.extended_resources,
            lacking=slices.fields.dropped.value,
        )
        published.layout = next_layout(published.layout or layout_of(observed), offered.shares)
        for share in offered.not_offered.keys() - published.not_offered.keys():
            about = {"resource": resource, "device": share}
            log.warning("not in a ResourceSlice: %s", offered.not_offered[share], extra=about)
        published.not_offered = offered.not_offered
        pool = Pool(name=name, driver=slices.driver, node_name=slices.node_name, node_uid=node.uid)
        content = (pool, published.layout, offered.devices)
        published.set_plan(content, plan(*content, observed))

    async def _write_due(self, node: Node) -> None:
        """Write the pools that are due.

        Values from the server do not count as new content: the Node could differ each time.
        """
        is_time, is_same_node = now() >= self._retry_at, self._node in (None, node)
        pools = [pool for pool in self._pools.values() if pool.todo and pool.is_known()]
        new = [pool for pool in pools if is_same_node and pool.wanted != pool.written]
        due = (
            pools if is_time else [] if self._failure else [pool for pool in new if not pool.error]
        )
        if not due:
            return
        self._node = node
        for pool in due:
            pool.is_repeated = pool not in new
        is_repeated = any(pool.is_repeated for pool in due)
        failures = await self._write(due)
        if failures or is_repeated:
            pause = self._backoff.count_attempt(now())
            self._retry_at = now() + max([pause, *(error.retry_after for error in failures)])

    async def _write(self, pools: Sequence[_Published]) -> list[ApiError]:
        """Carry out the plans of pools; return the failures.

        After a failure of the server, nothing more is sent.
        """
        failures: list[ApiError] = []
        self._failure = ""
        for pool in pools:
            pool.error, pool.written = "", pool.wanted
            deletions = [request for request in pool.todo if request[0] == "delete"]
            most = _MAX_DELETIONS if pool.is_repeated else len(deletions)
            try:
                for verb, slice_ in (*deletions[:most], *pool.todo[len(deletions) :]):
                    if not await self.slices.send(verb, slice_):
                        break  # the next reconcile plans without these fields
            except ApiError as error:
                failures.append(error)
                if error.status in _UNSURE:
                    pool.is_known = self.slices.listed.watch()
                    self.slices.list_again(within=0)
                text = _RANDOM.sub('-…"', str(error))
                if error.status not in _CONFLICTS or pool.is_repeated:
                    pool.error = text
                if error.status not in _REFUSALS:
                    self._failure = text
                    break
        return failures

    def _why(self, pool: _Published, count: int) -> str:
        """Return why a pool is not as it should be, and log that or its ``count`` of slices."""
        is_undone = pool.is_repeated and self._backoff.attempts > _MAX_UNDONE
        reason = pool.error
        if pool.todo and not reason:
            reason = self._failure or (_UNDONE if is_undone else "")
        if reason:
            pool.trouble.update(reason, "ResourceSlices are not as they should be: %s", reason)
        elif not pool.todo:
            devices = plural(len(pool.wanted[-1]), "device") if pool.wanted else ""
            text = f"{devices} in {plural(count, 'ResourceSlice')} published"
            pool.trouble.update("", ended=text)
        return reason or (
            _NOT_WRITTEN if any(change[0] == "create" for change in pool.todo) else ""
        )


def _new(resource: str | None) -> _Published:
    trouble = Latch(log) if resource is None else Latch(log, resource=resource)
    trouble.reason = "" if resource is None else _NOT_WRITTEN
    return _Published(trouble)


def _node(item: Json) -> Node:
    """Return the fields of a Node that slices depend on; raise ApiError."""
    uid, found = item["metadata"].get("uid"), item
    for key in ("status", "nodeInfo"):
        inner = found.get(key)
        found = inner if isinstance(inner, dict) else {}
    if not isinstance(uid, str):
        raise ApiError("the API server's answer is a malformed Node")
    return Node(uid, has_extended_resources(str(found.get("kubeletVersion"))))


def _is_usable(item: Json) -> bool:
    return is_well_formed(item) and version_of(item) != ""


def _differences(sent: Any, stored: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield the paths of the fields in which two objects differ, without indexes of lists."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in {**sent, **stored}:
            yield from _differences(sent.get(key), stored.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for mine, other in zip(sent, stored, strict=True):
            yield from _differences(mine, other, f"{path}[]")
    elif sent != stored:
        yield path


def _resource_version(item: Json) -> int:
    """Return the resourceVersion, which is a number for all built-in APIs."""
    return int(item["metadata"]["resourceVersion"])


def now() -> float:
    """Return the time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()
