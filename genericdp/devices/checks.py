"""What probes and hooks do for one device: every template is expanded, nothing has been run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.inventory import Identity
    from genericdp.model import Probe
    from genericdp.policy import Policy

NOT_PROBED = "not probed yet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Health of the device that ``key`` and ``identity`` tell from others with its ID."""

    key: str
    identity: Identity
    reason: str = ""
    """Why it is not healthy, with NOT_PROBED in it while first results are missing; empty: it is
    healthy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandRun:
    """A program with its arguments, and what its ``env`` declares."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"exec {self.argv[0]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRead:
    """A file whose stripped content must be as expected; all that is given must hold."""

    path: str
    """Of the host, whatever the root is."""
    regex: str | None = None
    equals: str | None = None
    min: float | None = None
    max: float | None = None
    policy: Policy | None = None
    """What says whether it may be read."""

    def __str__(self) -> str:
        return "file"  # what is wrong names the path


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOpening:
    """The device's nodes, each of which must open."""

    mode: str = "rw"
    """``r``, ``w`` or ``rw``."""

    def __str__(self) -> str:
        return "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogWatch:
    """The lines of the kernel's log that make this device Unhealthy."""

    regex: str
    where: Mapping[str, str] = field(default_factory=dict)
    """Named group of the regex to the text it must equal."""
    ignore: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Named group to texts with which a line does not count."""

    def __str__(self) -> str:
        return "kernelLog"


Check = CommandRun | FileRead | NodeOpening | LogWatch


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundProbe:
    """A probe of the config for one device."""

    probe: Probe
    check: Check


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundHook:
    """A hook of the config for one device."""

    command: CommandRun
    timeout_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundHooks:
    """The hooks for one device."""

    allocate: BoundHook | None = None
    pre_start: BoundHook | None = None


NO_HOOKS = BoundHooks()
