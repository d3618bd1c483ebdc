"""Configs drawn from a seed: selectors, values, groups and what is injected fit a machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_ATTRIBUTES = (
    *("idVendor", "idProduct", "serial", "busnum", "bDeviceClass", "bInterfaceNumber"),
    *("vendor", "device", "class", "numa_node", "address", "type", "index", "ro", "size"),
)
_BROKEN_SHARE = 0.1
_TEMPLATES = (
    *("$(device.name)", "$(device.path)", "$(device.syspath)", "$(device.subsystem)"),
    *("$(device.driver:-none)", "$(device.major:-0):$(device.minor:-0)", "$(device.numa:-x)"),
    *("$(usb.serial:-none)", "$(usb.port)", "$(pci.address)", "$(pci.vendor:-0000)", "$(net.name)"),
    *("$(property.ID_SERIAL:-none)", "$(property.ID_PATH)", "$(attribute.numa_node:-0)"),
    *("$(node.name)", "$$(literal)", "text"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A device as sysfs has it."""

    syspath: str
    name: str
    subsystem: str
    node: str = ""
    """Below ``/dev``."""
    links: tuple[str, ...] = ()
    uevent: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


def facts_of(root: Path) -> list[Facts]:
    """Return the devices of a machine, in order."""
    found = []
    for directory, _, files in sorted(os.walk(root / "sys/devices")):
        at = Path(directory)
        if "uevent" not in files or not (at / "subsystem").is_symlink():
            continue
        uevent = _pairs(_text(at / "uevent").splitlines())
        record = _text(root / "run/udev/data" / _record(at, uevent)).splitlines()
        read = {name: _text(at / name).strip() for name in _ATTRIBUTES if name in files}
        found.append(
            Facts(
                syspath=f"/{at.relative_to(root)}",
                name=at.name,
                subsystem=(at / "subsystem").readlink().name,
                node=uevent.get("DEVNAME", ""),
                links=tuple(line[2:] for line in record if line.startswith("S:")),
                uevent=uevent,
                attributes={key: text for key, text in read.items() if text.isprintable() and text},
                properties=_pairs(line[2:] for line in record if line.startswith("E:")),
            )
        )
    return found


def _record(at: Path, uevent: dict[str, str]) -> str:
    if "MAJOR" not in uevent:
        return f"+{(at / 'subsystem').readlink().name}:{at.name}"
    kind = "b" if (at / "subsystem").readlink().name == "block" else "c"
    return f"{kind}{uevent['MAJOR']}:{uevent['MINOR']}"


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _pairs(lines: Any) -> dict[str, str]:  # noqa: ANN401  # any iterable of lines
    return dict(line.split("=", 1) for line in lines if "=" in line)


def config_for(dice: Random, facts: list[Facts]) -> dict[str, Any]:
    """Return a config for a machine; one in ten is broken somewhere."""
    count = dice.choice((1, 1, 2, 3))
    config: dict[str, Any] = {
        "apiVersion": "genericdp.io/v1alpha1",
        "kind": "DevicePluginConfig",
        "resources": [_resource(dice, facts, f"example.com/r{n}") for n in range(count)],
    }
    if dice.random() < _BROKEN_SHARE:
        _break(dice, config)
    return config


def _resource(dice: Random, facts: list[Facts], name: str) -> dict[str, Any]:
    values = {f"v{number}": _value(dice, number) for number in range(dice.choice((0, 0, 1, 2, 3)))}
    templates = (*_TEMPLATES, *(f"$(value.{name})" for name in values))
    drawn: tuple[tuple[float, str, Callable[[], Any]], ...] = (
        (1.0, "match", lambda: _selectors(dice, facts, values)),
        (0.4, "exclude", lambda: _selectors(dice, facts, values)),
        (0.25, "groupBy", lambda: dice.choice(templates)),
        (0.2, "id", lambda: dice.choice(templates)),
        (0.3, "replicas", lambda: dice.choice((1, 2, 3, 10))),
        (0.3, "prefer", lambda: dice.choice(("auto", "none", "spread", "packed", "closest"))),
        (0.15, "topology", lambda: dice.choice(("auto", "none"))),
        (0.1, "nodeNames", lambda: [dice.choice(("node-*", "node-1", "other"))]),
        (0.6, "inject", lambda: _inject(dice, facts, templates)),
        (0.1, "health", lambda: [{"file": {"path": "$(device.syspath)/state", "equals": "ok"}}]),
    )
    resource = {key: make() for share, key, make in drawn if dice.random() < share}
    if values:
        resource["values"] = values
    if values and dice.random() < 0.15:
        resource["closeness"] = {"value": dice.choice(sorted(values))}
    if "groupBy" in resource and dice.random() < 0.5:
        resource["groupNeeds"] = dice.choice(("each", 1, 2, 3))
    return {"name": name, **resource}


