"""Publication of ResourceSlices: makes those in the API the wanted ones."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from genericdp.dra.slices import (
    Pool,
    devices_of,
    layout_of,
    next_layout,
    plan,
    pool_name,
)
from genericdp.dra.stored import now
from genericdp.errors import ApiError
from genericdp.observed import Observed, until
from genericdp.printing import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Never

    from genericdp.apiserver.client import Json
    from genericdp.devices.devicelist import DeviceList
    from genericdp.dra.slices import Layout
    from genericdp.dra.stored import Node, StoredSlices
    from genericdp.repeat import Backoff

log = logging.getLogger(__name__)

_NOT_LISTED = "the API server has not said yet which ResourceSlices there are"
_NOT_WRITTEN = "its ResourceSlices have not been written yet"
_PROBING = "its devices are being probed for the first time"
_UNDONE = "somebody changes or deletes its ResourceSlices whenever they are written"
_CONFLICTS = (404, 409)  # deleted or changed meanwhile
_UNSURE = (None, *_CONFLICTS)
"""The status of answers after which the state of a slice is unknown."""
_OTHERS = ""
"""The key of the pools that are not wanted, which have one backoff: a server may invent any."""
_RANDOM = re.compile(r'-[a-z0-9]{5}"')
"""The random end of a generated name, omitted in reasons: they would differ each time."""
_MAX_UNDONE = 3
"""How often in a row a write may be undone before status and log say so."""
_MAX_DELETIONS = (200, 2)
"""How many slices a write deletes at most, the first time and again: a server may invent others
with each list, while 6,000 devices have a hundred."""


@dataclass(slots=True)
class _Published:
    """State of a pool between reconciles."""

    backoff: Backoff
    """Counts how often this content was written in a row."""
    layout: Layout = field(default_factory=dict)
    """Empty: it is to be read from the slices in the API."""
    content: tuple[Any, ...] = ()
    """The wanted content when it was written last."""
    node: Node | None = None
    """The Node when it was written last."""
    retry_at: float = -inf
    error: str = ""
    """Why the last write failed; empty: it did not, or the pool is as it should be."""
    unsure_at: int = -1
    """``StoredSlices.list_count`` when a write failed with unknown effect: the next list tells."""
    logged: str = _NOT_WRITTEN  # the last reason in the log
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why shares cannot be in a slice, by ID, as logged."""

    def forget_failure(self) -> None:
        """Forget a failed write that is not needed any more: nobody has undone it."""
        if self.error:
            self.error, self.content = "", ()


