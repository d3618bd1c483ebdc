"""The ledger: which hardware each listed ID stands for, and which pods have it.

A kubelet knows only IDs. In ``--state-dir``, the ledger records which hardware each ID names, so
that after an edit of the config or a restart of the daemon, hardware is not offered under another
ID while a pod has it under the first one. The kubelet's PodResources API says which IDs pods hold.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from genericdp.devices.device import device_id_of
from genericdp.devices.held import HeldDevice, Name
from genericdp.devices.identity import HardwareIdentity  # noqa: TC001 -- records are read by their types
from genericdp.durable import read_regular, write
from genericdp.errors import DAMAGE, reason_of, why_damaged
from genericdp.jsonvalues import KEY, as_record, from_record, parse_json
from genericdp.printing import first_few
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry
    from genericdp.kubelet.podresources import PodHolders, PodResourcesTiming
    from genericdp.model import Resource

log = logging.getLogger(__name__)

_FILE = "ledger.json"
_VERSION = 1
_MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of the file; an entry has some 400 bytes."""
_MAX_VALUES = 600_000
"""Maximum number of values in the file; an entry has some 16. Parsed, they need up to 60 MB; the
shipped pod has 160.
"""


Holders = dict[str, tuple[str, ...]]
"""The pods that hold a device, by share."""


@dataclass(kw_only=True, slots=True)
class _Entry:
    """An ID of a resource, as in the file, and what the kubelet has reported about it since."""

    resource: str
    device_id: str = field(metadata={KEY: "id"})
    replicas: int
    exclusive: bool
    identities: tuple[HardwareIdentity, ...]
    holders: Holders = field(default_factory=dict, compare=False)
    """The pods that hold it, by share, as last reported by the kubelet."""
    lost: Holders = field(default_factory=dict, compare=False)
    """Those of them that the kubelet has listed without it since it lost its checkpoint."""
    withdrawn_at: float | None = field(default=None, compare=False)
    """Since when no pod can get it, on the monotonic clock; None if pods can."""
    unheld_at: float | None = field(default=None, compare=False)
    """When the kubelet first reported, long enough after that, that no pod holds it."""
    is_free: bool = field(default=False, compare=False)
    """Whether it is proven that no pod holds it."""
    given_at: float = field(default=-inf, compare=False)
    """When an Allocate last assigned it to a container."""
    since: dict[str, float] = field(default_factory=dict, compare=False)
    """When an Allocate last assigned a share, in seconds since 1970, to be shown."""

    @property
    def name(self) -> Name:
        return Name(self.resource, self.device_id)

    def offer(self) -> None:
        """Record that pods can get it from now on."""
        self.withdrawn_at = self.unheld_at = None
        self.is_free = False

    def prove(self, asked_at: float, timing: PodResourcesTiming) -> None:
        """Count an answer in which no pod holds the ID as proof, if it was requested late enough.

        A pod that was admitted just before the withdrawal may not be listed yet. So two answers are
        needed, some time after the withdrawal.
        """
        if self.withdrawn_at is None or asked_at < self.withdrawn_at + timing.pods_known:
            return
        if self.unheld_at is None:
            self.unheld_at = asked_at
        elif asked_at >= self.unheld_at + timing.period:
            self.is_free = True


class _File(Enum):
    """The state of the file."""

    MISSING = auto()
    """There was no file at the start: pods may hold IDs of earlier versions."""
    UNREAD = auto()
    """There is a file that could not be read yet, so it must not be replaced."""
    LOST = auto()
    """The file was damaged, or disappeared before it could be read."""
    READ = auto()


