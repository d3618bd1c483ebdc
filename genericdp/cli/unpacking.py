"""A snapshot given for a folder: unpacked while the command runs, gone when it ends.

However it ends, but for SIGKILL: also at Ctrl-C, for which most commands leave at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.errors import UsageError
from genericdp.signals import ANSWERED, not_ignored

if TYPE_CHECKING:
    from types import FrameType

_folders: list[Path] = []
_answers: dict[signal.Signals, Any] = {}
"""What answered each signal before there was anything to remove."""


def unpacked(file: Path) -> Path:
    """Give a new folder with the tree of a snapshot; raises UsageError if it is none."""
    # Only whoever has one needs these.
    from genericdp.cli.progress import Progress
    from genericdp.snapshot.archive import ArchiveError, unpack

    try:
        with file.open("rb") as packed:
            _answer_signals()
            folder = Path(tempfile.mkdtemp(prefix="genericdp-"))
            _folders.append(folder)
            # Who may read what is part of the copy, whatever the umask of this shell.
            before = os.umask(0o022)
            try:
                unpack(packed, folder, Progress(f"unpacking {file}").tell)
            finally:
                os.umask(before)
    except ArchiveError as error:
        raise UsageError(f"{file}: {error}") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be unpacked: {(error.strerror or '').lower()}") from error
    return folder


def remove_unpacked() -> None:
    """Remove all that was unpacked, and let signals be answered as before."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
    for number, answer in _answers.items():
        if signal.getsignal(number) is _leave:
            signal.signal(number, answer)
    _answers.clear()


def _answer_signals() -> None:
    if _answers or threading.current_thread() is not threading.main_thread():
        return
    for number in not_ignored(ANSWERED):
        _answers[number] = signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    # One more must not cut the removing short.
    signal.signal(number, signal.SIG_IGN)
    answer = _answers.get(signal.Signals(number))
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
    if callable(answer):
        answer(number, frame)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
