"""Each option of each command as a variable, ``GENERICDP_…``; lists are separated by ``:``."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any

from genericdp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "GENERICDP_"
OPTIONS = (
    *("config", "policy", "kind", "root", "node-name", "output", "log-format", "log-level"),
    *("kubelet-dir", "all", "probe", "id", "device", "once", "allocate", "generation"),
    *("topology-policy", "state-dir", "diff", "pod-resources", "address", "listen", "no-status"),
    *("anonymize", "from", "to"),
)
"""The options of all commands, so that not all of them need to be imported."""
_OF_A_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|PORT)(_.*)?")
"""What Kubernetes puts into the pods of a namespace with a service whose name begins with ours."""
_BOOLEANS = {"true": True, "false": False}


class StoredUnlessEmpty(argparse.Action):
    """Store what an option is given; its variable may be empty, though the option takes no ''."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        """Store it, as argparse does by itself."""
        setattr(namespace, self.dest, values)


class _List(list[Any]):
    """A list that the command line replaces, where argparse would add to a copy of it."""

    def __copy__(self) -> list[Any]:
        return []


def is_given(listed: list[Any] | None) -> bool:
    """Say whether a list comes from the command line, not from a variable."""
    return bool(listed) and not isinstance(listed, _List)


def variable(option: str) -> str:
    """Give the name of an option's variable."""
    return f"{PREFIX}{option.upper().replace('-', '_')}"


def take_variables(
    parser: argparse.ArgumentParser, environment: Mapping[str, str] = os.environ
) -> None:
    """Let what the variables say be the options' defaults; an empty one says nothing.

    But not of a path: it is as wrong as on the command line, where it may stand for a policy.
    Where nothing is a choice, too, as of where to listen, the option's action says so.
    Raises UsageError for one that says what its option does not take.
    """
    for action in parser._actions:  # noqa: SLF001  # nothing public lists them
        long = [one[2:] for one in action.option_strings if one.startswith("--")]
        if not long or long[0] == "help":
            continue
        text = environment.get(variable(long[0]))
        if text or (text is not None and _refuses_empty(action)):
            action.default = _value(action, variable(long[0]), text)
            action.required = False


def _refuses_empty(action: argparse.Action) -> bool:
    """Say whether an empty variable is a mistake."""
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
    if not isinstance(action, argparse._AppendAction):  # noqa: SLF001
        return _one(action, name, text)
    listed = _List(_one(action, name, part) for part in text.split(":") if part)
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
    """Say of each variable with our prefix that is none of ours what may have been meant."""
    known = [variable(option) for option in OPTIONS]
    for name, text in sorted(environment.items()):
        rest = name.removeprefix(PREFIX)
        if name in known or rest in {name, ""} or not text or _OF_A_SERVICE.fullmatch(rest):
            continue
        from difflib import get_close_matches  # rarely needed, and costly

        close = get_close_matches(rest, [one.removeprefix(PREFIX) for one in known], n=1)
        hint = f" (did you mean {PREFIX}{close[0]}?)" if close else ""
        yield f"the variable {name} means nothing to genericdp{hint}"
