"""The files of a config on disk: their content, and when it changes."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp.config.files import Digest, read_file, read_files
from genericdp.host.calls import HangsError
from genericdp.host.events import CONTENTS, ENTRIES, DirectoryWatch
from genericdp.host.pathwalk import walk
from genericdp.host.root import upwards
from genericdp.host.workers import start
from genericdp.observed import Signal, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_LOOK_SECONDS = 2.0
"""The time that reading the config's files may take: NFS may never answer."""
_MAX_PAUSES = 50
"""After this many pauses (10 s), a config that keeps changing is read as it is."""

_Seen = tuple[str, dict[str, int]]
"""The digest of a config, and the directories to watch, each with the events that count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReloadPace:
    """Delays of reading the config, in seconds."""

    settle: float = 0.2
    """How long it must stay the same before it is loaded: several writes are one change."""
    poll: float = 2.0
    """Seconds between checks if inotify cannot be used."""
    full_check: float = 30.0
    """Seconds between full checks, for changes that inotify does not report, as on network
    filesystems.
    """
    retry: float = 5.0
    """Delay after loading failed for a reason outside the files; it doubles each time."""
    last_retry: float = 300.0


class ConfigFiles:
    """Reads the files of a config, and its policy's, again and again, and watches them."""

    def __init__(
        self, configs: Sequence[Path], policy: Path | None, hangup: Signal, pace: ReloadPace
    ) -> None:
        self.digest = ""
        """Digest from the latest check; empty if that hangs or was impossible."""
        self.news = Signal()
        """Sent when the files may have changed."""
        paths = configs if policy is None else (*configs, policy)
        self.shown = ", ".join(map(str, paths))
        self._hangup, self._heeded = hangup, 0
        self._pace = pace
        self._read = partial(_look, configs, policy)
        self._reading: asyncio.Future[_Seen] | None = None
        self._directories: dict[str, int] = {}
        """The directories to watch, and the events that count."""
        self._watch = DirectoryWatch(lambda *_: self.news.send(), what=f"the config {self.shown}")

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()

    async def look(self) -> str:
        """Read the files off the loop; return their digest, or "" if that is impossible."""
        self.digest = ""
        if (old := self._reading) is not None:
            # Not while an earlier check hangs in its thread, whose result would be old.
            if not await _ends(old):
                return ""
            old.exception()  # which would be logged otherwise
        self._reading = reading = start(self._read)
        if await _ends(reading):
            self._reading = None
            with suppress(OSError, HangsError):  # too few descriptors, too little memory
                self.digest, self._directories = reading.result()
        return self.digest

    async def until_changed(self, loaded: str, due: float) -> bool:
        """Wait until a different config is on disk and no longer changes; then return False.

        ``loaded`` is the digest of the config that was read last. Also end when a hangup requests a
        reload, and return True then, or when it is ``due`` on the loop's clock.
        """
        clock = asyncio.get_running_loop().time
        while not self._is_asked() and clock() < due:
            has_news, found = self.news.watch(), await self.look() or loaded
            # A new directory may have changed before it was watched.
            is_new = bool(self.digest and await self._watch.set_directories(self._directories))
            if found == loaded and not is_new:
                is_watched = self.digest and self._watch.complete
                pace = self._pace.full_check if is_watched else self._pace.poll
                if not await self._until(has_news, min(pace, due - clock())):
                    continue
            if await self._settled(loaded) != loaded:
                break
        is_asked, self._heeded = self._is_asked(), self._hangup.value
        return is_asked

    async def _settled(self, loaded: str) -> str:
        """Return the digest of the config on disk once it has stayed the same for a while."""
        found = await self.look() or loaded
        for _ in range(_MAX_PAUSES):
            before = found
            await self._until(lambda: False, self._pace.settle)
            found = await self.look() or loaded
            if found == before:
                break
        return found

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds or a hangup requests a reload; return False on a timeout."""
        return await until(
            lambda: condition() or self._is_asked(),
            *(self.news, self._hangup),
            timeout_seconds=seconds,
        )

    def _is_asked(self) -> bool:
        return self._hangup.value != self._heeded


async def _ends(reading: asyncio.Future[_Seen]) -> bool:
    done, _ = await asyncio.wait([reading], timeout=_LOOK_SECONDS)
    return bool(done)


def _look(configs: Sequence[Path], policy: Path | None) -> _Seen:
    """Return the digest of a config, and the paths to watch; it may hang, and raises OSError."""
    digest = Digest()
    if policy is not None:
        digest.add("policy", read_file(policy))
    paths = list(configs if policy is None else (*configs, policy))
    for path, given in read_files(configs):
        digest.add(path.name, given)
        paths.append(path)
    directories: dict[str, int] = {}
    for path in paths:
        # A missing file's directory is watched, too: that is where it would appear.
        walked = walk(os.path.join(os.getcwd(), path), past_missing=True)
        holder = walked.at if os.path.isdir(walked.at) else os.path.dirname(walked.at)
        directories[holder] = CONTENTS
        for link in (walked.at, *walked.links):
            for passed in upwards(link):
                # Files that are not configs are often written there, such as /dev/null in /dev.
                directories.setdefault(os.path.dirname(passed), ENTRIES)
    return str(digest), directories
