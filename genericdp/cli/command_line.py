"""Parses a command line, runs its command, and turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import ExitStack, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from genericdp import __version__
from genericdp.cli.output import StdoutError, print_document, print_lines, shell_words
from genericdp.errors import ConfigError, GenericdpError, UsageError
from genericdp.printing import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COMMANDS = {
    "run": "serve the devices of a config to the kubelet of this node",
    "validate": "report every problem of configs, or what a reload would change",
    "discover": "show which devices a config offers on this machine, and why not others",
    "explain": "say why a device is offered or not, for each resource of a config",
    "allocate": "show what a container that asks for devices would be given",
    "probe": "run the health probes of a config once, now, and print what each says",
    "simulate": "run the daemon against a stand-in for the kubelet and show the node",
    "init": "print a config to start from, for the hardware of this machine",
    "snapshot": "write what configs see of this machine into a file, to use elsewhere",
    "convert": "print the config of another device plugin in the language of genericdp",
    "status": "print what the daemon of this node offers, what is Unhealthy and why",
    "claims": "list the claims (DRA) that are prepared on this node, and their devices",
    "claims release": "end the record of a claim that the kubelet will not unprepare",
    "cdi generate": "print or write CDI specs of a config's devices, for podman and Docker",
    "cdi watch": "keep CDI specs of a config's devices up to date, without a kubelet",
    "cdi list": "print the CDI devices that genericdp has defined on this machine",
    "deviceclasses": "print the DeviceClasses that pods need for resources with servedBy: dra",
    "schema": "print the JSON Schema of configs or policies",
    "completion": "print a script that completes commands and options in a shell",
}
"""Each command with its summary, in the order a new user meets them.

Each is a module of this folder, ``cdi_list`` for ``cdi list``, with ``EXAMPLE`` (command lines
that work as they stand), ``add_arguments(parser)`` and ``execute(arguments)``, which returns the
exit code.
"""
LOGGING = ("run", "simulate", "cdi watch")
"""The commands that have a log."""
PREFIX = "GENERICDP_"
OPTIONS = (
    *("config", "policy", "kind", "root", "node-name", "output", "log-format", "log-level"),
    *("kubelet-dir", "all", "id", "device", "once", "allocate"),
    *("state-dir", "diff", "pod-resources", "address", "listen", "no-status"),
    *("from", "to", "strict", "cdi-dir", "static", "dra-driver"),
    *("kubelet-root", "kubeconfig", "yes"),
)
"""The options of all commands, so that a misspelled variable is found without importing them."""
_SERVICE_VARIABLE = re.compile(r"(.*_)?(SERVICE_HOST|PORT)(_.*)?")
"""What Kubernetes sets in the pods of a namespace with a service whose name begins with ours."""
_BOOLEANS = {"true": True, "false": False}


def run_process(argv: Sequence[str]) -> int:
    """Do the same as ``run_command`` in a process of its own, whose streams may be anything."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file or socket that is opened would be taken for it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, TextIOWrapper):
        # Configs and hosts may hold any characters, and a terminal may not know them.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return run_command(argv)
    except SystemExit as error:
        if error.code:  # a signal: the reader of stdout may have stopped
            _discard_stdout()
        raise


