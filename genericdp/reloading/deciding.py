"""What becomes of a config that has been read: pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.config.loaded import Loaded
    from genericdp.config.state import ConfigState


class Verdict(StrEnum):
    """What becomes of it."""

    APPLY = "apply"
    """It is good and another one than that in force."""
    KEEP = "keep"
    """It is the one in force."""
    REFUSE = "refuse"
    """It has problems: whatever is in force stays so, untouched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigDecision:
    """What becomes of a config, and how things stand then."""

    verdict: Verdict
    state: ConfigState
    is_news: bool
    """Whether a person has to be told: not again at each event while nothing is different."""


def decide(
    before: ConfigState, loaded: Loaded, *, now: float, asked: bool = False
) -> ConfigDecision:
    """Decide about the config on disk; ``asked``: somebody waits for an answer.

    A config is taken as a whole or not at all.
    """
    problems = tuple(map(str, loaded.problems))
    if problems:
        state = replace(
            before,
            differs_since=now if before.differs_since is None else before.differs_since,
            problems=problems,
            refused=loaded.digest,
        )
        is_news = asked or (problems, loaded.digest) != (before.problems, before.refused)
        return ConfigDecision(verdict=Verdict.REFUSE, state=state, is_news=is_news)
    mended = replace(before, differs_since=None, problems=(), refused="")
    if loaded.digest == before.digest:
        state = replace(mended, from_state_dir=False)
        return ConfigDecision(verdict=Verdict.KEEP, state=state, is_news=asked or state != before)
    return ConfigDecision(
        verdict=Verdict.APPLY, state=in_force(mended, loaded, now=now), is_news=True
    )


def in_force(before: ConfigState, loaded: Loaded, *, now: float) -> ConfigState:
    """Give how things stand once a config is in force; what is on disk is another matter."""
    return replace(
        before,
        digest=loaded.digest,
        since=now,
        files=tuple(map(str, loaded.files)),
        policy="" if loaded.policy is None else loaded.policy.file,
        policy_digest="" if loaded.policy is None else loaded.policy.sha256,
        resources=len(loaded.resources),
        from_state_dir=False,
        warnings=tuple(map(str, loaded.warnings)),
    )
