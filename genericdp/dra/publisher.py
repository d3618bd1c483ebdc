"""Publication of ResourceSlices: makes those in the API the wanted ones."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from genericdp.dra.slices import Pool, devices_of, layout_of, next_layout, plan, pool_name
from genericdp.dra.stored import now
from genericdp.errors import ApiError
from genericdp.observed import Observed, until
from genericdp.printing import plural
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Never

    from genericdp.apiserver import Json
    from genericdp.devices.devicelist import DeviceList
    from genericdp.dra.slices import Layout
    from genericdp.dra.stored import Node, StoredSlices

log = logging.getLogger(__name__)

_NOT_LISTED = "the API server has not said yet which ResourceSlices there are"
_NOT_WRITTEN = "its ResourceSlices have not been written yet"
_PROBING = "its devices are being probed for the first time"
_UNDONE = "somebody changes or deletes its ResourceSlices whenever they are written"
_CONFLICTS = (404, 409)  # deleted or changed meanwhile
_REFUSALS = (*_CONFLICTS, 422)
"""The status of answers that are about one slice: others may be written all the same."""
_UNSURE = (None, *_CONFLICTS)
"""The status of answers after which the state of a slice is unknown."""
_OTHERS = ""
"""The key of the pools that are not wanted: a server may invent any."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The random end of a generated name, omitted in reasons: they would differ each time."""
_MAX_UNDONE = 2
"""How many times in a row pools may be written again before status and log say so."""
_MAX_DELETIONS = (200, 2)
"""How many slices of a pool a write deletes at most, the first time and again: a server may invent
others with each list, while 6,000 devices have a hundred."""


