"""The back end of each resource, device plugin or DRA, and changes of ``servedBy``."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from genericdp import glob
from genericdp.cdi.folder import read_regular, write
from genericdp.dra.claims import put_aside
from genericdp.dra.slices import DELETED_FIRST
from genericdp.errors import DAMAGE, KubeletError, reason_of
from genericdp.host.workers import HangingError, in_worker
from genericdp.kubelet.folder import digest_of
from genericdp.kubelet.podresources import (
    PodResourcesTiming,
    held_ids,
    list_pods,
)
from genericdp.model import ServedBy
from genericdp.observed import until

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path
    from typing import Never

    from genericdp.devices.held import HeldDevice
    from genericdp.dra.claims import UnreadableRecord
    from genericdp.dra.driver import DraDriver
    from genericdp.dra.settings import DraSettings
    from genericdp.host.root import Root
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource
    from genericdp.policy import Policy
    from genericdp.prepare import Gate, RunHooks
    from genericdp.tally import Tally

log = logging.getLogger(__name__)

_MAX_BYTES = 1024 * 1024
"""Size of the list of what DRA serves."""
_VERSION = 1  # of the format of served.json
_ASK_SECONDS = 1.0
"""How long the kubelet may take to answer: the reconcile waits for it."""
_UNKNOWN = "it cannot be known whether pods hold such devices already"
_NO_KUBELET = "there is no kubelet yet"
_PLUGIN_ENDS_FIRST = "its device plugin ends first"
_TRANSIENT = (f"{_UNKNOWN}: {_NO_KUBELET}", _PLUGIN_ENDS_FIRST, DELETED_FIRST)
"""Reasons that end without anybody doing anything: logged as info."""


class _Verdict(NamedTuple):
    """Whether a resource can move to the back end that the config wants."""

    why_not: str
    """Empty: it can."""
    meanwhile: ServedBy | None
    """What serves it until then; None: neither does."""


class Dra:
    """Serves resources through DRA, once the config has one, and none without ``settings``.

    Never do both back ends serve a resource, and it does not move to the other one while somebody
    holds a device of it: two containers could get it. While it moves neither serves it, until the
    plugin or the ResourceSlices of the former are gone.
    """

    _has_records: bool | None = None
    """Whether there was a directory of claims at the start; None: it is not known yet."""

    def __init__(
        self,
        settings: DraSettings | None,
        *,
        node_name: str,
        kubelet: KubeletFolder,
        cdi_folder: Path,
        root: Root,
        timing: PodResourcesTiming | None,
        look_again: Callable[[], None],
        run_hooks: RunHooks,
        tally: Tally,
    ) -> None:
        self.driver: DraDriver | None = None
        """None: no resource was to be served by DRA yet."""
        self.gates: Mapping[str, Gate] = {}
        """Those of the resources that DRA serves, by name."""
        self.in_force: Mapping[str, Resource] = {}
        """The resources of the config as they are served now, by name in the config."""
        self.waiting: Mapping[str, str] = {}
        """Why a resource is not served as the config says, by name in the config."""
        self.withheld: frozenset[str] = frozenset()
        """Those of them that are not served at all: somebody may have their devices."""
        self.policy: Policy | None = None
        """What bounds release hooks of records."""
        self._held: Collection[HeldDevice] = ()
        """What claims hold, as last known."""
        self._unreadable: Collection[UnreadableRecord] = ()
        self._is_awaited = False
        self._root = root
        self._settings = settings
        self._node_name = node_name
        self._kubelet = kubelet
        self._cdi_folder = cdi_folder
        self._timing = timing or PodResourcesTiming()
        self._look_again, self._run_hooks = look_again, run_hooks
        self._tally = tally
        self._dra_now: frozenset[str] | None = None
        """The names of resources that DRA serves now, as in served.json; None: not read yet."""
        self._dra_wanted: frozenset[str] = frozenset()
        """The names of resources that DRA is to serve according to the config."""

    async def choose_back_ends(
        self,
        tasks: asyncio.TaskGroup,
        wanted: Mapping[str, Resource],
        by_plugin: Collection[str],
    ) -> Mapping[str, Resource]:
        """Return the resources, each with the back end that can serve it now.

        ``by_plugin`` are the names that the device plugin serves or has not stopped serving.
        """
        settings = self._settings
        if settings is None or not (self.driver or await self._is_used(settings, wanted)):
            self.in_force = wanted
            return wanted
        driver = self.driver or self._start(settings, tasks, wanted)
        by_dra = (one for one in wanted.values() if one.served_by is ServedBy.DRA)
        self._dra_wanted = frozenset[str]().union(*map(_possible_names, by_dra))
        by_plugin = {*by_plugin, *self._by_peers}  # before the kubelet is asked
        error = await self._learn(driver, settings)
        trouble = (
            "" if error is None else f"{settings.folder} cannot be read: {reason_of(error).lower()}"
        )
        may_have_records = not isinstance(error, HangingError | NotADirectoryError)
        if error is not None and self._dra_now is None and may_have_records:
            # Claims may have what the device plugin would give away. Where reading hangs, it may
            # do so forever, and where there can be no directory there are no records: the device
            # plugin serves what the config says.
            new = [name for name in wanted if self._in_force_as(name) is None]
            self._apply(wanted, dict.fromkeys(new, _Verdict(trouble, None)))
            return self.in_force
        moving = {name: one for name, one in wanted.items() if self._moves(one)}
        unknown, held = trouble, dict[str, frozenset[str]]()
        if not trouble and any(one.served_by is ServedBy.DRA for one in moving.values()):
            try:
                held = await in_worker(partial(held_ids, await self._pods(settings)))
            except KubeletError as error:
                unknown = f"{_UNKNOWN}: {error}"
        verdicts = {
            name: self._check_dra(one, held, unknown, by_plugin)
            if one.served_by is ServedBy.DRA
            else self._check_plugin(one, trouble, driver)
            for name, one in moving.items()
        }
        waiting = {name: verdict for name, verdict in verdicts.items() if verdict.why_not}
        settled = [one for name, one in wanted.items() if name not in waiting]
        if trouble := trouble or await self._save_served(settings, settled):
            waiting = dict.fromkeys(moving, _Verdict(trouble, None)) | waiting
        self._apply(wanted, waiting)
        return self.in_force

    async def _learn(self, driver: DraDriver, settings: DraSettings) -> OSError | None:
        """Find out what claims hold, and what DRA serves; return why that fails."""
        try:
            self._held, self._unreadable = await driver.held()
            if self._dra_now is None:
                # The file may be missing or damaged: DRA surely serves what claims have.
                having = [one.resource for one in self._held]
                self._dra_now = (await _served(settings)).union(having)
        except OSError as error:
            return error
        return None

    async def _is_used(self, settings: DraSettings, wanted: Mapping[str, Resource]) -> bool:
        if any(one.served_by is ServedBy.DRA for one in wanted.values()):
            return True
        if self._has_records is None:  # once: on most nodes it costs no reconcile anything
            folder = settings.claims_folder
            try:  # Path.exists may raise
                self._has_records = await in_worker(partial(os.path.exists, folder), str(folder))
            except HangingError:
                return True
        return self._has_records

    def _start(
        self, settings: DraSettings, tasks: asyncio.TaskGroup, wanted: Mapping[str, Resource]
    ) -> DraDriver:
        # Here, since most nodes need neither DRA nor the client of the API server.
        from genericdp.dra.driver import DraDriver

        if not any(one.served_by is ServedBy.DRA for one in wanted.values()):
            log.info(
                "the DRA driver %s starts, as claims may be prepared: there is %s",
                settings.driver,
                settings.claims_folder,
            )
        self.driver = DraDriver(
            settings,
            node_name=self._node_name,
            cdi_folder=self._cdi_folder,
            root=self._root,
            count_request=self._tally.requested,
            run_hooks=self._run_hooks,
            policy=lambda: self.policy,
            changed=self.changed,
            held_changed=self._look_again,
        )
        tasks.create_task(self._look_while_waiting(), name="changes of servedBy")
        tasks.create_task(self.driver.run(), name="DRA driver")
        return self.driver

    @property
    def _by_peers(self) -> list[str]:
        """The resources for DRA that the device plugin of another instance still serves."""
        digests = {peer.digest for peer in self._kubelet.peers.value}
        return [name for name in self._dra_wanted if digest_of(name) in digests]

    @property
    def is_standby(self) -> bool:
        """Whether resources may be waiting because another instance on this node still runs."""
        return bool(self._by_peers) or (self.driver is not None and self.driver.is_standby)

    async def _look_while_waiting(self) -> Never:
        """Reconcile periodically while something waits: there is no event for the end of a pod."""
        peers = self._kubelet.peers
        while True:
            await until(
                lambda before=peers.value: peers.value != before,  # type: ignore[misc]
                peers,
                timeout_seconds=self._timing.period,
            )
            if self.waiting or self._is_displaced:
                self._look_again()

    def _dra_names(self, resource: Resource) -> list[str]:
        """Return which of the names that DRA serves now are those of a resource of the config.

        Its globs may match a name that DRA is to serve for another resource: not that one.
        """
        stays = self._dra_wanted if resource.served_by is ServedBy.DEVICE_PLUGIN else frozenset()
        return [
            name for name in self._dra_now or () if _can_have(resource, name) and name not in stays
        ]

    def _moves(self, resource: Resource) -> bool:
        """Return whether the back end in force is not the one that the config wants."""
        if resource.served_by is ServedBy.DRA:
            return not _possible_names(resource) <= (self._dra_now or frozenset())
        return bool(self._dra_names(resource))

    def _check_plugin(self, resource: Resource, trouble: str, driver: DraDriver) -> _Verdict:
        """Return whether a resource can move to the device plugin."""
        names = self._dra_names(resource)
        holders = (
            f"{who} has a device of it through DRA"
            for held in self._held
            if held.resource in names
            for its in held.holders.values()
            for who in its
        )
        if why := trouble or next(chain(holders, map(str, self._unreadable)), ""):
            return _Verdict(why, ServedBy.DRA)
        return _Verdict(driver.why_still_offered(names), None)

    def _check_dra(
        self,
        resource: Resource,
        held: Mapping[str, Collection[str]],
        unknown: str,
        by_plugin: Collection[str],
    ) -> _Verdict:
        """Return whether a resource can move to DRA."""
        if unknown or any(ids and _can_have(resource, name) for name, ids in held.items()):
            why = unknown or "pods hold devices of it through the device plugin"
            if (last := self._in_force_as(resource.name)) is not None:
                return _Verdict(why, last.served_by)
            is_free = not unknown and not self._dra_names(resource)
            return _Verdict(why, ServedBy.DEVICE_PLUGIN if is_free else None)
        # The kubelet was asked after the plugin had stopped: no pod can have got a device since.
        has_ended = not any(_can_have(resource, name) for name in by_plugin)
        return _Verdict("" if has_ended else _PLUGIN_ENDS_FIRST, None)

    def _in_force_as(self, name: str) -> Resource | None:
        """Return a resource of the config as it is served now; None: it is not served."""
        return None if name in self.withheld else self.in_force.get(name)

    async def _save_served(self, settings: DraSettings, settled: Collection[Resource]) -> str:
        """Save which resources DRA serves; return why that fails; empty: it is saved."""
        before = self._dra_now or frozenset()
        by_dra = before.difference(*map(self._dra_names, settled))
        for one in settled:
            if one.served_by is ServedBy.DRA:
                by_dra |= _possible_names(one)
        try:
            # Somebody may have removed or damaged the file.
            if by_dra != before or not by_dra <= await in_worker(
                partial(_read_served, settings), str(settings.served_file)
            ):
                await in_worker(partial(_write_served, settings, by_dra), str(settings.served_file))
        except OSError as error:
            return f"{settings.served_file} cannot be written: {reason_of(error).lower()}"
        self._dra_now = by_dra
        return ""

    def _apply(self, wanted: Mapping[str, Resource], waiting: Mapping[str, _Verdict]) -> None:
        """Set what is in force: what waits stays as it was, or is withheld. Log what is new."""
        for name in self.waiting.keys() - waiting.keys() & wanted.keys():
            now, last = wanted[name].served_by, self._in_force_as(name)
            if last is None or last.served_by is not now:
                log.info("servedBy: %s is in force now", now, extra={"resource": name})
        in_force = dict(wanted)
        for name, (why, meanwhile) in waiting.items():
            one, last = wanted[name], self._in_force_as(name)
            if self.waiting.get(name) != why:
                level = logging.INFO if why in _TRANSIENT else logging.WARNING
                about = {"resource": name}
                log.log(level, "not served by %s yet: %s", one.served_by, why, extra=about)
            # Those that neither serves need some value: the reconciler leaves ``withheld`` out.
            in_force[name] = replace(one, served_by=meanwhile or ServedBy.DEVICE_PLUGIN)
            if last is not None and last.served_by is meanwhile:
                in_force[name] = last
        self.in_force = in_force
        self.waiting = {name: verdict.why_not for name, verdict in waiting.items()}
        self.withheld = frozenset(n for n, verdict in waiting.items() if verdict.meanwhile is None)

    async def _pods(self, settings: DraSettings) -> bytes:
        """Return the kubelet's answer about all pods; raise KubeletError if it may lack some."""
        if self._kubelet.socket.value is None:
            raise KubeletError(_NO_KUBELET)
        # A kubelet that has just started may not know its pods yet, and would list none.
        if self._kubelet.kubelet_age < self._timing.pods_known:
            age = f"less than {self._timing.pods_known:g} s ago"
            raise KubeletError(f"the kubelet has started {age}")
        return await list_pods(settings.pod_resources, timeout_seconds=_ASK_SECONDS)

    def held(self) -> Collection[HeldDevice]:
        """Return what claims hold, as last known."""
        return self._held

    @property
    def _is_displaced(self) -> bool:
        """Whether a claim has a device that may be offered as another one once it ends."""
        for held in self._held:
            gate = self.gates.get(held.resource)
            listed = gate.devices.devices.get(held.device_id) if gate else None
            if listed is None or not listed.is_healthy:
                return True
        return False

    def changed(self) -> None:
        """Reconcile if a resource waits: what it waits for may be gone (plugin, claim, slice)."""
        if (
            self.waiting
            or self._is_awaited
            or self._is_displaced
            or (self.driver and self.driver.trouble.value)
        ):
            self._look_again()

    def serve(self, gates: Mapping[str, Gate], *, is_awaited: bool) -> None:
        """Serve the resources of these gates, by name, and no others from now on.

        ``is_awaited``: whether other devices are offered once claims end.
        """
        self.gates, self._is_awaited = gates, is_awaited
        if self.driver is not None:
            self.driver.serve(gates, self.waiting)


