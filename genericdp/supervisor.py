"""Starts a reconcile whenever something has changed, one at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.matching import for_node
from genericdp.devices.resourcenames import resulting
from genericdp.errors import reason_of
from genericdp.host.events import ENTRIES, RECORDS, DirectoryWatch, Uevents
from genericdp.host.root import Root
from genericdp.host.sysfs import UDEV_RECORDS
from genericdp.host.workers import in_worker
from genericdp.kubelet.directory import KubeletDirectory, PeerWatch
from genericdp.kubelet.podresources import PodResourcesPoller, PodResourcesTiming
from genericdp.observed import Observed, Signal, until
from genericdp.reconcile import Reconciler

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.decide import Decision
    from genericdp.health.health import Health
    from genericdp.host.events import Uevent
    from genericdp.kubelet.podresources import PodHolders
    from genericdp.model import Resource
    from genericdp.process.run import Commands
    from genericdp.settings import Settings

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 10.0
"""How long to wait for the kubelet's answer at the start, if there is no ledger."""
_KUBELET_SECONDS = 1.0
"""How long to wait for the kubelet's socket then: without a kubelet, no pod can get a device."""


NO_POD_RESOURCES = "start with --pod-resources"
"""Why it is unknown which pods hold devices, if the kubelet is not asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The interval of full scans of the host, in seconds."""

    full_look: float = 30.0
    """The fallback for changes without an event."""
    share: float = 0.05
    """Maximum share of time spent in full scans: large hosts are scanned less often."""
    rarest_look: float = 300.0
    poll: float = 2.0
    """The interval without inotify."""
    burst: float = 0.1
    """Changes within this time are sent together: each list costs the kubelet a write (LAW-7)."""
    longest_pause: float = 1.0
    """Maximum pause before a reconcile, however long the last one took."""

    def between_full_looks(self, looked_seconds: float) -> float:
        """Return the time to the next full scan, given the duration of the last one."""
        return max(self.full_look, min(looked_seconds / self.share, self.rarest_look))

    def pause(self, took: float, *, lists_changed: bool) -> float:
        """Return how long to wait after a reconcile that took this long.

        Only lists cost the kubelet anything. The kernel reports a disk's queue before the disk: the
        first event must not delay the second.
        """
        return max(0.0, self.burst - took) if lists_changed else min(took, self.longest_pause)


