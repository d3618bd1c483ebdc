"""The host that a command reads: ``--root`` and ``--node-name``."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from genericdp.cli.output import print_warning, progress
from genericdp.errors import UsageError, reason_of
from genericdp.host.root import Root
from genericdp.host.workers import HANGING_SECONDS, start
from genericdp.process.signals import deferred

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

T = TypeVar("T")

log = logging.getLogger(__name__)


def node_name_of(arguments: argparse.Namespace) -> str:
    """Return the node's name: the option, NODE_NAME, else the host name."""
    return arguments.node_name or os.environ.get("NODE_NAME") or socket.gethostname().lower()


def root_of(arguments: argparse.Namespace) -> Root:
    """Return the Root of ``--root``, a snapshot unpacked until the command ends; call it once.

    Raise UsageError if the directory is not a copy of a machine.
    """
    given: Path = arguments.root
    mode = root_mode(given)
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise UsageError(f"--root {given} is neither a directory nor a file ({_ROOTS})")
    directory = given if stat.S_ISDIR(mode) else _unpacked(arguments)
    if not _is_readable(directory / "dev"):
        raise UsageError(f"{given} has no directory dev ({_ROOTS})")
    if not (_is_readable(directory / "sys") and _is_readable(directory / "sys/devices")):
        what = "only path selectors can find anything, and hardware is unknown"
        sentence = f"{given / 'sys/devices'} is missing: {what}"
        # The commands with a log have this option.
        (log.warning if hasattr(arguments, "log_level") else print_warning)(sentence)
    return Root(directory)


def root_mode(given: Path) -> int:
    """Return the type of ``--root``, as ``st_mode``; raise UsageError if it does not exist."""
    try:
        return in_time(given.stat).st_mode
    except OSError as error:
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "does not exist" if is_absent else f"cannot be read: {reason_of(error).lower()}"
        raise UsageError(f"--root {given} {why} ({_ROOTS})") from None


def in_time(look: Callable[[], T]) -> T:
    """Read a path in a thread, because this one handles signals; raise OSError, even if it
    hangs.
    """

    async def looked() -> T:
        looking = start(look, is_one_call=True)
        if await looking.ends(HANGING_SECONDS):
            return looking.result()
        raise OSError(errno.ETIMEDOUT, "reading it timed out")

    return asyncio.run(looked())


_ROOTS = "give --root a directory with dev/ and sys/ of a machine, or a file of genericdp snapshot"


def root_option(arguments: argparse.Namespace) -> list[str]:
    """Return the ``--root`` arguments for a command that is suggested to the user."""
    given: Path = arguments.root
    return [] if given == Path("/") else ["--root", str(given)]


def suggestion(command: str, arguments: argparse.Namespace, *more: str) -> list[str]:
    """Return a command line with the same config and host, and more arguments."""
    configs = list(map(str, arguments.config))
    words = configs if len(configs) == 1 else [f"--config={config}" for config in configs]
    policy = ["--policy", str(arguments.policy)] if arguments.policy else []
    node_name = ["--node-name", arguments.node_name] if arguments.node_name else []
    return [command, *words, *more, *policy, *node_name, *root_option(arguments)]


def _unpacked(arguments: argparse.Namespace) -> Path:
    # Few commands get a snapshot, and the daemon never does.
    from tempfile import TemporaryDirectory

    from genericdp.snapshot.archive import ArchiveError, unpack

    file: Path = arguments.root
    try:
        with file.open("rb") as packed:
            with deferred():
                temporary = TemporaryDirectory(prefix="genericdp-", ignore_cleanup_errors=True)
                directory = Path(arguments.on_exit.enter_context(temporary))
            # File modes are part of the copy, whatever the umask of this shell.
            before = os.umask(0o022)
            try:
                with progress(lambda: f"still unpacking {file}"):
                    unpack(packed, directory)
            finally:
                os.umask(before)
    except ArchiveError as error:
        raise UsageError(f"{file}: {error}") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be unpacked: {reason_of(error).lower()}") from error
    return directory


def _is_readable(directory: Path) -> bool:
    """Return whether a directory exists; raises UsageError if that cannot be determined."""
    try:
        in_time(partial(os.listdir, directory))  # only its error matters
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {reason_of(error).lower()}") from error
    return True
