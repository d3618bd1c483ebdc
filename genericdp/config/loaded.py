"""What loading a config gives; stands alone, so that the daemon need not import a YAML parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.errors import Problem
    from genericdp.model import Resource
    from genericdp.policy import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A whole config: its resources if there is no problem, and all that is to be said of it."""

    resources: tuple[Resource, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    files: tuple[Path, ...] = ()
    """The files that were read or should have been, in the order of precedence."""
    digest: str = ""
    """SHA-256, hexadecimal; tells whether a config is another one.

    It is over the names (without their folders) and contents of its files, in the order of
    precedence, and over the content of the policy.
    """
    policy: Policy | None = None
    """What bounds the resources; each of them carries it."""
    policy_is_unusable: bool = False
    """Whether a policy was asked for and there is none: its problems are among the problems."""
    wire: bytes = field(default=b"", compare=False, repr=False)
    """What it was decoded from, where another process has loaded it."""