def _selectors(dice: Random, facts: list[Facts], values: dict[str, Any]) -> list[dict[str, Any]]:
    return [_selector(dice, facts, values) for _ in range(dice.choice((1, 1, 2, 3)))]


def _value(dice: Random, number: int) -> dict[str, str]:
    before = [f"$(value.v{n})" for n in range(number)]
    value = dice.choice(
        (
            {"text": dice.choice((*_TEMPLATES, *before))},
            {"file": "$(device.syspath)/" + dice.choice(_ATTRIBUTES)},
            {"file": "$(device.syspath)/device/" + dice.choice(_ATTRIBUTES)},
            {"link": "$(device.syspath)/" + dice.choice(("driver", "subsystem", "device", "*"))},
            {"link": "$(device.syspath)/" + dice.choice(("iommu_group", "device/driver", "s*m"))},
        )
    )
    if dice.random() < 0.4:
        value["regex"] = dice.choice((r"[^:/]+", r"(\d+)", r"^(.*)\.\d", r"([a-z]+)\d*$", r"."))
    return value


def _selector(dice: Random, facts: list[Facts], values: dict[str, Any]) -> dict[str, Any]:
    one = dice.choice(facts)
    kinds = ["udev", "udev", "udev"]
    if one.node:
        kinds += ["path", "path", "path"]
    kinds += {"usb": ["usb"] * 3, "pci": ["pci"] * 3, "net": ["net"] * 3}.get(one.subsystem, [])
    kind = dice.choice(kinds)
    selector: dict[str, Any] = {kind: _SELECTORS[kind](dice, one)}
    if kind == "path" and dice.random() < 0.1:
        selector["type"] = dice.choice(("char", "block", ["char", "block"], "file"))
    if dice.random() < 0.2:
        selector["hardware"] = _hardware(dice, facts, one)
    if values and dice.random() < 0.2:
        selector["values"] = {dice.choice(sorted(values)): dice.choice(("*", "?*", "[0-9]*", "x"))}
    return selector


def _path(dice: Random, one: Facts) -> Any:  # noqa: ANN401  # a glob or a list of them
    path = f"/dev/{dice.choice((one.node, one.node, *one.links)) or one.node}"
    return dice.choice((path, _glob(dice, path), [_glob(dice, path), "/dev/null"]))


def _udev(dice: Random, one: Facts) -> dict[str, Any]:
    keys: dict[str, Any] = {"subsystem": one.subsystem}
    if dice.random() < 0.5:
        keys["name"] = _glob(dice, one.name)
    if "DEVTYPE" in one.uevent and dice.random() < 0.3:
        keys["devtype"] = one.uevent["DEVTYPE"]
    if "DRIVER" in one.uevent and dice.random() < 0.3:
        keys["driver"] = _glob(dice, one.uevent["DRIVER"])
    for key, known in (("properties", one.properties), ("attributes", one.attributes)):
        if known and dice.random() < 0.3:
            name = dice.choice(sorted(known))
            keys[key] = {name: _glob(dice, known[name])}
    return keys


def _usb(dice: Random, one: Facts) -> dict[str, Any]:
    known = {"vendor": "idVendor", "product": "idProduct", "serial": "serial", "bus": "busnum"}
    keys = {key: one.attributes[name] for key, name in known.items() if name in one.attributes}
    return _some(dice, {**keys, "port": one.name.partition(":")[0]})


def _pci(dice: Random, one: Facts) -> dict[str, Any]:
    names = ("vendor", "device", "class")
    keys = {n: one.attributes[n].removeprefix("0x") for n in names if n in one.attributes}
    if dice.random() < 0.1:
        return {"function": dice.choice(("physical", "virtual"))}
    return _some(dice, {**keys, "address": one.name})


