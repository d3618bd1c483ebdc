"""Activation of DRA: it is imported and started once a resource is to be served by it."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.devicelist import AllocatedDevices
from genericdp.host.workers import in_worker
from genericdp.model import ServedBy

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from genericdp.dra.backend import BackEnds
    from genericdp.dra.driver import DraDriver
    from genericdp.dra.settings import DraSettings
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.kubelet.podresources import PodResourcesTiming
    from genericdp.kubelet.servicer import Servicer
    from genericdp.model import Resource
    from genericdp.tally import Tally


class Dra:
    """Serves resources through DRA; none without ``settings``."""

    def __init__(
        self,
        settings: DraSettings | None,
        *,
        node_name: str,
        kubelet: KubeletFolder,
        cdi_folder: Path,
        timing: PodResourcesTiming | None,
        look_again: Callable[[], None],
        tally: Tally,
    ) -> None:
        self.driver: DraDriver | None = None
        """None: no resource was to be served by DRA yet."""
        self.servicers: Mapping[str, Servicer] = {}
        """The resources that DRA serves, by name."""
        self.in_force: Mapping[str, Resource] = {}
        """The resources of the config as they are served now, by name in the config."""
        self.waiting: Mapping[str, str] = {}
        """Why a resource is not served as the config says, by name in the config."""
        self.withheld: Collection[str] = ()
        """Those that the device plugin must not serve either: somebody may have their devices."""
        self._settings = settings
        self._node_name = node_name
        self._kubelet = kubelet
        self._cdi_folder = cdi_folder
        self._timing = timing
        self._look_again = look_again
        self._tally = tally
        self._back_ends: BackEnds | None = None

    async def choose_back_ends(
        self,
        tasks: asyncio.TaskGroup,
        wanted: Mapping[str, Resource],
        by_plugin: Collection[str],
    ) -> Mapping[str, Resource]:
        """Return the resources, each with the back end that can serve it now.

        ``by_plugin`` are the names that the device plugin serves or has not stopped serving.
        """
        back_ends = self._back_ends or await self._start(tasks, wanted)
        if back_ends is None:
            self.in_force = wanted
        else:
            self.in_force = await back_ends.choose(wanted, by_plugin)
            self.waiting, self.withheld = back_ends.waiting, back_ends.withheld
        return self.in_force

    async def _start(
        self, tasks: asyncio.TaskGroup, wanted: Mapping[str, Resource]
    ) -> BackEnds | None:
        settings = self._settings
        if settings is None:
            return None
        is_wanted = any(one.served_by is ServedBy.DRA for one in wanted.values())
        exists = partial(os.path.exists, settings.claims_folder)  # Path.exists may raise
        if not is_wanted and not await in_worker(exists):
            return None
        # Here, since most nodes need neither DRA nor the client of the API server.
        from genericdp.dra.backend import BackEnds
        from genericdp.dra.driver import DraDriver

        self.driver = DraDriver(
            settings,
            node_name=self._node_name,
            cdi_folder=self._cdi_folder,
            count_request=self._tally.requested,
            changed=self.changed,
        )
        self._back_ends = BackEnds(
            settings,
            kubelet=self._kubelet,
            look_again=self._look_again,
            why_offered=self.driver.why_offered,
            last=self.in_force,
            timing=self._timing,
        )
        tasks.create_task(self._back_ends.run(), name="back ends")
        tasks.create_task(self.driver.run(), name="DRA driver")
        return self._back_ends

    def add_claims(self, allocated: AllocatedDevices | None) -> AllocatedDevices | None:
        """Add the devices that claims have to those that pods hold."""
        if self.driver is None:
            return allocated
        # None: nobody needs to know what pods hold through the device plugin.
        known = allocated or AllocatedDevices(asked_at=math.inf)
        return replace(known, devices={**known.devices, **self.driver.held()})

    def changed(self) -> None:
        """Reconcile if a resource waits: a device plugin, claim or ResourceSlice is gone."""
        if self.waiting or (self.driver is not None and self.driver.trouble.value):
            self._look_again()

    def serve(self, servicers: Mapping[str, Servicer]) -> None:
        """Serve these resources, by name, and no others from now on."""
        self.servicers = servicers
        if self.driver is not None:
            self.driver.serve(servicers, self.waiting)