class Ledger:
    """The devices that device plugins have listed, by name, until no pod holds them."""

    def __init__(self, directory: Path | None, timing: PodResourcesTiming | None) -> None:
        """``timing`` is that of requests to PodResources; None if the kubelet is not asked.

        Then no name counts as held, because no hold would ever end.
        """
        self._path = None if directory is None else directory / _FILE
        self._timing = timing
        self._entries: dict[Name, _Entry] = {}
        self._file = _File.MISSING
        self._answer: PodHolders | None = None
        self._is_urgent = False
        self.has_changed = False
        """Whether the file is out of date."""
        self._failure = Latch(log)
        self._is_first_note = True

    def load(self, now: float) -> None:
        """Read the file, if there is one; raise OSError if it cannot be read, and keep it.

        Log and rename a damaged file.
        """
        if self._path is None:
            return
        try:
            entries = dict(_parsed(read_regular(self._path, _MAX_BYTES), now))
        except (FileNotFoundError, NotADirectoryError):
            self._file = _File.LOST if self._file is _File.UNREAD else self._file
        except OSError:
            self._file = _File.UNREAD
            raise
        except DAMAGE as error:
            self._file = _File.LOST
            message = (
                "%s is damaged (%s) and is renamed to %s.bad: which hardware pods hold is unknown."
                " Do not edit names, id or groupBy of resources until the pods that run now have"
                " ended"
            )
            log.warning(message, self._path, why_damaged(error), _FILE)
            # If it cannot be renamed, it cannot be replaced either, and saving reports why.
            with suppress(OSError):
                self._path.replace(self._path.with_name(f"{_FILE}.bad"))
        else:
            self._entries = {**entries, **self._entries}
            self._file = _File.READ

    def save(self) -> None:
        """Write the file, unless an existing one has not been read yet; log a failure only once."""
        if self._path is None:
            return
        if self._file is _File.UNREAD:
            try:
                self.load(time.monotonic())
            except OSError as error:
                self._note_failure(f"cannot be read: {reason_of(error).lower()}")
                return
        records = as_record([entry for _, entry in sorted(self._entries.items())])
        content = json.dumps({"version": _VERSION, "devices": records}, indent=1)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(write(self._path, f"{content}\n".encode(), mode=0o600))
        except OSError as error:
            self._note_failure(f"cannot be written: {reason_of(error).lower()}")
            return
        self.has_changed = False
        self._failure.update("")

    def _note_failure(self, why: str) -> None:
        message = "%s %s: after a restart, IDs that pods hold may be unknown"
        self._failure.update(why, message, self._path, why)

    def note(
        self,
        lists: DeviceLists,
        resources: Mapping[str, Resource],
        awaited: Collection[Name],
        now: float,
    ) -> None:
        """Record the devices that the device plugins of these resources are about to list."""
        listed: dict[Name, Entry[Device]] = {
            Name(resource, device_id): device
            for resource in resources
            for device_id, device in lists[resource].devices.items()
        }
        for name, device in listed.items():
            self._note(name, device, now)
        gone = self._entries.keys() - listed.keys()
        if self._is_first_note and self._timing is None:
            self._log_renamed(gone, listed)
        self._is_first_note = False
        for name in gone:
            entry = self._entries[name]
            if self._timing is None or entry.is_free:
                del self._entries[name]
                self.has_changed = True
            elif entry.withdrawn_at is None:
                entry.withdrawn_at = now
        overdue = any(entry.due <= now for entry in listed.values())
        changing = any(
            entry.device.renamed_to or entry.withheld or entry.has_former_shares
            for entry in listed.values()
        )
        self.has_changed = self.has_changed and self._path is not None
        self._is_urgent = bool(overdue or changing or awaited or gone & self._entries.keys())

    def _log_renamed(self, gone: Iterable[Name], listed: Mapping[Name, Entry[Device]]) -> None:
        """Log the names that hardware had before the daemon started, which pods may still hold."""
        names = {
            identity: name for name, entry in listed.items() for identity in entry.device.identities
        }
        for former in sorted(gone):
            found = (names[own] for own in self._entries[former].identities if own in names)
            if (name := next(found, None)) is not None:
                about = {"resource": name.resource, "device": name.device_id}
                log.warning("device %s was %s before: pods may hold it", name, former, extra=about)

    def _note(self, name: Name, listed: Entry[Device], now: float) -> None:
        device, entry = listed.device, self._entries.get(name)
        if entry is None:
            entry = _Entry(
                resource=name.resource,
                device_id=name.device_id,
                replicas=device.replicas,
                exclusive=device.exclusive,
                identities=device.identities,
            )
            self._entries[name] = entry
            self.has_changed = True
        elif listed.is_present and device.identities != entry.identities:
            if not any(
                own.is_same(hardware) for own in entry.identities for hardware in device.identities
            ):
                log.info(
                    "%s is other hardware now: %s",
                    name.device_id,
                    ", ".join(map(str, device.identities)),
                    extra={"resource": name.resource, "device": name.device_id},
                )
            parts = device.identities
            if entry.holders or (self._timing is not None and self._answer is None):
                # A pod keeps all that it got, even a member that the group has lost since.
                lost = (
                    identity
                    for identity in entry.identities
                    if not any(map(identity.is_same, parts))
                )
                parts = (*parts, *lost)
            if parts != entry.identities:
                entry.identities = parts
                self.has_changed = True
        sharing = (device.replicas, device.exclusive)
        is_settled = listed.is_present and not listed.withheld
        if is_settled and sharing != (entry.replicas, entry.exclusive):
            entry.replicas, entry.exclusive = sharing
            self.has_changed = True
        if not listed.is_healthy:
            entry.withdrawn_at = now if entry.withdrawn_at is None else entry.withdrawn_at
        else:
            entry.offer()

    def gave(self, resource: str, shares: Iterable[str], now: float) -> None:
        """Record that an Allocate is about to assign these to a container."""
        for share in shares:
            if (entry := self._entries.get(Name(resource, device_id_of(share)))) is not None:
                entry.given_at = now
                entry.since[share] = time.time()  # noqa: TID251  # to be shown

    def take(self, answer: PodHolders) -> bool:
        """Record an answer of the kubelet; return whether other devices may be offered now."""
        is_news = self._is_urgent or self._answer is None
        is_other_kubelet = self._answer is not None and self._answer.kubelet != answer.kubelet
        found: dict[Name, dict[str, tuple[str, ...]]] = {}
        for resource, shares in answer.holders.items():
            for share, pods in shares.items():
                if (known := Name(resource, device_id_of(share))) in self._entries:
                    found.setdefault(known, {})[share] = pods
        having = {resource: answer.holders_of(resource) for resource in answer.holders}
        for name, entry in self._entries.items():
            before = entry.holders if is_other_kubelet else entry.lost
            without = answer.pods - having.get(name.resource, set()) if before else frozenset()
            entry.lost = _held_by(before, without)
            if entry.lost and is_other_kubelet:
                _log_lost(name, entry.lost)
            holders = _merged(entry.lost, found.get(name, {}))
            _log_holders(name, entry, holders)
            entry.holders = holders
            if entry.holders:
                entry.unheld_at, entry.is_free = None, False
            elif self._timing is not None:
                entry.prove(answer.asked_at, self._timing)
        self._answer = answer
        return is_news

    def due(self, last_asked: float) -> float:
        """Return when to ask the kubelet next, on the monotonic clock."""
        if self._timing is None:
            return inf
        return last_asked + (self._timing.period if self._is_urgent else self._timing.refresh)

    def held(self, now: float) -> list[HeldDevice]:
        """Return the names that pods hold or may hold."""
        if self._timing is None:
            return []
        # An older answer says nothing about a pod that has started since, nor does one that was
        # requested before the kubelet certainly knew a pod that has just got the device.
        answered_at = -inf if self._answer is None else self._answer.asked_at
        is_recent = now - answered_at <= 2 * self._timing.period
        pods_known = self._timing.pods_known
        return [
            HeldDevice(
                name=name,
                identities=entry.identities,
                replicas=entry.replicas,
                exclusive=entry.exclusive,
                holders=entry.holders,
                since=entry.since,
                is_known=is_recent and answered_at >= entry.given_at + pods_known,
            )
            for name, entry in self._entries.items()
            if not entry.is_free
        ]

    @property
    def former_ids(self) -> dict[str, set[str]]:
        """The IDs that pods hold and that are not in the ledger, by resource."""
        found: dict[str, set[str]] = {}
        if self._file is not _File.READ and self._answer is not None:
            for resource, shares in self._answer.holders.items():
                ids = set(map(device_id_of, shares))
                found[resource] = {
                    device_id for device_id in ids if Name(resource, device_id) not in self._entries
                }
        return found

    @property
    def is_new(self) -> bool:
        """Return whether no ledger could be read, and the kubelet has not answered since."""
        return self._file is not _File.READ and self._timing is not None and self._answer is None

    @property
    def is_upgrade(self) -> bool:
        """Return whether there was no ledger, so that an earlier version may have run before."""
        return self._file is _File.MISSING and self._path is not None


