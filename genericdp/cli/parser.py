"""The command line's parser: commands, options and their ``GENERICDP_…`` environment variables."""

from __future__ import annotations

import argparse
import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from genericdp import __version__
from genericdp.errors import UsageError
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
    "schema": "print the JSON Schema of configs or policies",
    "completion": "print a script that completes commands and options in a shell",
    "version": "print the versions of genericdp, Python and gRPC",
}
"""Each command, a module of this folder, with its summary; in the order a new user meets them."""
LOGGING = ("run", "simulate")
"""The commands that have a log."""
PREFIX = "GENERICDP_"
OPTIONS = (
    *("config", "policy", "kind", "root", "node-name", "output", "log-format", "log-level"),
    *("kubelet-dir", "all", "probe", "id", "device", "once", "allocate", "generation"),
    *("topology-policy", "state-dir", "diff", "pod-resources", "address", "listen", "no-status"),
    *("from", "to"),
)
"""The options of all commands, so that a misspelled variable is found without importing them."""
_SERVICE_VARIABLE = re.compile(r"(.*_)?(SERVICE_HOST|PORT)(_.*)?")
"""What Kubernetes sets in the pods of a namespace with a service whose name begins with ours."""
_BOOLEANS = {"true": True, "false": False}


class Command(Protocol):
    """What the module of each command has."""

    EXAMPLE: str
    """One or two command lines that work as they stand."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit code."""


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
        return self.parse_args(argv)


class Append(argparse.Action):
    """Append a value to a list, which replaces the default: a tuple, from the variable."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        """Append the value."""
        listed = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*(listed if is_given(listed) else []), values])


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


def command_of(argv: Sequence[str]) -> str | None:
    """Return the name of the command without parsing the arguments."""
    return next((word for word in argv if not word.startswith("-")), None)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; only the module of its command is imported.

    Raises UsageError, and SystemExit after ``--help`` and ``--version``.
    """
    if not argv or argv[0].startswith("-"):
        parser = _parser_of_all()
        parser.parse(argv)
        parser.error("the command has to come first")
    name, *words = argv
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        raise UsageError(f"there is no command {name!r}{hint} (see genericdp --help)")
    parser = parser_of(name)
    _take_variables(parser)
    return parser.parse(words)


def _parser_of_all() -> Parser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"    {name:{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = Parser(
        "genericdp",
        description="Makes any hardware of a Kubernetes node schedulable from a YAML file.",
        epilog=f"commands:\n{listed}\n\nTo begin: genericdp init, then genericdp COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"genericdp {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    return parser


def parser_of(name: str) -> Parser:
    """Return the parser of one command."""
    command: Command = import_module(f"genericdp.cli.{name}")
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
        if name == "--help" or text is None or (not text and action.type not in _PATHS):
            continue
        action.default = _value(action, variable(name), text)
        action.required = False


_PATHS = (path_of, config_of)


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
        yield f"the variable {name} means nothing to genericdp{hint}"
