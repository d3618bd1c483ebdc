"""Parameters: values that claims and DeviceClasses give to devices that DRA serves."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from genericdp.model import ParameterType
from genericdp.printing import quoted, suggestion
from genericdp.regex import TextTooLongError, search

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from genericdp.model import Parameter

PREFIX = "parameters."
"""The beginning of parameters' names in the scope ``claim`` of templates."""
_HEAD = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
_MAX_BYTES = 10 * 1024
"""Maximum size of opaque parameters, as in the Kubernetes API."""


class ParameterError(ValueError):
    """Opaque parameters that cannot be used; ``name`` is that of the one at fault, if any."""

    def __init__(self, message: str, hint: str = "", name: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message, self.hint, self.name = message, hint, name


def text_of(parameter: Parameter, value: object) -> str:
    """Return what templates insert for a value; raise ParameterError."""
    match parameter.type:
        case ParameterType.INT:
            # A boolean is an int.
            if type(value) is int and parameter.min <= value <= parameter.max:
                return str(value)
        case ParameterType.BOOL:
            if isinstance(value, bool):
                return str(value).lower()
        case ParameterType.TEXT:
            if isinstance(value, str) and value.isprintable():
                with suppress(TextTooLongError):
                    if search(parameter.pattern, value, whole=True) is not None:
                        return value
    is_unquoted = parameter.type is ParameterType.TEXT and type(value) in {int, float, bool}
    hint = f"write '{_shown(value)}'" if is_unquoted else ""
    raise ParameterError(f"{_shown(value)} is not {parameter}", hint)


def defaults(declared: Mapping[str, Parameter]) -> dict[str, str]:
    """Return what templates insert by default, by name."""
    return {
        name: text_of(parameter, parameter.default)
        for name, parameter in declared.items()
        if parameter.default is not None
    }


def is_for(requests: Collection[str], request: str) -> bool:
    """Return whether parameters for these are for a request, or ``request/subrequest``."""
    return not requests or not {request, request.partition("/")[0]}.isdisjoint(requests)


def given_by(
    opaque: object, declared: Mapping[str, Parameter], known: Collection[str]
) -> dict[str, str]:
    """Return what templates insert for opaque parameters, by name, where they are declared.

    ``known`` are the names that may be there, too. Raise ParameterError.
    """
    texts = {}
    for name, value in _values(opaque).items():
        if name not in known:
            hint = suggestion(name, known) if known else "there are none"
            raise ParameterError(f"unknown parameter {quoted(name)}", hint, name)
        if name in declared:
            try:
                texts[name] = text_of(declared[name], value)
            except ParameterError as error:
                raise ParameterError(f"parameter {name}: {error}", name=name) from error
    return texts


def _values(opaque: object) -> dict[str, Any]:
    """Return the values in opaque parameters; raise ParameterError."""
    if not isinstance(opaque, dict):
        raise ParameterError(f"the parameters are {_shown(opaque)}, not a mapping")
    for key, wanted in _HEAD.items():
        if (found := opaque.get(key)) != wanted:
            raise ParameterError(f"{key} is {_shown(found)}, not {wanted}")
    if unknown := opaque.keys() - {*_HEAD, "parameters"}:
        hint = "values belong below 'parameters'"
        raise ParameterError(f"unknown key {quoted(min(unknown))}", hint)
    values = opaque.get("parameters", {})
    if not isinstance(values, dict):
        raise ParameterError(f"the values are {_shown(values)}, not a mapping")
    # Nested ones are refused, whatever their size.
    scalars = {name: value for name, value in values.items() if not _is_nested(value)}
    if (size := len(json.dumps(scalars))) > _MAX_BYTES:
        raise ParameterError(f"the values have {size:,} bytes: at most {_MAX_BYTES:,} are possible")
    return values


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _shown(value: object) -> str:
    if _is_nested(value):
        return "a mapping" if isinstance(value, dict) else "a list"
    return quoted(value) if isinstance(value, str) else quoted(json.dumps(value)).strip("'")
