"""Follows the config on disk: whatever happens to its files, a good one is put in force."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp.config.state import ConfigState
from genericdp.errors import ConfigError
from genericdp.host.inotify import CONTENTS, ENTRIES, FolderWatch, Shortage
from genericdp.host.workers import in_worker
from genericdp.observed import Observed, until
from genericdp.reloading.deciding import Verdict, decide, in_force
from genericdp.reloading.mounts import pinned_here
from genericdp.reloading.reading import read, see
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from genericdp.config.loaded import Loaded
    from genericdp.model import Resource
    from genericdp.reloading.reading import Load, Origin, Reading
    from genericdp.reloading.sight import Sight
    from genericdp.tally import ReloadResult

log = logging.getLogger(__name__)

_RESULTS: Mapping[Verdict, ReloadResult] = {
    Verdict.APPLY: "applied",
    Verdict.KEEP: "unchanged",
    Verdict.REFUSE: "refused",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReloadPace:
    """How soon and how often the config is looked at, in seconds."""

    settle: float = 0.2
    """Without a change, before the config is read: what is written together is read together."""
    longest: float = 2.0
    """After the first change, whatever else goes on."""
    poll: float = 2.0
    """Where inotify cannot be had."""
    net: float = 30.0
    """For what inotify does not tell of: a network's filesystem, a mount from elsewhere."""
    retry: float = 5.0
    """After a reading that failed for no reason that the config's files would show; then twice as
    long, and so on."""
    last_retry: float = 300.0
    """As long as a config is refused, it is read again so often: a disk may have recovered."""


