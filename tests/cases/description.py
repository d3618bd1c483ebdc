"""Reads ``machine.yaml``, whose form ``machine.py`` explains; a mistake has its place."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.testbeds.loading import OF_UDEV, Entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_TOP = Path(__file__).parents[2]
_KEYS = ("host", "nodes", "files", "links", "devices")
OF_DEVICES = ("subsystem", "node", "links", "driver", "iommu_group", "plugged")
_FORMS = {
    "node number": (r"\d+:\d+", "MAJOR:MINOR"),
    "node": (r"\d+:\d+( [^/].*)?", "MAJOR:MINOR, or MAJOR:MINOR NAME, below /dev"),
    "link": ("[^/].*", "[NAME, …], with names below /dev"),
    "plugged": ("false", "false, or leave it out"),
}
_UDEV = tuple(key.removeprefix("E: ") for key in OF_UDEV)


class CaseError(Exception):
    """A mistake in a case."""


class _Text(str):
    __slots__ = ("place",)
    place: str


class _Loader(yaml.BaseLoader):
    """Takes strings only: 116:1 would be a number of seconds, 0403 one of base 8."""

    def construct_scalar(self, node: Any) -> _Text:
        text = _Text(super().construct_scalar(node))
        text.place = _place(node.start_mark)
        return text

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        made = super().construct_mapping(node, deep)
        if len(made) < len(node.value):
            raise yaml.MarkedYAMLError(problem="a key is given twice", problem_mark=node.start_mark)
        return made


def _place(mark: Any) -> str:
    return f"{shown(Path(mark.name))}:{mark.line + 1}"


def shown(file: Path) -> str:
    """Return how messages name a file."""
    return str(file.relative_to(_TOP) if file.is_relative_to(_TOP) else file)


def nearest(name: str, names: Collection[str]) -> str:
    """Return what may be meant by a name that is not one of these."""
    if close := get_close_matches(name, names):
        return f"did you mean {' or '.join(close)}?"
    return f"there is {', '.join(names) or 'none'}"


def mistake(text: str, why: str) -> CaseError:
    """Return an error at the place of a string of ``read``."""
    return CaseError(f"{getattr(text, 'place', '')}: {why}")


def read(description: Path) -> dict[str, Any]:
    """Return what a ``machine.yaml`` has, by sections; raise CaseError."""
    place = f"{shown(description)}:1"
    if not description.exists():
        raise CaseError(f"{place}: there is no such file: write 'host: sticks' or other keys")
    try:
        with description.open() as stream:
            document: Any = yaml.load(stream, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or error
        raise CaseError(f"{_place(mark) if mark else place}: {why}") from error
    if not isinstance(document, dict):
        raise CaseError(f"{place}: no mapping: the keys are {', '.join(_KEYS)}")
    for section, content in document.items():
        _check(section, content)
    return document


def _check(section: str, content: object) -> None:
    if section not in _KEYS:
        raise mistake(section, f"there is no key {section}: {nearest(section, _KEYS)}")
    if not isinstance(content, str if section == "host" else dict):
        raise mistake(section, f"write {section}: {'NAME' if section == 'host' else '{…}'}")
    if isinstance(content, dict) and section != "devices":
        for name, text in content.items():
            _demand(name, text, "node number" if section == "nodes" else "")


def flattened(above: str, devices: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield paths with the keys of each, of a tree of devices; raise CaseError."""
    for name, keys in devices.items():
        if not (name.startswith("/") and isinstance(keys, dict) and keys):
            raise mistake(name, f"{name} is not a device: write /PATH: {{subsystem: NAME, …}}")
        path = above + name
        own = {key: value for key, value in keys.items() if not key.startswith("/")}
        for key, value in own.items():
            if (close := get_close_matches(key, OF_DEVICES, 1, 0.8)) not in ([], [key]):
                raise mistake(key, f"{key} would be an attribute: did you mean {close[0]}?")
            if key != "links":
                _demand(key, value, key)
            for link in (value if isinstance(value, list) else [None]) if key == "links" else ():
                _demand(key, link, "link")
        if own and "subsystem" not in own:
            raise mistake(next(iter(own)), f"{name} has no subsystem: write subsystem: NAME")
        yield path, own
        below = {key: value for key, value in keys.items() if key.startswith("/")}
        yield from flattened(path, below)


def _demand(key: str, value: object, kind: str) -> None:
    form, says = _FORMS.get(kind, ("(?s:.*)", "TEXT"))
    if not (isinstance(value, str) and re.fullmatch(form, value)):
        raise mistake(key, f"write {key}: {says}")


def entry_of(path: str, keys: dict[str, Any]) -> Entry:
    """Return a device of its keys; raise CaseError."""
    name = path.rpartition("/")[2].replace("!", "/")
    properties = {"SUBSYSTEM": keys.pop("subsystem")}
    number, _, node = keys.pop("node", "").partition(" ")
    if number:
        properties["MAJOR"], _, properties["MINOR"] = number.partition(":")
    links = tuple(keys.pop("links", ()))
    pointers = {}
    top = "../" * path.count("/")
    if driver := keys.pop("driver", ""):
        pointers["driver"] = f"{top}bus/{properties['SUBSYSTEM']}/drivers/{driver}"
        properties["DRIVER"] = driver
    if group := keys.pop("iommu_group", ""):
        pointers["iommu_group"] = f"{top}kernel/iommu_groups/{group}"
    properties |= {key: value for key, value in keys.items() if key.isupper()}
    recorded = {key: value for key, value in properties.items() if key.startswith(_UDEV)}
    attributes = {key: f"{value}\n".encode() for key, value in keys.items() if not key.isupper()}
    return Entry(
        path=path,
        node=(node or name) if number else "",
        links=links,
        kernel={key: value for key, value in properties.items() if not key.startswith(_UDEV)},
        udev={"USEC_INITIALIZED": "1", **recorded} if recorded else {},
        attributes=attributes,
        pointers=pointers,
    )
