"""Publication of ResourceSlices: makes those in the API the ones that are wanted."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from math import inf
from operator import is_not
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.apiserver.client import SLICES, ApiError, node_path, pause_after
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
_UNSURE = (None, *_CONFLICTS)
"""The status of answers after which it is not known how a slice is."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The end of a generated name: with it a reason would be another one each time."""
_MAX_FIELDS = 5
_MAX_UNDONE = 3
"""How often in a row our writes may be undone before that is told."""
_REST_SECONDS = 10.0
"""What is undone so long after it could have been written again is written at once."""


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

    layout: Layout | None = None
    """None: it has yet to be read from the API."""
    content: tuple[Any, ...] = ()
    """What was to be in it when it was written last."""
    writes: int = 0
    """How often that was written in a row."""
    retry_at: float = -inf
    error: str = ""
    """Of the last write; empty: it is as it should be, or there was none."""


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
        pause: float = 0.25,
        probed_within: float = 5.0,
        look_after: float = 60.0,
    ) -> None:
        """Use a reflector of the slices of this driver and node, which somebody else runs.

        Nothing is written before ``registered`` has been true once. Seconds: after the first
        failure, before the same is written again (ever longer after more); to wait for first
        results of probes, so that a restart takes no device away; until all is looked at again
        after a slice was created, whatever the watch says (five times as long after any look).
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
        self._pause = pause
        self._probed_within = probed_within
        self._look_after = look_after
        self._started = inf
        self._may_write = False
        self._node: _Node | None = None
        self._look_at = -inf
        """When to look at the Node and the slices, whatever the watch says."""
        self._failures = 0
        """Of looks at them, in a row."""
        self._failure = ""
        self._pools: dict[str, _Published] = {}
        self._known: frozenset[str] = frozenset()
        """The names of the slices at the last look."""
        self._answers: dict[str, tuple[Json, Json]] = {}
        """What was sent, and what was stored instead, by name."""
        self._told: set[str] = set()
        """Fields of which was logged that the API server stores something else."""

    async def run(self) -> Never:
        """Look, write and wait, forever."""
        self._started = _now()
        observed: tuple[Observed[Any], ...] = (
            self.wanted,
            self._registered,
            self._reflector.objects,
            self._reflector.failure,
        )
        while True:
            seen = [one.value for one in observed]
            self._may_write |= self._registered.value
            due = await self._look()
            await until(
                lambda seen=seen: any(map(is_not, (one.value for one in observed), seen)),  # type: ignore[misc]
                *observed,
                timeout_seconds=None if due == inf else max(0.0, due - _now()),
            )

    async def _look(self) -> float:
        """Compare and write; return when to look again if nothing happens until then."""
        wanted, began = self.wanted.value, _now()
        if wanted is None:
            return inf
        reason = "" if self._may_write else _NOT_REGISTERED
        if not reason and self._reflector.objects.value is None:
            reason = self._reflector.failure.value or _NOT_LISTED
        if not reason:
            await self._ask()
        if reason or self._node is None:
            reason = reason or self._failure
            self._show({name: PoolState(reason=reason) for name in wanted})
            return self._look_at if self._failure else inf
        slices = self._by_pool(self._reflector.objects.value or {})
        resources = {pool_name(self._node_name, name): name for name in wanted}
        names = {**resources, **slices}
        self._pools = {name: self._pools.get(name) or _Published() for name in names}
        state = {}
        for name in names:
            resource = resources.get(name, "")
            devices = wanted.get(resource)
            one = await self._bring(name, resource, self._node, devices, slices.get(name, []))
            if resource or one.reason:
                state[resource or name] = one
        self._show(state)
        dues = [one.retry_at for one in self._pools.values() if one.retry_at > began]
        return min([self._look_at, *dues])

    async def _ask(self) -> None:
        """Look at the Node and the slices if that is due."""
        names = frozenset(self._reflector.objects.value or ())
        if not self._known <= names and not self._failure:
            self._look_at = -inf  # it may be another Node, or have another kubelet
        self._known = names
        self._answers = {name: one for name, one in self._answers.items() if name in names}
        if self._look_at > _now():
            return
        try:
            self._node = await self._look_at_node()
            await self._reflector.refresh()
            self._failures, self._failure = 0, ""
            self._look_at = _now() + 5 * self._look_after
        except ApiError as error:
            self._failures, self._failure = self._failures + 1, str(error)
            pause = pause_after(self._failures, self._pause, error.retry_after)
            self._look_at = _now() + pause

    async def _look_at_node(self) -> _Node:
        """Return what is known of our Node; raise ApiError."""
        try:
            node = await self._client.get(node_path(self._node_name))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                self._node = None
                message = f"the cluster has no Node {self._node_name} (see --node-name)"
                raise ApiError(message, status=error.status) from error
            raise
        version = str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""))
        return _Node(str(node["metadata"].get("uid", "")), has_extended_resources(version))

    def _by_pool(self, objects: Mapping[str, Json]) -> dict[str, list[Json]]:
        """Return our slices by pool; one that is as the API server made it counts as was sent."""
        found: dict[str, list[Json]] = {}
        for name, one in objects.items():
            content = content_of(one)
            sent, stored = self._answers.get(name, (content, content))
            if content == stored:
                content = sent
            spec = content["spec"]
            if (spec.get("driver"), spec.get("nodeName")) == (self._driver, self._node_name):
                metadata = {**one["metadata"], "ownerReferences": content["ownerReferences"]}
                ours = {**one, "metadata": metadata, "spec": spec}
                found.setdefault(spec["pool"]["name"], []).append(ours)
        return found

    async def _bring(
        self,
        name: str,
        resource: str,
        node: _Node,
        devices: DeviceList | None,
        observed: Sequence[Json],
    ) -> PoolState:
        """Make the slices of a pool what is wanted, as far as it is time; return how it is."""
        published = self._pools[name]
        layout: Layout = {}
        offered = Offered(devices={}, shares={}, not_offered={})
        if devices is None:
            published.layout = None
        else:
            until_probed = self._started + self._probed_within
            unprobed = any(NOT_PROBED in one.failing for one in devices.devices.values())
            if unprobed and published.layout is None and _now() < until_probed:
                published.retry_at = until_probed
                return PoolState(reason=_PROBED, slices=len(observed))
            offered = devices_of(resource, devices, extended_resource=node.extended_resources)
            before = layout_of(observed) if published.layout is None else published.layout
            layout = published.layout = next_layout(before, offered.shares)
        pool = Pool(name=name, driver=self._driver, node_name=self._node_name, node_uid=node.uid)
        todo = plan(pool, layout, offered.devices, observed)
        undone = ""
        if todo != Plan():
            await self._write(published, (pool, layout, offered.devices), todo)
            undone = _NOT_WRITTEN if todo.create else ""
            undone = _UNDONE if published.writes > _MAX_UNDONE else undone
        elif not self._failure:  # else what the last write has done is not known
            published.error = ""
        return PoolState(
            reason=published.error or undone,
            slices=len(observed),
            devices=len(offered.devices),
            not_offered=offered.not_offered,
        )

    async def _write(self, published: _Published, content: tuple[Any, ...], todo: Plan) -> None:
        """Carry out a plan if it is time.

        What is new is written at once, the same ever more rarely: whatever the API server and
        others make of our slices, they are not overrun.
        """
        is_new = content != published.content
        if is_new or _now() > published.retry_at + _REST_SECONDS:
            published.content, published.writes = content, 0
        if _now() < published.retry_at and not (is_new and not published.error):
            return
        published.writes += 1
        retry_after = 0.0
        try:
            await self._carry_out(todo)
        except ApiError as error:
            if error.status in _UNSURE:
                self._look_at = -inf
            if error.status not in _CONFLICTS or published.writes > 1:
                published.error = _RANDOM.sub('-…"', str(error))
            retry_after = error.retry_after
        published.retry_at = _now() + pause_after(published.writes, self._pause, retry_after)

    async def _carry_out(self, todo: Plan) -> None:
        """Send the requests of a plan; raise ApiError."""
        for one in todo.delete:
            metadata = one["metadata"]
            name, version = metadata["name"], metadata["resourceVersion"]
            await self._client.delete(
                f"{SLICES}/{name}", uid=metadata["uid"], resource_version=version
            )
            self._reflector.forget(name)
        for one in todo.create:
            self._take(one, await self._client.create(SLICES, one))
            self._look_at = min(self._look_at, _now() + self._look_after)
        for one in todo.update:
            path = f"{SLICES}/{one['metadata']['name']}"
            self._take(one, await self._client.update(path, one))

    def _take(self, one: Json, answer: Json) -> None:
        """Take in what was stored; it may be another than was sent."""
        sent, stored = content_of(one), content_of(answer)
        if sent != stored:
            self._answers[answer["metadata"]["name"]] = sent, stored
        if changed := set(_differences(sent, stored)) - self._told:
            self._told |= changed
            log.warning(
                "the API server, or a webhook of it, changes or drops fields of ResourceSlices:"
                " %s; they stay as it stores them",
                first_few(sorted(changed), _MAX_FIELDS),
            )
        self._reflector.observe(answer)

    def _show(self, state: Mapping[str, PoolState]) -> None:
        """Set the state and log what is new in it."""
        before, self.state.value = self.state.value, state
        for name, one in state.items():
            was = before.get(name, PoolState(reason=_NOT_WRITTEN))
            for share in one.not_offered.keys() - was.not_offered.keys():
                why, about = one.not_offered[share], {"resource": name, "device": share}
                log.warning("not in a ResourceSlice: %s", why, extra=about)
            if one.reason == was.reason or one.reason in _PASSING:
                continue
            about = {"resource": name}
            if one.reason:
                log.warning("ResourceSlices are not as they should be: %s", one.reason, extra=about)
            else:
                devices, slices = plural(one.devices, "device"), plural(one.slices, "ResourceSlice")
                log.info("%s in %s published", devices, slices, extra=about)


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