def _held_by(holders: Holders, pods: Collection[str]) -> Holders:
    """Return the holders that are in this set of pods."""
    found = {
        share: tuple(pod for pod in several if pod in pods) for share, several in holders.items()
    }
    return {share: several for share, several in found.items() if several}


def _merged(first: Holders, second: Holders) -> Holders:
    return {
        share: tuple(dict.fromkeys((*first.get(share, ()), *second.get(share, ()))))
        for share in (*first, *second)
    }


def _log_holders(name: Name, entry: _Entry, holders: Holders) -> None:
    """Log the pods that got shares from this daemon, once the kubelet names them."""
    for share in filter(entry.since.__contains__, holders):
        if new := [pod for pod in holders[share] if pod not in entry.holders.get(share, ())]:
            about = {"resource": name.resource, "device": name.device_id}
            log.info("%s has %s", first_few(new, 3), share, extra=about)


def _log_lost(name: Name, lost: Holders) -> None:
    log.warning(
        "the kubelet lists %s without device %s, which it had: the kubelet has lost its"
        " checkpoint. The device counts as held until the pod ends",
        first_few([*dict.fromkeys(pod for pods in lost.values() for pod in pods)], 3),
        name.device_id,
        extra={"resource": name.resource, "device": name.device_id},
    )


def _parsed(content: bytes, now: float) -> Iterable[tuple[Name, _Entry]]:
    """Yield the entries of the file; raise one of DAMAGE."""
    document = parse_json(content, _MAX_VALUES)
    # Later versions keep the fields that are read here.
    if not (isinstance(version := document["version"], int) and version >= _VERSION):
        raise ValueError(f"its version is {str(version)[:20]}, expected {_VERSION}")
    for entry in from_record(tuple[_Entry, ...], document["devices"]):
        entry.withdrawn_at = now  # either it is listed again, or it is not offered from now on
        yield entry.name, entry
