"""Publication of ResourceSlices: makes those in the API the ones that are wanted."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from dataclasses import dataclass, field
from math import inf
from operator import is_not
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.apiserver.client import SLICES, ApiError, node_path
from genericdp.devices.device import NOT_PROBED
from genericdp.dra.slices import (
    Offered,
    Plan,
    Pool,
    content_of,
    devices_of,
    has_extended_resources,
    layout_of,
    next_layout,
    plan,
    pool_name,
)
from genericdp.observed import Observed, until
from genericdp.printing import first_few, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Never

    from genericdp.apiserver.client import ApiClient, Json
    from genericdp.apiserver.reflector import Reflector
    from genericdp.devices.devicelist import DeviceList
    from genericdp.dra.slices import Layout

log = logging.getLogger(__name__)

_NOT_REGISTERED = "the kubelet has not registered the DRA driver yet"
_NOT_LISTED = "the API server has not said yet which ResourceSlices there are"
_NOT_WRITTEN = "its ResourceSlices have not been written yet"
_PROBED = "its devices are being probed for the first time"
_PASSING = (_NOT_REGISTERED, _NOT_LISTED, _NOT_WRITTEN, _PROBED)
_UNDONE = "somebody changes or deletes its ResourceSlices whenever they are written"
_NOT_FOUND = 404
_CONFLICTS = (_NOT_FOUND, 409)
_OVERLOADED = (None, 429, 503)
"""The status of answers that say something about the API server, not about what was sent."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The end of a generated name: with it a reason would be another one each time."""
_MAX_NAMES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class PublisherTiming:
    """When to look and to write again, in seconds."""

    first: float = 0.25
    """After the first failure; twice as long after each further one."""
    most: float = 30.0
    gap: float = 0.5
    """Between writes that only repeat what somebody has undone."""
    burst: int = 20
    """How many writes to a pool may follow each other as soon as that, and changes at once."""
    refill: float = 10.0
    """After a burst, between writes that repeat something."""
    news: float = 1.0
    """After a burst, between changes."""
    probed: float = 5.0
    """How long to wait for first results of probes, so that a restart takes no device away."""
    created: float = 60.0
    """How long after its creation a slice is looked for, whatever the watch has said."""
    node: float = 300.0
    """How often the Node is looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolState:
    """What the API shows of a resource."""

    reason: str = ""
    """Why its ResourceSlices are not as they should be; empty: they are."""
    slices: int = 0
    devices: int = 0
    """Those on offer."""
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why others cannot be in a slice, by ID."""


class _Node(NamedTuple):
    """What counts of our Node."""

    uid: str
    extended_resources: bool


@dataclass(slots=True)
class _Published:
    """What is known of a pool from one look to the next."""

    since: float
    """When it was first wanted or seen."""
    layout: Layout | None = None
    """None: it has yet to be read from the API."""
    content: tuple[Any, ...] = ()
    """What was to be in it when it was written last."""
    written_at: float = -inf
    writes: float = 0.0
    """How many of a burst have been used up; they come back with time."""
    failures: int = 0
    """In a row."""
    retry_at: float = -inf
    reason: str = _NOT_WRITTEN


