"""Reconcile: decide device lists, then start, update and stop plugins."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.cdi import SpecDirectory, left_out, specs, why_not
from genericdp.devices.changes import Plan, changes, plan
from genericdp.devices.decide import decide, with_states
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.held import Held
from genericdp.devices.matching import reads_properties
from genericdp.devices.resourcenames import resulting
from genericdp.gate import Gate
from genericdp.health.execution import HookRunner
from genericdp.host.cache import HostReader
from genericdp.host.workers import HangingError, in_worker
from genericdp.kubelet.lifecycle import Plugin
from genericdp.kubelet.servicer import Servicer, encode_list, entry_bytes
from genericdp.ledger import Ledger
from genericdp.model import InjectBy, ServedBy
from genericdp.observed import Observed, Signal, until
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from genericdp.devices.changes import Change
    from genericdp.devices.decide import Decision, DeviceLists
    from genericdp.devices.devicelist import DeviceList, Reports
    from genericdp.dra.driver import DraDriver
    from genericdp.errors import Outcome
    from genericdp.health.health import Health
    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root
    from genericdp.kubelet.directory import KubeletDirectory
    from genericdp.kubelet.podresources import PodResourcesTiming
    from genericdp.model import Resource
    from genericdp.policy import Policy
    from genericdp.process.run import Commands
    from genericdp.settings import DraSettings, Settings

log = logging.getLogger(__name__)

FIRST_RESULTS_SECONDS = 5.0
"""How long a resource waits for the first results of its probes before it registers."""
_LAST_LIST_SECONDS = 1.0
"""Time for the kubelet to process the empty list of a removed resource."""


@dataclass(slots=True)
class _Running:
    """A plugin with the resource and gate that it serves."""

    resource: Resource
    servicer: Servicer
    plugin: Plugin
    task: asyncio.Task[None]

    def update(self, resource: Resource) -> None:
        """Apply changes that a plugin can make while it serves."""
        self.resource = resource
        self.servicer.prefer, self.servicer.replicas = resource.prefer, resource.replicas


def _concluded(
    decision: Decision,
    before: DeviceLists,
    reports: Reports,
    spec_errors: Mapping[str, str],
    by_plugin: Collection[str],
) -> tuple[Decision, dict[str, bytes], list[Change]]:
    """Return a decision with all states, the changed lists, encoded, and the changes to log.

    ``by_plugin``: the resources whose lists a kubelet gets.
    """
    decision = with_states(decision, before, reports, spec_errors)
    responses = {}
    for name in by_plugin:
        devices = decision.lists[name]
        if devices.devices != before.get(name, NOTHING).devices:
            with suppress(Exception):  # it fails again later, where it is logged
                responses[name] = encode_list(devices)
    return decision, responses, [*changes(before, decision)]


def _log(news: Iterable[Change]) -> None:
    for change in news:
        about = {"resource": change.resource, "device": change.device}
        log.log(change.level, "%s", change.text, exc_info=change.error, extra=about)


class Reconciler:
    """Owns the plugins, and the health of their devices."""

    _has_claims: bool | None = None
    """Whether there was a directory of claims at the start; None until that is known."""

    def __init__(
        self,
        settings: Settings,
        *,
        root: Root,
        kubelet: KubeletDirectory,
        asking: PodResourcesTiming | None,
        look_again: Callable[[], None],
        commands: Commands,
        health: Callable[..., Health] | None,
    ) -> None:
        """``asking`` is the timing of requests to the kubelet about pods; None if it is not asked.

        ``look_again`` requests another reconcile.
        """
        self.lists: Observed[DeviceLists] = Observed({})
        """The device lists for the kubelet, with all reasons."""
        self.health_news = Signal()
        """Sent when the results of probes have changed."""
        self.has_health_news = self.health_news.watch()
        """Whether they have changed since the last decision."""
        self._settings, self._root = settings, root
        self._kubelet = kubelet
        self.reader = HostReader(root, look_again=look_again)
        self.tally = Tally()
        self._specs = SpecDirectory(settings.cdi_directory)
        # The CDI specs that were written last, by resource (None before the first), why one could
        # not be written, and why resources and devices have none, as logged.
        self._written: dict[str, bytes] | None = None
        self._spec_errors: dict[str, str] = {}
        self._without_spec: dict[str, str] = {}
        self.ledger = Ledger(settings.state_dir, asking)
        self._run_command = commands.run
        self._run_hooks = HookRunner(commands.run, self.tally).run
        self.dra: DraDriver | None = None
        """The DRA driver; None until a resource needs it."""
        self.policy: Policy | None = None
        """The policy for release hooks of claims."""
        self._wanted: Mapping[str, Resource] = {}
        self._look_again = look_again
        self._running: dict[str, _Running] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """Plugins of removed resources that have not ended yet."""
        self._make_health = health
        self._health: Health | None = None
        """None until there is something to probe."""

    @property
    def running(self) -> dict[str, Plugin]:
        """The running plugins, by resource name."""
        return {name: running.plugin for name, running in self._running.items()}

    def probe_results(self, resource: str) -> Mapping[str, tuple[Outcome | None, ...]]:
        """Return the latest result of each probe of a resource, by device ID."""
        return {} if self._health is None else self._health.results(resource)

    def close(self) -> None:
        """Release the locks of the CDI specs, which stay."""
        self._specs.close()

    async def reconcile(
        self,
        tasks: asyncio.TaskGroup,
        wanted: Mapping[str, Resource],
        *,
        full: bool,
    ) -> tuple[Decision, bool]:
        """Decide all device lists, and serve them; with ``full``, everything is read again.

        Return the decision, and whether any list that the kubelet gets has changed.
        """
        settings = self._settings.dra
        if settings and self.dra is None and await self._uses_dra(settings, wanted):
            self._start_dra(settings, tasks)
        self._wanted = wanted
        if self.dra is not None:
            names = self._running.keys() | self._leaving.keys()
            wanted = await self.dra.choose_back_ends(wanted, names)
        decision = await self._decide(wanted, full=full)
        named = resulting(wanted.values(), decision.lists)
        served = {name: resource for name, resource in named.items() if not resource.names}
        self._watch_health(tasks, named, decision.lists)
        # A device's spec must exist before the kubelet can request the device.
        await self._write_specs(served, decision.lists, full=full)
        self.has_health_news, health = self.health_news.watch(), self._health
        reports = {} if health is None else health.reports()
        # Off the loop, like everything that takes longer with more devices.
        by_plugin = [
            n for n, resource in served.items() if resource.served_by is ServedBy.DEVICE_PLUGIN
        ]
        decision, responses, news = await in_worker(
            partial(_concluded, decision, self.lists.value, reports, self._spec_errors, by_plugin)
        )
        self._count(served, decision.lists)
        if self.dra is not None:
            self._serve_by_dra(self.dra, served, decision)
        unserved = self.dra.unserved if self.dra else ()
        ours = {
            name: served[name]
            for name in by_plugin
            if (decision.lists[name].template or name) not in unserved
        }
        self.ledger.note(decision.lists, ours, decision.awaited, time.monotonic())
        if self.ledger.has_changed:
            # The hardware of a device must be recorded before the kubelet can give the device away.
            # this is logged; the ledger is written once the filesystem answers
            with suppress(HangingError):
                await in_worker(self.ledger.save, self._settings.state_dir or "")
        sent = self._apply(tasks, ours, decision.lists, responses)
        self.lists.value = decision.lists
        _log(news)
        for error in decision.failures.values():
            error.with_traceback(None)  # it would reference everything that was built until then
        return decision, sent

    def _count(self, served: Mapping[str, Resource], lists: DeviceLists) -> None:
        """Count what the new lists have forgotten, for the current resources."""
        self.tally.keep(served)
        for name in served:
            now, before = lists[name], self.lists.value.get(name, NOTHING)
            if (lost := len(set(now.forgotten) - set(before.forgotten))) or now.devices:
                self.tally.of(name).forgot(lost)

    def held(self, *, latest: bool = False) -> Held:
        """Return the hardware that pods and claims have, or may have.

        ``latest``: with claims that were prepared since the last reconcile, to be shown.
        """
        dra = self.dra
        claims = () if dra is None else dra.latest_holds if latest else dra.held
        return Held(
            (*self.ledger.held(time.monotonic()), *claims),
            former_ids=self.ledger.former_ids,
            is_upgrade=self.ledger.is_upgrade,
        )

    async def _decide(self, wanted: Mapping[str, Resource], *, full: bool) -> Decision:
        def make_work() -> Callable[[HostCache], Decision]:
            # Evaluated for each attempt, because pods may start while the host hangs.
            return partial(
                decide,
                tuple(wanted.values()),
                node_name=self._settings.node_name,
                previous=self.lists.value,
                now=time.monotonic(),
                held=self.held(),
                entry_bytes=entry_bytes,
            )

        wants_records = any(map(reads_properties, wanted.values()))
        return await self.reader.ask(make_work, full=full, wants_records=wants_records)

    async def _write_specs(
        self, wanted: Mapping[str, Resource], lists: DeviceLists, *, full: bool
    ) -> None:
        """Write the CDI specs, and record for which resources that fails."""
        by_cdi = any(resource.inject.by is InjectBy.CDI for resource in wanted.values())
        if self._written == {} and not by_cdi and not self._settings.without_kubelet:
            return  # as on most nodes

        def work() -> tuple[dict[str, bytes], dict[str, str]]:
            new = specs(wanted, lists, everything=self._settings.without_kubelet)
            is_written = new == self._written and not full
            return new, self._spec_errors if is_written else self._specs.maintain(new)

        # With a thousand devices an Allocate would wait for it for 40 ms.
        directory = self._specs.path
        try:
            self._written, self._spec_errors = await in_worker(work, directory)
        except HangingError as error:
            kinds = specs(wanted, lists, everything=self._settings.without_kubelet)
            self._written, self._spec_errors = None, dict.fromkeys(kinds, why_not(error, directory))
        if self._settings.without_kubelet:
            without = left_out(wanted, lists)
            for name, why in sorted(without.items() - self._without_spec.items()):
                log.warning("%s has no CDI spec: %s", name, why)
            self._without_spec = without

    def _apply(
        self,
        tasks: asyncio.TaskGroup,
        wanted: Mapping[str, Resource],
        lists: DeviceLists,
        responses: Mapping[str, bytes],
    ) -> bool:
        """Stop, update and start plugins, in this order; return whether any list has changed.

        ``responses`` are the changed lists, encoded for the kubelet.
        """
        if self._settings.without_kubelet:
            return False
        # Running tasks count, not the last request: a task that died is started again.
        self._running = {
            n: running for n, running in self._running.items() if not running.task.done()
        }
        todo = plan(wanted, {name: running.resource for name, running in self._running.items()})
        self._stop(todo, tasks)
        for name in todo.update:
            self._running[name].update(wanted[name])
        sent = [
            running.servicer.set_devices(lists[name], responses.get(name))
            for name, running in self._running.items()
        ]
        for name in wanted:
            if name in todo.start:
                started = self._start(wanted[name], lists[name], responses.get(name), tasks)
                self._running[name] = started
        return any(sent) or bool(todo.start)

    def _watch_health(
        self, tasks: asyncio.TaskGroup, wanted: Mapping[str, Resource], lists: DeviceLists
    ) -> None:
        """Start probes for all present devices."""
        if (health := self._health) is None:
            if not any(resource.health for resource in wanted.values()):
                return
            self._health = health = self._new_health()
            tasks.create_task(health.run(), name="health")
        for name in health.reports():
            if name not in wanted or not wanted[name].health:
                health.forget(name)
        for name, resource in wanted.items():
            if resource.health:
                listed = lists[name].devices.items()
                here = {name: entry.device for name, entry in listed if entry.is_present}
                template = lists[name].template
                # A name that has just resulted is new, but its template is not.
                delayed = name in self._running or template in self.lists.value
                health.watch(name, here, delayed=delayed, template=template)

    def _new_health(self) -> Health:
        # Costs 15 ms and 1.4 MB, which most nodes never need.
        from genericdp.health.health import Health, Probes

        make = self._make_health or Health
        return make(
            self._root,
            run_probe=Probes(self._run_command).run,
            changed=self.health_news.send,
            tally=self.tally,
        )

    async def _uses_dra(self, settings: DraSettings, wanted: Mapping[str, Resource]) -> bool:
        """Return whether the DRA driver has to run: for resources, or for earlier claims."""
        if any(resource.served_by is ServedBy.DRA for resource in wanted.values()):
            return True
        if self._has_claims is None:  # checked once, so that it costs most nodes nothing
            directory = settings.claims_directory
            try:  # Path.exists may raise
                self._has_claims = await in_worker(partial(os.path.exists, directory), directory)
            except HangingError:
                return True
            if self._has_claims:
                message = "the DRA driver %s starts, as claims may be prepared: there is %s"
                log.info(message, settings.driver, directory)
        return self._has_claims

    def _start_dra(self, settings: DraSettings, tasks: asyncio.TaskGroup) -> None:
        # Here, since most nodes need neither DRA nor the client of the API server.
        from genericdp.dra.driver import DraDriver

        self.dra = DraDriver(
            settings,
            self._settings,
            active=self._wanted,
            kubelet=self._kubelet,
            root=self._root,
            look_again=self._look_again,
            run_hooks=self._run_hooks,
            count_request=self.tally.requested,
            policy=lambda: self.policy,
        )
        tasks.create_task(self.dra.run(), name="DRA driver")

    def _serve_by_dra(
        self, dra: DraDriver, served: Mapping[str, Resource], decision: Decision
    ) -> None:
        gates = {
            name: dra.gates.get(name) or self._gate(name)
            for name, resource in served.items()
            if resource.served_by is ServedBy.DRA
        }
        for name, gate in gates.items():
            gate.set_devices(decision.lists[name])
        is_withheld = any(
            listed.withheld for gate in gates.values() for listed in gate.devices.devices.values()
        )
        dra.serve(gates, is_awaited=bool(decision.awaited) or is_withheld)

    def _gate(self, resource: str) -> Gate:
        return Gate(
            resource,
            root=self._root,
            look_again=partial(self.reader.mark_file, None),
            run_hooks=self._run_hooks,
            tally=self.tally.of(resource),
        )

    def _start(
        self,
        resource: Resource,
        devices: DeviceList,
        response: bytes | None,
        tasks: asyncio.TaskGroup,
    ) -> _Running:
        servicer = Servicer(
            self._gate(resource.name),
            pre_start="preStart" in resource.hooks,
            prefer=resource.prefer,
            replicas=resource.replicas,
            gave=lambda shares: self.ledger.gave(resource.name, shares, time.monotonic()),
        )
        servicer.set_devices(devices, response)
        plugin = Plugin(servicer, kubelet=self._kubelet, timing=self._settings.timing)
        task = tasks.create_task(self._run_plugin(plugin), name=f"plugin {resource.name}")
        return _Running(resource=resource, servicer=servicer, plugin=plugin, task=task)

    async def _run_plugin(self, plugin: Plugin) -> None:
        """Register once an earlier plugin of the resource has ended and the probes have results.

        This keeps a restart of the daemon from making healthy devices Unhealthy.
        """
        name, state = plugin.resource, plugin.registration
        if leaving := self._leaving.get(name):
            state.not_registered("its last server has not ended yet")
            await asyncio.wait([leaving])  # never two servers of one resource

        def has_results() -> bool:
            return self.lists.value.get(name, NOTHING).is_probed

        state.not_registered("waiting for the first probe results of its devices")
        if not await until(has_results, self.lists, timeout_seconds=FIRST_RESULTS_SECONDS):
            about = {"resource": name}
            log.warning("registering before all devices have been probed", extra=about)
        await plugin.run()

    def _stop(self, todo: Plan, tasks: asyncio.TaskGroup) -> None:
        """Let plugins end, without waiting for that."""
        for name in todo.stop:
            leaving, is_removed = self._running.pop(name), name not in todo.anew
            if is_removed:  # otherwise its devices stay, so the node need not show 0 meanwhile
                leaving.servicer.set_devices(NOTHING)
            end = self._end(leaving, self._leaving.get(name), is_removed=is_removed)
            self._leaving[name] = tasks.create_task(end, name=f"end {name}")

    async def _end(
        self, leaving: _Running, earlier: asyncio.Task[None] | None, *, is_removed: bool
    ) -> None:
        """Send an empty list, so that the node shows 0 at once (KST-11), and end.

        If the resource has come back and left again meanwhile, ``earlier`` still runs.
        """
        name = leaving.plugin.resource
        if is_removed and leaving.plugin.registration.active.value:
            await asyncio.sleep(_LAST_LIST_SECONDS)
        leaving.task.cancel()
        await asyncio.wait([leaving.task])
        if earlier is not None:
            await asyncio.wait([earlier])
        if self._leaving[name] is asyncio.current_task():
            del self._leaving[name]
            if self.dra is not None:
                self.dra.changed()
        if is_removed:
            log.info("stopped", extra={"resource": name})
