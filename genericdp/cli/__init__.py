"""The command line: one command, one module; the one place that turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from genericdp.errors import ConfigError, GenericdpError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Command(Protocol):
        """What each module of this folder that is listed below has."""

        SUMMARY: str
        """One line for ``genericdp --help``."""
        EXAMPLE: str
        """One or two command lines that work as they stand."""

        def add_arguments(self, parser: argparse.ArgumentParser) -> None:
            """Declare the command's own flags."""

        def execute(self, arguments: argparse.Namespace) -> int:
            """Do it; give the exit code."""


COMMANDS = ("run", "validate", "discover", "explain", "allocate", "simulate", "schema", "version")
"""Name and module of each command, in the order in which a new user meets them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; exit codes: 0 fine, 1 failed, 2 bad usage or config."""
    try:
        arguments = parser_of(argv if argv is not None else sys.argv[1:]).parse_args(argv)
        code: int = arguments.execute(arguments)
        sys.stdout.flush()
    except ConfigError as error:
        # As they are: editors and CI jump to the place that a line begins with.
        print(error, file=sys.stderr)
        return error.exit_code
    except GenericdpError as error:
        print(f"genericdp: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader has gone (`| head`): not our failure. Nothing may be flushed at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with where to read on."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser_of(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser; only the module of the command that is asked for is imported."""
    parser = _Parser(
        prog="genericdp",
        description="Makes any hardware of a Kubernetes node schedulable from a YAML file.",
        epilog="Begin with: genericdp simulate --config examples/configs/this-machine.yaml",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    asked = next((word for word in argv if not word.startswith("-")), None)
    for name in COMMANDS:
        if asked in COMMANDS and name != asked:
            continue
        _add_command(commands, name, import_module(f"genericdp.cli.{name}"))
    return parser


def _add_command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    command: Command,
) -> None:
    parser = commands.add_parser(
        name,
        help=command.SUMMARY,
        description=command.SUMMARY,
        epilog=f"example:\n{command.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    parser.set_defaults(execute=command.execute)
