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
    """Why DRA cannot take the resource over; empty: it can."""
    is_known: bool = True


class BackEnds:
    """Decides whether the device plugin or DRA serves each resource.

    Never both, and no change while somebody holds a device: two containers could get it.
    """

    def __init__(
        self,
        settings: DraSettings,
        *,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        timing: PodResourcesTiming | None = None,
    ) -> None:
        self.waiting: dict[str, str] = {}
        """By resource of the config, why it is not served as the config says."""
        self.withheld: frozenset[str] = frozenset()
        """Those of them that are not served at all, because it cannot be known who has them."""
        self._settings = settings
        self._kubelet = kubelet
        self._look_again = look_again
        self._timing = timing or PodResourcesTiming()
        self._by_dra: frozenset[str] | None = None
        """The names of resources that DRA serves; None: not read yet."""
        self._last: dict[str, Resource] = {}
        """What each resource of the config was when it was served last."""
        self._questions: Observed[Mapping[str, Resource]] = Observed({})
        """Those of which it has to be known whether pods hold them through the device plugin."""
        self._answers: dict[str, _Answer] = {}

    async def in_force(self, wanted: Mapping[str, Resource]) -> dict[str, Resource]:
        """Return the resources as they can be served now, by name in the config."""
        trouble, claims = "", dict[str, str]()
        try:
            if self._by_dra is None:
                self._by_dra = await in_worker(self._load)
            if any(self._leaves_dra(one) for one in wanted.values()):
                claims = await in_worker(partial(held_resources, self._settings.claims_folder))
        except OSError as error:
            trouble = f"{self._settings.folder} cannot be read: {reason_of(error).lower()}"
        doubts = {name: self._why_not(one, claims, trouble) for name, one in wanted.items()}
        waiting = {name: why for name, why in doubts.items() if why}
        settled = {name: one for name, one in wanted.items() if name not in waiting}
        if trouble := trouble or await self._store(settled):
            to_dra = (name for name, one in settled.items() if one.served_by is ServedBy.DRA)
            waiting |= dict.fromkeys((n for n in to_dra if not self._is_by_dra(wanted[n])), trouble)
        return self._settle(wanted, waiting)

    def _leaves_dra(self, resource: Resource) -> bool:
        return resource.served_by is ServedBy.DEVICE_PLUGIN and self._is_by_dra(resource)

    def _is_by_dra(self, resource: Resource) -> bool:
        return any(_may_be(resource, name) for name in self._by_dra or ())

    def _why_not(self, resource: Resource, claims: Mapping[str, str], trouble: str) -> str:
        """Return why a resource cannot be served as the config says; empty: it can."""
        if self._leaves_dra(resource):
            held = [claim for name, claim in claims.items() if _may_be(resource, name)]
            return f"claim {held[0]} has a device of it through DRA" if held else trouble
        if resource.served_by is ServedBy.DEVICE_PLUGIN or self._is_by_dra(resource):
            return ""
        return trouble or self._answers.get(resource.name, _NOT_ASKED).why

    async def _store(self, settled: Mapping[str, Resource]) -> str:
        """Record which resources DRA serves; return why that is not possible, or empty."""
        before = self._by_dra or frozenset()
        by_dra = {n for n in before if not any(_may_be(it, n) for it in settled.values())}
        for one in settled.values():
            if one.served_by is ServedBy.DRA:
                by_dra |= set(one.names or (one.name,))
        if by_dra == before:
            return ""
        try:
            await in_worker(partial(self._write, by_dra))
        except OSError as error:
            return f"{self._settings.served_file} cannot be written: {reason_of(error).lower()}"
        self._by_dra = frozenset(by_dra)
        return ""

    def _settle(
        self, wanted: Mapping[str, Resource], waiting: dict[str, str]
    ) -> dict[str, Resource]:
        """Return what is in force: what has to wait is as it was."""
        for name, why in waiting.items():
            if self.waiting.get(name) != why:
                by, level = wanted[name].served_by, logging.WARNING
                if why == _NOT_ASKED.why:
                    level = logging.INFO
                log.log(level, "not served by %s yet: %s", by, why, extra={"resource": name})
        for name in self.waiting.keys() - waiting.keys() & wanted.keys():
            log.info("served by %s now", wanted[name].served_by, extra={"resource": name})
        found, withheld = dict(wanted), set[str]()
        for name in waiting:
            by = ServedBy.DRA if self._is_by_dra(wanted[name]) else ServedBy.DEVICE_PLUGIN
            last = self._last.get(name)
            found[name] = replace(wanted[name], served_by=by)
            if last is not None and last.served_by is by:
                found[name] = last
            elif by is ServedBy.DEVICE_PLUGIN and (
                self._by_dra is None or not self._answers.get(name, _NOT_ASKED).is_known
            ):
                withheld.add(name)
        self.waiting, self.withheld = waiting, frozenset(withheld)
        self._last = {name: one for name, one in found.items() if name not in withheld}
        to_dra = {n: one for n, one in wanted.items() if one.served_by is ServedBy.DRA}
        self._questions.value = {n: one for n, one in to_dra.items() if n in waiting}
        self._answers = {n: one for n, one in self._answers.items() if n in waiting}
        return found

    async def run(self) -> Never:
        """Ask the kubelet, forever, whether pods hold what is to go from device plugin to DRA."""
        while True:
            await until(lambda: bool(self._questions.value), self._questions)
            asked = self._questions.value
            answers = await self._ask(asked)
            if answers != self._answers or self._by_dra is None:
                self._answers = answers
                self._look_again()
            await until(
                lambda asked=asked: self._questions.value != asked,  # type: ignore[misc]
                self._questions,
                timeout_seconds=self._timing.period,
            )

    async def _ask(self, resources: Mapping[str, Resource]) -> dict[str, _Answer]:
        why_unknown, held = "", dict[str, frozenset[str]]()
        socket = self._kubelet.socket.value
        if socket is None:
            why_unknown = self._kubelet.absence.value
        # It may not know its pods yet, and would name none.
        elif (age := time.time() - socket[2] / 10**9) < self._timing.pods_known:  # noqa: TID251
            why_unknown = f"the kubelet has started only {max(0, age):.0f} s ago"
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
            return dict.fromkeys(resources, _Answer(why=why, is_known=False))
        return {
            name: _Answer(
                why="pods hold devices of it through the device plugin"
                if any(ids and _may_be(one, its_name) for its_name, ids in held.items())
                else ""
            )
            for name, one in resources.items()
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


def _may_be(resource: Resource, name: str) -> bool:
    """Return whether a resource of the config may have a name."""
    if not resource.names:
        return name == resource.name
    return any(glob.matches(pattern, name) for pattern in resource.names)
