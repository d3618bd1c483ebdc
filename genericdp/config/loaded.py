"""A loaded config, and what the daemon knows of its files: a child process reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.errors import Problem
from genericdp.printing import printable

if TYPE_CHECKING:
    from genericdp.model import Resource
    from genericdp.policy import Policy

STDIN = Path("-")
"""Stands for the config that somebody else has read from stdin."""
SUFFIXES = (".yaml", ".yml")


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
    texts: tuple[tuple[str, bytes], ...] = field(default=(), compare=False, repr=False)
    """Name and content of each file that was read; from a child, only those of a good config."""
    pinned: tuple[str, ...] = field(default=(), compare=False)
    """Files and folders that are never seen to change on this machine, with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigState:
    """The config in force and the one on disk, as last read.

    Times are seconds since 1970, for people: nothing is decided by them.
    """

    digest: str = ""
    """That of the config in force (``Loaded.digest``), which the policy is a part of; empty: there
    is none, and nothing is served."""
    since: float | None = None
    """When it was put in force."""
    files: tuple[str, ...] = ()
    """What it was read from."""
    policy: str = ""
    """The file of what bounds it; empty: nothing does."""
    policy_digest: str = ""
    """SHA-256 of that file, hexadecimal."""
    resources: int = 0
    """How many it has, for whatever node."""
    from_state_dir: bool = False
    """Whether it is the last good one of an earlier run: the one on disk could not be used."""
    warnings: tuple[str, ...] = ()
    """Of the config in force."""
    differs_since: float | None = None
    """Since when the one on disk has been refused, whichever it was; None: it is in force."""
    problems: tuple[str, ...] = ()
    """Why the one on disk is refused, as ``FILE:LINE:COLUMN: …``."""
    refused: str = ""
    """The digest of the one that is refused; empty where it could not even be read."""
    pinned: tuple[str, ...] = ()
    """Config files that never change here, with the reason (``subPath``)."""

    @property
    def in_force(self) -> bool:
        """Whether there is a config in force at all: without one, the daemon is not ready."""
        return bool(self.digest)


def unusable(name: str | Path, message: str) -> Problem:
    """Return the problem of a file as a whole."""
    return Problem(file=shown(name), line=1, column=1, path="", message=message)


def shown(name: str | Path) -> str:
    """Return a file's name as one printable line, whatever bytes it consists of."""
    return printable(os.fsencode(name).decode("utf-8", "backslashreplace"))
