"""Changes of ``servedBy``: they wait until no pod holds devices through the other back end."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.cdi.folder import write
from genericdp.dra.claims import DAMAGE, held_resources, put_aside
from genericdp.errors import KubeletError, reason_of
from genericdp.host.workers import in_worker
from genericdp.kubelet.podresources import PodResourcesTiming, held_devices, list_pods
from genericdp.model import ServedBy
from genericdp.observed import until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Never

    from genericdp.dra.settings import DraSettings
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource

log = logging.getLogger(__name__)

_VERSION = 1
_ASK_SECONDS = 1.0
"""How long the kubelet may take to answer: the reconcile waits for it."""
_NO_KUBELET = "there is no kubelet yet that knows whether pods hold its devices"
_ENDS_FIRST = "its device plugin ends first"
DELETED_FIRST = "its ResourceSlices are deleted first"
_TRANSIENT = (_NO_KUBELET, _ENDS_FIRST, DELETED_FIRST)
"""Reasons that pass by themselves."""


class BackEnds:
    """Decides whether the device plugin or DRA serves each resource.

    Never both, and no change while somebody holds a device: two containers could get it. During a
    change neither does, until the plugin or the ResourceSlices of the former are gone.
    """

    def __init__(
        self,
        settings: DraSettings,
        *,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        why_offered: Callable[[Collection[str]], str],
        last: Mapping[str, Resource],
        timing: PodResourcesTiming | None = None,
    ) -> None:
        """``last`` are the resources that the device plugin has served so far.

        ``why_offered`` returns why claims may still get devices of resources; empty: none may.
        """
        self.waiting: dict[str, str] = {}
        """Why a resource is not served as the config says, by name in the config."""
        self.withheld: frozenset[str] = frozenset()
        """Those of them that are not served at all: somebody may have their devices."""
        self._settings = settings
        self._kubelet = kubelet
        self._look_again = look_again
        self._why_offered = why_offered
        self._timing = timing or PodResourcesTiming()
        self._by_dra: frozenset[str] | None = None
        """The names of resources that DRA serves; None: not read yet."""
        self._to_dra: frozenset[str] = frozenset()
        """The names of resources that DRA is to serve by the config."""
        self._last = dict(last)
        """Each resource of the config as it was when it was served last."""
        self._meanwhile: dict[str, ServedBy | None] = {}
        """The back end that serves each resource that waits; None: neither."""

    async def choose(
        self, wanted: Mapping[str, Resource], by_plugin: Collection[str]
    ) -> dict[str, Resource]:
        """Return the resources as they can be served now, by name in the config.

        ``by_plugin`` are the names that the device plugin serves or has not stopped serving.
        """
        by_dra = (one for one in wanted.values() if one.served_by is ServedBy.DRA)
        self._to_dra = frozenset[str]().union(*map(_names_of, by_dra))
        trouble, claims = "", dict[str, str]()
        to_plugin: list[str] = []
        try:
            if self._by_dra is None:
                self._by_dra = await in_worker(self._load)
            to_plugin = [name for name, one in wanted.items() if self._moves_to_plugin(one)]
            if to_plugin:
                claims = await in_worker(partial(held_resources, self._settings.claims_folder))
        except OSError as error:
            trouble = f"{self._settings.folder} cannot be read: {reason_of(error).lower()}"
        to_dra = [name for name, one in wanted.items() if self._moves_to_dra(one)]
        unknown, held = await self._held_by_pods() if to_dra and not trouble else (trouble, {})
        verdicts = {name: self._check_plugin(wanted[name], claims, trouble) for name in to_plugin}
        for name in to_dra:
            verdicts[name] = self._check_dra(wanted[name], held, unknown, by_plugin)
        waiting = {name: verdict for name, verdict in verdicts.items() if verdict[0]}
        settled = {name: one for name, one in wanted.items() if name not in waiting}
        if trouble := trouble or await self._store(settled):
            waiting |= {name: (trouble, None) for name in verdicts if name not in waiting}
        return self._apply(wanted, waiting)

    def _names(self, resource: Resource) -> list[str]:
        """Return the names of a resource of the config that DRA serves.

        Its globs may match a name that DRA is to serve for another resource: not that one.
        """
        stays = self._to_dra if resource.served_by is ServedBy.DEVICE_PLUGIN else frozenset()
        return [
            name for name in self._by_dra or () if _can_have(resource, name) and name not in stays
        ]

    def _moves_to_plugin(self, resource: Resource) -> bool:
        return resource.served_by is ServedBy.DEVICE_PLUGIN and bool(self._names(resource))

    def _moves_to_dra(self, resource: Resource) -> bool:
        known = self._by_dra or frozenset()
        return resource.served_by is ServedBy.DRA and not _names_of(resource) <= known

    def _check_plugin(
        self, resource: Resource, claims: Mapping[str, str], trouble: str
    ) -> tuple[str, ServedBy | None]:
        """Return why the device plugin cannot serve a resource yet, and what does meanwhile."""
        names = self._names(resource)
        held = [claims[name] for name in names if name in claims]
        if trouble or held:
            return trouble or f"claim {held[0]} has a device of it through DRA", ServedBy.DRA
        return self._why_offered(names), None

    def _check_dra(
        self,
        resource: Resource,
        held: Mapping[str, Collection[str]],
        unknown: str,
        by_plugin: Collection[str],
    ) -> tuple[str, ServedBy | None]:
        """Return why DRA cannot serve a resource yet, and what does meanwhile."""
        if unknown or any(ids and _can_have(resource, name) for name, ids in held.items()):
            why = unknown or "pods hold devices of it through the device plugin"
            if (last := self._last.get(resource.name)) is not None:
                return why, last.served_by
            is_free = not unknown and not self._names(resource)
            return why, ServedBy.DEVICE_PLUGIN if is_free else None
        # The kubelet was asked after the plugin had stopped: no pod can have got a device since.
        has_ended = not any(_can_have(resource, name) for name in by_plugin)
        return "" if has_ended else _ENDS_FIRST, None

    async def _store(self, settled: Mapping[str, Resource]) -> str:
        """Record which resources DRA serves; return why that fails; empty: it does not."""
        before = self._by_dra or frozenset()
        by_dra = before.difference(*map(self._names, settled.values()))
        for one in settled.values():
            if one.served_by is ServedBy.DRA:
                by_dra |= _names_of(one)
        try:
            # Somebody may have removed or damaged the file.
            if by_dra != before or not by_dra <= await in_worker(self._recorded):
                await in_worker(partial(self._write, by_dra))
        except OSError as error:
            return f"{self._settings.served_file} cannot be written: {reason_of(error).lower()}"
        self._by_dra = frozenset(by_dra)
        return ""

    def _apply(
        self,
        wanted: Mapping[str, Resource],
        waiting: Mapping[str, tuple[str, ServedBy | None]],
    ) -> dict[str, Resource]:
        """Return the resources in force: those that wait are as they were, or served by neither."""
        for name in self.waiting.keys() - waiting.keys() & wanted.keys():
            if (now := wanted[name].served_by) is not self._meanwhile[name]:
                log.info("servedBy: %s is in force now", now, extra={"resource": name})
        found = dict(wanted)
        for name, (why, by) in waiting.items():
            one, last = wanted[name], self._last.get(name)
            if self.waiting.get(name) != why:
                level = logging.INFO if why in _TRANSIENT else logging.WARNING
                about = {"resource": name}
                log.log(level, "not served by %s yet: %s", one.served_by, why, extra=about)
            found[name] = replace(one, served_by=by or ServedBy.DEVICE_PLUGIN)
            if last is not None and last.served_by is by:
                found[name] = last
        self.waiting = {name: why for name, (why, _) in waiting.items()}
        self._meanwhile = {name: by for name, (_, by) in waiting.items()}
        self.withheld = frozenset(name for name, by in self._meanwhile.items() if by is None)
        self._last = {name: one for name, one in found.items() if name not in self.withheld}
        return found

    async def run(self) -> Never:
        """Reconcile while a resource waits, periodically and for a new kubelet; forever."""
        socket = self._kubelet.socket
        while True:
            await until(
                lambda before=socket.value: socket.value != before,  # type: ignore[misc]
                socket,
                timeout_seconds=self._timing.period,
            )
            if self.waiting:
                self._look_again()

    async def _held_by_pods(self) -> tuple[str, Mapping[str, frozenset[str]]]:
        """Return the IDs of the devices that pods hold, by resource, or why that is not known."""
        socket = self._kubelet.socket.value
        if socket is None:
            return _NO_KUBELET, {}
        # It may not know its pods yet, and would list none.
        if time.time() - socket[2] / 10**9 < self._timing.pods_known:  # noqa: TID251
            why = f"the kubelet has started less than {self._timing.pods_known:g} s ago"
        else:
            try:
                socket_file = self._settings.pod_resources
                pods = await list_pods(socket_file, timeout_seconds=_ASK_SECONDS)
                return "", held_devices(pods)
            except KubeletError as error:
                why = str(error)
        return f"it cannot be known whether pods hold such devices already: {why}", {}

    def _load(self) -> frozenset[str]:
        """Return the names of resources that DRA has served; raise OSError."""
        # The file may be missing or damaged: DRA surely serves what claims have.
        return self._recorded().union(held_resources(self._settings.claims_folder))

    def _recorded(self) -> frozenset[str]:
        """Return the names in the file; raise OSError."""
        try:
            record = json.loads(self._settings.served_file.read_bytes())
            return frozenset(name for name in record["resources"] if isinstance(name, str))
        except FileNotFoundError:
            pass
        except DAMAGE:
            put_aside(self._settings.served_file)
        return frozenset()

    def _write(self, by_dra: Collection[str]) -> None:
        self._settings.folder.mkdir(mode=0o700, exist_ok=True)
        record = {"version": _VERSION, "resources": sorted(by_dra)}
        content = f"{json.dumps(record, indent=2)}\n".encode()
        os.close(write(self._settings.served_file, content, mode=0o600))


def _names_of(resource: Resource) -> set[str]:
    """Return the names that a resource of the config with ``servedBy: dra`` can have."""
    return set(resource.names or (resource.name,))


def _can_have(resource: Resource, name: str) -> bool:
    """Return whether a resource of the config, also one with globs, can have a name."""
    if not resource.names:
        return name == resource.name
    return any(glob.matches(pattern, name) for pattern in resource.names)
