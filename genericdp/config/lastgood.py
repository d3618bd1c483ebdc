"""The last good config: kept as it was written, and served if the config is bad when the daemon
starts.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.errors import reason_of
from genericdp.host.workers import in_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from genericdp.config.files import Loaded

log = logging.getLogger(__name__)

LAST_GOOD = "last-good"
"""In the state directory, a link to the directory with the files of the last good config."""
_VERSION = ".last-good-"
_LEFT_SECONDS = 60.0
"""Age from which a directory without a link to it is left over; a newer one may still be written by
another daemon.
"""


class LastGood:
    """The last good config in a state directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kept = ""
        """The digest of the config that was last stored there."""

    async def keep(self, loaded: Loaded) -> None:
        """Store a config in place of the last one; if that fails, log it, and keep the last one."""
        self.kept = loaded.digest
        try:
            await in_worker(partial(_store, self.directory, loaded.texts), self.directory)
        except OSError as error:
            reason = reason_of(error)
            log.warning("the last good config cannot be kept in %s: %s", self.directory, reason)

    async def recall(self, load: Callable[[list[Path]], Awaitable[Loaded]]) -> Loaded | None:
        """Load the config that was kept; return None, and log why, if it is missing or unusable."""
        try:
            files = await in_worker(partial(_stored, self.directory), self.directory)
        except FileNotFoundError:
            log.warning("there is no last good config in %s", self.directory)
            return None
        except OSError as error:
            log.warning("the last good config is ignored: %s", reason_of(error))
            return None
        loaded = await load(files)
        if not loaded.problems:
            return loaded
        first, *others = loaded.problems
        more = f", and {len(others)} more" if others else ""
        log.warning("the last good config is ignored: %s%s", first, more)
        return None


def _store(directory: Path, texts: Iterable[tuple[str, bytes]]) -> None:
    """Store the files of a config, all or none; raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    link = directory / LAST_GOOD
    for path in directory.glob(f"{_VERSION}*"):
        with suppress(OSError):  # another daemon may have removed it
            age = time.time() - path.lstat().st_mtime  # noqa: TID251
            if age > _LEFT_SECONDS and not (link.exists() and link.samefile(path)):
                shutil.rmtree(path)
    version = Path(tempfile.mkdtemp(prefix=_VERSION, dir=directory))  # 0700
    try:
        for number, (name, text) in enumerate(texts):
            # Each in its own directory: several may have the same name, and their order counts.
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


def _stored(directory: Path) -> list[Path]:
    """Return the files of the last good config; raises OSError if they cannot be used.

    Raise FileNotFoundError without any.
    """
    link = directory / LAST_GOOD
    target = link.readlink()
    if len(target.parts) != 1 or target.name == LAST_GOOD:
        raise OSError(f"{link} leads to {target}, where it is not kept")
    version = directory / target
    status = version.lstat()
    owners = {status.st_uid, link.lstat().st_uid}
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022 or owners - {0, os.geteuid()}:
        raise OSError(f"{version}: others may have written it")
    if not (files := sorted(version.glob("*/*"))):
        raise FileNotFoundError(version)
    return files
