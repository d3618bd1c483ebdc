"""The running plugins: each serves what its resource offers, as far as it is well."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.counting import labels
from genericdp.devices.judging import judged, rejudged
from genericdp.devices.offers import NOTHING
from genericdp.farewells import Farewells, end
from genericdp.health.hooks import HookRunner
from genericdp.host.workers import in_worker
from genericdp.kubelet.lifecycle import Plugin
from genericdp.kubelet.messages import NO_DEVICES, DeviceList
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.sockets import SocketNames
from genericdp.kubelet.timing import PluginTiming
from genericdp.observed import Observed, until
from genericdp.planning import Plan, plan
from genericdp.since import Since
from genericdp.taking import told
from genericdp.tally import Tally
from genericdp.telling import tell_health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from genericdp.devices.assembling import Offers
    from genericdp.devices.device import Device
    from genericdp.health.health import Health
    from genericdp.health.prober import ProbeRun
    from genericdp.host.root import Root
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource
    from genericdp.process.outcome import Outcome
    from genericdp.process.run import Commands

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A plugin with what it serves."""

    resource: Resource
    service: Servicer
    plugin: Plugin
    task: asyncio.Task[None]

    def update(self, resource: Resource) -> None:
        """Take over what a plugin can change while it serves."""
        self.resource = resource
        self.service.prefer, self.service.replicas = resource.prefer, resource.replicas