class Publisher:
    """Writes ResourceSlices whenever those in the API are not the ones that are wanted.

    They stay when it is cancelled: the kubelet removes them where nobody comes to serve them.
    """

    def __init__(
        self,
        client: ApiClient,
        reflector: Reflector,
        *,
        driver: str,
        node_name: str,
        registered: Observed[bool],
        timing: PublisherTiming | None = None,
    ) -> None:
        """Use a reflector of the slices of this driver and node, which somebody else runs.

        Nothing is written before ``registered`` has been true once.
        """
        self.wanted: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The devices of each resource that is to be published; None: not known yet."""
        self.state: Observed[Mapping[str, PoolState]] = Observed({})
        """By resource."""
        self._client = client
        self._reflector = reflector
        self._driver = driver
        self._node_name = node_name
        self._registered = registered
        self._timing = timing or PublisherTiming()
        self._may_write = False
        self._node: _Node | None = None
        self._node_due = -inf
        """When to look at the Node."""
        self._failures = 0
        """Of requests in a row that say something about the API server."""
        self._retry_at = -inf
        self._failure = ""
        self._pools: dict[str, _Published] = {}
        self._created: dict[str, float] = {}
        """When to look for slices that were created, by name."""
        self._known: frozenset[str] = frozenset()
        """The names of the slices at the last look."""
        self._answers: dict[str, tuple[Json, Json]] = {}
        """What was sent, and what was stored instead, by name."""
        self._told: set[str] = set()
        """Fields of which was logged that the API server stores something else."""

    async def run(self) -> Never:
        """Look, write and wait, forever."""
        failure = self._reflector.failure
        observed: tuple[Observed[Any], ...] = (
            self.wanted,
            self._registered,
            self._reflector.objects,
            failure,
        )
        while True:
            seen, failed = [one.value for one in observed], failure.value
            self._may_write |= self._registered.value
            due = await self._look()
            await until(
                lambda seen=seen: any(map(is_not, (one.value for one in observed), seen)),  # type: ignore[misc]
                *observed,
                timeout_seconds=None if due == inf else max(0.0, due - _now()),
            )
            if failed and not failure.value:  # it answers again
                self._retry_at = -inf

    async def _look(self) -> float:
        """Compare and write; return when to look again if nothing happens until then."""
        wanted, objects = self.wanted.value, self._reflector.objects.value
        if wanted is None:
            return inf
        reason = "" if self._may_write else _NOT_REGISTERED
        if not reason and objects is not None:
            await self._ask(objects)
            reason = "" if self._node else self._failure
        elif not reason:
            reason = self._reflector.failure.value or _NOT_LISTED
        if reason or objects is None:
            self._show({name: PoolState(reason=reason) for name in wanted})
            return self._retry_at if self._failure else inf
        slices = self._by_pool(objects)
        resources = {pool_name(self._node_name, name): name for name in wanted}
        self._pools = {
            name: self._pools.get(name) or _Published(_now()) for name in {**resources, **slices}
        }
        dues, state = [], {}
        for name in self._pools:
            resource, observed = resources.get(name, ""), slices.get(name, [])
            devices = wanted.get(resource)
            due, one = await self._bring(name, resource, devices, observed)
            dues.append(due)
            if resource or one.reason:
                state[resource or name] = one
        if not self._failure:
            self._failures = 0
        self._show(state)
        dues += [self._node_due, *self._created.values()]
        return max(min(dues), self._retry_at)

    async def _ask(self, objects: Mapping[str, Json]) -> None:
        """Look at the Node, and for slices that have been created, where that is due."""
        if not self._known <= objects.keys():
            self._node_due = -inf  # it may be another Node, or have another kubelet
        self._known = frozenset(objects)
        self._answers = {name: one for name, one in self._answers.items() if name in objects}
        if self._retry_at > _now():
            return
        self._failure = ""
        try:
            if self._node_due <= _now():
                self._node = await self._look_at_node()
                self._node_due = _now() + self._timing.node
            for name in [name for name, due in self._created.items() if due <= _now()]:
                await self._look_at_slice(name)
                del self._created[name]
        except ApiError as error:
            self._fail(error)

    async def _look_at_node(self) -> _Node:
        """Return what is known of our Node; raise ApiError."""
        try:
            node = await self._client.get(node_path(self._node_name))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                self._node = None
                message = f"the cluster has no Node {self._node_name} (see --node-name)"
                raise ApiError(message, status=error.status, reason=error.reason) from error
            raise
        version = str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))
        return _Node(str(node["metadata"].get("uid", "")), has_extended_resources(version))

    async def _look_at_slice(self, name: str) -> None:
        """Take in how a slice is now, whatever the watch has said; raise ApiError."""
        try:
            self._reflector.observe(await self._client.get(f"{SLICES}/{name}"))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            self._reflector.forget(name)

    def _fail(self, error: ApiError) -> None:
        """Record that the API server does not answer as it should: nothing is sent for a while."""
        self._failures += 1
        self._failure = str(error)
        self._retry_at = _now() + self._pause(self._failures, error)
        self._node_due = -inf

    def _pause(self, failures: int, error: ApiError) -> float:
        """Return how long to wait after a failure: with jitter, so that nodes spread out."""
        pause = min(self._timing.first * 2.0 ** min(failures - 1, 30), self._timing.most)
        return max(error.retry_after, pause * random.uniform(0.5, 1.0))  # noqa: S311

    def _by_pool(self, objects: Mapping[str, Json]) -> dict[str, list[Json]]:
        """Return our slices by pool; one that is as the API server made it counts as was sent."""
        found: dict[str, list[Json]] = {}
        for name, one in objects.items():
            content = content_of(one)
            sent, stored = self._answers.get(name, (content, content))
            if content != stored:
                sent = content
            spec = sent["spec"] or {}
            if (spec.get("driver"), spec.get("nodeName")) == (self._driver, self._node_name):
                metadata = {**one["metadata"], "ownerReferences": sent["ownerReferences"]}
                ours = {**one, "metadata": metadata, "spec": spec}
                found.setdefault(spec["pool"]["name"], []).append(ours)
        return found

    async def _bring(
        self, name: str, resource: str, devices: DeviceList | None, observed: Sequence[Json]
    ) -> tuple[float, PoolState]:
        """Make the slices of a pool what is wanted; return when to look again, and how it is."""
        published, node = self._pools[name], self._node or _Node("", extended_resources=False)
        layout: Layout = {}
        offered = Offered(devices={}, shares={}, not_offered={})
        if devices is None:
            published.layout = None
        else:
            due = published.since + self._timing.probed
            unprobed = any(NOT_PROBED in one.failing for one in devices.devices.values())
            if unprobed and published.layout is None and _now() < due:
                return due, PoolState(reason=_PROBED, slices=len(observed))
            offered = devices_of(resource, devices, extended_resource=node.extended_resources)
            before = layout_of(observed) if published.layout is None else published.layout
            layout = published.layout = next_layout(before, offered.shares)
        pool = Pool(name=name, driver=self._driver, node_name=self._node_name, node_uid=node.uid)
        todo = plan(pool, layout, offered.devices, observed)
        due = inf
        if todo == Plan():
            published.reason, published.failures = "", 0
        elif self._failure:
            published.reason = self._failure
        else:
            if todo.create:
                published.reason = published.reason or _NOT_WRITTEN
            due = await self._write(published, (pool, layout, offered.devices), todo)
        return due, PoolState(
            reason=published.reason,
            slices=len(observed),
            devices=len(offered.devices),
            not_offered=offered.not_offered,
        )

    async def _write(self, published: _Published, content: tuple[Any, ...], todo: Plan) -> float:
        """Carry out a plan if it is time; return when to look again.

        A few times that is at once, then rarely: whatever the API server and others make of our
        slices, they are not overrun.
        """
        timing, now = self._timing, _now()
        excess = published.writes + 1 - timing.burst
        if content != published.content:
            wait = timing.news if excess > 0 else 0.0
        else:
            wait = max(timing.gap, excess * timing.refill)
            if excess > 0 and not published.failures:
                published.reason = _UNDONE
        since = now - published.written_at
        if now < published.retry_at or since < wait:
            return max(published.retry_at, published.written_at + wait)
        refilled = max(0.0, published.writes - since / timing.refill)
        published.writes = min(refilled + 1, timing.burst)
        published.written_at, published.content = now, content
        try:
            await self._carry_out(todo)
        except ApiError as error:
            published.reason = _RANDOM.sub('-…"', str(error))
            if error.status in _OVERLOADED:
                self._fail(error)
                return inf
            published.failures += 1
            published.retry_at = _now() + self._pause(published.failures, error)
            return published.retry_at
        return _now()

    async def _carry_out(self, todo: Plan) -> None:
        """Send requests until something turns out to be another than was known; raise ApiError."""
        name = ""
        try:
            for one in todo.delete:
                metadata = one["metadata"]
                name, version = metadata["name"], metadata["resourceVersion"]
                path = f"{SLICES}/{name}"
                await self._client.delete(path, uid=metadata["uid"], resource_version=version)
                self._reflector.forget(name)
            name = ""
            for one in todo.create:
                created = self._take(one, await self._client.create(SLICES, one))
                self._created[created] = _now() + self._timing.created
            for one in todo.update:
                name = one["metadata"]["name"]
                self._take(one, await self._client.update(f"{SLICES}/{name}", one))
        except ApiError as error:
            if not name or error.status not in _CONFLICTS:
                raise
            await self._look_at_slice(name)

    def _take(self, one: Json, answer: Json) -> str:
        """Take in what was stored, and return its name; it may be another than was sent."""
        name, sent, stored = answer["metadata"]["name"], content_of(one), content_of(answer)
        self._answers.pop(name, None)
        if sent != stored:
            self._answers[name] = sent, stored
            changed = set(_differences(sent, stored)) - self._told
            if changed:
                self._told |= changed
                log.warning(
                    "the API server, or a webhook of it, changes or drops fields of ResourceSlices:"
                    " %s; they stay as it stores them",
                    first_few(sorted(changed), _MAX_NAMES),
                )
        self._reflector.observe(answer)
        return str(name)

    def _show(self, state: Mapping[str, PoolState]) -> None:
        """Set the state and log what is new in it."""
        before, self.state.value = self.state.value, state
        failing: dict[str, list[str]] = {}
        for name, one in state.items():
            was = before.get(name, PoolState(reason=_NOT_WRITTEN))
            for share in one.not_offered.keys() - was.not_offered.keys():
                why, about = one.not_offered[share], {"resource": name, "device": share}
                log.warning("not in a ResourceSlice: %s", why, extra=about)
            if one.reason == was.reason:
                continue
            if not one.reason:
                devices, slices = plural(one.devices, "device"), plural(one.slices, "ResourceSlice")
                log.info("%s in %s published", devices, slices, extra={"resource": name})
            elif one.reason not in _PASSING:
                failing.setdefault(one.reason, []).append(name)
        for reason, names in failing.items():
            shown = first_few(names, _MAX_NAMES)
            log.warning("ResourceSlices of %s are not as they should be: %s", shown, reason)


def _differences(sent: Any, stored: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield the paths of the fields in which two objects differ, without places in lists."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in {**sent, **stored}:
            yield from _differences(sent.get(key), stored.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for one, other in zip(sent, stored, strict=True):
            yield from _differences(one, other, f"{path}[]")
    elif sent != stored:
        yield path


def _now() -> float:
    return asyncio.get_running_loop().time()
