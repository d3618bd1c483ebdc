"""The one place that turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from genericdp.cli import LOGGING, asked_for
from genericdp.cli.environment import unknown_variables, variable
from genericdp.cli.parser import parser_of
from genericdp.errors import ConfigError, GenericdpError
from genericdp.printing import print_lines, printable_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


class _Stdout(io.FileIO):
    """Stdout that remembers why it could not be written."""

    def __init__(self) -> None:
        super().__init__(1, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401  # as FileIO has it
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
    """Parse, do it, and say what went wrong; give the exit code."""
    try:
        arguments = parser_of(argv).parse_args(argv)
        if not hasattr(arguments, "log_level"):  # else they are logged
            for sentence in unknown_variables():
                _say(f"warning: {sentence}")
        _refuse_closed_stdout(arguments)
        code: int = arguments.execute(arguments)
    except ConfigError as error:
        # As they are: editors and CI jump to the place that a line begins with.
        _tell(argv, str(error).split("\n"))
        if error.advice:
            _tell(argv, [error.advice], prefix="genericdp: ")
        return error.exit_code
    except GenericdpError as error:
        _tell(argv, [str(error)], prefix="genericdp: ")
        return error.exit_code
    finally:
        if unpacking := sys.modules.get("genericdp.cli.unpacking"):
            unpacking.remove_unpacked()
    return code


def _refuse_closed_stdout(arguments: argparse.Namespace) -> None:
    if sys.stdout is None and arguments.prints:
        raise GenericdpError("stdout is closed: there is nowhere to print to")


def _tell(argv: Sequence[str], messages: Sequence[str], *, prefix: str = "") -> None:
    """Say why it ends, in the form of the log: who collects that must not miss its last line."""
    if asked_for(argv) in LOGGING:
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
