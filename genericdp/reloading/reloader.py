"""Follows the config on disk: whatever happens to its files, a good one is put in force."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from genericdp.config.loaded import ConfigState
from genericdp.errors import ConfigError
from genericdp.host.inotify import CONTENTS, ENTRIES, FolderWatch, Shortage
from genericdp.host.workers import in_worker
from genericdp.observed import Observed, until
from genericdp.reloading.fingerprint import Fingerprint, find_pinned, fingerprint
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from genericdp.config.loaded import Loaded
    from genericdp.model import Resource

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How long a look at the config's files may take: NFS may never answer."""
_TIMES = 3
"""So often a config that changes meanwhile is read again at once."""
_ACCEPTED: dict[str, Any] = {"differs_since": None, "problems": (), "refused": ""}
"""What of the state tells of the config on disk, once that is in force."""


class Load(Protocol):
    """Loads a config; whatever becomes of it is a problem, nothing is raised."""

    def __call__(self, paths: Sequence[Path], *, policy: Path | None) -> Awaitable[Loaded]:
        """Return the config, checked against the policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a config comes from: its files and folders, and the policy that bounds it."""

    configs: tuple[Path, ...]
    policy: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all that can change it."""
        return self.configs if self.policy is None else (*self.configs, self.policy)

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A config as it was read."""

    loaded: Loaded
    seen: Fingerprint | None
    """What was to be seen before; None: its files did not answer."""


async def read(origin: Origin, seen: Fingerprint | None, load: Load) -> Reading:
    """Read a config; again where it changes meanwhile, so that no mixture of two is taken.

    The policy counts as a part of it. ``seen`` is what is to be seen of it now.
    """
    before, loaded = seen, await load(origin.configs, policy=origin.policy)
    for _ in range(_TIMES):
        seen = await see(origin.paths)
        if seen == before:
            break
        before, loaded = seen, await load(origin.configs, policy=origin.policy)
    return Reading(loaded=loaded, seen=before)


async def see(paths: Sequence[Path]) -> Fingerprint | None:
    """Look at a config off the loop; None where that does not end."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await in_worker(partial(fingerprint, paths))
    except TimeoutError:
        return None


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
        self._seen: Fingerprint | None = None
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
        await self._take(reading, asked=False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._heed_hangups(), name="hangups")
            if self._state_dir is not None:
                from genericdp.reloading import lastgood  # most daemons never need it

                keeping = lastgood.keep(self._state_dir, self._in_force, self._decided)
                tasks.create_task(keeping, name="last good config")
            tasks.create_task(self._follow(reading.seen), name="config files")

    async def _heed_hangups(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            log.info("SIGHUP: the config is read again")
            self._asked = True
            self.news.value += 1

    async def _follow(self, taken: Fingerprint | None) -> None:
        watch = FolderWatch(self._note, what=f"the config {self._origin}", shortage=self._shortage)
        settled = False
        try:
            while True:
                told = self.news.value
                found = self._seen = await see(self._origin.paths)
                if found is not None and watch.set_folders(_masks(found)):
                    self.news.value += 1  # it may have changed before the watch was set
                differs = found not in {None, taken}
                if self._asked or self._is_due() or (differs and settled):
                    asked, self._asked, settled = self._asked, False, False
                    reading = await read(self._origin, found, self._load)
                    await self._take(reading, asked=asked)
                    taken = reading.seen
                elif differs or await self._until_told(told, self._rest(watch)):
                    await self._settle()
                    settled = True
        finally:
            watch.close()

    def _note(self, folder: str, name: str | None) -> None:
        if self._seen is None or self._seen.concerns(folder, name):
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

    async def _take(self, reading: Reading, *, asked: bool) -> None:
        """Do what is to be done about a config that has been read: all of it is taken, or none."""
        loaded, before = reading.loaded, self.state.value
        if loaded.problems:
            self._tally.reloads["refused"] += 1
            await self._refuse(loaded, asked=asked)
        elif loaded.digest == before.digest:
            self._tally.reloads["unchanged"] += 1
            self.state.value = replace(before, from_state_dir=False, **_ACCEPTED)
            if asked or self.state.value != before:
                log.info("the config on disk is the one in force")
        else:
            self._tally.reloads["applied"] += 1
            self.state.value = replace(self._in_force_state(loaded), **_ACCEPTED)
            self._apply(loaded)
            self._in_force.value = loaded
        self._plan_retry(loaded)
        await self._find_pinned(loaded)

    async def _refuse(self, loaded: Loaded, *, asked: bool) -> None:
        """Leave what is in force; log the problems if they are others, or somebody waits."""
        before, problems = self.state.value, tuple(map(str, loaded.problems))
        since = self._clock() if before.differs_since is None else before.differs_since
        self.state.value = replace(
            before, differs_since=since, problems=problems, refused=loaded.digest
        )
        if not asked and (problems, loaded.digest) == (before.problems, before.refused):
            return
        for problem in problems:
            log.error("%s", problem)
        if before.in_force or not await self._recall(loaded):
            self._log_refused(loaded)

    def _in_force_state(self, loaded: Loaded, *, from_state_dir: bool = False) -> ConfigState:
        return replace(
            self.state.value,
            digest=loaded.digest,
            since=self._clock(),
            files=tuple(map(str, loaded.files)),
            policy="" if loaded.policy is None else loaded.policy.file,
            policy_digest="" if loaded.policy is None else loaded.policy.sha256,
            resources=len(loaded.resources),
            from_state_dir=from_state_dir,
            warnings=tuple(map(str, loaded.warnings)),
        )

    def _plan_retry(self, loaded: Loaded) -> None:
        if not loaded.problems:
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

    def _log_refused(self, refused: Loaded) -> None:
        what = "policy" if refused.policy_is_unusable else "config"
        stays = "nothing is served"
        if self.state.value.in_force:
            has_policy = what == "config" and self._origin.policy is not None
            stays = f"the one in force stays{', with its policy,' if has_policy else ''}"
        log.error("the %s cannot be used: %s until it is corrected (%s)", what, stays, self._origin)

    async def _recall(self, refused: Loaded) -> bool:
        """Put the last good config in force, as far as a policy allows.

        Return whether there is one. The policy is that of today: what it forbids must not come
        back by a restart.
        """
        if (folder := self._state_dir) is None:
            return False
        if self._origin.policy is not None and refused.policy is None:
            log.warning("the last good config is ignored: there is no policy that could bound it")
            return False
        from genericdp.reloading import lastgood  # most daemons never need it

        if (loaded := await lastgood.find(folder, refused.policy)) is None:
            return False
        self.state.value = self._in_force_state(loaded, from_state_dir=True)
        log.error(
            "the config cannot be used: the last good one, from %s, is served until it is"
            " corrected (%s)",
            folder,
            self._origin,
        )
        self._apply(replace(loaded, files=(folder / lastgood.NAME,)))
        return True

    async def _find_pinned(self, loaded: Loaded) -> None:
        """Warn of files that can never be seen to change (``subPath``), once of each."""
        if not loaded.files:
            return
        policy = self._origin.policy
        files = loaded.files if policy is None else (*loaded.files, policy)
        found = await in_worker(partial(find_pinned, self._origin.paths, files))
        for sentence in found:
            if sentence not in self.state.value.pinned:
                log.warning("%s", sentence)
        self.state.value = replace(self.state.value, pinned=tuple(found))


def _masks(seen: Fingerprint) -> dict[str, int]:
    """Return what to watch for in each folder of a config.

    On the way there much may be written that is no config, as to /dev/null in /dev.
    """
    return {one: CONTENTS if one in seen.written else ENTRIES for one in seen.folders}