def _discard_stdout() -> None:
    """Discard what is yet to be flushed, also at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run_command(argv: Sequence[str]) -> int:
    """Parse a command line, run it, report what went wrong; return the exit code."""
    try:
        return _run(argv)
    except ConfigError as error:
        # As they are: editors and CI jump to the place that a line begins with.
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
    if arguments.command not in LOGGING:  # else they are logged
        for sentence in unknown_variables():
            _say(f"warning: {sentence}")
    if sys.stdout is None and arguments.command not in {"run", "cdi watch"}:
        raise GenericdpError("stdout is closed: there is nowhere to print to")
    with ExitStack() as stack:
        arguments.on_exit = stack
        code: int = arguments.execute(arguments)
    return code


def _report(argv: Sequence[str], messages: Sequence[str], *, prefix: str = "") -> None:
    """Report why it ends, in the form of the log: who collects that must not miss the last line."""
    if _split(argv)[0] in LOGGING:
        from genericdp import logs

        logs.flush()
        if _logs_json(argv):
            _say("\n".join(map(logs.as_json, messages)))
            return
    _say("\n".join(f"{prefix}{one}" for one in messages))


def _logs_json(argv: Sequence[str]) -> bool:
    """Return whether the log is to be JSON; the other arguments may be what is wrong."""
    parser = Parser("genericdp", add_help=False)
    default = os.environ.get(variable("log-format"))
    parser.add_argument("--log-format", nargs="?", default=default)
    known, _ = parser.parse_known_args(argv)
    return bool(known.log_format == "json")


def _say(text: str) -> None:
    with suppress(OSError):  # nobody can be told that nobody can be told
        print_lines(text.split("\n"), file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """A parser that keeps a list of its arguments and reports errors in one line."""

    def __init__(self, prog: str, **settings: Any) -> None:  # noqa: ANN401
        self.arguments: list[argparse.Action] = []
        """All options and positional arguments, in the order in which they were declared."""
        super().__init__(
            prog=prog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **settings,
        )

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:  # noqa: ANN401
        """Declare an argument and keep it."""
        action = super().add_argument(*names, **settings)
        self.arguments.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message and where to find help."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002  # stdout
        """Print help or a version; raises StdoutError, where argparse itself says nothing."""
        print_document(message)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse arguments; raises UsageError, first of all for an option that does not exist."""
        known = [n for one in self.arguments for n in one.option_strings if n.startswith("--")]
        for word in argv:
            option = word.partition("=")[0]
            if word == "--":
                break
            if word.startswith("--") and option not in known and " " not in option:
                hint = did_you_mean(option, known, prefix="--")
                self.error(f"unrecognized arguments: {option}{hint}")
        namespace, extra = self.parse_known_args(argv)
        if extra:
            is_config = "--config" in known and extra[0].endswith((".yaml", ".yml"))
            hint = f" (did you mean --config {extra[0]}?)" if is_config else ""
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        return namespace


class Append(argparse.Action):
    """Append a value to a list, which replaces the default: a tuple, from the variable."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        """Append the value; raises ArgumentError for a path that is given twice."""
        given = getattr(namespace, self.dest)
        listed = given if is_given(given) else []
        if values in listed and isinstance(values, Path):
            name = "stdin (-)" if values == Path("-") else values
            raise argparse.ArgumentError(self, f"{name} is given twice")
        setattr(namespace, self.dest, [*listed, values])


def is_given(listed: object) -> bool:
    """Return whether the value of an ``Append`` option comes from the command line."""
    return isinstance(listed, list)


def path_of(text: str) -> Path:
    """Return the path; raises ArgumentTypeError if it is empty, as a script's unset variable."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path")
    return Path(text)


def config_of(text: str) -> Path:
    """Return the path of a config; ``-`` and ``/dev/stdin`` are both stdin."""
    return Path("-") if text == "/dev/stdin" else path_of(text)


def policy_of(text: str) -> Path:
    """Return the path of a policy; raises ArgumentTypeError for stdin."""
    if config_of(text) == Path("-"):
        raise argparse.ArgumentTypeError(
            "a policy has to be a file, whose owner is checked and which run reads again:"
            " it is not taken from stdin"
        )
    return path_of(text)


PATHS = (path_of, config_of, policy_of)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; only the module of its command is imported.

    Raises UsageError, and SystemExit after ``--help`` and ``--version``.
    """
    if not argv or argv[0].startswith("-"):
        _parse_without_command(argv)
    name, words = _split(argv)
    if any(one.startswith(f"{name} ") for one in COMMANDS):
        if words and not words[0].startswith("-"):
            name = f"{name} {words[0]}"
        elif name not in COMMANDS:
            _parse_without_command(words, group=name)
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        group = "".join(f"{one} " for one in name.split()[:-1])
        raise UsageError(f"there is no command {name!r}{hint} (see genericdp {group}--help)")
    parser = parser_of(name)
    _take_variables(parser)
    return parser.parse(words)


def _split(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command, of one word or two, and the rest."""
    two = " ".join(argv[:2])
    return (two, argv[2:]) if two in COMMANDS else ("".join(argv[:1]), argv[1:])


