"""Parameters: their limits and defaults, and the templates that use them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.config.rules.parts import is_served_by_dra, references_to_claims
from genericdp.config.texts import is_script
from genericdp.devices.parameters import ParameterError, text_of
from genericdp.model import Parameter, ParameterType
from genericdp.printing import quoted, suggestion
from genericdp.regex import PatternError

if TYPE_CHECKING:
    from genericdp.config.document import Field

_LIMITS = ("min", "max", "pattern", "default")
_DECLARED = {"parameters": "parameter", "capacity": "capacity"}
"""The keys of what templates name ``claim.KEY.NAME``, and how messages call one of them."""


def check_parameters(resource: Field) -> None:
    """Find parameters without possible values, and templates of what is not declared."""
    for declared in resource["parameters"]:
        for kind in ParameterType:
            _check_limits(kind, declared[kind])
    for text, reference in references_to_claims(resource) if is_served_by_dra(resource) else ():
        key, dot, name = reference.name.partition(".")
        if dot and key in _DECLARED:
            _check_use(text, name, resource[key])


def _check_use(text: Field, name: str, declared: Field) -> None:
    names = declared.written()
    if name not in names:
        hint = suggestion(name, names) if names else f"declare it under {declared.key}"
        text.refuse(f"undeclared {_DECLARED[declared.key]} {quoted(name)}", hint)
    elif is_script(text) and declared[name]["text"].value is not None:
        variable = name.upper()
        message = f"in a script, the string {name} of a claim could run any command"
        text.refuse(message, f'pass it in env, as {variable}, and write "${variable}"')


def _check_limits(kind: ParameterType, limits: Field) -> None:
    given = {key: value for key in _LIMITS if (value := limits[key].value) is not None}
    if kind is ParameterType.TEXT and "pattern" not in given:
        return  # it is of another type, or a problem already
    parameter = Parameter(type=kind, **given)
    if parameter.min > parameter.max:
        limits["max"].refuse(f"{parameter.max} is less than the min of {parameter.min}")
    elif parameter.default is not None:
        with suppress(PatternError):  # which is a problem of the pattern
            try:
                text_of(parameter, parameter.default)
            except ParameterError as error:
                limits["default"].refuse(str(error))
