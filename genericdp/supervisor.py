"""Makes the running plugins equal to the wanted resources, one pass at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.assembling import shared_ids
from genericdp.devices.matching import for_node
from genericdp.devices.offers import NOTHING, Offer
from genericdp.discovery import Discoverer
from genericdp.host.udevrecords import UdevRecords
from genericdp.host.uevents import Uevents
from genericdp.host.workers import in_worker
from genericdp.inotify import FolderWatch, open_inotify
from genericdp.kubelet.sockets import SocketNames, remove_leftovers
from genericdp.observed import Observed, until
from genericdp.plugin import Plugin, Timing
from genericdp.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from inotify_simple import INotify

    from genericdp.devices.assembling import Offers
    from genericdp.discovery import Discovery
    from genericdp.host.root import Root
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource

log = logging.getLogger(__name__)

_FAREWELL_SECONDS = 1.0
_NEVER = Offer(offered={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often the host is looked at, in seconds."""

    full_look: float = 30.0
    """A net for what no event tells of."""
    poll: float = 2.0
    """Where inotify cannot be had."""
    burst: float = 0.1
    """What changes within this time goes out together: a list costs the kubelet a write (LAW-7)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a pass has to do, by resource name."""

    stop: frozenset[str] = frozenset()
    update: frozenset[str] = frozenset()
    start: frozenset[str] = frozenset()


def plan(wanted: Mapping[str, Resource], running: Mapping[str, Resource]) -> Plan:
    """Compare what should be with what is."""
    return Plan(
        stop=frozenset(running.keys() - wanted.keys()),
        update=frozenset(
            name for name in wanted.keys() & running.keys() if wanted[name] != running[name]
        ),
        start=frozenset(wanted.keys() - running.keys()),
    )


@dataclass(slots=True)
class _Running:
    """A plugin with what it serves."""

    resource: Resource
    service: Service
    plugin: Plugin
    task: asyncio.Task[None]


