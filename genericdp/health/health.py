"""What is known of the health of all devices: their probes' results and the kernel's log."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from genericdp.devices.checks import LogWatch
from genericdp.health.kernellog import KernelLog
from genericdp.health.prober import FIRST_ROUND_SECONDS, Prober
from genericdp.health.thresholds import verdict
from genericdp.host.kmsg import open_log
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.devices.device import Device
    from genericdp.health.kinds import RunProbes
    from genericdp.health.prober import ProbeRun
    from genericdp.host.kmsg import Log
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome

BURST_SECONDS = 0.1
"""What changes within this time goes out together: a list costs the kubelet a write (LAW-7)."""


class Health:
    """Watches the devices that it is told of; ``run`` must run meanwhile."""

    def __init__(
        self,
        root: Root,
        *,
        run_probes: RunProbes,
        changed: Callable[[str, Mapping[str, str]], None],
        told: Callable[[ProbeRun], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        open_log: Callable[[], Log] = open_log,
    ) -> None:
        self._changed = changed
        """Called with a resource and why its devices are not well now (by id; empty: they are):
        those that are different from what was told last."""
        self._now = now
        self._prober = Prober(root, changed=self._probed, told=told, now=now, run_probes=run_probes)
        self._log = KernelLog(self._logged, open_log=open_log, now=now)
        self._here: dict[str, Mapping[str, Device]] = {}
        """What was there when a resource was watched last, by resource and id."""
        self._ids: dict[str, dict[str, str]] = {}
        """The devices that the kernel's log may name, by resource: key to id."""
        self._named: dict[str, dict[str, str]] = {}
        """By resource and id: what the log said of a device."""
        self._pending: dict[str, set[str]] = {}
        self._told_at = -BURST_SECONDS
        self._telling: asyncio.Handle | None = None
        self._logs_news = Observed(0)

    def watch(self, resource: str, devices: Mapping[str, Device], *, delayed: bool = True) -> None:
        """Watch these devices of a resource (by id), those that are there now, and no others.

        One that is new here is not well before its first results. ``delayed``: it has just
        appeared, and has its initial delay until then.
        """
        self._prober.watch(resource, devices, delayed=delayed)
        before, self._here[resource] = self._here.get(resource), devices
        by_log = {one.key: one for one in devices.values() if _is_named(one)}
        if not by_log and resource not in self._ids:
            return
        self._ids[resource] = {one.key: one.id for one in by_log.values()}
        self._log.watch(resource, by_log.values(), appeared=self._appeared(by_log, before))
        self._take_log(resource)

    def watches(self, resource: str) -> bool:
        """Say whether devices of a resource are watched, or were when it had probes."""
        return resource in self._here

    def forget(self, resource: str) -> None:
        """Watch nothing of a resource any more."""
        self._prober.forget(resource)
        self._log.forget(resource)
        for known in (self._here, self._ids, self._named, self._pending):
            known.pop(resource, None)

    def reason(self, resource: str, device_id: str) -> str:
        """Say why a device is not well; empty: it is, or nobody asks."""
        of_log = self._named.get(resource, {}).get(device_id, "")
        by_probes = self._prober.reasons(resource).get(device_id, "")
        return verdict([("", by_probes), ("kernelLog", of_log)]) if of_log else by_probes

    def reasons(self, resource: str) -> Mapping[str, str]:
        """Give the devices of a resource that are not well, by id, and why."""
        by_probes, named = self._prober.reasons(resource), self._named.get(resource)
        if not named:
            return by_probes
        return {name: self.reason(resource, name) for name in by_probes.keys() | named.keys()}

    def results(self, resource: str) -> Mapping[str, tuple[Outcome | None, ...]]:
        """Give the latest result of each probe, in the order of the config, by the device's id."""
        return self._prober.results(resource)

    async def first_round(
        self, resource: str, *, timeout_seconds: float = FIRST_ROUND_SECONDS
    ) -> bool:
        """Wait for the first results of a resource and the log's past; False: not in time."""
        begun = self._now()
        try:
            async with asyncio.timeout(timeout_seconds):
                if resource in self._ids:
                    await self._log.caught_up()
        except TimeoutError:
            return False
        rest = max(0.0, begun + timeout_seconds - self._now())
        return await self._prober.first_round(resource, timeout_seconds=rest)

    async def run(self) -> None:
        """Watch forever."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._prober.run(), name="prober")
                tasks.create_task(self._recoveries(), name="recoveries")
        finally:
            self._log.close()
            if self._telling is not None:
                self._telling.cancel()

    def _appeared(
        self, devices: Mapping[str, Device], before: Mapping[str, Device] | None
    ) -> dict[str, float]:
        """Say since when devices are there, as far as that is known; ``before``: at the last look.

        What the log says of a device's place from before is about another one.
        """
        since = {}
        for key, one in devices.items():
            if one.known_since is not None:
                since[key] = one.known_since
            elif before is not None and not _is_same(before.get(one.id), one):
                since[key] = self._now()
        return since

    async def _recoveries(self) -> None:
        """Look again when what the kernel said of a device is long enough ago."""
        while True:
            seen = self._logs_news.value
            due = self._log.next_recovery(self._now())
            await until(
                lambda seen=seen: self._logs_news.value != seen,  # type: ignore[misc]
                self._logs_news,
                timeout_seconds=None if due is None else max(0.0, due - self._now()),
            )
            for resource in self._named:
                self._take_log(resource)

    def _logged(self, resource: str) -> None:
        self._logs_news.value += 1
        self._take_log(resource)

    def _take_log(self, resource: str) -> None:
        ids = self._ids.get(resource, {})
        before = self._named.get(resource, {})
        named = {ids[key]: why for key, why in self._log.reasons(resource).items() if key in ids}
        if named != before:
            self._named[resource] = named
            different = {
                one for one in before.keys() | named.keys() if before.get(one) != named.get(one)
            }
            self._tell(resource, different)

    def _probed(self, resource: str, reasons: Mapping[str, str]) -> None:
        self._tell(resource, set(reasons))

    def _tell(self, resource: str, ids: set[str]) -> None:
        """Tell at once, and what follows soon after together."""
        self._pending.setdefault(resource, set()).update(ids)
        if self._telling is None:
            loop, rest = asyncio.get_running_loop(), self._told_at + BURST_SECONDS - self._now()
            if rest > 0:
                self._telling = loop.call_later(rest, self._tell_pending)
            else:  # before all that waits its turn now
                self._telling = loop.call_soon(self._tell_pending)

    def _tell_pending(self) -> None:
        self._telling, self._told_at = None, self._now()
        pending, self._pending = self._pending, {}
        for resource, ids in pending.items():
            self._changed(resource, {one: self.reason(resource, one) for one in ids})


def _is_same(before: Device | None, device: Device) -> bool:
    if before is None:
        return False
    return (before.key, before.identity) == (device.key, device.identity)


def _is_named(device: Device) -> bool:
    return any(isinstance(bound.check, LogWatch) for bound in device.probes)
