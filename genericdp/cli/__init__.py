"""The command line: one command, one module."""

from __future__ import annotations

import os
import signal
import sys

from genericdp.cli.commands import COMMANDS, command_of
from genericdp.process import signals

# What is imported here delays the handling of signals: not even typing (6 ms).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.cli.commands import Command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 fine, 1 failed, 2 bad usage or config.

    Without ``argv``, this is a separate process, and its signals are handled from here on.
    """
    if argv is not None:
        from genericdp.cli.command_line import run_command

        return run_command(argv)
    _ensure_utf8_mode()
    if "_ARGCOMPLETE" in os.environ:
        from genericdp.cli.completion import complete

        complete()
    command = COMMANDS.get(command_of(sys.argv[1:])[0])
    _handle_signals(command)
    try:
        from genericdp.cli.command_line import run_process

        code = run_process(sys.argv[1:])
    except RuntimeError as error:
        # Up to Python 3.11, an exception from a signal handler is wrapped if a class is being made.
        if isinstance(error.__cause__, SystemExit):
            raise error.__cause__ from None
        raise
    if command and command.until_signaled:
        # From here on, a signal must not change the exit code.
        signals.ignore(signals.HANDLED)
    return code


def _ensure_utf8_mode() -> None:
    """Re-exec in UTF-8 mode if the locale is not UTF-8.

    Configs are UTF-8 and may name any file, and Python fixes the encoding of paths when it starts.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _handle_signals(command: Command | None) -> None:
    if command is None or not command.until_signaled:
        # The second Ctrl-C kills a process that hangs in its cleanup.
        signals.exit_on(signals.not_ignored(signals.HANDLED), then=signal.SIG_DFL)
        return
    stopping = [signals.SIGINT, signals.SIGTERM]
    if command.is_daemon:
        # The config is yet to be read: there is nothing to reload.
        signal.signal(signals.SIGHUP, lambda *_: None)
    else:
        stopping += signals.not_ignored([signals.SIGHUP])
    signals.exit_on(stopping, 0, then=signal.SIG_IGN)
