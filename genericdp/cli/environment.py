"""Options from environment variables, ``GENERICDP_…``; lists are separated by ``:``."""

from __future__ import annotations

import argparse
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from genericdp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PREFIX = "GENERICDP_"
OPTIONS = (
    *("config", "policy", "kind", "root", "node-name", "output", "log-format", "log-level"),
    *("kubelet-dir", "all", "probe", "id", "device", "once", "allocate", "generation"),
    *("topology-policy", "state-dir", "diff", "pod-resources", "address", "listen", "no-status"),
    *("from", "to"),
)
"""The options of all commands, so that not all of them need to be imported."""
_OF_A_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|PORT)(_.*)?")
"""What Kubernetes sets in the pods of a namespace with a service whose name begins with ours."""
_BOOLEANS = {"true": True, "false": False}


class OptionParser(argparse.ArgumentParser):
    """An argument parser that lists its options, to take their defaults from variables."""

    @cached_property
    def options(self) -> list[argparse.Action]:
        """All options and arguments."""
        return []

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:  # noqa: ANN401
        """Add an option or argument."""
        action = super().add_argument(*names, **settings)
        self.options.append(action)
        return action


class StoredUnlessEmpty(argparse.Action):
    """Store the value of an option whose variable may be empty, though the option may not."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        """Store it, as argparse does by itself."""
        setattr(namespace, self.dest, values)


class Appended(argparse.Action):
    """Append the values of an option to a list, which replaces that of its variable."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        """Append a value."""
        listed = getattr(namespace, self.dest)
        before = listed if isinstance(listed, list) else []
        setattr(namespace, self.dest, [*before, values])


def is_given(listed: Sequence[Any] | None) -> bool:
    """Return whether a list comes from the command line, not from a variable."""
    return bool(listed) and isinstance(listed, list)


def variable(option: str) -> str:
    """Return the name of an option's variable."""
    return f"{PREFIX}{option.upper().replace('-', '_')}"


def take_variables(parser: OptionParser, environment: Mapping[str, str] = os.environ) -> None:
    """Make the values of variables the defaults of the options; empty ones are ignored.

    But an empty path is as wrong as on the command line: it may stand for a policy. Where nothing
    is a choice, too, as of where to listen, the option's action is ``StoredUnlessEmpty``.
    Raises UsageError for a value that the option does not take.
    """
    for action in parser.options:
        long = [one[2:] for one in action.option_strings if one.startswith("--")]
        if not long or long[0] == "help":
            continue
        text = environment.get(variable(long[0]))
        if text or (text is not None and _refuses_empty(action)):
            action.default = _value(action, variable(long[0]), text)
            action.required = False


def _refuses_empty(action: argparse.Action) -> bool:
    """Return whether an empty variable is a mistake."""
    try:
        if callable(action.type) and not isinstance(action, StoredUnlessEmpty):
            action.type("")
    except argparse.ArgumentTypeError:
        return True
    return False


def _value(action: argparse.Action, name: str, text: str) -> object:
    if action.nargs == 0:
        if text not in _BOOLEANS:
            raise UsageError(f"{name} is {text!r}, but must be one of: {', '.join(_BOOLEANS)}")
        return _BOOLEANS[text]
    if not isinstance(action, Appended):
        return _one(action, name, text)
    listed = tuple(_one(action, name, part) for part in text.split(":") if part)
    if not listed:
        raise UsageError(f"{name} is {text!r}, which names nothing")
    return listed


def _one(action: argparse.Action, name: str, text: str) -> object:
    if action.choices is not None and text not in action.choices:
        raise UsageError(f"{name} is {text!r}, but must be one of: {', '.join(action.choices)}")
    if not callable(action.type):
        return text
    try:
        return action.type(text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise UsageError(f"{name} is {text!r}: {error}") from error


def unknown_variables(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a message for each unknown variable with our prefix, with a suggestion."""
    known = [variable(option) for option in OPTIONS]
    for name, text in sorted(environment.items()):
        rest = name.removeprefix(PREFIX)
        if name in known or rest in {name, ""} or not text or _OF_A_SERVICE.fullmatch(rest):
            continue
        from difflib import get_close_matches  # rarely needed, and costly

        close = get_close_matches(rest, [one.removeprefix(PREFIX) for one in known], n=1)
        hint = f" (did you mean {PREFIX}{close[0]}?)" if close else ""
        yield f"the variable {name} means nothing to genericdp{hint}"
