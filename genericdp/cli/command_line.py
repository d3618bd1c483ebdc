"""Parses a command line, runs its command, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from genericdp import __version__
from genericdp.cli.commands import COMMANDS, command_of
from genericdp.cli.output import StdoutError, check_stdout, print_lines, shell_words
from genericdp.cli.parser import Parser, take_variables, unknown_variables, variable
from genericdp.errors import ConfigError, GenericdpError, UsageError
from genericdp.printing import did_you_mean, quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


_MEANT = {
    **dict.fromkeys(("check", "lint", "verify"), "validate"),
    **dict.fromkeys(("list", "ls", "show", "scan"), "discover"),
}
"""Names of commands elsewhere, and what they are here."""


def run_process(argv: Sequence[str]) -> int:
    """Run ``run_command`` in a separate process, whose streams may be anything."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file or socket that is opened would get its descriptor.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, TextIOWrapper):
        # Configs and hosts may contain any characters, even some that the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return run_command(argv)
    except SystemExit as error:
        if error.code:  # a signal: the reader of stdout may have stopped
            _discard_stdout()
        raise


def _discard_stdout() -> None:
    """Discard output that has not been flushed, even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run_command(argv: Sequence[str]) -> int:
    """Parse a command line, run it, report errors; return the exit code."""
    try:
        return _run(argv)
    except ConfigError as error:
        # Without a prefix: editors and CI jump to the place that a line begins with.
        _report(argv, str(error).split("\n"))
        if error.advice:
            _report(argv, [error.advice], prefix="genericdp: ")
        return error.exit_code
    except GenericdpError as error:
        if isinstance(error, StdoutError):
            _discard_stdout()
        if error.exit_code:
            _report(argv, [str(error)], prefix="genericdp: ")
        return error.exit_code


def _run(argv: Sequence[str]) -> int:
    arguments = parse(argv)
    command = COMMANDS[arguments.command]
    if command.until_signaled:
        import logging  # the other commands have no log

        from genericdp import logs

        logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
        for sentence in unknown_variables():
            logging.getLogger(__name__).warning("%s", sentence)
    else:
        for sentence in unknown_variables():
            _say(f"warning: {sentence}")
    if not command.is_daemon:
        check_stdout()
    with ExitStack() as stack:
        arguments.on_exit = stack
        code: int = arguments.execute(arguments)
    return code


def _report(argv: Sequence[str], messages: Sequence[str], *, prefix: str = "") -> None:
    """Print the final error in the log's format, so that log collectors parse it."""
    command = COMMANDS.get(command_of(argv)[0])
    if command and command.until_signaled:
        from genericdp import logs

        logs.flush()
        if _logs_json(argv):
            _say("\n".join(map(logs.as_json, messages)))
            return
    _say("\n".join(f"{prefix}{message}" for message in messages))


def _logs_json(argv: Sequence[str]) -> bool:
    """Return whether the log is to be JSON, even if other arguments are wrong."""
    parser = Parser("genericdp", add_help=False)
    default = os.environ.get(variable("log-format"))
    parser.add_argument("--log-format", nargs="?", default=default)
    known, _ = parser.parse_known_args(argv)
    return bool(known.log_format == "json")


def _say(text: str) -> None:
    with suppress(OSError):  # stderr is closed, too
        print_lines(text.split("\n"), file=sys.stderr)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; only the module of its command is imported.

    Raises UsageError, and SystemExit after ``--help`` and ``--version``.
    """
    if not argv or argv[0].startswith("-"):
        _parse_without_command(argv)
    name, words = command_of(argv)
    if any(command.startswith(f"{name} ") for command in COMMANDS):
        if words and not words[0].startswith("-"):
            name = f"{name} {words[0]}"
        elif name not in COMMANDS:
            _parse_without_command(words, group=name)
    if name not in COMMANDS:
        meant = _MEANT.get(name)
        hint = f" (did you mean {meant}?)" if meant else did_you_mean(name, COMMANDS)
        group = "".join(f"{word} " for word in name.split()[:-1])
        raise UsageError(f"there is no command {quoted(name)}{hint} (see genericdp {group}--help)")
    parser = parser_of(name)
    take_variables(parser)
    return parser.parse(words)


def _parse_without_command(argv: Sequence[str], *, group: str = "") -> NoReturn:
    """Show the commands, or raise UsageError; ``group`` is the first word of some commands."""
    listed = {name: command.about for name, command in COMMANDS.items() if name.startswith(group)}
    width = max(map(len, listed))
    lines = "\n".join(f"    {name:{width}}  {about}" for name, about in listed.items())
    parser = Parser(
        f"genericdp {group}".rstrip(),
        description="Makes any hardware of a Kubernetes node schedulable from a YAML file.",
        epilog=f"commands:\n{lines}\n\nTo begin: genericdp init, then genericdp COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"genericdp {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    known = {flag for argument in parser.arguments for flag in argument.option_strings}
    found = (command_of(argv[i:])[0] for i in range(len(argv)))
    command = next((words.split() for words in found if words in COMMANDS), None)
    if command is not None and argv[0] not in known:
        words = [word for word in argv if word not in {*command, "--"}]
        ordered = shell_words(["genericdp", *command, *words])
        parser.error(f"the command has to come first: {ordered}")
    parser.parse(argv)
    parser.error("the command has to come first")


def parser_of(name: str) -> Parser:
    """Return the parser of one command."""
    from genericdp.cli.options import SHARED

    command, module = COMMANDS[name], import_module(f"genericdp.cli.{name.replace(' ', '_')}")
    parser = Parser(
        f"genericdp {name}", description=command.about, epilog=f"example:\n{module.EXAMPLE}"
    )
    own = getattr(module, "ARGUMENTS", {})
    for word in command.arguments:
        parser.declare(word, own[word] if word in own else SHARED[word])
    parser.set_defaults(command=name, execute=module.execute)
    return parser