def _parse_without_command(argv: Sequence[str], *, group: str = "") -> NoReturn:
    """Show what there is, or raise UsageError; ``group``: the first word of some commands."""
    known_commands = {one: COMMANDS[one] for one in COMMANDS if one.startswith(group)}
    width = max(map(len, known_commands))
    listed = "\n".join(f"    {one:{width}}  {about}" for one, about in known_commands.items())
    parser = Parser(
        f"genericdp {group}".rstrip(),
        description="Makes any hardware of a Kubernetes node schedulable from a YAML file.",
        epilog=f"commands:\n{listed}\n\nTo begin: genericdp init, then genericdp COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"genericdp {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    known = {flag for one in parser.arguments for flag in one.option_strings}
    found = (_split(argv[i:])[0] for i in range(len(argv)))
    command = next((one.split() for one in found if one in COMMANDS), None)
    if command is not None and argv[0] not in known:
        words = [word for word in argv if word not in {*command, "--"}]
        ordered = shell_words(["genericdp", *command, *words])
        parser.error(f"the command has to come first: {ordered}")
    parser.parse(argv)
    parser.error("the command has to come first")


def parser_of(name: str) -> Parser:
    """Return the parser of one command."""
    command = import_module(f"genericdp.cli.{name.replace(' ', '_')}")
    parser = Parser(
        f"genericdp {name}",
        description=COMMANDS[name],
        epilog=f"example:\n{command.EXAMPLE}",
    )
    command.add_arguments(parser)
    parser.set_defaults(command=name, execute=command.execute)
    return parser


def variable(option: str) -> str:
    """Return the name of an option's environment variable."""
    return f"{PREFIX}{option.removeprefix('--').upper().replace('-', '_')}"


def _take_variables(parser: Parser) -> None:
    """Make the values of environment variables the defaults of the options.

    An empty variable is ignored, except for a path: there it is as wrong as on the command line,
    since it may stand for a policy. Raises UsageError for a value that the option does not take.
    """
    for action in parser.arguments:
        name = next((one for one in action.option_strings if one.startswith("--")), "--help")
        text = os.environ.get(variable(name))
        if name == "--output" and action.type in PATHS:
            continue  # of all others the variable says how to print
        if name == "--help" or text is None or (not text and action.type not in PATHS):
            continue
        action.default = _value(action, variable(name), text)
        action.required = False


def _value(action: argparse.Action, name: str, text: str) -> object:
    if not isinstance(action, Append):
        return _single(action, name, text)
    listed = tuple(_single(action, name, part) for part in text.split(":") if part)
    if not listed and text:
        raise UsageError(f"{name} is {text!r}, which names nothing")
    return listed or _single(action, name, text)


def _single(action: argparse.Action, name: str, text: str) -> object:
    choices = _BOOLEANS if action.nargs == 0 else action.choices
    if choices is not None and text not in choices:
        raise UsageError(f"{name} is {text!r}, but must be one of: {', '.join(choices)}")
    if action.nargs == 0:
        return _BOOLEANS[text]
    try:
        return action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{name} is {text!r}: {error}") from error


def unknown_variables(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a message for each unknown variable with our prefix, with a suggestion."""
    known = [variable(option) for option in OPTIONS]
    for name, text in sorted(environment.items()):
        rest = name.removeprefix(PREFIX)
        if name in known or rest in {name, ""} or not text or _SERVICE_VARIABLE.fullmatch(rest):
            continue
        hint = did_you_mean(name, known, prefix=PREFIX)
        # Quoted and in ASCII: a blank at its end, or another alphabet's letter, may be the mistake.
        yield f"the variable {name!a} means nothing to genericdp{hint}"
