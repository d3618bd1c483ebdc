"""What a config uses of the language that this version does not carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.loaded import Unbuilt
from genericdp.model import Place
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.tree import Document, Path, Plain
    from genericdp.template import Reference

RESOURCE_KEYS = ("values", "health", "hooks", "groupBy", "groupNeeds", "prefer", "topology")
SELECTOR_KEYS = ("udev", "usb", "pci", "net", "hardware", "values")
DEVICE_NODES_KEYS = ("subsystem",)
_PATHS = ("path", "hostPath", "containerPath")
_BUILT_NAMES = {
    "device": {"id", "path", "name", "major", "minor"},
    "node": {"name"},
    "allocation": {"index"},
}


def unbuilt(document: Document) -> tuple[Unbuilt, ...]:
    """Give every use in a document without problems, in the order of the file."""
    uses = [
        Unbuilt(key=key, place=Place(file=document.file, line=mark.line, column=mark.column))
        for path, key, of_key in _uses(document.data.get("resources") or ())
        for mark in (document.mark(path, of_key=of_key),)
    ]
    return tuple(sorted(set(uses), key=lambda use: (use.place.line, use.place.column, use.key)))


def _uses(resources: Plain) -> Iterator[tuple[Path, str, bool]]:
    for i, resource in enumerate(resources):
        at: Path = ("resources", i)
        yield from _keys(at, resource, RESOURCE_KEYS, "")
        for key in ("match", "exclude"):
            for j, selector in enumerate(resource.get(key) or ()):
                yield from _keys((*at, key, j), selector, SELECTOR_KEYS, f"{key}[].")
        inject = resource.get("inject") or {}
        for j, entry in enumerate(inject.get("devices") or ()):
            here = (*at, "inject", "devices", j)
            yield from _keys(here, entry, DEVICE_NODES_KEYS, "inject.devices[].")
        for path, text in _texts(at, resource):
            yield from ((path, str(found), False) for found in _references(text))


def _keys(
    at: Path, mapping: dict[str, Any], later: tuple[str, ...], prefix: str
) -> Iterator[tuple[Path, str, bool]]:
    yield from (((*at, key), prefix + key, True) for key in later if key in mapping)


def _texts(at: Path, resource: dict[str, Plain]) -> Iterator[tuple[Path, str]]:
    """Give the templates that are carried out."""
    if "id" in resource:
        yield (*at, "id"), resource["id"]
    inject = resource.get("inject") or {}
    for key in ("devices", "mounts"):
        for i, entry in enumerate(inject.get(key) or ()):
            given = (name for name in _PATHS if name in entry)
            yield from (((*at, "inject", key, i, name), entry[name]) for name in given)
    for name, value in (inject.get("env") or {}).items():
        here = (*at, "inject", "env", name)
        yield ((*here, "value"), value["value"]) if isinstance(value, dict) else (here, value)
    for name, value in (inject.get("annotations") or {}).items():
        yield (*at, "inject", "annotations", name), value
    for i, value in enumerate(inject.get("cdi") or ()):
        yield (*at, "inject", "cdi", i), value


def _references(text: str) -> Iterator[Reference]:
    try:
        references = parse(text).references
    except TemplateSyntaxError:
        return
    for reference in references:
        if reference.name not in _BUILT_NAMES.get(reference.scope, ()):
            yield reference