class Supervisor:
    """Owns the plugins. Set ``resources`` to what is wanted; ``run`` does the rest."""

    def __init__(
        self,
        *,
        root: Root,
        node_name: str,
        kubelet: KubeletFolder,
        timing: Timing | None = None,
        pace: Pace | None = None,
        open_inotify: Callable[[], INotify] = open_inotify,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resources: Observed[tuple[Resource, ...] | None] = Observed(None)
        """What is wanted; None until a config has been loaded."""
        self.offers: Observed[Offers] = Observed({})
        """What the last pass decided."""
        self._root = root
        self._node_name = node_name
        self._kubelet = kubelet
        self._timing = timing
        self._pace = pace or Pace()
        self._open_inotify = open_inotify
        self._now = now
        self._names = SocketNames()
        self._running: dict[str, _Running] = {}
        self._look_again = Observed(0)
        self._events_tell: Callable[[], bool] = lambda: False
        """Whether events tell of every change, so that not all must be looked at each time."""
        self._lists_changed = False
        """Whether the last pass gave the kubelet a new list."""
        self._warned_ids: frozenset[str] = frozenset()
        self._discoverer = Discoverer(
            root, node_name=node_name, look_again=self.look_again, now=now
        )

    def look_again(self) -> None:
        """Ask for a pass: something may have changed."""
        self._look_again.value += 1

    @property
    def wanted(self) -> dict[str, Resource]:
        """What should run on this node, by name."""
        return {one.name: one for one in for_node(self.resources.value or (), self._node_name)}

    @property
    def plugins(self) -> dict[str, Plugin]:
        """The running plugins, by resource name."""
        return {name: one.plugin for name, one in self._running.items()}

    async def run(self) -> None:
        """Look after the plugins for ever; raises as ``KubeletFolder.watch`` does."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kubelet.watch(), name="kubelet folder")
            tasks.create_task(self._passes(tasks), name="passes")
            tasks.create_task(self._watch_hardware(), name="hardware")
            tasks.create_task(self._remove_leftovers(), name="leftovers")

    async def _passes(self, tasks: asyncio.TaskGroup) -> None:
        await until(lambda: self.resources.value is not None, self.resources)
        watch = FolderWatch(self.look_again, what="device folders", open_inotify=self._open_inotify)
        full = True
        try:
            while True:
                asked, resources = self._look_again.value, self.resources.value
                begun = self._now()
                discovery = await self._pass(tasks, full=full or not self._events_tell())
                folders = {self._root.real(folder) or "/" for folder in discovery.folders}
                if watch.set_folders(folders):
                    # Something may have come before the watch did: look once more.
                    self.look_again()
                await asyncio.sleep(self._pause(begun))

                def news(asked: int = asked, resources: object = resources) -> bool:
                    return self._look_again.value != asked or self.resources.value is not resources

                full = not await until(
                    news,
                    self._look_again,
                    self.resources,
                    timeout_seconds=self._rest(discovery, polling=not watch.complete),
                )
        finally:
            watch.close()

    async def _watch_hardware(self) -> None:
        """Have the kernel and udev tell of changes; not before the first lists are out."""
        await until(lambda: bool(self.offers.value), self.offers)
        records = UdevRecords(
            self._discoverer.tell_of_record, self._root, open_inotify=self._open_inotify
        )
        uevents = Uevents(self._discoverer.tell_of_event)
        try:
            if self._root.is_machine:
                await uevents.open()
            self._events_tell = lambda: uevents.complete and records.complete
            await asyncio.Event().wait()
        finally:
            uevents.close()
            records.close()

    def _pause(self, begun: float) -> float:
        """Give how long to wait before another pass may begin.

        Only lists cost the kubelet something. The kernel tells of a disk's queue first: that must
        not hold up the news of the disk.
        """
        took = self._now() - begun
        return max(0.0, self._pace.burst - took) if self._lists_changed else took

    def _rest(self, discovery: Discovery, *, polling: bool) -> float:
        longest = self._pace.poll if polling else self._pace.full_look
        if discovery.due is None:
            return longest
        return min(longest, max(0.0, discovery.due - self._now()))

    async def _pass(self, tasks: asyncio.TaskGroup, *, full: bool) -> Discovery:
        """Look at the host, then stop, update and start plugins, in this order."""
        wanted = self.wanted
        discovery = await self._discoverer.discover(
            tuple(wanted.values()), self.offers.value, full=full
        )
        # What lives counts, not what was asked for last: a task that died is started again.
        self._running = {n: one for n, one in self._running.items() if not one.task.done()}
        todo = plan(wanted, {name: one.resource for name, one in self._running.items()})
        if todo.stop:
            await self._stop(todo.stop)
        for name in todo.update:
            self._running[name].resource = wanted[name]
        changed = [
            running.service.set_offer(discovery.offers[name])
            for name, running in self._running.items()
        ]
        self._lists_changed = any(changed) or bool(todo.start)
        for name in wanted:
            if name in todo.start:
                self._running[name] = self._start(wanted[name], discovery.offers[name], tasks)
        self._tell(discovery.offers)
        self.offers.value = discovery.offers
        return discovery

    async def _remove_leftovers(self) -> None:
        remove = partial(remove_leftovers, self._kubelet.path, instance=self._names.instance)
        while True:
            await in_worker(remove)
            await asyncio.sleep(self._pace.full_look)

    def _start(self, resource: Resource, offer: Offer, tasks: asyncio.TaskGroup) -> _Running:
        service = Service(resource.name, root=self._root, look_again=self.look_again)
        service.set_offer(offer)
        plugin = Plugin(
            resource.name,
            kubelet=self._kubelet,
            service=service,
            names=self._names,
            timing=self._timing,
            now=self._now,
        )
        task = tasks.create_task(plugin.run(), name=f"plugin {resource.name}")
        return _Running(resource=resource, service=service, plugin=plugin, task=task)

    async def _stop(self, names: frozenset[str]) -> None:
        """Send an empty list, so that the node shows 0 at once (KST-11), then end."""
        leaving = [self._running.pop(name) for name in names]
        for one in leaving:
            one.service.set_offer(NOTHING)
        await asyncio.sleep(_FAREWELL_SECONDS if any(o.plugin.active.value for o in leaving) else 0)
        for one in leaving:
            one.task.cancel()
            await asyncio.wait([one.task])
            log.info("stopped", extra={"resource": one.resource.name})

    def _tell(self, offers: Offers) -> None:
        """Log what has changed."""
        for name, offer in offers.items():
            _tell_changes(name, self.offers.value.get(name, _NEVER), offer)
        if fresh := shared_ids(offers) - self._warned_ids:
            log.warning("ids used by several resources, which kubelets mix up: %s", sorted(fresh))
        self._warned_ids = shared_ids(offers)


def _tell_changes(name: str, before: Offer, offer: Offer) -> None:
    about = {"resource": name}
    if before is _NEVER or _counts(before) != _counts(offer):
        log.info("%d of %d devices healthy", *_counts(offer), extra=about)
    spoiler = offer.without_numa_node
    if spoiler and spoiler != before.without_numa_node:
        log.info("no device carries its NUMA node, since %s has none", spoiler, extra=about)
    for device_id, one in offer.offered.items():
        old = before.offered.get(device_id)
        if one.unhealthy and (old is None or old.unhealthy != one.unhealthy):
            log.warning("device %s is Unhealthy: %s", device_id, one.unhealthy, extra=about)
    left_out = _left_out(offer)
    if left_out and left_out != _left_out(before):
        log.warning("list full: left out are %d of the devices", left_out, extra=about)
    told = {(one.path, one.reason) for one in before.not_offered}
    for refusal in offer.not_offered:
        if (refusal.path, refusal.reason) not in told:
            log.info("%s is not offered: %s", refusal.path, refusal.reason, extra=about)


def _left_out(offer: Offer) -> int:
    return sum(one.reason.startswith("list full: ") for one in offer.not_offered)


def _counts(offer: Offer) -> tuple[int, int]:
    healthy = sum(not one.unhealthy for one in offer.offered.values())
    return healthy, len(offer.offered)
