"""Publication of ResourceSlices: makes those in the API the wanted ones."""

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
_PROBING = "its devices are being probed for the first time"
_TRANSIENT = (_NOT_REGISTERED, _NOT_LISTED, _NOT_WRITTEN, _PROBING)
_UNDONE = "somebody changes or deletes its ResourceSlices whenever they are written"
_NOT_FOUND = 404
_CONFLICTS = (_NOT_FOUND, 409)
_UNSURE = (None, *_CONFLICTS)
"""The status of answers after which the state of a slice is unknown."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The random end of a generated name, omitted in reasons: they would differ each time."""
_MAX_FIELDS = 5
_MAX_UNDONE = 3
"""How often in a row a write may be undone before status and log say so."""
_REST_SECONDS = 10.0
"""So long after a write could have been repeated, it is repeated at once, as if it were new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolState:
    """Whether a resource is published, and what of it."""

    reason: str = ""
    """Why its ResourceSlices are not as they should be; empty: they are."""
    slices: int = 0
    devices: int = 0
    """Devices on offer."""
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why other shares cannot be in a slice, by ID."""


class _Node(NamedTuple):
    """The Node's fields that slices depend on."""

    uid: str
    extended_resources: bool


@dataclass(slots=True)
class _Published:
    """State of a pool between reconciles."""

    layout: Layout | None = None
    """None: it is to be read from the slices in the API."""
    content: tuple[Any, ...] = ()
    """The wanted content when it was written last."""
    writes: int = 0
    """How often this content was written in a row."""
    retry_at: float = -inf
    error: str = ""
    """Why the last write failed; empty: it did not, or the pool is as it should be."""


