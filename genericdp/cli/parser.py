"""The parser of a command line, and environment variables as the defaults of its options."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from genericdp.cli.commands import COMMANDS
from genericdp.cli.output import check_stdout, print_document
from genericdp.errors import UsageError
from genericdp.printing import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Settings = dict[str, Any]
"""The keywords of an argument for argparse."""
PREFIX = "GENERICDP_"
CONFIG_FILE = "config_file"
"""The destination of the argument FILE, which may replace ``--config FILE``."""
_SERVICE_VARIABLE = re.compile(r"(.*_)?(SERVICE_HOST|PORT)(_.*)?")
"""Variables that Kubernetes injects for a Service named genericdp*."""
_BOOLEANS = {"true": True, "false": False}


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

    def declare(self, word: str, settings: Settings) -> None:
        """Declare an argument by its name in the table of commands; the help shows its default."""
        settings = {**settings}
        names = [word]
        if not word.startswith("--"):
            names = [settings.pop("dest", word.lower())]
            settings.setdefault("metavar", word)
        if word == "--output" and "choices" in settings:
            names.insert(0, "-o")
        if settings.get("default"):
            settings["help"] += " (default: %(default)s)"
        self.add_argument(*names, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message and where to find help."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002  # stdout
        """Print help or a version; raises GenericdpError, because argparse itself ignores
        errors.
        """
        check_stdout()
        print_document(message)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse arguments; raises UsageError, first of all for an option that does not exist."""
        known = [
            n for argument in self.arguments for n in argument.option_strings if n.startswith("--")
        ]
        for word in argv:
            option = word.partition("=")[0]
            if word == "--":
                break
            if word.startswith("--") and option not in known and " " not in option:
                hint = did_you_mean(option, known, prefix="--")
                self.error(f"unrecognized arguments: {option}{hint}")
        namespace, extra = self.parse_known_args(argv)
        takes_file = CONFIG_FILE in namespace
        if takes_file and not any(word.startswith("-") and word != "-" for word in extra):
            extra = self._take_config_file(namespace, extra)
        if extra:
            hint = _meant_by(extra[0], namespace) if takes_file or "paths" in namespace else ""
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        if takes_file and not namespace.config and not getattr(namespace, "all", False):
            self.error(f"a config is required: {self._config_usage()}")
        return namespace

    @property
    def _positional(self) -> list[argparse.Action]:
        """The positional arguments; if the command accepts FILE as the config, FILE is the
        first.
        """
        return [action for action in self.arguments if not action.option_strings]

    def _config_usage(self) -> str:
        """Return the usage of the config option, for a command that needs other arguments."""
        _, *others = self._positional
        needed = " ".join(str(action.metavar) for action in others if action.nargs != "?")
        return f"FILE {needed}, or --config PATH {needed}" if needed else "FILE or --config"

    def _take_config_file(self, namespace: argparse.Namespace, extra: Sequence[str]) -> list[str]:
        """Use the first argument as the config if none is given; return the remaining arguments.

        If the variable gives a config, the first argument still replaces it if the command has no
        other use for that argument. All arguments are parsed together: argparse itself distributes
        only adjacent ones.
        """
        _, *others = self._positional
        words: list[str] = []
        for given in (getattr(namespace, action.dest) for action in self._positional):
            words += given if isinstance(given, list) else [] if given is None else [given]
        words += extra
        takes_all = any(action.nargs == "+" for action in others)
        least = sum(action.nargs != "?" for action in others)
        most = len(words) if takes_all else len(others)
        if not is_given(namespace.config) and len(words) > (most if namespace.config else least):
            try:
                namespace.config = [config_of(words.pop(0))]
            except argparse.ArgumentTypeError as error:
                self.error(f"argument FILE: {error}")
        for action in others if words else ():
            setattr(namespace, action.dest, words if takes_all else words[0])
        return [] if takes_all else words[len(others) :]


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


def _meant_by(extra: str, namespace: argparse.Namespace) -> str:
    """Return how a config is given, as a hint for what was not understood."""
    if extra in {"-f", "-c"}:
        return " (a config is given without it, as FILE)"
    if not extra.endswith((".yaml", ".yml")):
        return ""
    configs = (f"--config {config}" for config in (*namespace.config, extra))
    return f" (did you mean {' '.join(configs)}?)"


def is_given(listed: object) -> bool:
    """Return whether the value of an ``Append`` option is from the command line."""
    return isinstance(listed, list)


def argument(about: str, **more: Any) -> Settings:  # noqa: ANN401
    """Declare a positional argument, or an option."""
    return {"help": about, **more}


def path_option(about: str, metavar: str = "DIR", **more: Any) -> Settings:  # noqa: ANN401
    """Declare an option that takes a path."""
    return argument(about, metavar=metavar, type=path_of, **more)


def flag(about: str) -> Settings:
    """Declare an option that takes no value."""
    return argument(about, action="store_true")


def choice(about: str, choices: Sequence[str], *, default: str = "text") -> Settings:
    """Declare an option that takes one of several words."""
    return argument(about, metavar="|".join(choices), choices=choices, default=default)


def path_of(text: str) -> Path:
    """Return the path; raises ArgumentTypeError if it is empty, as an unset variable in a script
    is.
    """
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


def variable(option: str) -> str:
    """Return the name of an option's environment variable."""
    return f"{PREFIX}{option.removeprefix('--').upper().replace('-', '_')}"


def take_variables(parser: Parser) -> None:
    """Make the values of environment variables the defaults of the options.

    An empty variable is ignored, except for a path: it is refused, as on the command line, since it
    may name a policy. Raises UsageError for a value that the option does not accept.
    """
    for action in parser.arguments:
        name = next(
            (string for string in action.option_strings if string.startswith("--")), "--help"
        )
        text = os.environ.get(variable(name))
        if name == "--output" and action.type in PATHS:
            continue  # the variables of all others change the output
        if name == "--help" or text is None or (not text and action.type not in PATHS):
            continue
        action.default = _value(action, variable(name), text)
        action.required = False


def _value(action: argparse.Action, name: str, text: str) -> object:
    if not isinstance(action, Append):
        return _single(action, name, text)
    listed = tuple(_single(action, name, part) for part in text.split(":") if part)
    if not listed and text:
        raise UsageError(f"{name} is {quoted(text)}, which names nothing")
    return listed or _single(action, name, text)


def _single(action: argparse.Action, name: str, text: str) -> object:
    choices = _BOOLEANS if action.nargs == 0 else action.choices
    if choices is not None and text not in choices:
        raise UsageError(f"{name} is {quoted(text)}, but must be one of: {', '.join(choices)}")
    if action.nargs == 0:
        return _BOOLEANS[text]
    try:
        return action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{name} is {quoted(text)}: {error}") from error


def unknown_variables(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a message for each unknown variable with our prefix, with a suggestion."""
    words = (word for command in COMMANDS.values() for word in command.arguments)
    known = {variable(word): None for word in words if word.startswith("--")}
    for name, text in sorted(environment.items()):
        rest = name.removeprefix(PREFIX)
        if name in known or rest in {name, ""} or not text or _SERVICE_VARIABLE.fullmatch(rest):
            continue
        hint = did_you_mean(name, known, prefix=PREFIX)
        # Quoted and in ASCII: the mistake may be a blank at its end, or a letter of another
        # alphabet.
        yield f"the variable {name!a} means nothing to genericdp{hint}"