class Reloader:
    """Puts the config in force, and each good one after it; ``state`` says how things stand."""

    def __init__(
        self,
        origin: Origin,
        *,
        load: Load,
        put_in_force: Callable[[Loaded], None],
        hangup: asyncio.Event,
        decided: Observed[tuple[Resource, ...] | None],
        state_dir: Path | None = None,
        pace: ReloadPace | None = None,
        shortage: Shortage | None = None,
        tally: Tally | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251
    ) -> None:
        self.state = Observed(ConfigState())
        self._origin = origin
        self._put_in_force = put_in_force
        self._hangup = hangup
        self._decided = decided
        """The resources of the last config by which every one of them could be decided."""
        self._in_force: Observed[Loaded | None] = Observed(None)
        """The config in force, if it is that on disk."""
        self._state_dir = state_dir
        self._pace = pace or ReloadPace()
        self._load = load
        self._shortage = shortage or Shortage()
        self._tally = tally or Tally()
        self._clock = clock
        self._asked = False
        self.news = Observed(0)
        """How often something told that the config may have changed."""
        self._sight: Sight | None = None
        """What was to be seen when folders were watched last."""
        self._retries = 0
        self._due: float | None = None
        """When a refused config is read again, on the loop's clock."""

    async def run(self, first: Awaitable[Reading]) -> None:
        """Take the first reading, then follow the config forever.

        Raises ConfigError if there is a policy then that cannot be used.
        """
        reading = await first
        if reading.loaded.policy_is_unusable:
            raise ConfigError(
                reading.loaded.problems,
                advice=f"the policy {self._origin.policy} cannot be used, and nothing is served"
                " without its bounds: correct it, and start again",
            )
        sight = await self._take(reading, asked=False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._heed_hangups(), name="hangups")
            if self._state_dir is not None:
                tasks.create_task(self._keep_good(self._state_dir), name="last good config")
            tasks.create_task(self._follow(sight), name="config files")

    async def _heed_hangups(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            log.info("SIGHUP: the config is read again")
            self._asked = True
            self.news.value += 1

    async def _follow(self, sight: Sight | None) -> None:
        watch = FolderWatch(self._note, what=f"the config {self._origin}", shortage=self._shortage)
        settled = False
        try:
            while True:
                told = self.news.value
                found = self._sight = await see(self._origin.paths)
                if found is not None and watch.set_folders(_masks(found)):
                    self.news.value += 1  # it may have changed before the watch was set
                differs = found not in {None, sight}
                if self._asked or self._is_due() or (differs and settled):
                    asked, self._asked, settled = self._asked, False, False
                    reading = await read(self._origin, found, self._load)
                    sight = await self._take(reading, asked=asked)
                elif differs or await self._until_told(told, self._rest(watch)):
                    await self._settle()
                    settled = True
        finally:
            watch.close()

    def _note(self, folder: str, name: str | None) -> None:
        if self._sight is None or self._sight.concerns(folder, name):
            self.news.value += 1

    def _rest(self, watch: FolderWatch) -> float:
        rest = self._pace.net if watch.complete else self._pace.poll
        if self._due is not None:
            rest = min(rest, max(0.0, self._due - asyncio.get_running_loop().time()))
        return rest

    async def _settle(self) -> None:
        """Wait until nothing more happens to the config."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._pace.longest
        while not self._asked and (rest := min(self._pace.settle, latest - loop.time())) > 0:
            if not await self._until_told(self.news.value, rest):
                return

    async def _until_told(self, told: int, seconds: float) -> bool:
        return await until(lambda: self.news.value != told, self.news, timeout_seconds=seconds)

    def _is_due(self) -> bool:
        return self._due is not None and self._due <= asyncio.get_running_loop().time()

    async def _take(self, reading: Reading, *, asked: bool) -> Sight | None:
        """Do what is to be done about a config that has been read; gives what was seen of it."""
        loaded, before = reading.loaded, self.state.value
        decision = decide(before, loaded, now=self._clock(), asked=asked)
        self.state.value = decision.state
        self._tally.reloads[_RESULTS[decision.verdict]] += 1
        self._plan_retry(loaded, refused=decision.verdict is Verdict.REFUSE)
        match decision.verdict:
            case Verdict.APPLY:
                self._apply(loaded)
                self._in_force.value = loaded
            case Verdict.KEEP if decision.is_news:
                log.info("the config on disk is the one in force")
            case Verdict.REFUSE if decision.is_news:
                for problem in decision.state.problems:
                    log.error("%s", problem)
                if before.in_force or not await self._recalled(loaded):
                    self._tell_refused(loaded)
            case _:
                pass
        await self._find_pinned(loaded)
        return reading.sight

    def _plan_retry(self, loaded: Loaded, *, refused: bool) -> None:
        if not refused:
            self._retries, self._due = 0, None
            return
        last: float = self._pace.last_retry
        # Without a digest it is the reading that has failed, not the config that is bad.
        pause = last if loaded.digest else min(last, self._pace.retry * 2 ** min(self._retries, 16))
        self._retries += 1
        self._due = asyncio.get_running_loop().time() + pause

    def _apply(self, loaded: Loaded) -> None:
        for warning in loaded.warnings:
            log.warning("%s", warning)
        self._put_in_force(loaded)

    def _tell_refused(self, refused: Loaded) -> None:
        what = "policy" if refused.policy_is_unusable else "config"
        stays = "nothing is served"
        if self.state.value.in_force:
            has_policy = what == "config" and self._origin.policy is not None
            stays = f"the one in force stays{', with its policy,' if has_policy else ''}"
        log.error("the %s cannot be used: %s until it is corrected (%s)", what, stays, self._origin)

    async def _recalled(self, refused: Loaded) -> bool:
        """Put the last good config in force, as far as a policy allows; say whether there is one.

        The policy is that of today: what it forbids must not come back by a restart.
        """
        if (folder := self._state_dir) is None:
            return False
        if self._origin.policy is not None and refused.policy is None:
            log.warning("the last good config is ignored: there is no policy that could bound it")
            return False
        from genericdp.reloading import lastgood  # most daemons never need it

        try:
            loaded = await in_worker(partial(lastgood.recall, folder, refused.policy))
        except lastgood.UnusableStateError as error:
            log.warning("the last good config is ignored: %s", error)
            return False
        if loaded is None:
            log.warning("there is no last good config in %s", folder)
            return False
        state = in_force(self.state.value, loaded, now=self._clock())
        self.state.value = replace(state, from_state_dir=True)
        log.error(
            "the config cannot be used: the last good one, from %s, is served until it is"
            " corrected (%s)",
            folder,
            self._origin,
        )
        self._apply(replace(loaded, files=(folder / lastgood.NAME,)))
        return True

    async def _keep_good(self, folder: Path) -> None:
        """Store each config by which every resource could be decided, for a start at which the one
        on disk is bad.
        """
        from genericdp.reloading import lastgood

        kept: Loaded | None = None
        while True:

            def is_good(kept: Loaded | None = kept) -> bool:
                loaded = self._in_force.value
                good = loaded is not None and loaded.resources == self._decided.value
                return good and loaded is not kept

            await until(is_good, self._in_force, self._decided)
            if (kept := self._in_force.value) is None:
                continue
            try:
                await in_worker(partial(lastgood.store, folder, kept))
            except OSError as error:
                log.warning("the last good config cannot be kept in %s: %s", folder, error)

    async def _find_pinned(self, loaded: Loaded) -> None:
        """Warn of files that can never be seen to change (``subPath``), once of each."""
        if not loaded.files:
            return
        policy = self._origin.policy
        files = loaded.files if policy is None else (*loaded.files, policy)
        found = await in_worker(partial(pinned_here, self._origin.paths, files))
        for sentence in found:
            if sentence not in self.state.value.pinned:
                log.warning("%s", sentence)
        self.state.value = replace(self.state.value, pinned=tuple(found))


def _masks(sight: Sight) -> dict[str, int]:
    """Return what to watch for in each folder of a config.

    On the way there much may be written that is no config, as to /dev/null in /dev.
    """
    return {one: CONTENTS if one in sight.written else ENTRIES for one in sight.folders}
