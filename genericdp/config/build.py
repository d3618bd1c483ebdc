"""Builds the model from checked, plain data; no key's default is repeated here."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from genericdp import model
from genericdp.devices import hardware
from genericdp.devices.capacity import whole
from genericdp.health.kinds import KINDS
from genericdp.model import globs
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from genericdp.policy import Policy

_Convert = Callable[[Any], Any]
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OTHER_NAMES = {"exec": "command"}
"""Keys whose names in the model are not just the snake case of the key."""


def build(
    checked: Iterable[tuple[Mapping[str, Any], model.Place]], policy: Policy | None = None
) -> tuple[model.Resource, ...]:
    """Build the resources from checked, plain data, with their places and the policy that bounds
    them.
    """
    return tuple(_resource(resource, place, policy) for resource, place in checked)


def _resource(
    resource: Mapping[str, Any], place: model.Place, policy: Policy | None
) -> model.Resource:
    arguments = _arguments(
        resource,
        match=_each(_selector),
        exclude=_each(_selector),
        names=tuple,
        servedBy=model.ServedBy,
        nodeNames=tuple,
        values=_by_key(_value),
        groupBy=parse,
        id=parse,
        attributes=_by_key(_attribute),
        parameters=_by_key(parameter),
        capacity=_by_key(_capacity),
        prefer=model.Preference,
        topology=model.TopologyMode,
        closeness=itemgetter("value"),
        expect=_expectation,
        unhealthyTaint=model.TaintEffect,
        inject=_inject,
        health=_each(_probe),
        hooks=_by_key(_hook),
    )
    template = parse(resource["name"]) if "names" in resource else None
    return model.Resource(place=place, policy=policy, name_template=template, **arguments)


def _arguments(mapping: Mapping[str, Any], **convert: _Convert) -> dict[str, Any]:
    """Return the keys that are present, as arguments of their dataclass."""
    return {
        _OTHER_NAMES.get(key) or _HUMP.sub("_", key).lower(): convert.get(key, lambda value: value)(
            value
        )
        for key, value in mapping.items()
    }


def _of(kind: type, **convert: _Convert) -> _Convert:
    """Return a function that makes a value of a dataclass from a mapping."""
    return lambda mapping: kind(**_arguments(mapping, **convert))


def _each(convert: _Convert) -> _Convert:
    return lambda values: tuple(map(convert, values))


def _by_key(convert: _Convert) -> _Convert:
    return lambda mapping: {key: convert(value) for key, value in mapping.items()}


def _expectation(written: int | Mapping[str, int]) -> model.Expectation:
    """Return what is expected; a number is both limits."""
    limits = {"min": written, "max": written} if isinstance(written, int) else written
    return model.Expectation(**limits)


def _selector(selector: Mapping[str, Any]) -> model.Selector:
    rest = {key: selector[key] for key in ("hardware", "values", "inject") if key in selector}
    arguments = _arguments(rest, hardware=_sys_selectors, values=_by_key(globs), inject=_inject)
    return model.Selector(candidates=_candidates(selector), **arguments)


def _candidates(selector: Mapping[str, Any]) -> model.Candidates:
    if "path" not in selector:
        (candidates,) = _sys_selectors(selector)
        return candidates
    patterns = globs(selector["path"])
    if "type" not in selector:
        return model.PathSelector(globs=patterns)
    types = tuple(map(model.FileType, globs(selector["type"])))
    return model.PathSelector(globs=patterns, types=types)


def _sys_selectors(written: Mapping[str, Any]) -> tuple[model.SysSelector, ...]:
    """Return the selectors by kinds of hardware that a mapping has, in the order of the kinds."""
    return tuple(_sys_selector(kind, written[kind]) for kind in hardware.KINDS if kind in written)


def _sys_selector(kind: str, written: Mapping[str, Any]) -> model.SysSelector:
    by_key = _by_key(globs)
    nested = {key: by_key(written[key]) for key in ("properties", "attributes") if key in written}
    keys = {key: globs(value) for key, value in written.items() if key not in nested}
    return model.SysSelector(kind=kind, keys=keys, **nested)


def _value(value: Mapping[str, Any]) -> model.ValueSource:
    (kind,) = (kind for kind in model.ValueKind if kind in value)
    return model.ValueSource(kind=kind, source=parse(value[kind]), regex=value.get("regex"))


def _attribute(value: str | Mapping[str, str]) -> model.Attribute:
    if isinstance(value, str):
        return model.Attribute(type=model.AttributeType.STRING, value=parse(value))
    ((kind, text),) = value.items()
    return model.Attribute(type=model.AttributeType(kind), value=parse(text))


def parameter(written: Mapping[str, Any]) -> model.Parameter:
    """Return a parameter as a resource declares it."""
    ((kind, limits),) = written.items()
    return model.Parameter(type=model.ParameterType(kind), **limits)


def _capacity(value: str | int | Mapping[str, Any]) -> model.Capacity:
    written = value if isinstance(value, dict) else {"value": value}
    limits = {key: whole(str(limit)) for key, limit in written.items() if key != "value"}
    return model.Capacity(value=parse(str(written["value"])), policy=model.RequestPolicy(**limits))


def _env_var(value: str | Mapping[str, Any]) -> model.EnvVar:
    written = {"value": value} if isinstance(value, str) else value
    return model.EnvVar(**_arguments(written, value=parse))


def _probe(probe: Mapping[str, Any]) -> model.Probe:
    (kind,) = probe.keys() & KINDS.keys()
    rest = {key: value for key, value in probe.items() if key != kind}
    return model.Probe(check=KINDS[kind].read(probe[kind]), **_arguments(rest))


_hook = _of(model.Hook, exec=model.Command.read)
_inject = _of(
    model.Inject,
    by=model.InjectBy,
    devices=_each(_of(model.DeviceNodeSelector, path=parse, name=globs, containerPath=parse)),
    mounts=_each(_of(model.Mount, hostPath=parse, containerPath=parse)),
    env=_by_key(_env_var),
    annotations=_by_key(parse),
    cdi=_each(parse),
)
