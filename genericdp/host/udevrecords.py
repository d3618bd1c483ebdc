"""Tells which records of the udev database are written: udev's rules run after the uevent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from inotify_simple import flags

from genericdp.host import udevdb
from genericdp.inotify import open_inotify, tell_closed, tell_polling, tell_watching

if TYPE_CHECKING:
    from collections.abc import Callable

    from inotify_simple import Event, INotify

    from genericdp.host.root import Root

AGAIN_AFTER_SECONDS = 30.0
"""Where it could not be watched, it is tried again."""

# That the folder itself is deleted is told always: as IGNORED.
_SELF = flags.MOVE_SELF | flags.ONLYDIR
_ABOVE = flags.CREATE | flags.MOVED_TO | _SELF
# Not CREATE: who then reads the record finds it empty.
_RECORDS = flags.MOVED_TO | flags.CLOSE_WRITE | flags.MOVED_FROM | flags.DELETE | _SELF


def udevd_runs(root: Root) -> bool:
    """Say whether a udevd is there that will write a record of each new device."""
    try:
        root.lstat(udevdb.CONTROL)
    except OSError:
        return False
    return True


class UdevRecords:
    """Calls ``recorded`` on the loop with the name of each record that is written or removed.

    None means: look at everything. What is there already when it is made is not told. A folder
    that does not exist yet is waited for, since udevd may start later.

    Where ``complete`` is False the owner has to poll; the log says so once, and it tries again.
    """

    def __init__(
        self,
        recorded: Callable[[str | None], None],
        root: Root,
        *,
        open_inotify: Callable[[], INotify] = open_inotify,
        again_after_seconds: float = AGAIN_AFTER_SECONDS,
    ) -> None:
        self._recorded = recorded
        self._again_after_seconds = again_after_seconds
        parts = udevdb.FOLDER.split("/")[1:]
        self._folders = [root.real("/" + "/".join(parts[:i])) for i in range(len(parts) + 1)]
        self._next = [*parts, ""]
        self._depth = 0
        self._watch: int | None = None
        self._inotify: INotify | None = None
        self._open_inotify = open_inotify
        self._retry: asyncio.TimerHandle | None = None
        self.complete = True
        self._open()

    def _open(self) -> None:
        try:
            self._inotify = self._open_inotify()
        except OSError as error:
            self._poll_instead(error)
            return
        self._follow(self._inotify)
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._drain)

    def _try_again(self) -> None:
        self._retry, self.complete = None, True
        if self._inotify is None:
            self._open()
        else:
            self._follow(self._inotify)
        if self.complete:
            tell_watching(self)
            self._recorded(None)

    def close(self) -> None:
        """Stop watching."""
        tell_closed(self)
        if self._retry is not None:
            self._retry.cancel()
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _follow(self, inotify: INotify) -> bool:
        """Watch the folder, or the deepest above it that there is; say whether it is another.

        Each is watched before the next one is looked for: what comes meanwhile is told.
        """
        before, self._watch, self._depth = self._watch, None, 0
        for depth, folder in enumerate(self._folders):
            mask = _RECORDS if folder == self._folders[-1] else _ABOVE
            try:
                watch = inotify.add_watch(folder, mask)
            except (FileNotFoundError, NotADirectoryError):
                break
            except OSError as error:
                self._poll_instead(error)
                break
            _unwatch(inotify, self._watch, but=watch)
            self._depth, self._watch = depth, watch
        _unwatch(inotify, before, but=self._watch)
        return self._watch != before

    def _drain(self) -> None:
        if self._inotify is None:
            return
        events = self._inotify.read(timeout=0)
        overrun = any(event.mask & flags.Q_OVERFLOW for event in events)
        names = dict.fromkeys(event.name for event in events if self._is_of_record(event))
        anew = False
        if overrun or any(self._is_of_way(event) for event in events):
            were_there = self._are_there
            anew = self._follow(self._inotify) and (were_there or self._are_there)
        if overrun or anew:
            self._recorded(None)
            return
        for name in names:
            self._recorded(name)

    @property
    def _are_there(self) -> bool:
        return self._depth == len(self._folders) - 1

    def _is_of_record(self, event: Event) -> bool:
        # udev writes a hidden file and gives it the record's name when it is complete.
        return self._are_there and event.wd == self._watch and event.name[:1] not in {"", "."}

    def _is_of_way(self, event: Event) -> bool:
        """Say whether the folder that is watched has gone, or the next one on the way has come."""
        return event.wd == self._watch and event.name in {"", self._next[self._depth]}

    def _poll_instead(self, error: OSError) -> None:
        self.complete = False
        tell_polling(self, udevdb.FOLDER, error)
        if self._retry is None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(self._again_after_seconds, self._try_again)


def _unwatch(inotify: INotify, watch: int | None, *, but: int | None) -> None:
    if watch is not None and watch != but:
        with suppress(OSError):  # the kernel has removed it along with its folder
            inotify.rm_watch(watch)
