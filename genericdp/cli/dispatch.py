"""Runs a command: the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from genericdp.cli.parser import LOGGING, command_of, parse, unknown_variables, variable
from genericdp.errors import ConfigError, GenericdpError
from genericdp.printing import print_lines, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Stdout(io.FileIO):
    """Stdout that remembers why it could not be written."""

    def __init__(self) -> None:
        super().__init__(1, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401  # as FileIO has it
        """Write as FileIO does."""
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def run_process(argv: Sequence[str]) -> int:
    """Do the same as ``run_command`` in a process of its own, whose streams may be anything."""
    out = _make_streams_safe()
    try:
        try:
            return run_command(argv)
        except SystemExit as error:
            if error.code:  # a signal: the reader of stdout may have stopped
                _discard_stdout()
            raise
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (OSError, BaseExceptionGroup):
        if out.failure is None:
            raise
        _discard_stdout()
        if isinstance(out.failure, BrokenPipeError):
            return 0  # the reader has gone (`| head`): not our failure
        _say(f"genericdp: stdout cannot be written: {(out.failure.strerror or '').lower()}")
        return 1


def _discard_stdout() -> None:
    """Discard what is yet to be flushed, also at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run_command(argv: Sequence[str]) -> int:
    """Parse a command line, run it, report what went wrong; return the exit code."""
    try:
        arguments = parse(argv)
        if arguments.command not in LOGGING:  # else they are logged
            for sentence in unknown_variables():
                _say(f"warning: {sentence}")
        _refuse_closed_stdout(arguments.command)
        with ExitStack() as stack:
            arguments.on_exit = stack
            code: int = arguments.execute(arguments)
    except ConfigError as error:
        # As they are: editors and CI jump to the place that a line begins with.
        _report(argv, str(error).split("\n"))
        if error.advice:
            _report(argv, [error.advice], prefix="genericdp: ")
        return error.exit_code
    except GenericdpError as error:
        _report(argv, [str(error)], prefix="genericdp: ")
        return error.exit_code
    return code


def _refuse_closed_stdout(command: str) -> None:
    if sys.stdout is None and command != "run":
        raise GenericdpError("stdout is closed: there is nowhere to print to")


def _report(argv: Sequence[str], messages: Sequence[str], *, prefix: str = "") -> None:
    """Report why it ends, in the form of the log: who collects that must not miss the last line."""
    if command_of(argv) in LOGGING:
        from genericdp import logs

        logs.flush()
        if _logs_json(argv):
            _say("\n".join(map(logs.as_json, messages)))
            return
    _say(printable_lines("\n".join(f"{prefix}{one}" for one in messages)))


def _logs_json(argv: Sequence[str]) -> bool:
    """Return whether the log is to be JSON; the arguments may be what is wrong."""
    form = os.environ.get(variable("log-format"))
    flag = "--log-format"
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        if word == flag:
            form = following
        elif word.startswith(f"{flag}="):
            form = word.partition("=")[2]
    return form == "json"


def _say(text: str) -> None:
    with suppress(OSError):  # nobody can be told that nobody can be told
        print_lines(text.split("\n"), file=sys.stderr)


def _make_streams_safe() -> _Stdout:
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file or socket that is opened would be taken for it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    out = _Stdout()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(out),
            encoding=sys.stdout.encoding,
            # Configs and hosts may hold any characters, and a terminal may not know them.
            errors="backslashreplace",
            line_buffering=sys.stdout.line_buffering,
            write_through=sys.stdout.write_through,
        )
    return out