class Publisher:
    """Writes ResourceSlices whenever those in the API are not the wanted ones.

    When it is canceled they stay: the kubelet deletes them unless the driver registers again soon.
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
        refresh_after: float = 60.0,
    ) -> None:
        """Use a reflector of the slices of this driver and node, which the caller runs.

        Nothing is written before ``registered`` has been true once. In seconds: ``pause`` before
        the same is written again (ever longer after more failures); ``probed_within``: how long to
        wait for first results of probes, so that a restart takes no device away; ``refresh_after``:
        when all slices are listed again after one was created (else five times as long).
        """
        self.wanted: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The device lists to publish, by resource; None: not known yet."""
        self.state: Observed[Mapping[str, PoolState]] = Observed({})
        """By resource, or by pool for one that is to be deleted."""
        self._client = client
        self._reflector = reflector
        self._driver = driver
        self._node_name = node_name
        self._registered = registered
        self._pause = pause
        self._probed_within = probed_within
        self._refresh_after = refresh_after
        self._started = inf
        self._may_write = False
        self._node: _Node | None = None
        self._refresh_at = -inf
        """When to get the Node and list the slices, whatever the watch says."""
        self._failures = 0
        """Failed requests for them, in a row."""
        self._failure = ""
        self._pools: dict[str, _Published] = {}
        self._known: frozenset[str] = frozenset()
        """The names of the slices at the last reconcile."""
        self._answers: dict[str, tuple[Json, Json]] = {}
        """What was sent, and what the API server stored instead, by name of the slice."""
        self._logged: set[str] = set()
        """The fields that the API server stores otherwise, as logged."""

    async def run(self) -> Never:
        """Reconcile, then wait for a change, forever."""
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
            due = await self._reconcile()
            await until(
                lambda seen=seen: any(map(is_not, (one.value for one in observed), seen)),  # type: ignore[misc]
                *observed,
                timeout_seconds=None if due == inf else max(0.0, due - _now()),
            )

    async def _reconcile(self) -> float:
        """Compare and write; return when to do so again if nothing changes until then."""
        wanted, began = self.wanted.value, _now()
        if wanted is None:
            return inf
        reason = "" if self._may_write else _NOT_REGISTERED
        if not reason and self._reflector.objects.value is None:
            reason = self._reflector.failure.value or _NOT_LISTED
        if not reason:
            await self._refresh()
        if reason or self._node is None:
            reason = reason or self._failure
            self._set_state({name: PoolState(reason=reason) for name in wanted})
            return self._refresh_at if self._failure else inf
        slices = self._by_pool(self._reflector.objects.value or {})
        resources = {pool_name(self._node_name, name): name for name in wanted}
        names = {**resources, **slices}
        self._pools = {name: self._pools.get(name) or _Published() for name in names}
        state = {}
        for name in names:
            resource = resources.get(name, "")
            devices = wanted.get(resource)
            one = await self._sync_pool(name, resource, self._node, devices, slices.get(name, []))
            if resource or one.reason:
                state[resource or name] = one
        self._set_state(state)
        dues = [one.retry_at for one in self._pools.values() if one.retry_at > began]
        return min([self._refresh_at, *dues])

    async def _refresh(self) -> None:
        """Get the Node and list the slices if that is due."""
        names = frozenset(self._reflector.objects.value or ())
        if not self._known <= names and not self._failure:
            self._refresh_at = -inf  # it may be another Node, or have another kubelet
        self._known = names
        self._answers = {name: one for name, one in self._answers.items() if name in names}
        if self._refresh_at > _now():
            return
        try:
            self._node = await self._get_node()
            await self._reflector.refresh()
            self._failures, self._failure = 0, ""
            self._refresh_at = _now() + 5 * self._refresh_after
        except ApiError as error:
            self._failures, self._failure = self._failures + 1, str(error)
            pause = pause_after(self._failures, self._pause, error.retry_after)
            self._refresh_at = _now() + pause

    async def _get_node(self) -> _Node:
        """Return the fields of the Node; raise ApiError."""
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
        """Return our slices by pool, with what was sent where something else was stored."""
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

    async def _sync_pool(
        self,
        name: str,
        resource: str,
        node: _Node,
        devices: DeviceList | None,
        observed: Sequence[Json],
    ) -> PoolState:
        """Write the slices of a pool if they are not the wanted ones; return its state."""
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
                return PoolState(reason=_PROBING, slices=len(observed))
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
        """Carry out a plan, unless the same was written too recently.

        New content is written at once, the same ever more rarely, so that the API server is not
        overrun if somebody changes the slices.
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
                self._refresh_at = -inf
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
            self._record(one, await self._client.create(SLICES, one))
            self._refresh_at = min(self._refresh_at, _now() + self._refresh_after)
        for one in todo.update:
            path = f"{SLICES}/{one['metadata']['name']}"
            self._record(one, await self._client.update(path, one))

    def _record(self, one: Json, answer: Json) -> None:
        """Record what the API server stored, which may differ from what was sent."""
        sent, stored = content_of(one), content_of(answer)
        if sent != stored:
            self._answers[answer["metadata"]["name"]] = sent, stored
        if changed := set(_differences(sent, stored)) - self._logged:
            self._logged |= changed
            log.warning(
                "the API server, or a webhook of it, changes or drops fields of ResourceSlices:"
                " %s; they stay as it stores them",
                first_few(sorted(changed), _MAX_FIELDS),
            )
        self._reflector.observe(answer)

    def _set_state(self, state: Mapping[str, PoolState]) -> None:
        """Set the state, and log changes of it."""
        before, self.state.value = self.state.value, state
        for name, one in state.items():
            was = before.get(name, PoolState(reason=_NOT_WRITTEN))
            for share in one.not_offered.keys() - was.not_offered.keys():
                why, about = one.not_offered[share], {"resource": name, "device": share}
                log.warning("not in a ResourceSlice: %s", why, extra=about)
            if one.reason == was.reason or one.reason in _TRANSIENT:
                continue
            about = {"resource": name}
            if one.reason:
                log.warning("ResourceSlices are not as they should be: %s", one.reason, extra=about)
            else:
                devices, slices = plural(one.devices, "device"), plural(one.slices, "ResourceSlice")
                log.info("%s in %s published", devices, slices, extra=about)


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


def _now() -> float:
    return asyncio.get_running_loop().time()
