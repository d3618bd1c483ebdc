"""Options that several commands share, and the values that they stand for."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import re
import socket
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from genericdp import logs
from genericdp.address import Address, parse_listen_address
from genericdp.cdi import FOLDER
from genericdp.cli.command_line import Append, config_of, path_of, policy_of, unknown_variables
from genericdp.cli.output import DATA, print_warning, progress
from genericdp.errors import GenericdpError, UsageError, reason_of
from genericdp.host.root import Root
from genericdp.host.workers import HANGING_SECONDS, start
from genericdp.printing import shortened
from genericdp.process.signals import deferred
from genericdp.settings import DRIVER, KUBELET_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

log = logging.getLogger(__name__)

_DRIVER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_DRIVER = 63
_AMOUNT = re.compile(r"0*[1-9][0-9]{0,8}")
_MOST = 999_999_999
_LOG_FORMATS = ("text", "json")


def add_choice(
    parser: argparse.ArgumentParser,
    *flags: str,
    choices: Sequence[str],
    default: str,
    about: str,
) -> None:
    """Declare an option that takes one of several words."""
    parser.add_argument(
        *flags,
        choices=choices,
        default=default,
        metavar="|".join(choices),
        help=f"{about} (default: {default})",
    )


def add_output(
    parser: argparse.ArgumentParser, *, wide: str = "", about: str = "how to print"
) -> None:
    """Declare ``-o``; ``wide`` says what the table has in addition with that value."""
    texts = ("text", "wide") if wide else ("text",)
    about += f"; wide adds {wide}" if wide else ""
    add_choice(parser, "-o", "--output", choices=(*texts, *DATA), default="text", about=about)


def add_config(
    parser: argparse.ArgumentParser, *, required: bool = True, stdin: bool = True
) -> None:
    """Declare ``--config``, which may be given several times, and ``--policy``."""
    folder = "a folder whose *.yaml and *.yml are read"
    what = f"a config file, {folder}, or - for stdin" if stdin else f"a config file, or {folder}"
    parser.add_argument(
        "--config",
        metavar="PATH",
        action=Append,
        type=config_of,
        default=(),
        required=required,
        help=f"{what}; several make up one config",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=policy_of,
        help="what configs may do (kind: DevicePluginPolicy); a config that breaks it is refused",
    )


def add_host(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare what every command has that applies a config: on which host, as which node."""
    add_root(parser, more=more)
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        default=os.environ.get("NODE_NAME") or None,
        help="the node's name for nodeNames and $(node.name) (default: NODE_NAME, else the host's)",
    )


def node_name_of(arguments: argparse.Namespace) -> str:
    """Return the node's name: the option, NODE_NAME, else the host name."""
    return arguments.node_name or socket.gethostname().lower()


def add_root(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare ``--root``; ``more`` says what the command does or does not do there."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="look at this folder, which holds dev/ and sys/ of some machine, or at a file of"
        f" genericdp snapshot{more} (default: /)",
    )


def root_of(arguments: argparse.Namespace) -> Root:
    """Return the Root of ``--root``, a snapshot unpacked until the command ends; call it once.

    Raises UsageError if there is no machine in the folder.
    """
    given: Path = arguments.root
    mode = root_mode(given)
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise UsageError(f"--root {given} is no folder and no file ({_ROOTS})")
    folder = given if stat.S_ISDIR(mode) else _unpacked(arguments)
    if not _is_readable(folder / "dev"):
        raise UsageError(f"{given} has no folder dev ({_ROOTS})")
    if not (_is_readable(folder / "sys") and _is_readable(folder / "sys/devices")):
        what = "only path selectors can find anything, and hardware is unknown"
        sentence = f"{given / 'sys/devices'} is missing: {what}"
        # The commands with a log have this option.
        (log.warning if hasattr(arguments, "log_level") else print_warning)(sentence)
    return Root(folder)


def root_mode(given: Path) -> int:
    """Return what ``--root`` is, as ``st_mode``; raise UsageError if it is nothing."""
    try:
        return in_time(given.stat).st_mode
    except OSError as error:
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "does not exist" if is_absent else f"cannot be read: {reason_of(error).lower()}"
        raise UsageError(f"--root {given} {why} ({_ROOTS})") from None


def in_time(look: Callable[[], T]) -> T:
    """Look at a path in a thread, as this one handles signals; raise OSError, also if it hangs."""

    async def looked() -> T:
        looking = start(look, is_one_call=True)
        if await looking.ends(HANGING_SECONDS):
            return looking.result()
        raise OSError(errno.ETIMEDOUT, "looking at it does not end")

    return asyncio.run(looked())


_ROOTS = "give --root a folder with dev/ and sys/ of a machine, or a file of genericdp snapshot"


