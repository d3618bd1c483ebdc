"""The real daemon with the simulated kubelet, and the resulting state of the node."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Any

from genericdp.config.reload import ConfigState
from genericdp.daemon import serve
from genericdp.dra.slices import Pool, devices_of, next_layout, plan, pool_name
from genericdp.errors import GenericdpError, Outcome, UsageError, ungrouped
from genericdp.health.health import Health
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.host.workers import in_worker
from genericdp.model import ServedBy
from genericdp.observed import Observed, Signal, next_change, until
from genericdp.printing import meant_or_listed, quoted
from genericdp.process.run import Commands
from genericdp.reconcile import FIRST_RESULTS_SECONDS
from genericdp.settings import DRIVER
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.pods import Container, Pod
from genericdp.status import view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Never

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.devices.inventory import Identity
    from genericdp.health.health import RunProbe
    from genericdp.settings import Settings
    from genericdp.simulator.pods import Start
    from genericdp.supervisor import Supervisor

FIRST_LISTS_SECONDS = 30.0
RETRY_SECONDS = 10.0
"""How long the kubelet waits before it starts a container again (PRE-1)."""
_BURST_SECONDS = 0.05
"""Changes of several resources within this time are shown together."""
_LAG_SECONDS = 1.0
"""How long the kubelet may take to process a change before the node is shown without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeResource:
    """A resource as shown in the Node's status."""

    document: view.Document
    """The resource for ``-o json``: its shares are those that the kubelet counts."""
    is_probed: bool
    """Whether each probe of its devices has a result."""
    slices: tuple[dict[str, Any], ...] = ()
    """The specs of its ResourceSlices; none if the device plugin serves it."""

    @property
    def capacity(self) -> int:
        """The shares of all its devices."""
        return int(self.document["capacity"])

    @property
    def allocatable(self) -> int:
        """The shares of its Healthy devices."""
        return int(self.document["allocatable"])

    @property
    def unhealthy(self) -> list[view.Document]:
        """Its devices that are not Healthy."""
        devices: list[view.Document] = self.document["devices"]
        return [device for device in devices if device["state"] != view.DeviceState.HEALTHY]