def _net(dice: Random, one: Facts) -> dict[str, Any]:
    return _some(dice, {"name": one.name, "address": one.attributes.get("address", "*")})


_SELECTORS: dict[str, Any] = {"path": _path, "udev": _udev, "usb": _usb, "pci": _pci, "net": _net}


def _some(dice: Random, keys: dict[str, str]) -> dict[str, Any]:
    chosen = dice.sample(sorted(keys), dice.randint(1, len(keys)))
    return {key: _glob(dice, keys[key]) for key in chosen}


def _hardware(dice: Random, facts: list[Facts], one: Facts) -> dict[str, Any]:
    above = [each for each in facts if one.syspath.startswith(each.syspath)]
    fitting = [each for each in above if each.subsystem in {"usb", "pci"}] or [one]
    chosen = dice.choice(fitting)
    if chosen.subsystem in {"usb", "pci"} and dice.random() < 0.7:
        return {chosen.subsystem: _SELECTORS[chosen.subsystem](dice, chosen)}
    return {"udev": _udev(dice, chosen)}


def _glob(dice: Random, text: str) -> Any:  # noqa: ANN401  # a glob or a list of them
    draw = dice.random()
    if draw < 0.4:
        return re.sub(r"[*?\[]", "?", text)
    if draw < 0.7:
        return re.sub(r"\d+", "*", text)
    if draw < 0.85:
        return f"{text[: len(text) // 2]}*"
    return re.sub(r"\d", "[0-4]", text)


def _inject(dice: Random, facts: list[Facts], templates: tuple[str, ...]) -> dict[str, Any]:
    inject: dict[str, Any] = {}
    if dice.random() < 0.6:
        inject["devices"] = [_node(dice, facts) for _ in range(dice.choice((0, 1, 1, 2)))]
    if dice.random() < 0.4:
        inject["env"] = {
            f"E{number}": dice.choice(
                (dice.choice(templates), {"value": dice.choice(templates), "separator": ":"})
            )
            for number in range(dice.choice((1, 2)))
        }
    if dice.random() < 0.2:
        host = dice.choice(("/sys", "/dev", "$(device.syspath)", "/absent"))
        inject["mounts"] = [{"hostPath": host, "containerPath": f"/mnt{host}"}]
    if dice.random() < 0.15:
        inject["annotations"] = {"example.com/a": dice.choice(templates)}
    if dice.random() < 0.15:
        inject["cdi"] = ["vendor.com/class=$(device.name)"]
    return inject


def _node(dice: Random, facts: list[Facts]) -> dict[str, Any]:
    other = dice.choice(facts)
    node: dict[str, Any] = dice.choice(
        (
            {"path": "$(device.path)"},
            {"path": "$(device.path)", "containerPath": "/dev/x$(allocation.index)"},
            {"path": "$(device.path)", "containerPath": "/dev/x"},
            {"path": f"/dev/{other.node or 'null'}"},
            {"path": f"/dev/{re.sub(r'[0-9]+', '*', other.node or 'null')}"},
            {"subsystem": other.subsystem},
            {"subsystem": other.subsystem, "name": re.sub(r"\d+", "*", other.name)},
        )
    )
    for key in ("optional", "shared"):
        if dice.random() < 0.3:
            node[key] = True
    if dice.random() < 0.2:
        node["permissions"] = dice.choice(("r", "rw", "rwm"))
    return node


def _break(dice: Random, config: dict[str, Any]) -> None:
    resource = dice.choice(config["resources"])
    selector = resource["match"][0]
    changes: tuple[tuple[dict[str, Any], str, Any], ...] = (
        (resource, "replicas", dice.choice((0, "two", 10**6, None))),
        (resource, "matches", []),
        (resource, "name", dice.choice(("none", "example.com/", "Example.com/x y"))),
        (resource, "id", dice.choice(("$(device.nam)", "$(value.none)", "$(", ""))),
        (resource, "match", dice.choice(([], {}, "x", [{}]))),
        (resource, "prefer", "any"),
        (selector, "path", dice.choice(("dev/x", "/dev/[", 403, []))),
        (selector, "usb", {"vendor": 403}),
        (selector, "unknown", True),
        (config, "kind", "DevicePlugin"),
        (config, "resource", []),
    )
    where, key, text = dice.choice(changes)
    where[key] = text