class Plugins:
    """Owns the plugins: ``apply`` says what they serve, ``run`` looks after its health."""

    def __init__(
        self,
        *,
        root: Root,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        commands: Commands,
        timing: PluginTiming | None = None,
        tally: Tally | None = None,
        now: Callable[[], float] = time.monotonic,
        health: Callable[..., Health] | None = None,
    ) -> None:
        self.offers: Observed[Offers] = Observed({})
        """What the kubelet is told, with all reasons."""
        self.since = Since()
        self.names = SocketNames()
        self._root = root
        self._kubelet = kubelet
        self._look_again = look_again
        self._timing = timing or PluginTiming()
        self._now = now
        self._running: dict[str, _Running] = {}
        self._farewells = Farewells()
        self.found: Offers = {}
        """What the last pass found, whatever the probes say."""
        self._warned_ids: frozenset[str] = frozenset()
        self._make_health = health
        self._health: Observed[Health | None] = Observed(None)
        """None until there is something to watch."""
        self._tally = tally or Tally()
        self._run_command = commands.run
        self._hooks = HookRunner(self._run_command, told=self._count_hook)
        self._applying = False
        self._flipped: dict[str, set[str]] = {}
        """The devices whose health has changed while a pass was being applied, by resource."""

    @property
    def running(self) -> dict[str, Plugin]:
        """The running plugins, by resource name."""
        return {name: one.plugin for name, one in self._running.items()}

    async def run(self) -> None:
        """Look after the health of the devices forever."""
        while (health := self._health.value) is None:
            await until(lambda: self._health.value is not None, self._health)
        await health.run()

    async def apply(
        self,
        tasks: asyncio.TaskGroup,
        wanted: Mapping[str, Resource],
        offers: Offers,
        changed: Mapping[str, frozenset[str]] | None = None,
    ) -> bool:
        """Stop, update and start plugins, in this order; says whether any list is another one.

        ``changed``: by resource, the only devices that are not as in the last ``offers``.
        """
        self._applying = True
        try:
            # What lives counts, not what was asked for last: a task that died is started again.
            self._running = {n: one for n, one in self._running.items() if not one.task.done()}
            todo = plan(wanted, {name: one.resource for name, one in self._running.items()})
            await self._stop(todo, tasks)
            for name in todo.update:
                self._running[name].update(wanted[name])
            if todo != Plan():
                self._tally.keep({name: labels(one) for name, one in wanted.items()})
            merged = self._merged(offers, wanted)
            bare = {n: ids for n, ids in (changed or {}).items() if not self._is_probed(wanted[n])}
            lists = await self._serialized(merged, bare)
            sent = []
            for name, running in self._running.items():
                if name in lists:
                    sent.append(running.service.set_devices(lists[name]))
                else:
                    running.service.note_reconcile()
            for name in wanted:
                if name in todo.start:
                    given = lists.get(name, NO_DEVICES)
                    self._running[name] = self._start(wanted[name], given, tasks)
            self.found, self.offers.value = offers, merged
        finally:
            self._applying = False
        flipped, self._flipped = self._flipped, {}
        for name, ids in flipped.items():
            self._judge_again_of(name, ids)
        return any(sent) or bool(todo.start)

    def _merged(self, offers: Offers, wanted: Mapping[str, Resource]) -> Offers:
        """Have the health of what was found watched, and give the offers with all reasons."""
        shown, merged = self.offers.value, {}
        for name, offer in offers.items():
            if offer is self.found.get(name) and name in self._running:
                merged[name] = shown[name]  # what probes change comes by itself
                continue
            if not self._is_probed(wanted[name]):
                merged[name] = offer
                continue
            here = {
                device_id: one.device
                for device_id, one in offer.offered.items()
                if one.gone_since is None
            }
            reasons = self._watched(name, here)
            merged[name] = judged(offer, reasons, shown.get(name, NOTHING))
        return merged

    def _watched(self, name: str, devices: Mapping[str, Device]) -> Mapping[str, str]:
        """Have the health of a resource's devices watched; gives why some are not well."""
        health = self._health.value
        if health is None:
            if not any(one.probes for one in devices.values()):
                return {}
            health = self._health.value = self._new_health()
        health.watch(name, devices, delayed=name in self._running)
        return health.reasons(name)

    def _new_health(self) -> Health:
        # Costs 15 ms and 1.4 MB, which most nodes never need.
        from genericdp.health.health import Health
        from genericdp.health.kinds import run_probes

        make = self._make_health or Health
        return make(
            self._root,
            run_probes=partial(run_probes, run=self._run_command),
            changed=self._judge_again,
            told=self._count_probe,
            now=self._now,
        )

    def _count_probe(self, run: ProbeRun) -> None:
        one = self._tally.of(run.resource)
        one.probed(run.index, ok=run.outcome.ok, seconds=run.outcome.seconds)

    def _count_hook(self, resource: str, hook: str, outcome: Outcome) -> None:
        self._tally.of(resource).hooked(hook, ok=outcome.ok)

    def _judge_again(self, name: str, changes: Mapping[str, str]) -> None:
        """Serve what a resource offers now that some of its devices are well, or not."""
        if self._applying:
            self._flipped.setdefault(name, set()).update(changes)
            return
        offer, running = self.found.get(name), self._running.get(name)
        if offer is None or running is None:
            return
        shown = self.offers.value
        merged = rejudged(offer, changes, shown[name])
        if merged is shown[name]:
            return
        running.service.set_offer(merged)
        self.offers.value = {**shown, name: merged}
        # The kubelet has the list meanwhile.
        self.since.note_of(name, shown[name], merged, changes)
        loop = asyncio.get_running_loop()
        loop.call_soon(tell_health, name, shown[name], merged, changes)

    def _judge_again_of(self, name: str, ids: Iterable[str]) -> None:
        if (health := self._health.value) is not None:
            self._judge_again(name, {one: health.reason(name, one) for one in ids})

    def _is_probed(self, resource: Resource) -> bool:
        """Say whether probes, or what is left of them, have a say in a resource's offer."""
        health = self._health.value
        return bool(resource.health) or (health is not None and health.watches(resource.name))

    async def _serialized(
        self, offers: Offers, changed: Mapping[str, frozenset[str]]
    ) -> dict[str, DeviceList]:
        """Serialize the device lists that have changed, and log the changes.

        Off the loop: ten thousand devices take their time.
        """
        running = {name: one.service.devices.offer for name, one in self._running.items()}
        known = {name: running.get(name, NOTHING) for name in offers}
        before, warned = self.offers.value, self._warned_ids
        if before.keys() == offers.keys() and all(
            offer is known[name] for name, offer in offers.items()
        ):
            return {}
        work = partial(told, before, offers, known, warned, self.since, changed)
        lists, self._warned_ids = await in_worker(work)
        return lists

    def _start(self, resource: Resource, devices: DeviceList, tasks: asyncio.TaskGroup) -> _Running:
        service = Servicer(
            resource.name,
            root=self._root,
            look_again=self._look_again,
            hooks=self._hooks,
            pre_start=resource.hooks.pre_start is not None,
            prefer=resource.prefer,
            replicas=resource.replicas,
            timing=self._timing,
            tally=self._tally.of(resource.name),
        )
        service.set_devices(devices)
        plugin = Plugin(
            resource.name,
            kubelet=self._kubelet,
            servicer=service,
            names=self.names,
            timing=self._timing,
            tally=self._tally.of(resource.name),
        )
        task = tasks.create_task(self._live(plugin), name=f"plugin {resource.name}")
        return _Running(resource=resource, service=service, plugin=plugin, task=task)

    async def _live(self, plugin: Plugin) -> None:
        await self._farewells.over(plugin)
        if (health := self._health.value) is not None:
            plugin.registration.not_registered("its devices are being probed for the first time")
            # So that a restart of the daemon makes nothing Unhealthy that is well.
            if not await health.first_round(plugin.resource):
                about = {"resource": plugin.resource}
                log.warning("registering before all devices have been probed", extra=about)
            offer = self.offers.value.get(plugin.resource)
            if offer is None:  # removed from the config meanwhile
                return
            # The results may still be waiting to be told together.
            self._judge_again_of(plugin.resource, offer.offered)
        plugin.registration.not_registered("it waits for descriptors: they run short")
        async with self._kubelet.places.place(plugin.resource):
            await plugin.run()

    async def _stop(self, todo: Plan, tasks: asyncio.TaskGroup) -> None:
        """End plugins. What is gone for good says farewell, which holds up nothing else."""
        for name in todo.stop:
            leaving = self._running.pop(name)
            if name in todo.anew:  # its devices stay, so the node need not show 0 meanwhile
                await end(leaving.task)
                continue
            if self._health.value is not None:
                self._health.value.forget(name)
            leaving.service.set_offer(NOTHING)
            self._farewells.begin(leaving.plugin, leaving.task, tasks)