class Simulation:
    """Runs daemon and kubelet in this process, on real sockets in the directory of the settings.

    ``driver`` is the name of the DRA driver whose ResourceSlices are shown. A pod with one
    container requests ``amounts``, if there are any. ``show`` is called with the state of the node,
    the result of the container's last start, and news of the config.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        driver: str = DRIVER,
        amounts: Mapping[str, int],
        once: bool,
        show: Callable[[Mapping[str, NodeResource], Start | None, str], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._settings = settings
        self._on_machine = Root(settings.root).is_machine
        self._driver = driver
        self._once = once
        self._show = show
        self._retry_seconds = retry_seconds
        self._kubelet = Kubelet(settings.kubelet_directory)
        self._container = Container(name="container", limits=amounts)
        self._pod = Pod(uid="simulated", containers=(self._container,))
        self._start: Start | None = None
        """The result of the container's last start; None without a container."""
        self._labels: dict[Identity, view.HardwareLabels] = {}
        self._supervisor: Supervisor | None = None
        self._config = Observed(ConfigState())
        self._changes: tuple[Observed[Any], ...] = (self._kubelet.changes,)

    async def run(self) -> None:
        """Show the first complete picture, then one after each change; raise GenericdpError."""
        async with (
            ungrouped(),
            self._kubelet,
            Commands() if self._on_machine else _NoCommands() as commands,
            asyncio.TaskGroup() as tasks,
        ):
            work = serve(
                self._settings,
                reload=Signal(),
                commands=commands,
                watched=self._attach,
                health=None if self._on_machine else _health_of_copy,
            )
            serving = tasks.create_task(work, name="daemon")
            await self._wait_for_first_lists()
            await self._run_pod()
            await self._read_labels()
            if self._once:
                self._show(self._node_resources(), self._start, "")
                if self._start is not None and self._start.given is None:
                    raise GenericdpError(f"the container would wait: {self._start.message}")
            else:
                tasks.create_task(self._retry(), name="container")
                await self._show_changes()
            serving.cancel()

    def _attach(self, supervisor: Supervisor, config: Observed[ConfigState]) -> None:
        self._supervisor, self._config = supervisor, config
        self._changes += (supervisor.lists, supervisor.decided, config)
        self._kubelet.changes.send()  # for callers that wait without these

    async def _wait_for_first_lists(self) -> None:
        try:
            async with asyncio.timeout(FIRST_LISTS_SECONDS):
                while not self._is_complete():
                    await next_change(*self._changes)
        except TimeoutError as error:
            raise GenericdpError(
                "the kubelet has not had the lists of all resources within"
                f" {FIRST_LISTS_SECONDS:g} s: {self._kubelet.describe()}"
            ) from error
        await until(self._is_probed, *self._changes, timeout_seconds=FIRST_RESULTS_SECONDS)

    def _is_complete(self) -> bool:
        """Return whether the kubelet has the list of every resource that a plugin serves."""
        if self._supervisor is None or not self._supervisor.lists.value:
            return False
        return all(
            self._kubelet.observed.lists[name]
            for name, resource in self._supervisor.named.items()
            if not resource.names and resource.served_by is ServedBy.DEVICE_PLUGIN
        )

    async def _read_labels(self) -> None:
        """Read what new devices are called; one that cannot be read now has no name."""
        if (supervisor := self._supervisor) is None:
            return
        lists, host = tuple(supervisor.lists.value.values()), HostCache(supervisor.root)
        read = partial(view.hardware_of_all, lists, host, self._labels)
        with suppress(OSError):
            self._labels = await in_worker(read, "names of hardware")

    def _labeled(self, entry: Entry[Device]) -> view.Document:
        return view.device(entry, self._labels.get(entry.device.identity, view.UNKNOWN))

    def _is_probed(self) -> bool:
        """Return whether every device that slices wait for has been probed."""
        slices = (resource for resource in self._node_resources().values() if resource.slices)
        return all(resource.is_probed for resource in slices)

    def _node_resources(self) -> dict[str, NodeResource]:
        """Return the resources in the node's status, by name."""
        lists, named = (
            (supervisor.lists.value, supervisor.named)
            if (supervisor := self._supervisor)
            else ({}, {})
        )
        by_dra = {
            n
            for n, resource in named.items()
            if resource.served_by is ServedBy.DRA and not resource.names
        }
        kubelet = self._kubelet
        return {
            name: NodeResource(
                document=view.resource(name, listed, self._labeled)
                | {
                    "capacity": kubelet.capacity(name),
                    "allocatable": kubelet.allocatable(name),
                },
                is_probed=listed.is_probed,
                slices=self._slices(name, listed) if name in by_dra else (),
            )
            for name, listed in lists.items()
            if listed.is_shown
        }

    def _slices(self, name: str, devices: DeviceList) -> tuple[dict[str, Any], ...]:
        """Return the specs of the ResourceSlices that the daemon would publish."""
        node = self._settings.node_name
        pool = Pool(name=pool_name(node, name), driver=self._driver, node_name=node, node_uid="")
        offered = devices_of(name, devices, driver=self._driver, extended_resource=True)
        layout = next_layout({}, offered.shares)
        return tuple(slice_["spec"] for _, slice_ in plan(pool, layout, offered.devices, ()))

    async def _run_pod(self) -> None:
        """Admit the pod and start its container; raise GenericdpError if it is rejected."""
        wanted = self._supervisor.named if self._supervisor else {}
        for name in self._container.limits:
            if name not in wanted:
                # No kubelet would reject it, because the scheduler does not place such a pod here.
                known = meant_or_listed(name, wanted, "it has")
                raise UsageError(f"the config has no resource {quoted(name)} for this node{known}")
            if wanted[name].served_by is ServedBy.DRA:
                raise UsageError(
                    f"DRA serves {name}, and the scheduler is not simulated: see"
                    " genericdp allocate for what a container would get"
                )
        if not self._container.limits:
            return
        admission = await self._kubelet.admit(self._pod)
        if not admission.admitted:
            why = f"{admission.reason}: {admission.message}"
            raise GenericdpError(f"no container would get this: {why}")
        self._start = await self._kubelet.start_container(self._pod, self._container)

    async def _retry(self) -> None:
        while self._start is not None and self._start.given is None:
            await asyncio.sleep(self._retry_seconds)
            self._start = await self._kubelet.start_container(self._pod, self._container)

    async def _show_changes(self) -> Never:
        picture, start, config = self._node_resources(), self._start, self._config.value
        self._show(picture, start, "")
        while True:
            await next_change(*self._changes)
            await asyncio.sleep(_BURST_SECONDS)
            await until(self._is_up_to_date, *self._changes, timeout_seconds=_LAG_SECONDS)
            await self._read_labels()
            before, picture = (picture, start), self._node_resources()
            news, config = _news(config, self._config.value), self._config.value
            if news or (picture, self._start) != before:
                # The result of a start is shown only once.
                self._show(picture, self._start if self._start != start else None, news)
            start = self._start

    def _is_up_to_date(self) -> bool:
        """Return whether the active config is decided, and the kubelet knows the result."""
        daemon = self._supervisor
        if daemon is None or daemon.decided.value != daemon.resources.value:
            return False
        return all(
            bool(resource.capacity) is not bool(resource.document["empty"])
            and (resource.allocatable < resource.capacity) is bool(resource.unhealthy)
            for resource in self._node_resources().values()
            if not resource.slices
        )


class _NoCommands(Commands):
    """Replaces the commands of hooks for a copy, which would affect this machine: none is run,
    and all succeed.
    """

    async def run(self, *_: object, **__: object) -> Outcome:
        return Outcome()


def _health_of_copy(root: Root, *, run_probe: RunProbe, **settings: Any) -> Health:  # noqa: ANN401
    """Return health from the files of a copy: probes that would use this machine count as
    passed.
    """

    async def run(bound: BoundProbe, *args: Any, **more: Any) -> Outcome:  # noqa: ANN401
        only_reads = bound.check.only_reads
        return await run_probe(bound, *args, **more) if only_reads else Outcome()

    # As a log, an event becomes readable once, has no record, and then ends.
    return Health(
        root, run_probe=run, open_log=lambda: FileIO(os.eventfd(1, os.EFD_NONBLOCK)), **settings
    )


def _news(before: ConfigState, now: ConfigState) -> str:
    """Return news for a user who has edited the config; empty if there is none."""
    if now.since != before.since:
        return "a new config is active"
    return "the config on disk is active again" if before.refused and not now.refused else ""
