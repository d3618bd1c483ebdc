"""The command line: one command, one module."""

from __future__ import annotations

import os
import sys

from genericdp import signals

# What is imported here comes before the first signal is answered: not even typing (6 ms).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (
    *("run", "validate", "discover", "explain", "allocate", "probe", "simulate"),
    *("init", "snapshot", "convert", "status", "schema", "version"),
)
"""Name and module of each command, in the order in which a new user meets them."""
LOGGING = ("run", "simulate")
"""Those that have a log."""
_UNTIL_SIGNALLED = ("run", "simulate")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; exit codes: 0 fine, 1 failed, 2 bad usage or config.

    Without ``argv`` this is a process of its own, which answers its signals from here on.
    """
    if argv is not None:
        from genericdp.cli.boundary import run_command

        return run_command(argv)
    _insist_on_utf8()
    command = asked_for(sys.argv[1:])
    _answer_signals(command)
    if command == "run":
        from genericdp import lean

        lean.import_asyncio()
    from genericdp.cli.boundary import run_process

    code = run_process(sys.argv[1:])
    if command in _UNTIL_SIGNALLED:
        # It ends anyway: one more Ctrl-C must not change how.
        signals.ignore(signals.ANSWERED)
    return code


def _insist_on_utf8() -> None:
    """Begin anew, in Python's UTF-8 mode, where the locale says that paths are anything else.

    Configs are UTF-8 and may name any file; in such a locale not even asking for it is possible.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def asked_for(argv: Sequence[str]) -> str | None:
    """Give the command's name before anything is parsed."""
    return next((word for word in argv if not word.startswith("-")), None)


def _answer_signals(command: str | None) -> None:
    hangup, interrupt, terminate = signals.SIGHUP, signals.SIGINT, signals.SIGTERM
    if command == "run":
        # The config is yet to be read: there is nothing to reload.
        signals.ignore([hangup])
        signals.leave_at([interrupt, terminate], 0)
    elif command == "simulate":
        signals.leave_at([*signals.not_ignored([hangup]), interrupt, terminate], 0)
    else:
        signals.leave_at(signals.not_ignored([interrupt]), 130)
