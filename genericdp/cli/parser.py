"""The parser of the command line."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from genericdp.cli import COMMANDS, asked_for
from genericdp.cli.environment import OptionParser, take_variables
from genericdp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Command(Protocol):
        """What each module of this folder that is listed in COMMANDS has."""

        SUMMARY: str
        """One line for ``genericdp --help``."""
        EXAMPLE: str
        """One or two command lines that work as they stand."""

        def add_arguments(self, parser: argparse.ArgumentParser) -> None:
            """Declare the command's own flags."""

        def execute(self, arguments: argparse.Namespace) -> int:
            """Do it; give the exit code."""


class _Parser(OptionParser):
    """Reports a usage error in one line that points to --help."""

    asked = ""
    """The command that is asked for: what it does not take is found out by the whole's parser."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.asked or self.prog} --help)")


def parser_of(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser; only the module of the command that is asked for is imported."""
    parser = _Parser(
        prog="genericdp",
        description="Makes any hardware of a Kubernetes node schedulable from a YAML file.",
        epilog="Begin with: genericdp simulate --config examples/configs/this-machine.yaml",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    asked = asked_for(argv)
    if asked in COMMANDS:
        parser.asked = f"{parser.prog} {asked}"
    for name in COMMANDS:
        if asked in COMMANDS and name != asked:
            continue
        one = _add_command(commands, name, import_module(f"genericdp.cli.{name}"))
        if name == asked:
            take_variables(one)
    return parser


def _add_command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    command: Command,
) -> _Parser:
    parser = commands.add_parser(
        name,
        help=command.SUMMARY,
        description=command.SUMMARY,
        epilog=f"example:\n{command.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    parser.set_defaults(execute=command.execute, prints=name != "run")
    return parser