def _possible_names(resource: Resource) -> set[str]:
    """Return the names that a resource of the config with ``servedBy: dra`` can have."""
    return set(resource.names or (resource.name,))


def _can_have(resource: Resource, name: str) -> bool:
    """Return whether a resource of the config, also one with globs, can have a name."""
    if not resource.names:
        return name == resource.name
    return any(glob.matches(pattern, name) for pattern in resource.names)


async def _served(settings: DraSettings) -> frozenset[str]:
    return await in_worker(partial(_read_served, settings), str(settings.served_file))


def _read_served(settings: DraSettings) -> frozenset[str]:
    """Return the names in the file, none if it is damaged (it is renamed then); raise OSError."""
    try:
        record = json.loads(read_regular(settings.served_file, _MAX_BYTES))
        return frozenset(name for name in record["resources"] if isinstance(name, str))
    except FileNotFoundError:
        pass
    except (*DAMAGE, IsADirectoryError):
        put_aside(settings.served_file)
    return frozenset()


def _write_served(settings: DraSettings, by_dra: Collection[str]) -> None:
    """Write the names to the file; raise OSError."""
    settings.folder.mkdir(mode=0o700, exist_ok=True)
    record = {"version": _VERSION, "resources": sorted(by_dra)}
    content = f"{json.dumps(record, indent=2)}\n".encode()
    os.close(write(settings.served_file, content, mode=0o600))
