"""Builds the model of checked, plain data; no key's default is repeated here."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from genericdp import model
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.policy import Policy
    from genericdp.template import Template

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
Bus = model.UdevSelector | model.UsbSelector | model.PciSelector | model.NetSelector
_CLASSES: dict[str, type[Bus]] = {
    "udev": model.UdevSelector,
    "usb": model.UsbSelector,
    "pci": model.PciSelector,
    "net": model.NetSelector,
}


def build(
    checked: Iterable[tuple[Mapping[str, Any], model.Place]], policy: Policy | None = None
) -> tuple[model.Resource, ...]:
    """Return the resources of checked, plain data with their places, and with what bounds them."""
    return tuple(_resource(resource, place, policy) for resource, place in checked)


def _given(mapping: Mapping[str, Any], **convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the keys that are written, as arguments of their dataclass."""
    return {
        _snake(key): convert[key](value) if key in convert else value
        for key, value in mapping.items()
    }


def _snake(key: str) -> str:
    return "device_class" if key == "class" else _HUMP.sub("_", key).lower()


def _resource(
    resource: Mapping[str, Any], place: model.Place, policy: Policy | None
) -> model.Resource:
    arguments = _given(
        resource,
        match=_each(_selector),
        exclude=_each(_selector),
        nodeNames=tuple,
        values=_by_key(_value),
        groupBy=parse,
        id=parse,
        prefer=model.Preference,
        topology=model.TopologyMode,
        closeness=itemgetter("value"),
        inject=_inject,
        health=_each(_probe),
        hooks=_hooks,
    )
    return model.Resource(place=place, policy=policy, **arguments)


def _each(one: Callable[[Any], Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return lambda values: tuple(one(value) for value in values)


def _by_key(one: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda mapping: {key: one(value) for key, value in mapping.items()}


def _globs(value: str | Sequence[str]) -> model.Globs:
    return (value,) if isinstance(value, str) else tuple(value)


def _selector(selector: Mapping[str, Any]) -> model.Selector:
    arguments: dict[str, Any] = {}
    if "hardware" in selector:
        hardware: dict[str, Any] = {
            bus: _bus(bus, keys) for bus, keys in selector["hardware"].items()
        }
        arguments["hardware"] = model.Hardware(**hardware)
    if "values" in selector:
        arguments["values"] = _by_key(_globs)(selector["values"])
    return model.Selector(candidates=_candidates(selector), **arguments)


def _candidates(selector: Mapping[str, Any]) -> model.Candidates:
    if "path" not in selector:
        (bus,) = selector.keys() & _CLASSES.keys()
        return _bus(bus, selector[bus])
    globs = _globs(selector["path"])
    if "type" not in selector:
        return model.PathSelector(globs=globs)
    return model.PathSelector(
        globs=globs, types=tuple(map(model.FileType, _globs(selector["type"])))
    )


def _bus(bus: str, keys: Mapping[str, Any]) -> Bus:
    convert: dict[str, Callable[[Any], Any]] = dict.fromkeys(keys, _globs)
    convert |= {"properties": _by_key(_globs), "attributes": _by_key(_globs), "function": str}
    return _CLASSES[bus](**_given(keys, **convert))


def _value(value: Mapping[str, Any]) -> model.ValueSource:
    (kind,) = (kind for kind in model.ValueKind if kind in value)
    return model.ValueSource(kind=kind, source=parse(value[kind]), regex=value.get("regex"))


def _inject(inject: Mapping[str, Any]) -> model.Inject:
    return model.Inject(
        **_given(
            inject,
            devices=_each(_device_nodes),
            mounts=_each(_mount),
            env=_by_key(_env_var),
            annotations=_by_key(parse),
            cdi=_each(parse),
        )
    )


def _device_nodes(entry: Mapping[str, Any]) -> model.DeviceNodes:
    return model.DeviceNodes(**_given(entry, path=parse, name=_globs, containerPath=parse))


def _mount(mount: Mapping[str, Any]) -> model.Mount:
    return model.Mount(**_given(mount, hostPath=parse, containerPath=parse))


def _env_var(value: str | Mapping[str, Any]) -> model.EnvVar:
    given = {"value": value} if isinstance(value, str) else value
    return model.EnvVar(**_given(given, value=parse))


def _command(program: Mapping[str, Any]) -> model.Command[Template]:
    env = {"env": _by_key(parse)(program["env"])} if "env" in program else {}
    return model.Command(argv=_each(parse)(program["command"]), **env)


def _kernel_log(check: Mapping[str, Any]) -> model.KernelLogCheck[Template]:
    return model.KernelLogCheck(**_given(check, where=_by_key(parse), ignore=_by_key(_globs)))


_CHECKS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "exec": _command,
    "file": lambda check: model.FileCheck(**_given(check, path=parse, equals=parse)),
    "open": lambda check: model.OpenCheck(**check),
    "kernelLog": _kernel_log,
}


def _probe(probe: Mapping[str, Any]) -> model.Probe:
    (kind,) = probe.keys() & _CHECKS.keys()
    rest = {key: value for key, value in probe.items() if key != kind}
    return model.Probe(check=_CHECKS[kind](probe[kind]), **_given(rest))


def _hooks(hooks: Mapping[str, Any]) -> model.Hooks[Template]:
    return model.Hooks(**_given(hooks, allocate=_hook, preStart=_hook))


def _hook(hook: Mapping[str, Any]) -> model.Hook[Template]:
    rest = {key: value for key, value in hook.items() if key != "exec"}
    return model.Hook(command=_command(hook["exec"]), **_given(rest))
