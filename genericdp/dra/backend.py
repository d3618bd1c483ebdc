"""Which resources are served by DRA: what the config says, once no pod holds them otherwise."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.cdi.folder import write
from genericdp.dra.claims import held_resources
from genericdp.errors import KubeletError, reason_of
from genericdp.host.workers import in_worker
from genericdp.kubelet.podresources import PodResourcesTiming, held_devices, list_pods
from genericdp.model import ServedBy
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Never

    from genericdp.dra.settings import DraSettings
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource

log = logging.getLogger(__name__)

_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """Whether pods hold devices of a resource through the device plugin, and why that matters."""

    why: str
    """Why DRA cannot take the resource over; empty: no pod holds any."""
    is_known: bool = True
    is_final: bool = False
    """Whether the device plugin had ended when it was asked: no pod can have got one since."""


class BackEnds:
    """Decides whether the device plugin or DRA serves each resource.

    Never both, and no change while somebody holds a device: two containers could get it. In between
    neither does, until nothing of the one is left.
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
        """``last`` is what the device plugin has served so far, as the config had it.

        ``why_offered`` tells why claims may still get devices of resources; empty: none may.
        """
        self.waiting: dict[str, str] = {}
        """By resource of the config, why it is not served as the config says."""
        self.withheld: frozenset[str] = frozenset()
        """Those of them that are not served at all: it is not known yet that nobody has them."""
        self._settings = settings
        self._kubelet = kubelet
        self._look_again = look_again
        self._why_offered = why_offered
        self._timing = timing or PodResourcesTiming()
        self._by_dra: frozenset[str] | None = None
        """The names of resources that DRA serves; None: not read yet."""
        self._to_dra: frozenset[str] = frozenset()
        """The names of resources that DRA is to serve."""
        self._last = dict(last)
        """What each resource of the config was when it was served last."""
        self._pending: Observed[dict[str, tuple[Resource, bool]]] = Observed({})
        """Those that wait as the config has them, and whether the device plugin has ended."""
        self._answers: dict[str, _Answer] = {}

    async def in_force(
        self, wanted: Mapping[str, Resource], by_plugin: Collection[str]
    ) -> dict[str, Resource]:
        """Return the resources as they can be served now, by name in the config.

        ``by_plugin`` are the names that the device plugin serves, or has not ended to serve.
        """
        to_dra = (_names_of(one) for one in wanted.values() if one.served_by is ServedBy.DRA)
        self._to_dra = frozenset[str]().union(*to_dra)
        trouble, claims = "", dict[str, str]()
        try:
            if self._by_dra is None:
                self._by_dra = await in_worker(self._load)
            if any(self._leaves_dra(one) for one in wanted.values()):
                claims = await in_worker(partial(held_resources, self._settings.claims_folder))
        except OSError as error:
            trouble = f"{self._settings.folder} cannot be read: {reason_of(error).lower()}"
        verdicts = {name: self._verdict(one, claims, trouble) for name, one in wanted.items()}
        waiting = {name: verdict for name, verdict in verdicts.items() if verdict[0]}
        settled = {name: one for name, one in wanted.items() if name not in waiting}
        if trouble := trouble or await self._store(settled):
            new = (name for name, one in settled.items() if self._is_new(one))
            waiting |= dict.fromkeys(new, (trouble, None))
        return self._settle(wanted, waiting, by_plugin)

    def _names(self, resource: Resource) -> list[str]:
        """Return the names of a resource of the config that DRA serves.

        A glob of one may match a name of another that is to stay there.
        """
        stays = self._to_dra if resource.served_by is ServedBy.DEVICE_PLUGIN else frozenset()
        return [
            name for name in self._by_dra or () if _may_be(resource, name) and name not in stays
        ]

    def _leaves_dra(self, resource: Resource) -> bool:
        return resource.served_by is ServedBy.DEVICE_PLUGIN and bool(self._names(resource))

    def _is_new(self, resource: Resource) -> bool:
        """Return whether DRA is to serve a resource and has not, or no longer."""
        if resource.served_by is ServedBy.DRA:
            return not _names_of(resource) <= (self._by_dra or frozenset())
        return self._leaves_dra(resource)

    def _verdict(
        self, resource: Resource, claims: Mapping[str, str], trouble: str
    ) -> tuple[str, ServedBy | None]:
        """Return why a resource cannot be served as the config says, empty if it can, and by what
        it is meanwhile.
        """
        if not self._is_new(resource):
            return "", None
        if resource.served_by is ServedBy.DEVICE_PLUGIN:
            names = self._names(resource)
            held = [claims[name] for name in names if name in claims]
            if trouble or held:
                return trouble or f"claim {held[0]} has a device of it through DRA", ServedBy.DRA
            return self._why_offered(names), None
        answer = self._answers.get(resource.name, _NOT_ASKED)
        if why := trouble or answer.why:
            if (last := self._last.get(resource.name)) is not None:
                return why, last.served_by
            is_free = answer.is_known and not trouble and not self._names(resource)
            return why, ServedBy.DEVICE_PLUGIN if is_free else None
        return "" if answer.is_final else _ENDS_FIRST, None

    async def _store(self, settled: Mapping[str, Resource]) -> str:
        """Record which resources DRA serves; return why that is not possible, or empty."""
        before = self._by_dra or frozenset()
        by_dra = before.difference(*map(self._names, settled.values()))
        for one in settled.values():
            if one.served_by is ServedBy.DRA:
                by_dra |= _names_of(one)
        if by_dra == before:
            return ""
        try:
            await in_worker(partial(self._write, by_dra))
        except OSError as error:
            return f"{self._settings.served_file} cannot be written: {reason_of(error).lower()}"
        self._by_dra = frozenset(by_dra)
        return ""

    def _settle(
        self,
        wanted: Mapping[str, Resource],
        waiting: Mapping[str, tuple[str, ServedBy | None]],
        by_plugin: Collection[str],
    ) -> dict[str, Resource]:
        """Return what is in force: what has to wait is as it was, or served by neither."""
        for name in self.waiting.keys() - waiting.keys() & wanted.keys():
            log.info("served by %s now", wanted[name].served_by, extra={"resource": name})
        found, pending = dict(wanted), {}
        for name, (why, by) in waiting.items():
            one, last = wanted[name], self._last.get(name)
            if self.waiting.get(name) != why:
                level = logging.INFO if why in _PASSING else logging.WARNING
                about = {"resource": name}
                log.log(level, "not served by %s yet: %s", one.served_by, why, extra=about)
            found[name] = replace(one, served_by=by or ServedBy.DEVICE_PLUGIN)
            if last is not None and last.served_by is by:
                found[name] = last
            has_ended = by is None and not any(_may_be(one, its_name) for its_name in by_plugin)
            pending[name] = one, has_ended
        self.waiting = {name: why for name, (why, _) in waiting.items()}
        self.withheld = frozenset(name for name, (_, by) in waiting.items() if by is None)
        self._last = {name: one for name, one in found.items() if name not in self.withheld}
        self._answers = {n: one for n, one in self._answers.items() if n in waiting}
        self._pending.value = pending
        return found

    async def run(self) -> Never:
        """Ask the kubelet, forever, whether pods hold what is to go from device plugin to DRA."""
        while True:
            await until(lambda: bool(self._pending.value), self._pending)
            pending = self._pending.value
            asked = {n: one for n, one in pending.items() if one[0].served_by is ServedBy.DRA}
            answers = await self._ask(asked) if asked else {}
            if self._pending.value is not pending:
                continue
            self._answers = answers
            self._look_again()
            await until(
                lambda pending=pending: self._pending.value != pending,  # type: ignore[misc]
                self._pending,
                timeout_seconds=self._timing.period,
            )

    async def _ask(self, asked: Mapping[str, tuple[Resource, bool]]) -> dict[str, _Answer]:
        why_unknown, held = "", dict[str, frozenset[str]]()
        socket = self._kubelet.socket.value
        if socket is None:
            why_unknown = self._kubelet.absence.value
        # It may not know its pods yet, and would name none.
        elif time.time() - socket[2] / 10**9 < self._timing.pods_known:  # noqa: TID251
            why_unknown = f"the kubelet has started less than {self._timing.pods_known:g} s ago"
        else:
            try:
                answer = await list_pods(
                    self._settings.pod_resources, timeout_seconds=self._timing.timeout
                )
                held = held_devices(answer)
            except KubeletError as error:
                why_unknown = str(error)
        if why_unknown:
            why = f"it cannot be known whether pods hold such devices already: {why_unknown}"
            return dict.fromkeys(asked, _Answer(why=why, is_known=False))
        return {
            name: _Answer(
                why="pods hold devices of it through the device plugin"
                if any(ids and _may_be(one, its_name) for its_name, ids in held.items())
                else "",
                is_final=is_final,
            )
            for name, (one, is_final) in asked.items()
        }

    def _load(self) -> frozenset[str]:
        """Return the resources that DRA has served; raise OSError."""
        file = self._settings.served_file
        # Whatever the file says: there is no doubt of those that claims have.
        names = set(held_resources(self._settings.claims_folder))
        try:
            record = json.loads(file.read_bytes())
            names |= {name for name in record["resources"] if isinstance(name, str)}
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            new = file.replace(file.with_suffix(".bad")).name
            log.warning("%s is damaged and was renamed to %s (%r)", file, new, error)
        return frozenset(names)

    def _write(self, by_dra: Collection[str]) -> None:
        self._settings.folder.mkdir(mode=0o700, exist_ok=True)
        record = {"version": _VERSION, "resources": sorted(by_dra)}
        content = f"{json.dumps(record, indent=2)}\n".encode()
        os.close(write(self._settings.served_file, content, mode=0o600))


_NOT_ASKED = _Answer(why="the kubelet is asked whether pods hold its devices", is_known=False)

_ENDS_FIRST = "its device plugin ends first"
DELETED_FIRST = "its ResourceSlices are deleted first"
_PASSING = (_NOT_ASKED.why, _ENDS_FIRST, DELETED_FIRST)
"""Why something waits that will have passed soon."""


def _names_of(resource: Resource) -> set[str]:
    """Return the names that a resource of the config with ``servedBy: dra`` can have."""
    return set(resource.names or (resource.name,))


def _may_be(resource: Resource, name: str) -> bool:
    """Return whether a resource of the config may have a name."""
    if not resource.names:
        return name == resource.name
    return any(glob.matches(pattern, name) for pattern in resource.names)
