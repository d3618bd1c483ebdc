"""The DRA driver of a node: registers, publishes ResourceSlices, and prepares claims."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from inotify_simple import flags

from genericdp.apiserver.access import in_cluster, of_kubeconfig
from genericdp.apiserver.client import ApiClient, claim_path
from genericdp.dra.claims import (
    RELEASE_SUFFIX,
    ClaimRecords,
    held_devices,
    read_others,
    read_records,
)
from genericdp.dra.prepare import ClaimPreparer, ServedPool
from genericdp.dra.publisher import Publisher
from genericdp.dra.slices import DELETED_FIRST, devices_of, pool_name
from genericdp.dra.stored import StoredSlices
from genericdp.durable import lock
from genericdp.errors import DAMAGE, ApiError, KubeletError, explained, ungrouped
from genericdp.host.inotify import ENTRIES, FolderWatch
from genericdp.host.workers import HangingError, in_worker
from genericdp.kubelet.dra import DraPlugin
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from typing import Never

    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.held import HeldDevice
    from genericdp.dra.claims import Record
    from genericdp.dra.settings import DraSettings
    from genericdp.host.root import Root
    from genericdp.policy import Policy
    from genericdp.prepare import Gate, RunHooks

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REST = 4
"""How many times longer than an update of all specs took the next one waits."""
_REMOVALS = flags.DELETE | flags.MOVED_FROM


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
        root: Root,
        count_request: Callable[[str, str], None],
        run_hooks: RunHooks,
        policy: Callable[[], Policy | None],
        changed: Callable[[], None],
        held_changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when another back end may serve a resource now.

        ``held_changed`` is called when other shares are withheld.
        """
        self.trouble = Observed("it has only just been started")
        """Why the driver does not work; empty: it does."""
        self.is_standby = False
        """Whether another instance of the driver is in charge."""
        self._settings = settings
        self._node_name = node_name
        self._cdi_folder = cdi_folder
        self._count_request = count_request
        self._root = root
        self._run_hooks, self._policy = run_hooks, policy
        self._changed, self._held_changed = changed, held_changed
        self._lists: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The device list of each served resource, by name; None: not known yet."""
        self._pools: Mapping[str, ServedPool] = {}
        """The same devices under the names that claims have for them, by the name of the pool."""
        self._waiting: Mapping[str, str] = {}
        """Why a pool that the config asks for is not offered, by name."""
        self._specs_outdated = asyncio.Event()
        """Set when CDI specs of claims may not be as they should be."""
        self._records_changed = asyncio.Event()
        """Set when an administrator may have released a claim."""
        self._plugin: DraPlugin | None = None
        self._preparer: ClaimPreparer | None = None
        self._publisher: Publisher | None = None

    def serve(self, gates: Mapping[str, Gate], waiting: Mapping[str, str]) -> None:
        """Serve these resources and no others from now on; ``waiting``: why others wait."""
        self._waiting = {pool_name(self._node_name, name): why for name, why in waiting.items()}
        self._pools = {
            pool_name(self._node_name, name): ServedPool(
                gate=gate,
                shares=devices_of(name, gate.devices, extended_resource=False).shares,
            )
            for name, gate in gates.items()
        }
        self._lists.value = {name: gate.devices for name, gate in gates.items()}
        if self._preparer is not None:
            self._preparer.pools = self._pools
        self._specs_outdated.set()  # what the config does not name any more may have changed, too
        if self._publisher is not None:
            self._publisher.wanted.value = self._lists.value

    def why_not_served(self, resource: str) -> str:
        """Return why claims cannot get devices of a resource now; empty: they can."""
        if self.trouble.value or self._plugin is None or self._publisher is None:
            return self.trouble.value
        if not self._plugin.registration.active.value:
            return self._plugin.registration.reason
        if self._preparer is not None:
            for record in self._preparer.unreadable:
                return str(record)
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
        kubeconfig = settings.kubeconfig
        read_access = in_cluster if kubeconfig is None else partial(of_kubeconfig, kubeconfig)
        async with (
            self._locked_folder() as locked,
            ApiClient(read_access, count=self._count_request) as client,
        ):
            records = ClaimRecords(settings.claims_folder, removed=self._changed)
            preparer = await self._load_claims(records, client)
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
                        tasks.create_task(self._watch_folder(locked), name="lock of the DRA driver")
                        tasks.create_task(self._watch_files(preparer), name="files of claims")
                        tasks.create_task(self._honor_markers(preparer), name="released claims")
                        tasks.create_task(preparer.watch(), name="claims in the API")
                        await self._update_specs(preparer)
            finally:
                if not os.fstat(locked).st_nlink:  # the records were removed with the folder
                    for one in records.claims.values():
                        await records.write(one)

    async def _load_claims(self, records: ClaimRecords, client: ApiClient) -> ClaimPreparer:
        """Return the preparer of the recorded claims; raise OSError."""
        boot_id = (await in_worker(_BOOT_ID.read_text)).strip()
        await in_worker(records.load, str(self._settings.claims_folder))
        preparer = ClaimPreparer(
            self._settings.driver,
            records=records,
            cdi_folder=self._cdi_folder,
            boot_id=boot_id,
            root=self._root,
            get_claim=partial(_get_claim, client),
            why_absent=lambda pool: self._waiting.get(pool, ""),
            run_hooks=self._run_hooks,
            policy=self._policy,
            changed=self._held_changed,
            timing=self._settings.claim_timing,
        )
        await in_worker(preparer.remove_leftovers, str(self._cdi_folder))
        return preparer

    async def _update_specs(self, preparer: ClaimPreparer) -> Never:
        """Keep the CDI specs of claims up to date."""
        while True:
            self._specs_outdated.clear()
            began = time.monotonic()
            is_complete = await preparer.update_specs()
            # A hundred claims must not take a core while each event asks for it.
            await asyncio.sleep(_REST * (time.monotonic() - began))
            with suppress(TimeoutError):
                async with asyncio.timeout(None if is_complete else self._settings.retry):
                    await self._specs_outdated.wait()

    async def _honor_markers(self, preparer: ClaimPreparer) -> Never:
        """Release the claims that an administrator has released."""
        while True:
            self._records_changed.clear()
            with suppress(OSError):  # the directory will be made again
                await preparer.honor_markers()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.retry):
                    await self._records_changed.wait()

    async def _watch_files(self, preparer: ClaimPreparer) -> Never:
        """Note when a CDI spec of a claim is removed, or when a marker appears."""
        records, specs = str(self._settings.claims_folder), str(self._cdi_folder)

        def note(folder: str, name: str | None) -> None:
            if folder == specs and (name is None or preparer.needs_spec(name)):
                self._specs_outdated.set()
            if folder == records and (name is None or name.endswith(RELEASE_SUFFIX)):
                self._records_changed.set()

        watch = FolderWatch(note, what="records and CDI specs of claims")
        try:
            while True:
                with suppress(HangingError):  # the loop must not hang with a folder
                    for folder in (records, specs):
                        await in_worker(partial(os.path.exists, folder), folder)
                    for folder in watch.set_folders({records: ENTRIES, specs: _REMOVALS}):
                        note(folder, None)
                if not watch.complete:
                    self._specs_outdated.set()
                await asyncio.sleep(self._settings.retry)
        finally:
            watch.close()

    async def _watch_folder(self, locked: int) -> Never:
        """Raise KubeletError once somebody has removed the folder of the driver."""
        while True:
            await asyncio.sleep(self._settings.retry)
            if not os.fstat(locked).st_nlink:
                folder = self._settings.folder
                raise KubeletError(f"somebody has removed {folder}, which is made again")

    @asynccontextmanager
    async def _locked_folder(self) -> AsyncIterator[int]:
        """Wait until no other instance on this node serves this driver; raise OSError.

        Yield a descriptor of the locked file. On exit, forget what ``_serve`` has started.
        """
        folder = self._settings.folder

        def opened() -> BinaryIO:
            folder.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            return os.fdopen(os.open(folder / "lock", flags, 0o600), "rb+", buffering=0)

        file = await in_worker(opened, str(folder))
        descriptor = file.fileno()
        try:
            while not lock(descriptor, exclusive=True):
                if not self.is_standby:
                    log.info("another instance serves the DRA driver: waiting for its end")
                self.is_standby = True
                self.trouble.value = "another instance of genericdp on this node serves it"
                await asyncio.sleep(self._settings.standby)
            self.is_standby = False
            yield descriptor
        finally:
            self._plugin = self._preparer = self._publisher = None
            file.close()

    @property
    def claim_counts(self) -> dict[str, int]:
        """The number of prepared claims of this instance, by what the API server has of them."""
        preparer = self._preparer
        withheld = preparer.withheld_count if preparer else 0
        return {
            "prepared": len(preparer.claims) - withheld if preparer else 0,
            "gone": withheld,
        }

    async def held(self) -> tuple[Collection[HeldDevice], Collection[Record]]:
        """Return what claims hold on this node, and the records that do not say so; raise OSError.

        Those of other drivers hold, too.
        """
        if (preparer := self._preparer) is not None:  # it may end meanwhile
            return await preparer.holds(), tuple(preparer.unreadable)
        folder = self._settings.claims_folder
        records: list[Record] = []
        with suppress(FileNotFoundError):
            records = await in_worker(partial(read_records, folder), str(folder))
        _, others = await read_others(folder)
        claims = [record.claim for record in records if record.claim is not None]
        return held_devices((*claims, *others)), [it for it in records if it.claim is None]


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
    except DAMAGE:
        return None
