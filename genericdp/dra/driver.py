"""The DRA driver of a node: registers, publishes ResourceSlices, and prepares claims."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.apiserver.access import in_cluster, of_kubeconfig
from genericdp.apiserver.client import ApiClient, ApiError, claim_path
from genericdp.dra.backend import DELETED_FIRST
from genericdp.dra.claims import ClaimRecords, recorded_claims
from genericdp.dra.prepare import ClaimPreparer, ServedPool
from genericdp.dra.publisher import Publisher
from genericdp.dra.slices import devices_of, pool_name
from genericdp.dra.stored import StoredSlices
from genericdp.errors import KubeletError, explained, ungrouped
from genericdp.host.workers import in_worker
from genericdp.kubelet.dra import DraPlugin
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from typing import Never

    from genericdp.devices.devicelist import DeviceList
    from genericdp.dra.claims import Claim
    from genericdp.dra.settings import DraSettings
    from genericdp.kubelet.servicer import Servicer

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class DraDriver:
    """Serves resources through DRA; only one of several instances on a node does so at a time.

    Failures are logged and retried, and do not affect what the device plugin serves.
    """

    def __init__(
        self,
        settings: DraSettings,
        *,
        node_name: str,
        cdi_folder: Path,
        count_request: Callable[[str, str], None],
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when another back end may serve a resource now."""
        self.trouble = Observed("it has only just been started")
        """Why the driver does not work; empty: it does."""
        self.is_standby = False
        """Whether another instance of the driver is in charge."""
        self._settings = settings
        self._node_name = node_name
        self._cdi_folder = cdi_folder
        self._count_request = count_request
        self._changed = changed
        self._lists: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The device list of each served resource, by name; None: not known yet."""
        self._pools: Mapping[str, ServedPool] = {}
        """The same devices under the names that claims have for them, by the name of the pool."""
        self._waiting: Mapping[str, str] = {}
        """Why a pool that the config asks for is not offered, by name."""
        self._plugin: DraPlugin | None = None
        self._preparer: ClaimPreparer | None = None
        self._publisher: Publisher | None = None

    def serve(self, servicers: Mapping[str, Servicer], waiting: Mapping[str, str]) -> None:
        """Serve these resources and no others from now on; ``waiting``: why others wait."""
        self._waiting = {pool_name(self._node_name, name): why for name, why in waiting.items()}
        self._pools = {
            pool_name(self._node_name, name): ServedPool(
                resource=name,
                servicer=one,
                shares=devices_of(name, one.devices, extended_resource=False).shares,
            )
            for name, one in servicers.items()
        }
        self._lists.value = {name: one.devices for name, one in servicers.items()}
        if self._preparer is not None:
            self._preparer.pools = self._pools
        if self._publisher is not None:
            self._publisher.wanted.value = self._lists.value

    def why_not_served(self, resource: str) -> str:
        """Return why claims cannot get devices of a resource now; empty: they can."""
        if self.trouble.value or self._plugin is None or self._publisher is None:
            return self.trouble.value
        if not self._plugin.registration.active.value:
            return self._plugin.registration.reason
        soon = "its ResourceSlices are about to be written"
        return self._publisher.state.value.get(resource, soon) or self._publisher.slices.failure

    def why_still_offered(self, resources: Collection[str]) -> str:
        """Return why claims may still get devices of resources; empty: none may."""
        publisher = self._publisher
        why = self.trouble.value or (publisher.slices.failure if publisher else "")
        if publisher is None or publisher.slices.by_name.value is None or why:
            why = why or "the API server has not said yet which there are"
            return f"it cannot be known whether its ResourceSlices are deleted: {why}"
        if any(one in (self._lists.value or ()) for one in resources):
            return DELETED_FIRST
        pools = {pool_name(self._node_name, one) for one in resources}
        state = publisher.state.value
        reasons = [why for name, why in state.items() if name in pools or name in resources]
        slices = publisher.slices.by_name.value.values()
        if reasons or any(_pool_of(one) in pools for one in slices):
            return ": ".join([DELETED_FIRST, *filter(None, reasons)][:2])
        return ""

    async def run(self) -> Never:
        """Serve forever."""
        while True:
            try:
                async with ungrouped():
                    await self._serve()
            except Exception as error:  # noqa: BLE001
                # A bug here must not end the device plugins.
                trouble = explained(error, self._settings.folder)
            if trouble != self.trouble.value:
                log.warning("the DRA driver %s does not work: %s", self._settings.driver, trouble)
            self.trouble.value = trouble
            self._changed()
            await asyncio.sleep(self._settings.retry)

    async def _serve(self) -> Never:
        settings = self._settings
        boot_id = (await in_worker(_BOOT_ID.read_text)).strip()
        kubeconfig = settings.kubeconfig
        read_access = in_cluster if kubeconfig is None else partial(of_kubeconfig, kubeconfig)
        async with (
            self._locked_folder() as lock,
            ApiClient(read_access, count=self._count_request) as client,
        ):
            records = ClaimRecords(settings.claims_folder, removed=self._changed)
            await in_worker(records.load)
            preparer = ClaimPreparer(
                settings.driver,
                records=records,
                cdi_folder=self._cdi_folder,
                boot_id=boot_id,
                get_claim=partial(_get_claim, client),
                why_absent=lambda pool: self._waiting.get(pool, ""),
            )
            await in_worker(preparer.remove_leftovers)
            plugin = DraPlugin(
                settings.driver, kubelet_root=settings.kubelet_root, handler=preparer
            )
            slices = StoredSlices(client, driver=settings.driver, node_name=self._node_name)
            publisher = Publisher(slices, registered=plugin.registration.active)
            self._preparer, self._plugin, self._publisher = preparer, plugin, publisher
            self.trouble.value = ""
            # The kubelet must not ask for devices before they are known.
            await until(lambda: self._lists.value is not None, self._lists)
            preparer.pools, publisher.wanted.value = self._pools, self._lists.value
            try:
                with publisher.state.calling(self._changed), slices.by_name.calling(self._changed):
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(plugin.run(), name="DRA registration")
                        tasks.create_task(publisher.run(), name="ResourceSlices")
                        tasks.create_task(self._watch_folder(lock), name="lock of the DRA driver")
                        await self._update_specs(preparer)
            finally:
                if not os.fstat(lock).st_nlink:  # the records were removed with the folder
                    for one in records.claims.values():
                        await records.write(one)

    async def _update_specs(self, preparer: ClaimPreparer) -> Never:
        """Keep the CDI specs of claims up to date."""
        while True:
            lists = self._lists.value
            is_complete = await preparer.update_specs()
            await until(
                lambda lists=lists: self._lists.value is not lists,  # type: ignore[misc]
                self._lists,
                timeout_seconds=None if is_complete else self._settings.retry,
            )

    async def _watch_folder(self, lock: int) -> Never:
        """Raise KubeletError once somebody has removed the folder of the driver."""
        while True:
            await asyncio.sleep(self._settings.retry)
            if not os.fstat(lock).st_nlink:
                folder = self._settings.folder
                raise KubeletError(f"somebody has removed {folder}, which is made again")

    @asynccontextmanager
    async def _locked_folder(self) -> AsyncIterator[int]:
        """Wait until no other instance on this node serves this driver; raise OSError.

        Yield a descriptor of the locked file. On exit, forget what ``_serve`` has started.
        """
        folder = self._settings.folder
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_lock(lock):
                if not self.is_standby:
                    log.info("another instance serves the DRA driver: waiting for its end")
                self.is_standby = True
                self.trouble.value = "another instance of genericdp on this node serves it"
                await asyncio.sleep(self._settings.standby)
            self.is_standby = False
            yield lock
        finally:
            self._plugin = self._preparer = self._publisher = None
            os.close(lock)

    async def unprepare_ended(self, used: Collection[tuple[str, str]]) -> None:
        """Unprepare ended claims, except ``used``: namespace and name of claims that pods use."""
        if self._preparer is not None:
            await self._preparer.unprepare_ended(used)

    @property
    def claim_count(self) -> int:
        """The number of claims that are prepared, or are being, by this instance."""
        return len(self._preparer.claims) if self._preparer else 0

    async def claims(self) -> Collection[Claim]:
        """Return the claims that are prepared on this node, or are being; raise OSError."""
        if self._preparer is not None:
            return tuple(self._preparer.claims.values())
        return await in_worker(partial(recorded_claims, self._settings.claims_folder))


async def _get_claim(client: ApiClient, namespace: str, name: str) -> dict[str, Any] | None:
    """Return a claim; None if there is none; raise GenericdpError."""
    try:
        return await client.get(claim_path(namespace, name))
    except ApiError as error:
        if error.reason == "NotFound":  # else it is not the claim that is missing
            return None
        raise


def _pool_of(item: Mapping[str, Any]) -> object:
    """Return the pool of a ResourceSlice; None if it is malformed."""
    try:
        return item["spec"]["pool"]["name"]
    except (KeyError, TypeError):
        return None


def _try_lock(descriptor: int) -> bool:
    """Lock a file, until it is closed; return whether that succeeds at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
