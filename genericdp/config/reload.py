"""Loads the config again when its files change: a valid one becomes active."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from genericdp.config.files import Loaded, unusable
from genericdp.config.lastgood import LastGood
from genericdp.config.watching import ConfigFiles, ReloadPace
from genericdp.errors import ConfigError
from genericdp.observed import Observed, until
from genericdp.repeat import delay_after
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from genericdp.model import Resource
    from genericdp.observed import Signal

    Load = Callable[..., Coroutine[Any, Any, Loaded]]
    """Loads a config: ``load(paths, policy=path)``. Raises nothing: each error is a problem."""

log = logging.getLogger(__name__)

_MAX_TRIES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigState:
    """The active config and the one on disk, as last read.

    Times are seconds since 1970, for display only: no decision depends on them.
    """

    loaded: Loaded | None = None
    """The active config; if it is None, nothing is served, and the daemon is not ready."""
    since: float | None = None
    """The time of its activation."""
    from_state_dir: bool = False
    """Whether the active config is the last good one of an earlier run, because the one on disk
    could not be used.
    """
    refused: Loaded | None = None
    """The config on disk if it cannot be used; None if it is the active one."""
    differs_since: float | None = None
    """Since when the config on disk has been refused, even if it has changed meanwhile."""
    pinned: tuple[str, ...] = ()
    """Config files that never change here, with the reason (``subPath``)."""


class Reloader:
    """Activates the first valid config and every valid change.

    ``state`` describes the active config and the rejected one.

    ``decided`` has the resources of the last config with which every resource could be decided.
    """

    def __init__(
        self,
        configs: tuple[Path, ...],
        *,
        policy: Path | None = None,
        load: Load,
        activate: Callable[[Loaded], None],
        hangup: Signal,
        decided: Observed[tuple[Resource, ...] | None],
        state_dir: Path | None = None,
        pace: ReloadPace | None = None,
        tally: Tally | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251
    ) -> None:
        self.state = Observed(ConfigState())
        self._configs = configs
        self._policy = policy
        self._load = partial(load, policy=policy)
        self._activate = activate
        self._decided = decided
        self._last_good = None if state_dir is None else LastGood(state_dir)
        self._pace = pace or ReloadPace()
        self._tally = tally or Tally()
        self._clock = clock
        self.files = ConfigFiles(configs, policy, hangup, self._pace)
        self._failures = 0
        """How many loads in a row have failed for a reason outside the files."""

    async def run(self, first: asyncio.Task[Loaded]) -> None:
        """Apply the config that was loaded first, then watch the files forever.

        Raises ConfigError if the policy cannot be used at the start.
        """
        loaded = await self._unmixed(await first)
        if loaded.policy_is_unusable:
            raise ConfigError(
                loaded.problems,
                advice=f"the policy {self._policy} cannot be used, and nothing is served without"
                " its bounds: correct it, and start again",
            )
        await self._take(loaded, asked=False)
        with closing(self.files):
            async with asyncio.TaskGroup() as tasks:
                if self._last_good is not None:
                    tasks.create_task(self._keep(self._last_good), name="last good config")
                tasks.create_task(self._follow(loaded), name="config files")

    async def _follow(self, loaded: Loaded) -> None:
        while True:
            # If loading itself failed, it is tried again when the files change, or after a while.
            asked = await self.files.until_changed(loaded.digest or self.files.digest, self._due())
            if asked:
                log.info("SIGHUP: the config is read again")
            loaded = await self._unmixed(await self._load(self._configs))
            await self._take(loaded, asked=asked)

    def _due(self) -> float:
        """Return when to load again even without a change, on the loop's clock."""
        if not self._failures:
            return inf
        pause = delay_after(self._failures, self._pace.retry, self._pace.last_retry)
        return asyncio.get_running_loop().time() + pause

    async def _unmixed(self, loaded: Loaded) -> Loaded:
        """Load the config again if it changed meanwhile, so that no mixture of two configs is
        applied.
        """
        for _ in range(_MAX_TRIES):
            if await self.files.look() in {"", loaded.digest} or not loaded.digest:
                return loaded
            await asyncio.sleep(self._pace.settle)
            loaded = await self._load(self._configs)
        return Loaded(problems=(unusable(self._configs[0], "it keeps changing while it is read"),))

    async def _take(self, loaded: Loaded, *, asked: bool) -> None:
        """Apply or refuse a config that has been read, as a whole."""
        before = self.state.value
        accepted = replace(before, from_state_dir=False, refused=None, differs_since=None)
        if loaded.problems:
            self._tally.reloads["refused"] += 1
            await self._refuse(loaded, asked=asked)
        elif before.loaded is not None and loaded.digest == before.loaded.digest:
            self._tally.reloads["unchanged"] += 1
            same = replace(before.loaded, files=loaded.files)
            self.state.value = replace(accepted, loaded=same)
            if asked or self.state.value != before:
                log.info("the config on disk is active")
        else:
            self._tally.reloads["applied"] += 1
            self._apply(loaded, accepted)
        if not loaded.digest:  # loading itself has failed: the config may be valid
            self._failures += 1
            return
        self._failures = 0
        for sentence in loaded.pinned:
            if sentence not in before.pinned:
                log.warning("%s", sentence)
        self.state.value = replace(self.state.value, pinned=loaded.pinned)

    def _apply(self, loaded: Loaded, state: ConfigState) -> None:
        self.state.value = replace(state, loaded=loaded, since=self._clock())
        for warning in loaded.warnings:
            log.warning("%s", warning)
        self._activate(loaded)

    async def _refuse(self, loaded: Loaded, *, asked: bool) -> None:
        """Keep the active config; log the problems if they are new, or were requested."""
        before = self.state.value
        since = self._clock() if before.differs_since is None else before.differs_since
        self.state.value = replace(before, refused=loaded, differs_since=since)
        if loaded == before.refused and not asked:
            return
        for problem in loaded.problems:
            log.error("%s", problem)
        if before.loaded is None and await self._recall():
            return
        what = "policy" if loaded.policy_is_unusable else "config"
        stays = "nothing is served"
        if before.loaded is not None:
            has_policy = what == "config" and self._policy is not None
            stays = f"the active one stays{', with its policy,' if has_policy else ''}"
        shown = self.files.shown
        log.error("the %s cannot be used: %s until it is corrected (%s)", what, stays, shown)

    async def _recall(self) -> bool:
        """Activate the last good config, if the current policy allows it."""
        if self._last_good is None or (loaded := await self._last_good.recall(self._load)) is None:
            return False
        log.error(
            "the config cannot be used: the last good one, from %s, is served until it is"
            " corrected (%s)",
            *(self._last_good.directory, self.files.shown),
        )
        self._apply(loaded, replace(self.state.value, from_state_dir=True))
        return True

    async def _keep(self, last_good: LastGood) -> None:
        """Keep each config with which every resource could be decided, forever."""

        def is_new() -> bool:
            state = self.state.value
            if state.loaded is None or state.from_state_dir:
                return False
            is_decided = state.loaded.resources == self._decided.value
            return is_decided and state.loaded.digest != last_good.kept

        while True:
            await until(is_new, self.state, self._decided)
            await last_good.keep(self.state.value.loaded or Loaded())
