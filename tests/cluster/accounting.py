"""Counters of the kernel for a container's processes, in control groups of either version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.looking import Looking

_CGROUPS = Path("/sys/fs/cgroup")
_LOOK_EVERY_SECONDS = 0.01
MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The account of one container."""

    memory: Path
    cpu: Path

    @property
    def own_bytes(self) -> int:
        """Give the memory that is not a cache of files: what the kernel cannot take back."""
        found = _numbers(self.memory / "memory.stat")
        return found["anon"] if "anon" in found else found["total_rss"]

    @property
    def working_set_bytes(self) -> int:
        """Give what the kubelet calls so: all but files that were not used lately."""
        found = _numbers(self.memory / "memory.stat")
        idle = found["inactive_file"] if "anon" in found else found["total_inactive_file"]
        return _number(self.memory, "memory.current", "memory.usage_in_bytes") - idle

    @property
    def peak_bytes(self) -> int:
        """Give the most that was ever charged, files too."""
        return _number(self.memory, "memory.peak", "memory.max_usage_in_bytes")

    @property
    def limit_bytes(self) -> int:
        """Give what may be charged."""
        return _number(self.memory, "memory.max", "memory.limit_in_bytes")

    @property
    def cpu_seconds(self) -> float:
        """Give the processor time so far."""
        if (counted := self.cpu / "cpuacct.usage").exists():
            return int(counted.read_text()) / 10**9
        return _numbers(self.cpu / "cpu.stat")["usage_usec"] / 10**6


def account_of(process_id: int) -> Account:
    """Find that of a process."""
    groups: dict[str, Path] = {}
    for line in Path(f"/proc/{process_id}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = _CGROUPS / controller / path.lstrip("/")
    both = _CGROUPS / groups.get("", _CGROUPS).relative_to(_CGROUPS)
    return Account(memory=groups.get("memory", both), cpu=groups.get("cpuacct", both))


class Peak(Looking):
    """The most memory of a container's own while the context lasts, by looking often."""

    def __init__(self, account: Account) -> None:
        super().__init__(_LOOK_EVERY_SECONDS)
        self._account = account
        self.bytes = 0

    def look(self) -> None:
        """Look once."""
        self.bytes = max(self.bytes, self._account.own_bytes)


def _numbers(file: Path) -> dict[str, int]:
    pairs = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value in pairs}


def _number(directory: Path, *names: str) -> int:
    (file,) = (directory / name for name in names if (directory / name).exists())
    return int(file.read_text())
