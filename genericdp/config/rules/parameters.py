"""Parameters: their limits and defaults, and the templates that use them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.config.rules.parts import is_served_by_dra, references_in
from genericdp.config.schema import resource_schema
from genericdp.config.texts import formatted, is_script
from genericdp.devices.parameters import PREFIX, SCOPE, ParameterError, text_of
from genericdp.model import Parameter, ParameterType
from genericdp.printing import quoted, suggestion
from genericdp.regex import PatternError

if TYPE_CHECKING:
    from genericdp.config.document import Field

_LIMITS = ("min", "max", "pattern", "default")


def check_parameters(resource: Field) -> None:
    """Find parameters without possible values, and templates that cannot use them."""
    parameters = resource["parameters"]
    for declared in parameters:
        for kind in ParameterType:
            _check_limits(kind, declared[kind])
    for field, form in formatted(resource, resource_schema()) if is_served_by_dra(resource) else ():
        for reference in (references_in(str(field.text)) or ()) if "template" in form else ():
            if reference.scope == SCOPE and reference.name.startswith(PREFIX):
                _check_use(field, reference.name.removeprefix(PREFIX), parameters)


def _check_use(field: Field, name: str, parameters: Field) -> None:
    names = parameters.written()
    if name not in names:
        hint = suggestion(name, names) if names else "declare it under parameters"
        field.refuse(f"undeclared parameter {quoted(name)}", hint)
    elif is_script(field) and parameters[name]["text"].value is not None:
        variable = name.upper()
        message = f"in a script, the string {name} of a claim could run any command"
        field.refuse(message, f'pass it in env, as {variable}, and write "${variable}"')


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