@dataclass(slots=True, eq=False)
class _Published:
    """What is known of a pool between reconciles."""

    trouble: Latch
    """Why it is not as it should be, as logged."""
    layout: Layout = field(default_factory=dict)
    """Empty: it is to be read from the slices in the API."""
    wanted: tuple[Any, ...] = ()
    """All that its slices are made of."""
    written: tuple[Any, ...] | None = None
    """The same when they were written last; None: they have not been."""
    is_repeated: bool = False
    """Whether the last write was not the first one of this content."""
    todo: Sequence[tuple[str, Json]] = ()
    """The requests that make those in the API the wanted ones."""
    error: str = ""
    """Why the last write failed; empty: it did not, or the pool is as it should be."""
    is_known: Callable[[], bool] = lambda: True
    """Whether it is known what the last write has done: else the next list tells."""
    left: int = 0
    """How many deletions the last write has left for the next one."""
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why shares cannot be in a slice, by ID, as logged."""

    @property
    def deletions(self) -> Sequence[tuple[str, Json]]:
        """Those of the requests, which come first."""
        return [request for request in self.todo if request[0] == "delete"]

    @property
    def is_new(self) -> bool:
        """Whether this has not been written yet, or is the rest of what had to be deleted."""
        return self.wanted != self.written or 0 < len(self.deletions) <= self.left

    def set_plan(self, wanted: tuple[Any, ...], todo: Sequence[tuple[str, Json]]) -> None:
        """Set what is wanted, and the requests for it."""
        self.wanted, self.todo = wanted, todo
        if self.error and not todo and self.is_known():
            # A failed write that is not needed any more: nobody has undone it.
            self.error, self.written = "", None


class Publisher:
    """Writes ResourceSlices whenever those in the API are not the wanted ones.

    What is new is written at once, the same again ever more rarely, so that the API server is not
    overrun if somebody changes the slices. When it is canceled they stay: the kubelet deletes them
    unless the driver registers again soon.
    """

    def __init__(
        self,
        slices: StoredSlices,
        *,
        registered: Observed[bool],
        probed_within: float = 5.0,
    ) -> None:
        """Write nothing before ``registered`` has been true once.

        Wait ``probed_within`` seconds for first results of probes, so that a restart takes no
        device away.
        """
        self.wanted: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The device lists to publish, by resource; None: not known yet."""
        self.state: Observed[Mapping[str, str]] = Observed({})
        """Why slices are not as they should be (empty: they are), by resource.

        For slices that are to be deleted: by pool, if they cannot be.
        """
        self.slices = slices
        self._registered = registered
        self._probed_within = probed_within
        self._probed_by = inf
        self._pools: dict[str, _Published] = {}
        self._node: Node | None = None
        """The Node when slices were written last."""
        self._backoff = slices.new_backoff()
        """Counts the writes that failed, or had been made before."""
        self._retry_at = -inf
        self._failure = ""
        """Why the server takes no write at all; empty: it does, as far as is known."""

    async def run(self) -> Never:
        """Reconcile, then wait for a change, forever."""
        self._probed_by = now() + self._probed_within
        values = (self.slices.changed, self.wanted, self.slices.by_name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.slices.run(), name="watch of ResourceSlices")
            await until(lambda: self._registered.value, self._registered)
            while True:
                changes = [value.watch() for value in values]
                due = await self._reconcile()
                await until(
                    lambda changes=changes: any(it() for it in changes),  # type: ignore[misc]
                    *values,
                    timeout_seconds=None if due == inf else max(0.0, due - now()),
                )

    async def _reconcile(self) -> float:
        """Compare and write; return when to do so again if nothing changes until then."""
        wanted, stored, node = self.wanted.value, self.slices.by_name.value, self.slices.node
        if wanted is None:
            return inf
        if stored is None or node is None:
            self.state.value = dict.fromkeys(wanted, self.slices.failure or _NOT_LISTED)
            return inf
        resources = {pool_name(self.slices.node_name, name): name for name in wanted}
        slices: dict[str, list[Json]] = {name: [] for name in (*resources, _OTHERS)}
        for one in stored.values():
            slices.get(one["spec"]["pool"]["name"], slices[_OTHERS]).append(one)
        self._pools = {name: self._pools.get(name) or _new(resources.get(name)) for name in slices}
        others = self._pools[_OTHERS]
        gone = [("delete", it) for it in slices[_OTHERS] if not _is_ending(it)]
        others.set_plan(tuple(resources), gone)
        waiting = {}
        for name, resource in resources.items():
            if not self._pools[name].layout and self._awaits_probes(wanted[resource]):
                waiting[name] = _PROBING
            else:
                self._plan(name, resource, node, wanted[resource], slices[name])
        began = now()
        await self._write_due(node)
        state = {}
        for name, resource in resources.items():
            state[resource] = waiting.get(name) or self._why(self._pools[name], len(slices[name]))
        if why := self._why(others, 0):
            state |= {it["spec"]["pool"]["name"]: why for it in slices[_OTHERS]}
        self.state.value = state
        dues = [self._probed_by] if waiting else []
        dues += [self._retry_at] if any(pool.todo for pool in self._pools.values()) else []
        return min((due for due in dues if due > began), default=inf)

    def _awaits_probes(self, devices: DeviceList) -> bool:
        """Return whether to wait for the first result of a probe."""
        return not devices.is_probed and now() < self._probed_by

    def _plan(
        self, name: str, resource: str, node: Node, devices: DeviceList, observed: Sequence[Json]
    ) -> None:
        """Note what slices a pool should have, and how to get there."""
        published, slices = self._pools[name], self.slices
        offered = devices_of(resource, devices, extended_resource=node.extended_resources)
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

        What the server itself says is no new content: the Node could be another one each time.
        """
        is_time, is_same_node = now() >= self._retry_at, self._node in (None, node)
        pools = [it for it in self._pools.values() if it.todo and it.is_known()]
        new = [it for it in pools if is_same_node and it.is_new]
        due = pools if is_time else [] if self._failure else [it for it in new if not it.error]
        if not due:
            return
        self._node = node
        for pool in due:
            pool.is_repeated = pool not in new
        is_repeated = any(pool.is_repeated for pool in due)
        failures = await self._write(due, most=_MAX_DELETIONS[is_repeated])
        if failures or is_repeated:
            pause = self._backoff.count_attempt(now())
            self._retry_at = now() + max([pause, *(error.retry_after for error in failures)])

    async def _write(self, pools: Sequence[_Published], *, most: int) -> list[ApiError]:
        """Carry out the plans of pools, with so many deletions at most; return what failed.

        Nothing more is sent to a server that fails.
        """
        failures: list[ApiError] = []
        self._failure = ""
        for pool in pools:
            pool.error, pool.written = "", pool.wanted
            deletions = pool.deletions
            left = max(0, len(deletions) - most)
            pool.left = min(left, pool.left) if pool.is_repeated else left
            try:
                for verb, one in (*deletions[:most], *pool.todo[len(deletions) :]):
                    await self.slices.send(verb, one)
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
            it = f"{devices} in {plural(count, 'ResourceSlice')} published"
            pool.trouble.update("", ended=it)
        return reason or (_NOT_WRITTEN if any(it[0] == "create" for it in pool.todo) else "")


def _new(resource: str | None) -> _Published:
    trouble = Latch(log) if resource is None else Latch(log, resource=resource)
    trouble.reason = "" if resource is None else _NOT_WRITTEN
    return _Published(trouble)


def _is_ending(item: Json) -> bool:
    return "deletionTimestamp" in item["metadata"]
