"""How the config in force stands to the one on disk, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigState:
    """Both, as last read; times are seconds since 1970, for people: nothing is decided by them."""

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
        """Say whether there is a config in force at all: without one, the daemon is not ready."""
        return bool(self.digest)
