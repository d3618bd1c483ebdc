"""Loads the config again when its files change: a good one replaces the one in force."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.config.files import Digest, Loaded, read_file, read_files, unusable
from genericdp.errors import ConfigError, reason_of
from genericdp.host.calls import HangsError
from genericdp.host.events import CONTENTS, ENTRIES, FolderWatch
from genericdp.host.pathwalk import walk
from genericdp.host.root import upwards
from genericdp.host.workers import in_worker, start
from genericdp.observed import Observed, Signal, until
from genericdp.repeat import delay_after
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from genericdp.model import Resource

    Load = Callable[..., Coroutine[Any, Any, Loaded]]
    """Loads a config: ``load(paths, policy=path)``. Raises nothing: what is wrong is a problem."""

log = logging.getLogger(__name__)

LAST_GOOD = "last-good"
"""In the state directory, a link to the folder with the files of the last good config."""
_VERSION = ".last-good-"
_LEFT_SECONDS = 60.0
"""An older folder that nothing links to is left over; another daemon may be writing a newer one."""
_LOOK_SECONDS = 2.0
"""How long a look at the config's files may take: NFS may never answer."""
_MAX_TRIES = 10
_MAX_WAITS = 50
"""A config that has been another one after each of so many pauses (10 s) is read as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigState:
    """The config in force and the one on disk, as last read.

    Times are seconds since 1970, for people: nothing is decided by them.
    """

    loaded: Loaded | None = None
    """The config in force; None: there is none, nothing is served, and the daemon is not ready."""
    since: float | None = None
    """When it was put in force."""
    from_state_dir: bool = False
    """Whether it is the last good one of an earlier run: the one on disk could not be used."""
    refused: Loaded | None = None
    """The config on disk where that cannot be used; None: it is the one in force."""
    differs_since: float | None = None
    """Since when the one on disk has been refused, whichever it was."""
    pinned: tuple[str, ...] = ()
    """Config files that never change here, with the reason (``subPath``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReloadPace:
    """How soon and how often the config is looked at, in seconds."""

    settle: float = 0.2
    """How long it must stay the same before it is loaded: what is written together is one."""
    poll: float = 2.0
    """Where inotify cannot be used."""
    net: float = 30.0
    """For what inotify does not report: network filesystems, mounts from elsewhere."""
    retry: float = 5.0
    """After loading failed for a reason that is not in the files; then twice as long, and so on."""
    last_retry: float = 300.0


class Reloader:
    """Puts the config in force, and each good one after it; ``state`` compares it with the disk.

    ``decided`` holds the resources of the last config by which every one could be decided.
    """

    def __init__(
        self,
        configs: tuple[Path, ...],
        *,
        policy: Path | None = None,
        load: Load,
        put_in_force: Callable[[Loaded], None],
        hangup: asyncio.Event,
        decided: Observed[tuple[Resource, ...] | None],
        state_dir: Path | None = None,
        pace: ReloadPace | None = None,
        tally: Tally | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251
    ) -> None:
        self.state = Observed(ConfigState())
        self.news = Signal()
        """Sent when the config may have changed."""
        self._configs = configs
        self._policy = policy
        self._paths = configs if policy is None else (*configs, policy)
        self._shown = ", ".join(map(str, self._paths))
        self._load = load
        self._put_in_force = put_in_force
        self._hangup = hangup
        self._decided = decided
        self._state_dir = state_dir
        self._kept = ""
        """The digest of the config that was last stored there."""
        self._pace = pace or ReloadPace()
        self._tally = tally or Tally()
        self._clock = clock
        self._looking: asyncio.Future[tuple[str, dict[str, int]]] | None = None
        self._seen = ""
        """The digest that the latest look has found; empty: it does not end, or was impossible."""
        self._folders: dict[str, int] = {}
        """What to watch, and for what."""
        self._asked = False
        self._failures = 0
        self._due = float("inf")
        """When a config that could not be loaded is tried again, on the loop's clock."""

    async def run(self, first: asyncio.Task[Loaded]) -> None:
        """Take what was loaded first, then follow the config forever.

        Raises ConfigError if there is a policy then that cannot be used.
        """
        loaded = await self._read(await first)
        if loaded.policy_is_unusable:
            raise ConfigError(
                loaded.problems,
                advice=f"the policy {self._policy} cannot be used, and nothing is served without"
                " its bounds: correct it, and start again",
            )
        await self._take(loaded, asked=False)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._heed_hangups(), name="hangups")
            if self._state_dir is not None:
                tasks.create_task(self._keep(self._state_dir), name="last good config")
            tasks.create_task(self._follow(loaded), name="config files")

    async def _read(self, loaded: Loaded | None = None) -> Loaded:
        """Load the config; again while it changes meanwhile, so that no mixture of two is taken."""
        for _ in range(_MAX_TRIES):
            if loaded is None:
                loaded = await self._load(self._configs, policy=self._policy)
            if await self._look() in {"", loaded.digest} or not loaded.digest:
                return loaded
            loaded = None
            await asyncio.sleep(self._pace.settle)
        return Loaded(problems=(unusable(self._paths[0], "it keeps changing while it is read"),))

    async def _heed_hangups(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            log.info("SIGHUP: the config is read again")
            self._asked = True
            self.news.send()

    async def _follow(self, loaded: Loaded) -> None:
        with closing(
            FolderWatch(lambda *_: self.news.send(), what=f"the config {self._shown}")
        ) as watch:
            while True:
                # What could not be loaded is tried again when it changes, or is due.
                await self._until_changed(watch, loaded.digest or self._seen)
                asked, self._asked = self._asked, False
                loaded = await self._read()
                await self._take(loaded, asked=asked)

    async def _until_changed(self, watch: FolderWatch, taken: str) -> None:
        """Wait until another config has been on disk for a while, one is due, or asked for."""
        before, is_told, waits = taken, False, 0
        while True:
            has_news, seen = self.news.watch(), await self._look() or taken
            is_new = bool(self._seen and await watch.set_folders(self._folders))
            due_in = self._due - asyncio.get_running_loop().time()
            if self._asked or due_in <= 0 or seen == before != taken:
                return
            if seen == taken and not is_told and not is_new:
                rest = min(due_in, self._pace.net if watch.complete else self._pace.poll)
                is_told = await until(has_news, self.news, timeout_seconds=rest)
                continue
            # What is written together is one config. And where a folder is new, it may have
            # changed before it was watched.
            await until(lambda: self._asked, self.news, timeout_seconds=self._pace.settle)
            waits += seen != before
            if waits == _MAX_WAITS:  # it keeps changing, which is said once it is read
                return
            before, is_told = seen, False

    async def _look(self) -> str:
        """Look at the files off the loop; return their digest, or "" where that is impossible."""
        if self._looking is None:  # not beside one that hangs, and keeps its thread
            self._looking = start(partial(_look, self._configs, self._policy))
        done, _ = await asyncio.wait([self._looking], timeout=_LOOK_SECONDS)
        self._seen = ""
        if done:
            looking, self._looking = self._looking, None
            with suppress(OSError, HangsError):  # too few descriptors, too little memory
                self._seen, self._folders = looking.result()
        return self._seen

    async def _take(self, loaded: Loaded, *, asked: bool) -> None:
        """Do what is to be done about a config that has been read: all of it is taken, or none."""
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
                log.info("the config on disk is the one in force")
        else:
            self._tally.reloads["applied"] += 1
            self._apply(loaded, accepted)
        if not loaded.digest:  # the loading has failed: it may be a good config
            self._failures += 1
            pause = delay_after(self._failures, self._pace.retry, self._pace.last_retry)
            self._due = asyncio.get_running_loop().time() + pause
            return
        self._failures, self._due = 0, float("inf")
        for sentence in loaded.pinned:
            if sentence not in before.pinned:
                log.warning("%s", sentence)
        self.state.value = replace(self.state.value, pinned=loaded.pinned)

    def _apply(self, loaded: Loaded, state: ConfigState) -> None:
        self.state.value = replace(state, loaded=loaded, since=self._clock())
        for warning in loaded.warnings:
            log.warning("%s", warning)
        self._put_in_force(loaded)

    async def _refuse(self, loaded: Loaded, *, asked: bool) -> None:
        """Leave what is in force; log the problems if they are others, or somebody waits."""
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
            stays = f"the one in force stays{', with its policy,' if has_policy else ''}"
        log.error("the %s cannot be used: %s until it is corrected (%s)", what, stays, self._shown)

    async def _keep(self, folder: Path) -> None:
        """Store each config by which every resource could be decided, forever."""
        while True:
            await until(self._is_good_and_new, self.state, self._decided)
            loaded = self.state.value.loaded or Loaded()
            self._kept = loaded.digest
            try:
                await in_worker(partial(_store, folder, loaded.texts), folder)
            except OSError as error:
                log.warning(
                    "the last good config cannot be kept in %s: %s", folder, reason_of(error)
                )

    def _is_good_and_new(self) -> bool:
        state = self.state.value
        if state.loaded is None or state.from_state_dir or state.loaded.digest == self._kept:
            return False
        return state.loaded.resources == self._decided.value

    async def _recall(self) -> bool:
        """Put the last good config in force, if there is one that the policy of today allows."""
        if (folder := self._state_dir) is None:
            return False
        try:
            files = await in_worker(partial(_stored, folder), folder)
        except FileNotFoundError:
            log.warning("there is no last good config in %s", folder)
            return False
        except OSError as error:
            log.warning("the last good config is ignored: %s", reason_of(error))
            return False
        loaded = await self._load(files, policy=self._policy)
        if loaded.problems:
            first, *others = loaded.problems
            more = f", and {len(others)} more" if others else ""
            log.warning("the last good config is ignored: %s%s", first, more)
            return False
        log.error(
            "the config cannot be used: the last good one, from %s, is served until it is"
            " corrected (%s)",
            folder,
            self._shown,
        )
        self._apply(loaded, replace(self.state.value, from_state_dir=True))
        return True


def _look(configs: Sequence[Path], policy: Path | None) -> tuple[str, dict[str, int]]:
    """Return the digest of a config, and what to watch; it may hang, and raises OSError."""
    digest = Digest()
    if policy is not None:
        digest.add("policy", read_file(policy))
    paths = list(configs if policy is None else (*configs, policy))
    for path, given in read_files(configs):
        digest.add(path.name, given)
        paths.append(path)
    folders: dict[str, int] = {}
    for path in paths:
        # What does not exist is on the way, too: that is where it would appear.
        walked = walk(os.path.join(os.getcwd(), path), past_missing=True)
        holder = walked.at if os.path.isdir(walked.at) else os.path.dirname(walked.at)
        folders[holder] = CONTENTS
        for one in (walked.at, *walked.links):
            for passed in upwards(one):
                # There much is written to that is no config, as /dev/null in /dev.
                folders.setdefault(os.path.dirname(passed), ENTRIES)
    return str(digest), folders


def _store(folder: Path, texts: Iterable[tuple[str, bytes]]) -> None:
    """Store the files of a config, all or none; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    link = folder / LAST_GOOD
    for path in folder.glob(f"{_VERSION}*"):
        with suppress(OSError):  # another daemon may have removed it
            age = time.time() - path.lstat().st_mtime  # noqa: TID251
            if age > _LEFT_SECONDS and not (link.exists() and link.samefile(path)):
                shutil.rmtree(path)
    version = Path(tempfile.mkdtemp(prefix=_VERSION, dir=folder))  # 0700
    try:
        for number, (name, text) in enumerate(texts):
            # Each in a folder of its own: several may have one name, and their order counts.
            path = version / f"{number:04}" / name
            path.parent.mkdir()
            with path.open("xb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        (version / LAST_GOOD).symlink_to(version.name)
        (version / LAST_GOOD).replace(link)
    except BaseException:
        shutil.rmtree(version, ignore_errors=True)
        raise


def _stored(folder: Path) -> list[Path]:
    """Return the files of the last good config; raises OSError if they cannot be used.

    If there are none, it is a FileNotFoundError.
    """
    link = folder / LAST_GOOD
    target = link.readlink()
    if len(target.parts) != 1 or target.name == LAST_GOOD:
        raise OSError(f"{link} leads to {target}, where it is not kept")
    version = folder / target
    status = version.lstat()
    owners = {status.st_uid, link.lstat().st_uid}
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022 or owners - {0, os.geteuid()}:
        raise OSError(f"{version}: others may have written it")
    if not (files := sorted(version.glob("*/*"))):
        raise FileNotFoundError(version)
    return files
