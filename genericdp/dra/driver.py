"""The DRA driver of a node: registers, publishes ResourceSlices, and prepares claims.

It also decides which back end serves each resource, device plugin or DRA.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from inotify_simple import flags

from genericdp import glob
from genericdp.apiserver import ApiClient, claim_path, in_cluster, of_kubeconfig
from genericdp.dra.claims import (
    RELEASE_SUFFIX,
    ClaimRecords,
    read_others,
    read_records,
    read_served,
)
from genericdp.dra.pools import Pools, ServedPool
from genericdp.dra.prepare import ClaimPreparer
from genericdp.dra.publisher import Publisher, StoredSlices
from genericdp.dra.slices import pool_name, shares_of
from genericdp.durable import lock, put_aside, write
from genericdp.errors import DAMAGE, KubeletError, reason_of, ungrouped
from genericdp.host.events import DirectoryWatch
from genericdp.host.workers import HangingError, in_worker
from genericdp.kubelet.directory import digest_of
from genericdp.kubelet.dra import DraPlugin
from genericdp.kubelet.podresources import PodResourcesTiming, list_pods, pod_holders
from genericdp.model import ServedBy
from genericdp.observed import Observed, Signal, until
from genericdp.repeat import Latch, explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from typing import Never

    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.held import HeldDevice
    from genericdp.dra.claims import Record
    from genericdp.gate import Gate, RunHooks
    from genericdp.host.root import Root
    from genericdp.kubelet.directory import KubeletDirectory
    from genericdp.model import Resource
    from genericdp.policy import Policy
    from genericdp.settings import DraSettings, Settings


log = logging.getLogger(__name__)

_DELETED_FIRST = "its ResourceSlices are deleted first"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REST = 4
"""The pause before the next update of all specs, as a multiple of the time that the last one
took.
"""
_ADDITIONS = flags.CREATE | flags.MOVED_TO
_REMOVALS = flags.DELETE | flags.MOVED_FROM
_VERSION = 1  # of the format of served.json
_ASK_SECONDS = 1.0
"""How long the kubelet may take to answer, because the reconcile waits for it."""
_UNKNOWN = "it cannot be known whether pods hold such devices already"


class _Verdict(NamedTuple):
    """The verdict on whether a resource can move to the back end of the config."""

    why_not: str
    """Why it cannot; empty if it can."""
    meanwhile: ServedBy | None
    """The back end that serves it until then; None if neither does."""
    is_transient: bool = False
    """Whether that ends by itself; then it is logged as info."""


class _Parts(NamedTuple):
    """The tasks of the active instance."""

    preparer: ClaimPreparer
    plugin: DraPlugin
    publisher: Publisher


class DraDriver:
    """Serves resources through DRA; only one of several instances on a node does so at a time.

    Failures are logged and retried, and do not affect the resources that the device plugin serves.
    The two back ends never serve the same resource, and a resource does not move to the other one
    while a pod or claim holds a device of it: two containers could get the device. During a move
    neither serves it, until the plugin or the ResourceSlices of the old back end are deleted.
    """

    def __init__(
        self,
        dra: DraSettings,
        settings: Settings,
        *,
        active: Mapping[str, Resource],
        kubelet: KubeletDirectory,
        root: Root,
        look_again: Callable[[], None],
        run_hooks: RunHooks,
        count_request: Callable[[str, str], None],
        policy: Callable[[], Policy | None],
    ) -> None:
        """``policy`` returns the policy for release hooks of records."""
        self.trouble = Observed("it is starting")
        """Why the driver does not work; empty if it does."""
        self._failing, self._logged = Latch(log), dict[str, Latch]()
        self._records = ClaimRecords(dra.claims_directory, removed=self.changed)
        self.is_standby = False
        """Whether another instance of the driver is active."""
        self._active = active
        """The resources of the config as they are served now, by name in the config."""
        self._waiting: Mapping[str, _Verdict] = {}
        """The resources that are not served as the config says, by name in the config."""
        self.held: Collection[HeldDevice] = ()
        """The holds of claims, as last known."""
        self._unreadable: Collection[Record] = ()
        self._is_awaited = False
        """Whether other devices are offered once claims end."""
        self._settings, self._node_name = dra, settings.node_name
        self._cdi_directory, self._policy = settings.cdi_directory, policy
        self._timing = settings.pod_resources_timing or PodResourcesTiming()
        self._kubelet, self._root, self._run_hooks = kubelet, root, run_hooks
        self._look_again, self._count_request = look_again, count_request
        # The names of resources that DRA serves now, as in served.json (None until it is read), and
        # those that it should serve according to the config.
        self._dra_now: frozenset[str] | None = None
        self._dra_wanted: frozenset[str] = frozenset()
        self._pools = Pools(self._why_absent)
        self._lists: Observed[Mapping[str, DeviceList] | None] = Observed(None)
        """The device lists to publish, by resource; None until they are known."""
        # Sent when CDI specs may be outdated, and when an administrator may have released a claim.
        self._specs_outdated, self._released = Signal(), Signal()
        self._parts: _Parts | None = None
        """None if another instance is active, or the driver does not work."""

    # Back ends

    async def choose_back_ends(
        self, wanted: Mapping[str, Resource], by_plugin: Collection[str]
    ) -> Mapping[str, Resource]:
        """Return the resources, each with the back end that can serve it now.

        ``by_plugin`` are the names that the device plugin serves or has not stopped serving.
        """
        by_dra = (resource for resource in wanted.values() if resource.served_by is ServedBy.DRA)
        self._dra_wanted = frozenset[str]().union(*map(_possible_names, by_dra))
        by_plugin = {*by_plugin, *self._by_peers}  # before the kubelet is asked
        trouble, may_have_records = "", False
        try:
            await self._learn()
        except OSError as error:
            trouble = f"{self._settings.directory} cannot be read: {reason_of(error).lower()}"
            may_have_records = not isinstance(error, HangingError | NotADirectoryError)
        if may_have_records and self._dra_now is None:
            # Claims may hold devices that the device plugin would give away. But if reading hangs,
            # it may hang forever, and if there can be no directory, there can be no records: then
            # the device plugin serves its resources of the config.
            served_by = {name: last.served_by for name in wanted if (last := self._active_as(name))}
            waiting = {
                name: _Verdict(trouble, served_by.get(name))
                for name, resource in wanted.items()
                if served_by.get(name) is not resource.served_by
            }
            self._apply(wanted, waiting)
            return self._active
        moving = {name: resource for name, resource in wanted.items() if self._moves(resource)}
        pods: Collection[str] | _Verdict = _Verdict(trouble, None)
        if not trouble and any(resource.served_by is ServedBy.DRA for resource in moving.values()):
            pods = await self._held_by_pods()
        verdicts = {
            name: self._check_dra(resource, pods, by_plugin)
            if resource.served_by is ServedBy.DRA
            else self._check_plugin(resource, trouble)
            for name, resource in moving.items()
        }
        waiting = {name: verdict for name, verdict in verdicts.items() if verdict.why_not}
        settled = [resource for name, resource in wanted.items() if name not in waiting]
        if trouble := trouble or await self._save_served(settled):
            waiting = dict.fromkeys(moving, _Verdict(trouble, None)) | waiting
        self._apply(wanted, waiting)
        return self._active

    async def _learn(self) -> None:
        """Read which devices claims hold on this node, and which resources DRA serves; raise
        OSError.
        """
        settings = self._settings
        if self._parts is not None:  # it may end meanwhile
            holders = self._parts.preparer.holders
            self.held = await holders.holds()
            self._unreadable = holders.unreadable
        else:
            directory = settings.claims_directory
            records: list[Record] = []
            with suppress(FileNotFoundError):
                records = await in_worker(partial(read_records, directory), directory)
            _, others = await read_others(directory)
            claims, unreadable = self._records.by_uid(records)
            foreign = [record.claim for record in others if record.claim is not None]
            known = (*claims.values(), *foreign)
            self.held = [device for claim in known for device in claim.held()]
            damaged = (record for record in others if record.claim is None)
            self._unreadable = [*unreadable.values(), *damaged]
        if self._dra_now is None:
            # The file may be missing or damaged: DRA certainly serves the resources of claims.
            work = partial(_read_served, settings)
            served = await in_worker(work, settings.served_file)
            self._dra_now = served.union(held.name.resource for held in self.held)

    @property
    def _by_peers(self) -> list[str]:
        """The resources for DRA that the device plugin of another instance still serves."""
        digests = {peer.digest for peer in self._kubelet.peers.value}
        return [name for name in self._dra_wanted if digest_of(name) in digests]

    @property
    def awaits_peers(self) -> bool:
        """Return whether resources may wait because another instance on this node still runs."""
        return bool(self._by_peers) or self.is_standby

    async def _look_while_waiting(self) -> Never:
        """Reconcile periodically while a resource waits: the end of a pod causes no event."""
        peers = self._kubelet.peers
        while True:
            await until(peers.watch(), peers, timeout_seconds=self._timing.period)
            if self._waiting or self._is_awaited:
                self._look_again()

    def _dra_names(self, resource: Resource) -> list[str]:
        """Return which of the names that DRA serves now are those of a resource of the config.

        Names that its globs match, but that DRA is to serve for another resource, are excluded.
        """
        stays = self._dra_wanted if resource.served_by is ServedBy.DEVICE_PLUGIN else frozenset()
        return [
            name for name in self._dra_now or () if _can_have(resource, name) and name not in stays
        ]

    def _moves(self, resource: Resource) -> bool:
        """Return whether the active back end is not that of the config."""
        if resource.served_by is ServedBy.DRA:
            return not _possible_names(resource) <= (self._dra_now or frozenset())
        return bool(self._dra_names(resource))

    def _check_plugin(self, resource: Resource, trouble: str) -> _Verdict:
        """Return whether a resource can move to the device plugin."""
        names = self._dra_names(resource)
        holders = (
            f"{who} has a device of it through DRA"
            for held in self.held
            if held.name.resource in names
            for holder in held.holders.values()
            for who in holder
        )
        unknown = (
            str(record) for record in self._unreadable for name in names if record.may_hold(name)
        )
        if why := trouble or next(chain(holders, unknown), ""):
            return _Verdict(why, ServedBy.DRA)
        why, is_transient = self._why_still_offered(names)
        return _Verdict(why, None, is_transient)

    def _check_dra(
        self, resource: Resource, pods: Collection[str] | _Verdict, by_plugin: Collection[str]
    ) -> _Verdict:
        """Return whether a resource can move to DRA.

        ``pods`` are the resources of which pods hold devices, or the reason why they are unknown.
        """
        last = self._active_as(resource.name)
        meanwhile = None if last is None else last.served_by
        if isinstance(pods, _Verdict):
            return pods._replace(meanwhile=meanwhile)
        if any(_can_have(resource, name) for name in pods):
            if last is None and not self._dra_names(resource):
                meanwhile = ServedBy.DEVICE_PLUGIN
            return _Verdict("pods hold devices of it through the device plugin", meanwhile)
        # The kubelet was asked after the plugin had stopped, so no pod can have received a device
        # since.
        has_ended = not any(_can_have(resource, name) for name in by_plugin)
        why = "" if has_ended else "its device plugin ends first"
        return _Verdict(why, None, is_transient=True)

    def _active_as(self, name: str) -> Resource | None:
        """Return a resource of the config as it is served now; None if it is not served."""
        return None if name in self.unserved else self._active.get(name)

    async def _save_served(self, settled: Collection[Resource]) -> str:
        """Save which resources DRA serves; return why that failed, or an empty string."""
        settings, before = self._settings, self._dra_now or frozenset()
        by_dra = before.difference(*map(self._dra_names, settled))
        for resource in settled:
            if resource.served_by is ServedBy.DRA:
                by_dra |= _possible_names(resource)
        try:
            # The file may have been removed or damaged.
            if by_dra != before or not by_dra <= await in_worker(
                partial(_read_served, settings), settings.served_file
            ):
                await in_worker(partial(_write_served, settings, by_dra), settings.served_file)
        except OSError as error:
            return f"{settings.served_file} cannot be written: {reason_of(error).lower()}"
        self._dra_now = by_dra
        return ""

    def _apply(self, wanted: Mapping[str, Resource], waiting: Mapping[str, _Verdict]) -> None:
        """Set the active back ends: resources that wait stay as they were, or unserved.

        Log changes.
        """
        for name in self._waiting.keys() - waiting.keys():
            if (latch := self._logged.pop(name, None)) and name in wanted:
                now, last = wanted[name].served_by, self._active_as(name)
                has_changed = last is None or last.served_by is not now
                latch.update("", ended=f"servedBy: {now} is active now" if has_changed else "")
        active = dict(wanted)
        for name, (why, meanwhile, is_transient) in waiting.items():
            resource, last = wanted[name], self._active_as(name)
            latch = self._logged.setdefault(name, Latch(log, resource=name))
            level = logging.INFO if is_transient else logging.WARNING
            latch.update(why, "not served by %s yet: %s", resource.served_by, why, level=level)
            # Resources that neither serves need some value; the reconciler omits ``unserved``.
            active[name] = replace(resource, served_by=meanwhile or ServedBy.DEVICE_PLUGIN)
            if last is not None and last.served_by is meanwhile:
                active[name] = last
        self._active, self._waiting = active, waiting

    def as_served(self, resource: Resource) -> Resource:
        """Return a resource of the config as it is served now."""
        name = resource.name
        return self._active.get(name, resource) if name in self._waiting else resource

    @property
    def waiting(self) -> Mapping[str, str]:
        """Return why resources are not served as the config says, by name in the config."""
        return {name: verdict.why_not for name, verdict in self._waiting.items()}

    @property
    def unserved(self) -> Collection[str]:
        """Return those of them that are not served: a pod or claim may hold their devices."""
        return [name for name, verdict in self._waiting.items() if verdict.meanwhile is None]

    async def _held_by_pods(self) -> Collection[str] | _Verdict:
        """Ask the kubelet of which resources pods hold devices through the device plugin."""
        if self._kubelet.socket.value is None:
            return _Verdict(f"{_UNKNOWN}: there is no kubelet yet", None, is_transient=True)
        # A kubelet that has just started may not know its pods yet, and would list none.
        if self._kubelet.kubelet_age < self._timing.pods_known:
            age = f"less than {self._timing.pods_known:g} s ago"
            return _Verdict(f"{_UNKNOWN}: the kubelet has started {age}", None)
        try:
            answer = await list_pods(self._settings.pod_resources, timeout_seconds=_ASK_SECONDS)
            return (await in_worker(partial(pod_holders, answer))).holders.keys()
        except KubeletError as error:
            return _Verdict(f"{_UNKNOWN}: {error}", None)

    def changed(self) -> None:
        """Reconcile if a resource waits: the plugin, claim or slice that it waits for may have
        ended.
        """
        if self._waiting or self._is_awaited or self.trouble.value:
            self._look_again()

    def serve(self, gates: Mapping[str, Gate], *, is_awaited: bool) -> None:
        """Serve the resources of these gates, by name, and no others from now on.

        ``is_awaited`` shows whether other devices are offered once claims end.
        """

        def is_healthy(held: HeldDevice) -> bool:
            listed = gates[held.name.resource].devices.devices.get(held.name.device_id)
            return listed is not None and listed.is_healthy

        # A claim's hardware may also be offered as a different device once the claim ends.
        self._is_awaited = is_awaited or not all(
            held.name.resource in gates and is_healthy(held) for held in self.held
        )
        self._pools.by_name = {
            pool_name(self._node_name, name): ServedPool(gate=gate, shares=shares_of(gate.devices))
            for name, gate in gates.items()
        }
        self._lists.value = {name: gate.devices for name, gate in gates.items()}
        self._specs_outdated.send()  # devices that the config no longer has may have changed, too

    def names_of(self, resource: str) -> dict[str, str] | None:
        """Return driver and pool of a resource in ResourceSlices; None if it does not serve it."""
        pool = pool_name(self._node_name, resource)
        return (
            {"driver": self._settings.driver, "pool": pool} if pool in self._pools.by_name else None
        )

    @property
    def latest_holds(self) -> Collection[HeldDevice]:
        """The holds of claims, with those that were prepared since the last reconcile."""
        return self.held if self._parts is None else self._parts.preparer.holders.known_holds()

    @property
    def gates(self) -> Mapping[str, Gate]:
        """Those of the resources that it serves, by name."""
        return {gate.resource: gate for gate in self._pools.gates}

    def _why_absent(self, pool: str) -> str:
        """Return why a resource of the config is not offered, or an empty string if unknown."""
        waiting = {pool_name(self._node_name, name): why for name, why in self.waiting.items()}
        return waiting.get(pool, "")

    # The driver

    def why_not_served(self, resource: str) -> str:
        """Return why claims cannot get devices of a resource now; empty if they can."""
        if self.trouble.value or self._parts is None:
            return self.trouble.value
        preparer, plugin, publisher = self._parts
        if not plugin.registration.active.value:
            return plugin.registration.reason
        for record in preparer.holders.unreadable:
            if record.may_hold(resource):
                return str(record)
        soon = "its ResourceSlices are about to be written"
        return publisher.state.value.get(resource, soon) or publisher.slices.failure.value

    def _why_still_offered(self, resources: Collection[str]) -> tuple[str, bool]:
        """Return why claims may still get devices of resources; empty if they cannot.

        Also return whether that ends by itself.
        """
        slices = None if self._parts is None else self._parts.publisher.slices
        why = self.trouble.value or (slices.failure.value if slices else "")
        if slices is None or slices.by_name.value is None or self._parts is None or why:
            why = why or "the API server has not said yet which there are"
            return f"it cannot be known whether its ResourceSlices are deleted: {why}", False
        if any(name in self.gates for name in resources):
            return _DELETED_FIRST, True
        pools = {pool_name(self._node_name, resource) for resource in resources}
        state = self._parts.publisher.state.value
        reasons = [why for name, why in state.items() if name in pools or name in resources]
        if reasons or any(
            item["spec"]["pool"]["name"] in pools for item in slices.by_name.value.values()
        ):
            problem = [*filter(None, reasons)][:1]
            return ": ".join([_DELETED_FIRST, *problem]), not problem
        return "", True

    async def run(self) -> None:
        """Serve, and check whether waiting resources can move, forever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_while_waiting(), name="changes of servedBy")
            tasks.create_task(self._serve_again(), name="DRA driver")

    async def _serve_again(self) -> Never:
        while True:
            try:
                async with ungrouped():
                    await self._serve()
            except Exception as error:  # noqa: BLE001
                # A bug here must not end the device plugins.
                trouble = explained(error, self._settings.directory)
            message = "the DRA driver %s does not work: %s"
            self._failing.update(trouble, message, self._settings.driver, trouble)
            self.trouble.value = trouble
            self.changed()
            await asyncio.sleep(self._settings.retry)

    async def _serve(self) -> Never:
        settings = self._settings
        kubeconfig = settings.kubeconfig
        read_access = in_cluster if kubeconfig is None else partial(of_kubeconfig, kubeconfig)
        async with (
            self._locked_directory() as locked,
            ApiClient(read_access, count=self._count_request) as client,
        ):
            slices = StoredSlices(client, driver=settings.driver, node_name=self._node_name)
            preparer = await self._load_claims(client, slices)
            plugin = DraPlugin(
                settings.driver,
                kubelet_root=settings.kubelet_root,
                handler=preparer,
                devices=self._lists,
            )
            registered = plugin.registration.active
            publisher = Publisher(slices, wanted=self._lists, registered=registered)
            self._parts = _Parts(preparer, plugin, publisher)
            self._failing.update("")
            self.trouble.value = ""
            # The kubelet must not request devices before they are known.
            await until(lambda: self._lists.value is not None, self._lists)
            try:
                with publisher.state.calling(self.changed), slices.by_name.calling(self.changed):
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(plugin.run(), name="DRA registration")
                        tasks.create_task(publisher.run(), name="ResourceSlices")
                        tasks.create_task(self._watch_files(preparer, locked), name="DRA files")
                        tasks.create_task(self._honor_markers(preparer), name="released claims")
                        tasks.create_task(preparer.watch(), name="claims in the API")
                        await self._update_specs(preparer)
            finally:
                if not os.fstat(locked).st_nlink:  # the records disappeared with the directory
                    records = self._records
                    await records.write_again(records.claims.values())
                    self.held = preparer.holders.known_holds()  # while no record can be read

    async def _load_claims(self, client: ApiClient, slices: StoredSlices) -> ClaimPreparer:
        """Return the preparer of the recorded claims; raise OSError."""
        boot_id = (await in_worker(_BOOT_ID.read_text)).strip()
        await in_worker(self._records.load, self._settings.claims_directory)
        preparer = ClaimPreparer(
            self._settings,
            records=self._records,
            cdi_directory=self._cdi_directory,
            boot_id=boot_id,
            root=self._root,
            pools=self._pools,
            get_claim=lambda namespace, name: client.find(claim_path(namespace, name)),
            run_hooks=self._run_hooks,
            policy=self._policy,
            extended_resource=lambda: slices.node and slices.node.extended_resources,
            changed=self._look_again,
        )
        await in_worker(preparer.remove_leftovers, self._cdi_directory)
        return preparer

    async def _update_specs(self, preparer: ClaimPreparer) -> Never:
        """Keep the CDI specs of claims up to date."""
        outdated = self._specs_outdated
        while True:
            is_outdated, began = outdated.watch(), time.monotonic()
            is_complete = await preparer.update_specs()
            # Otherwise a hundred claims would occupy a core when there are many events.
            await asyncio.sleep(_REST * (time.monotonic() - began))
            seconds = None if is_complete else self._settings.retry
            await until(is_outdated, outdated, timeout_seconds=seconds)

    async def _honor_markers(self, preparer: ClaimPreparer) -> Never:
        """Release the claims that an administrator has released."""
        while True:
            has_news = self._released.watch()
            with suppress(OSError):  # the directory will be created again
                await preparer.honor_markers()
            await until(has_news, self._released, timeout_seconds=self._settings.retry)

    async def _watch_files(self, preparer: ClaimPreparer, locked: int) -> Never:
        """Watch for removed CDI specs of claims, and for new markers.

        Raise KubeletError once another process has removed the directory of the driver, whose lock
        file is ``locked``.
        """
        records = str(self._settings.claims_directory)
        specs = (str(self._cdi_directory), str(preparer.specs.metadata))

        def note(directory: str, name: str | None) -> None:
            uid = name and preparer.specs.uid_of(name)
            is_missed = uid in preparer.records.claims and uid not in preparer.specs.ending
            if directory in specs and (uid is None or is_missed):
                self._specs_outdated.send()
            if directory == records and (name is None or name.endswith(RELEASE_SUFFIX)):
                self._released.send()

        watch = DirectoryWatch(note, what="records and CDI specs of claims")
        try:
            while os.fstat(locked).st_nlink:
                watched = {records: _ADDITIONS, **dict.fromkeys(specs, _REMOVALS)}
                for directory in await watch.set_directories(watched):
                    note(directory, None)
                if not watch.complete:
                    self._specs_outdated.send()
                await asyncio.sleep(self._settings.retry)
        finally:
            watch.close()
        raise KubeletError(
            f"another process has removed {self._settings.directory}, which is made again"
        )

    @asynccontextmanager
    async def _locked_directory(self) -> AsyncIterator[int]:
        """Wait until no other instance on this node serves this driver; raise OSError.

        Yield a descriptor of the locked file. On exit, forget what ``_serve`` has started.
        """
        directory = self._settings.directory
        path = directory / "lock"

        def opened() -> BinaryIO:
            directory.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            return os.fdopen(os.open(path, flags, 0o600), "rb+", buffering=0)

        def is_removed() -> bool:
            """Return whether another process has removed the file before it was locked."""
            try:
                return not os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                return True

        while True:
            with await in_worker(opened, directory) as file:
                while not lock(file.fileno(), exclusive=True):
                    if not self.is_standby:
                        log.info("another instance serves the DRA driver: waiting for its end")
                    self.is_standby = True
                    self.trouble.value = "another instance of genericdp on this node serves it"
                    await asyncio.sleep(self._settings.standby)
                if await in_worker(is_removed, path):
                    continue
                self.is_standby = False
                try:
                    yield file.fileno()
                finally:
                    self._parts = None
                return

    @property
    def why_lacking(self) -> str:
        """Return what of the DRA features in use the API server lacks; empty if nothing."""
        return "" if self._parts is None else self._parts.publisher.slices.fields.why

    @property
    def claim_counts(self) -> dict[str, int]:
        """The number of prepared claims of this instance, by their state in the API server."""
        if self._parts is None:
            return {"prepared": 0, "gone": 0}
        preparer = self._parts.preparer
        gone = len(preparer.holders.gone)
        return {"prepared": len(preparer.records.claims) - gone, "gone": gone}


def _possible_names(resource: Resource) -> set[str]:
    """Return the names that a resource of the config with ``servedBy: dra`` can have."""
    return set(resource.names or (resource.name,))


def _can_have(resource: Resource, name: str) -> bool:
    """Return whether a resource of the config can have a name, even through globs."""
    if not resource.names:
        return name == resource.name
    return any(glob.matches(pattern, name) for pattern in resource.names)


def _read_served(settings: DraSettings) -> frozenset[str]:
    """Return the names in the file, none if it is damaged (it is renamed then); raise OSError."""
    try:
        return read_served(settings.served_file)
    except FileNotFoundError:
        pass
    except (*DAMAGE, IsADirectoryError):
        put_aside(settings.served_file)
    return frozenset()


def _write_served(settings: DraSettings, by_dra: Collection[str]) -> None:
    """Write the names to the file; raise OSError."""
    settings.directory.mkdir(mode=0o700, exist_ok=True)
    record = {"version": _VERSION, "resources": sorted(by_dra)}
    content = f"{json.dumps(record, indent=2)}\n".encode()
    os.close(write(settings.served_file, content, mode=0o600))