class Supervisor:
    """Starts reconciles. Set ``resources`` to the wanted ones; ``run`` does the rest."""

    def __init__(
        self,
        settings: Settings,
        *,
        commands: Commands,
        pace: Pace | None = None,
        health: Callable[..., Health] | None = None,
    ) -> None:
        self.settings = settings
        self.resources: Observed[tuple[Resource, ...] | None] = Observed(None)
        """The wanted resources; None until a config has been loaded."""
        self.decided: Observed[tuple[Resource, ...] | None] = Observed(None)
        """The resources with which every one could last be decided; None if that has never
        happened.
        """
        self.kubelet = kubelet = KubeletDirectory(settings.kubelet_directory)
        self.root = root = Root(settings.root)
        self._pace = pace or Pace()
        self._noted = Signal()
        """Sent when the ledger has recorded lists."""
        self._rescan = Signal()
        """Sent when something on the host may have changed."""
        self._records = root.real(UDEV_RECORDS)
        self._watch = DirectoryWatch(self._mark_entry, what="device directories")
        self._uevents = Uevents(self._mark_event, again_seconds=self._pace.full_look)
        self._looked_at, self._looked_seconds = 0.0, 0.0
        """When the last full scan ended, and how long it took."""
        self.pod_resources = self._poller(settings)
        """Asks the kubelet which devices pods hold; None if it is not asked."""
        self.reconciler = Reconciler(
            settings,
            root=root,
            kubelet=kubelet,
            asking=None if self.pod_resources is None else self.pod_resources.timing,
            look_again=self.look_again,
            commands=commands,
            health=health,
        )
        """Owns the plugins and their device lists."""
        self.lists = self.reconciler.lists
        """The device lists for the kubelet, with the reasons."""
        self._tally, self._reader = self.reconciler.tally, self.reconciler.reader
        self._peers = PeerWatch(kubelet, resources=lambda: self.named)

    def _poller(self, settings: Settings) -> PodResourcesPoller | None:
        if settings.pod_resources is None:
            return None
        return PodResourcesPoller(
            settings.pod_resources,
            kubelet=self.kubelet,
            take=self._take_holders,
            timing=settings.pod_resources_timing or PodResourcesTiming(),
        )

    def look_again(self) -> None:
        """Request a reconcile: something may have changed."""
        self._rescan.send()

    def _happened(self, kind: str) -> None:
        self._tally.happened(kind)
        if not self._sees_every_change:  # it may be the only event of another change
            self.look_again()

    def _mark_event(self, event: Uevent | None) -> None:
        self._happened("resync" if event is None else event.action)
        self._reader.mark_event(event)

    def _mark_entry(self, directory: str, name: str | None) -> None:
        if directory != self._records:
            self._happened("resync" if name is None else "file")
            path = f"{directory.removeprefix(self.root.real('')).rstrip('/')}/{name}"
            self._reader.mark_file(None if name is None else path)
        elif name is None or not name.startswith("."):  # udev writes a hidden file first
            self._happened("resync" if name is None else "record")
            self._reader.mark_record(name)

    async def _set_watch(self) -> None:
        """Watch the directories whose changes require a reconcile, and the udev database.

        Directories in sysfs are left out: uevents report their changes, inotify does not.
        """
        live = "/sys/" if self.root.is_machine else "/nowhere/"
        directories = (
            directory for directory in self._reader.directories if not directory.startswith(live)
        )
        masks = {self.root.real(directory) or "/": ENTRIES for directory in directories}
        fresh = await self._watch.set_directories({**masks, self._records: RECORDS})
        if self._records in fresh:
            self._reader.mark_record(None)
        if fresh - {self._records}:
            self._reader.mark_file(None)

    @property
    def _sees_every_change(self) -> bool:
        """Return whether events report every change, so that not everything must be read each
        time.
        """
        return self._uevents.complete and self._watch.complete

    @property
    def wanted(self) -> dict[str, Resource]:
        """Return the resources that should run on this node, by name."""
        found = for_node(self.resources.value or (), self.settings.node_name)
        return {resource.name: resource for resource in found}

    @property
    def named(self) -> dict[str, Resource]:
        """Return ``wanted`` and the resources that resulted from names with templates."""
        wanted = self.wanted.values()
        dra = self.reconciler.dra
        found = map(dra.as_served, wanted) if dra else wanted
        return resulting(found, self.lists.value)

    @property
    def holders_unknown(self) -> str:
        """Return why it is unknown which pods hold devices, or an empty string."""
        return NO_POD_RESOURCES if self.pod_resources is None else self.pod_resources.failure.value

    async def run(self) -> None:
        """Manage the plugins forever; raises as ``KubeletDirectory.watch`` does."""
        if not self.settings.without_kubelet and await self.kubelet.check_readable():
            # so that the resources of other instances are known before the first reconcile
            self._peers.look()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconcile_forever(tasks), name="reconcile")
            tasks.create_task(self._watch_kernel_events(), name="kernel events")
            if not self.settings.without_kubelet:
                tasks.create_task(self.kubelet.watch(), name="kubelet directory")
                tasks.create_task(self._peers.run(), name="peers")
            if self.pod_resources is not None:
                asking = self.pod_resources.run(self.reconciler.ledger.due, self._noted)
                tasks.create_task(asking, name="pod resources")

    async def _reconcile_forever(self, tasks: asyncio.TaskGroup) -> None:
        await until(lambda: self.resources.value is not None, self.resources)
        await self._load_ledger()
        full = True
        try:
            while True:
                full = await self._reconcile(tasks, full=full)
        finally:
            self._watch.close()
            self.reconciler.close()

    async def _reconcile(self, tasks: asyncio.TaskGroup, *, full: bool) -> bool:
        """Decide, let the plugins serve the result, and wait until there is a reason to do it
        again. Return whether the whole host has to be read then.
        """
        has_changed, resources, begun = self._rescan.watch(), self.resources.value, time.monotonic()
        reconciler = self.reconciler
        decision, lists_changed = await reconciler.reconcile(tasks, self.wanted, full=full)
        self._noted.send()
        took = time.monotonic() - begun
        self._tally.discovery.add(took)
        if full:
            self._looked_at, self._looked_seconds = time.monotonic(), took
        if not decision.failures:
            self.decided.value = resources
        await self._set_watch()
        pause = self._pace.pause(time.monotonic() - begun, lists_changed=lists_changed)
        await asyncio.sleep(pause)

        def has_news() -> bool:
            return has_changed() or self.resources.value is not resources

        await until(
            lambda: has_news() or reconciler.has_health_news(),
            self._rescan,
            reconciler.health_news,
            self.resources,
            timeout_seconds=self._seconds_to_next_look(decision),
        )
        # A timer or a probe changes nothing on the host, so the cache is still valid.
        changed_unseen = not self._sees_every_change and (has_news() or not self._watch.complete)
        return changed_unseen or time.monotonic() >= self._full_look_due

    async def _load_ledger(self) -> None:
        """Read the ledger; if there is none, first ask which IDs of an earlier version pods
        hold.
        """
        ledger = self.reconciler.ledger
        try:
            await in_worker(partial(ledger.load, time.monotonic()), self.settings.state_dir or "")
        except OSError as error:
            where = self.settings.state_dir
            log.warning("the ledger in %s cannot be read: %s", where, reason_of(error).lower())
        if not ledger.is_new or self.pod_resources is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await until(
                    lambda: self.kubelet.socket.value is not None,
                    self.kubelet.socket,
                    timeout_seconds=_KUBELET_SECONDS,
                )
                if self.pod_resources.is_believed:
                    await self.pod_resources.ask()

    def _take_holders(self, answer: PodHolders) -> None:
        if self.reconciler.ledger.take(answer):
            self.look_again()

    async def _watch_kernel_events(self) -> None:
        """Listen to kernel events, but not before the first lists are sent."""
        await until(lambda: bool(self.lists.value), self.lists)
        if self.root.is_machine:
            await self._uevents.run()

    def _seconds_to_next_look(self, decision: Decision) -> float:
        now = time.monotonic()
        # However often there is other news meanwhile.
        due_in = max(0.0, self._full_look_due - now)
        longest = due_in if self._watch.complete else self._pace.poll
        dues = (due for due in (decision.due, self._reader.due) if due is not None)
        return min([longest, *(max(0.0, due - now) for due in dues)])

    @property
    def _full_look_due(self) -> float:
        """Return when the next full scan is to begin at the latest."""
        if self._sees_every_change:
            return self._looked_at + self._pace.between_full_looks(self._looked_seconds)
        # Then it is not a fallback, but the only way to find changes.
        return self._looked_at + self._pace.full_look
