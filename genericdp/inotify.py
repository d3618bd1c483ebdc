"""Folders that are watched through inotify: an event only says "look again"."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from inotify_simple import INotify, flags, parse_events

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from inotify_simple import Event

log = logging.getLogger(__name__)

# Not the files' content: a device that is written to must not wake us.
_MASK = (
    flags.CREATE
    | flags.DELETE
    | flags.MOVED_FROM
    | flags.MOVED_TO
    | flags.ATTRIB
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
)


_AT_ONCE_BYTES = 65_536
"""So much, at most 2,000 events, is read before the rest of the loop has its turn."""
_MOST_EVENT_BYTES = 16 + 256


def open_inotify() -> INotify:
    """Open an instance of one's own; raises OSError where there are too many."""
    return INotify(nonblocking=True)


_REMEDY = "; raise fs.inotify.max_user_instances and max_user_watches"
_polling: dict[object, int | None] = {}
"""Those that have to be polled, and the errors because of which."""


def tell_polling(who: object, what: str, error: OSError) -> None:
    """Log that something is polled, a warning once for all that lack the same."""
    if who in _polling:
        return
    level = logging.DEBUG if error.errno in _polling.values() else logging.WARNING
    _polling[who] = error.errno
    log.log(
        level,
        "%s: inotify cannot be used (%s): polling instead%s",
        what,
        error.strerror,
        _REMEDY if error.errno in {errno.EMFILE, errno.ENOSPC} else "",
    )


def tell_watching(who: object) -> None:
    """Log that nothing is polled any longer."""
    if _polling.pop(who, None) is not None and not _polling:
        log.info("inotify can be used again: nothing is polled any longer")


def tell_closed(who: object) -> None:
    """Forget about somebody who needs nothing any longer."""
    _polling.pop(who, None)


class FolderWatch:
    """Calls ``changed`` on the loop when an entry of a watched folder comes, goes or changes.

    ``entry`` is called before that with the path of each; None: it may be any. With ``contents``
    an entry also changes when a file has been written and is closed.

    Where inotify cannot be had, or cannot watch all that was asked for, ``complete`` is False and
    the owner has to poll; the log says so once. It tries again whenever folders are set.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        *,
        what: str,
        entry: Callable[[str | None], None] = lambda _: None,
        contents: bool = False,
        open_inotify: Callable[[], INotify] = open_inotify,
    ) -> None:
        self._changed = changed
        self._entry = entry
        self._what = what
        self._mask = _MASK | flags.CLOSE_WRITE if contents else _MASK
        self._watched: dict[str, int | None] = {}
        """By folder, the kernel's number of its watch; None: there was no such folder."""
        self._folders: dict[int, list[str]] = {}
        """The other way round: several may be one."""
        self._told = False
        self._open_inotify = open_inotify
        self._inotify: INotify | None = None
        self._closed = False
        self.complete = True
        self._open()

    def _open(self) -> None:
        try:
            self._inotify = self._open_inotify()
        except OSError as error:
            self._poll_instead(error)
            return
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._drain)

    def set_folders(
        self, folders: Collection[str], *, written: Collection[str] | None = None
    ) -> bool:
        """Watch exactly these folders; return whether one was not watched before, or is gone now.

        If so, the owner must look again: something may have changed before the watch was set, and
        of a folder that has gone between look and watch no event tells. With ``contents``, writes
        count in all folders, or only in those of ``written``.
        """
        if self._inotify is None and not self._closed:
            self._open()
        if self._inotify is None:
            return False
        watched = self._added(self._inotify, folders, folders if written is None else written)
        fresh = any(self._watched.get(folder, 0) != wd for folder, wd in watched.items())
        for wd in set(self._watched.values()) - set(watched.values()):
            if wd is not None:
                with suppress(OSError):  # the kernel has removed it along with its folder
                    self._inotify.rm_watch(wd)
        self._watched = watched
        self._folders = {}
        for folder, wd in watched.items():
            if wd is not None:
                self._folders.setdefault(wd, []).append(folder)
        if self.complete:
            tell_watching(self)
        return fresh

    def _added(
        self, inotify: INotify, folders: Collection[str], written: Collection[str]
    ) -> dict[str, int | None]:
        self.complete = True
        watched: dict[str, int | None] = {}
        # Of two that are one folder the latter decides.
        for folder in sorted(folders, key=lambda one: one in written):
            # Added again each time: a folder that was replaced gets another descriptor that way.
            try:
                watched[folder] = inotify.add_watch(
                    folder, self._mask if folder in written else _MASK
                )
            except (FileNotFoundError, NotADirectoryError):
                watched[folder] = None
            except OSError as error:
                self._poll_instead(error)
        return watched

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        tell_closed(self)
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _drain(self) -> None:
        if self._inotify is None:
            return
        try:
            content = os.read(self._inotify.fileno(), _AT_ONCE_BYTES)
        except BlockingIOError:
            return
        events = parse_events(content)
        gone = {event.wd for event in events if event.mask & flags.IGNORED}
        # A number can be used again: what the kernel has dropped must count as new next time.
        self._watched = {folder: wd for folder, wd in self._watched.items() if wd not in gone}
        # Our own rm_watch is told too; where the kernel drops a watch, it says why as well.
        telling = [event for event in events if not event.mask & flags.IGNORED]
        for path in {path for event in telling for path in self._paths(event)}:
            self._entry(path)
        self._told = self._told or bool(telling)
        if self._told and len(content) <= _AT_ONCE_BYTES - _MOST_EVENT_BYTES:  # there is no more
            self._told = False
            self._changed()

    def _paths(self, event: Event) -> list[str | None]:
        """Give the paths that an event is about; None: it may be any."""
        if event.mask & flags.Q_OVERFLOW or not event.name:
            return [None]
        return [f"{one.rstrip('/')}/{event.name}" for one in self._folders.get(event.wd, ())]

    def _poll_instead(self, error: OSError) -> None:
        self.complete = False
        tell_polling(self, self._what, error)