def root_option(arguments: argparse.Namespace) -> list[str]:
    """Return the ``--root`` arguments for a command that is suggested to the user."""
    given: Path = arguments.root
    return [] if given == Path("/") else ["--root", str(given)]


def _unpacked(arguments: argparse.Namespace) -> Path:
    # Few commands get a snapshot, and the daemon never does.
    from tempfile import TemporaryDirectory

    from genericdp.snapshot.archive import ArchiveError, unpack

    file: Path = arguments.root
    try:
        with file.open("rb") as packed:
            with deferred():
                temporary = TemporaryDirectory(prefix="genericdp-", ignore_cleanup_errors=True)
                folder = Path(arguments.on_exit.enter_context(temporary))
            # Who may read what is part of the copy, whatever the umask of this shell.
            before = os.umask(0o022)
            try:
                with progress(lambda: f"still unpacking {file}"):
                    unpack(packed, folder)
            finally:
                os.umask(before)
    except ArchiveError as error:
        raise UsageError(f"{file}: {error}") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be unpacked: {reason_of(error).lower()}") from error
    return folder


def _is_readable(folder: Path) -> bool:
    """Return whether a folder is there; raises UsageError if that cannot be known."""
    try:
        in_time(partial(os.listdir, folder))  # its error is what is wanted
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {reason_of(error).lower()}") from error
    return True


def add_logging(parser: argparse.ArgumentParser, *, level: str = "info") -> None:
    """Declare how to log."""
    add_choice(
        parser, "--log-format", choices=_LOG_FORMATS, default="text", about="format of log lines"
    )
    about = "minimum log level; debug adds each call of the kubelet"
    add_choice(parser, "--log-level", choices=logs.LEVELS, default=level, about=about)


def set_up_logging(arguments: argparse.Namespace) -> None:
    """Configure logging, and warn of unknown ``GENERICDP_…`` variables."""
    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    for sentence in unknown_variables():
        log.warning("%s", sentence)


def listen_of(text: str) -> Address:
    """Parse an address to listen on; raises ArgumentTypeError."""
    try:
        return parse_listen_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_listen(parser: argparse.ArgumentParser) -> None:
    """Declare ``--listen``."""
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        type=listen_of,
        help="serve /metrics, /livez, /readyz, /status and a page for people at HOST:PORT,"
        " [IPV6]:PORT or :PORT, without encryption (default: nowhere)",
    )


def add_cdi_dir(parser: argparse.ArgumentParser) -> None:
    """Declare ``--cdi-dir``."""
    parser.add_argument(
        "--cdi-dir",
        metavar="DIR",
        type=path_of,
        default=FOLDER,
        help="the folder of CDI specs, where container runtimes look for them; it is not made here"
        f" (default: {FOLDER})",
    )


def driver_of(text: str) -> str:
    """Return the name of a DRA driver; raises ArgumentTypeError for what Kubernetes refuses."""
    if len(text) > _MAX_DRIVER or not _DRIVER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)!r} is no name of a DRA driver: a domain of at most {_MAX_DRIVER}"
            f" lower-case letters, digits, '-' and '.', as in {DRIVER}"
        )
    return text


def add_dra_driver(parser: argparse.ArgumentParser) -> None:
    """Declare ``--dra-driver``."""
    parser.add_argument(
        "--dra-driver",
        metavar="NAME",
        type=driver_of,
        default=DRIVER,
        help="the name of the DRA driver that serves what has servedBy: dra, the same for all"
        f" commands and nodes (default: {DRIVER})",
    )


def add_kubelet_root(parser: argparse.ArgumentParser, about: str) -> None:
    """Declare ``--kubelet-root``."""
    parser.add_argument(
        "--kubelet-root",
        metavar="DIR",
        type=path_of,
        default=Path(KUBELET_ROOT),
        help=f"{about} (default: {KUBELET_ROOT})",
    )


def amounts_of(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``RESOURCE=N``, each resource once; raises UsageError."""
    amounts: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{text!r} is not of the form RESOURCE=N, as in example.com/fuse=1")
        if not _AMOUNT.fullmatch(count):
            raise UsageError(f"{shortened(text)!r}: N has to be a whole number from 1 to {_MOST:,}")
        if name in amounts:
            total = amounts[name] + int(count)
            raise UsageError(f"{name} is given twice: for {total} devices write {name}={total}")
        amounts[name] = int(count)
    return amounts


def write_new(file: Path, content: bytes) -> None:
    """Write a new file, all or nothing; raises UsageError if it exists, and GenericdpError."""
    try:
        with deferred(), file.open("xb") as out:
            try:
                out.write(content)
                out.flush()
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise UsageError(f"{file} is there already: it is not overwritten") from None
    except OSError as error:
        raise GenericdpError(f"{file} cannot be written: {reason_of(error).lower()}") from error
