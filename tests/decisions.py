"""Decisions about a copied tree, without a kubelet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from genericdp.devices.decide import Decision, DeviceLists, decide
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.matching import reads_properties
from genericdp.host.cache import HostCache, HostReader
from genericdp.host.root import Root
from genericdp.model import Resource


@dataclass
class Found:
    """A decision, and when to decide again without an event."""

    decision: Decision
    due: float | None

    @property
    def lists(self) -> DeviceLists:
        return self.decision.lists


class Discoverer(HostReader):
    """Decides by what the host says, as a reconcile does."""

    def __init__(
        self,
        root: Root,
        *,
        look_again: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        **keys: Any,
    ) -> None:
        super().__init__(root, look_again=look_again, now=now, **keys)
        self._clock = now

    async def discover(
        self,
        resources: Sequence[Resource],
        previous: Mapping[str, DeviceList],
        *,
        full: bool = True,
    ) -> Found:
        work = partial(self._decided, resources, previous)
        wants_records = any(map(reads_properties, resources))
        decision = await self.ask(lambda: work, full=full, wants_records=wants_records)
        dues = [due for due in (decision.due, self.due) if due is not None]
        return Found(decision, min(dues, default=None))

    def _decided(
        self, resources: Sequence[Resource], previous: Mapping[str, DeviceList], host: HostCache
    ) -> Decision:
        return decide(resources, host, node_name="n", previous=previous, now=self._clock())