class Publisher:
    """Writes ResourceSlices whenever those in the API are not the wanted ones.

    When it is canceled they stay: the kubelet deletes them unless the driver registers again soon.
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

    async def run(self) -> Never:
        """Reconcile, then wait for a change, forever."""
        self._probed_by = now() + self._probed_within
        changed = self.slices.changed
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.slices.run(), name="watch of ResourceSlices")
            await until(lambda: self._registered.value, self._registered)
            with self.wanted.calling(changed.set), self.slices.by_name.calling(changed.set):
                while True:
                    changed.clear()
                    due = await self._reconcile()
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(due):
                            await changed.wait()

    async def _reconcile(self) -> float:
        """Compare and write; return when to do so again if nothing changes until then."""
        wanted, stored, node = self.wanted.value, self.slices.by_name.value, self.slices.node
        if wanted is None:
            return inf
        if stored is None or node is None:
            self.state.value = dict.fromkeys(wanted, self.slices.failure or _NOT_LISTED)
            return inf
        resources = {pool_name(self.slices.node_name, name): name for name in wanted}
        slices: dict[str, list[Json]] = {name: [] for name in resources}
        others: list[Json] = []
        for one in stored.values():
            slices.get(one["spec"]["pool"]["name"], others).append(one)
        self._pools = {
            name: self._pools.get(name) or _Published(self.slices.new_backoff())
            for name in (*resources, _OTHERS)
        }
        state, began = {}, now()
        for name, resource in resources.items():
            state[resource] = await self._sync_pool(
                name, resource, node, wanted[resource], slices[name]
            )
        if reason := await self._remove(others, tuple(resources), node):
            state |= {one["spec"]["pool"]["name"]: reason for one in others}
        self.state.value = state
        dues = (one.retry_at for one in self._pools.values())
        return min((due for due in dues if due > began), default=inf)

    async def _remove(self, others: Sequence[Json], wanted: tuple[str, ...], node: Node) -> str:
        """Delete the slices of pools that are not wanted; say why they are still there."""
        published = self._pools[_OTHERS]
        todo = [("delete", one) for one in others if "deletionTimestamp" not in one["metadata"]]
        reason = await self._carry_out(published, wanted, node, todo)
        published.logged = reason
        return reason

    async def _sync_pool(
        self,
        name: str,
        resource: str,
        node: Node,
        devices: DeviceList,
        observed: Sequence[Json],
    ) -> str:
        """Write the slices of a pool; say why they are wrong."""
        published, about = self._pools[name], {"resource": resource}
        if not published.layout and self._awaits_probes(devices):
            published.retry_at = self._probed_by
            return _PROBING
        offered = devices_of(resource, devices, extended_resource=node.extended_resources)
        before = published.layout or layout_of(observed)
        published.layout = next_layout(before, offered.shares)
        for share in offered.not_offered.keys() - published.not_offered.keys():
            why = offered.not_offered[share]
            log.warning("not in a ResourceSlice: %s", why, extra={**about, "device": share})
        published.not_offered = offered.not_offered
        pool = Pool(
            name=name, driver=self.slices.driver, node_name=self.slices.node_name, node_uid=node.uid
        )
        content = (pool, published.layout, offered.devices)
        todo = plan(*content, observed)
        reason = await self._carry_out(published, content, node, todo, about)
        if not reason and not todo and published.logged:
            it = plural(len(offered.devices), "device"), plural(len(observed), "ResourceSlice")
            log.info("%s in %s published", *it, extra=about)
            published.logged = ""
        return reason or (_NOT_WRITTEN if any(verb == "create" for verb, _ in todo) else "")

    async def _carry_out(
        self,
        published: _Published,
        content: tuple[Any, ...],
        node: Node,
        todo: Sequence[tuple[str, Json]],
        about: Mapping[str, str] | None = None,
    ) -> str:
        """Carry out a plan, now or later; return why the slices are not as they should be."""
        if published.unsure_at == self.slices.list_count:
            pass  # wait for a list: it is not known what the last write has done
        elif todo:
            await self._write(published, content, node, todo)
        else:
            published.forget_failure()
        is_undone = todo and published.backoff.attempts > _MAX_UNDONE
        reason = published.error or (_UNDONE if is_undone else "")
        if reason and reason != published.logged:
            log.warning("ResourceSlices are not as they should be: %s", reason, extra=about)
            published.logged = reason
        return reason

    def _awaits_probes(self, devices: DeviceList) -> bool:
        """Return whether to wait for the first result of a probe."""
        return not devices.is_probed and now() < self._probed_by

    async def _write(
        self,
        published: _Published,
        content: tuple[Any, ...],
        node: Node,
        todo: Sequence[tuple[str, Json]],
    ) -> None:
        """Carry out a plan, unless the same was written too recently.

        New content is written at once, the same ever more rarely, so that the API server is not
        overrun if somebody changes the slices. What the server itself says is no new content: the
        Node could be another one each time.
        """
        is_new = published.node in (None, node) and content != published.content
        if is_new:
            published.backoff = self.slices.new_backoff()
        published.content, published.node = content, node
        if now() < published.retry_at and not (is_new and not published.error):
            return
        deletions, most = [one for one in todo if one[0] == "delete"], _MAX_DELETIONS[not is_new]
        pause, retry_after = published.backoff.count_attempt(now()), 0.0
        try:
            for verb, one in (*deletions[:most], *todo[len(deletions) :]):
                await self.slices.send(verb, one)
        except ApiError as error:
            if error.status in _UNSURE:
                published.unsure_at = self.slices.list_count
                self.slices.list_again(within=0)
            if error.status not in _CONFLICTS or published.backoff.attempts > 1:
                published.error = _RANDOM.sub('-…"', str(error))
            retry_after = error.retry_after
        published.retry_at = now() + max(pause, retry_after)
