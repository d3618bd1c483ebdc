"""Rules across the resources of all files of a config, and limits on how much it asks for."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from genericdp.config.finding import shown
from genericdp.config.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.config.finding import Field

MOST_OF_RESOURCE = 256
"""Selectors of a resource, and globs; the schema has the same limit for each list."""
MOST_OF_CONFIG = 4096
"""Selectors of a config, and globs."""

_HINTS = {
    "selectors": "one selector takes a list of globs, as path: [/dev/ttyUSB*, /dev/ttyACM*]",
    "globs": "one glob covers many paths, as /dev/ttyUSB*",
}


def check_counts(resource: Field) -> None:
    """Find how far a resource goes beyond its limits; the key that does is at fault."""
    for kind, by_key in _counts(resource).items():
        totals = zip(by_key, accumulate(by_key.values()), strict=True)
        beyond = [key for key, total in totals if total > MOST_OF_RESOURCE]
        if beyond:
            message = f"the resource has {sum(by_key.values())} {kind}"
            resource[beyond[0]].refuse(
                f"{message}: at most {MOST_OF_RESOURCE} are allowed", _HINTS[kind], of_key=True
            )


def check_across(resources: Sequence[Field]) -> None:
    """Find equal names, limits passed, and what one container cannot get of two resources."""
    _check_names(resources)
    _check_totals(resources)
    _check_losses(resources)


def _check_names(resources: Sequence[Field]) -> None:
    first: dict[str, Field] = {}
    first_everywhere: dict[str, Field] = {}
    for resource in resources:
        name = resource["name"].text
        if name is None:
            continue
        everywhere = "nodeNames" not in resource.written()
        other = (first if everywhere else first_everywhere).get(name)
        if other is not None:
            resource["name"].refuse(
                f"{shown(name)} is already the name of {shown_path(other.path)}"
                f" at {_place(other['name'])}",
                "names may be equal only where both resources have nodeNames",
            )
        first.setdefault(name, resource)
        if everywhere:
            first_everywhere.setdefault(name, resource)


def _check_totals(resources: Sequence[Field]) -> None:
    totals = dict.fromkeys(_HINTS, 0)
    for resource in resources:
        for kind, by_key in _counts(resource).items():
            before = totals[kind]
            totals[kind] += sum(by_key.values())
            if before <= MOST_OF_CONFIG < totals[kind]:
                message = f"with this resource the config has {totals[kind]} {kind}"
                resource.refuse(f"{message}: at most {MOST_OF_CONFIG} are allowed", _HINTS[kind])


def _counts(resource: Field) -> dict[str, dict[str, int]]:
    """Return how many selectors and globs a resource has, by the key that they are below."""
    globs = {
        key: sum(_texts(part) for one in resource[key] for part in one if part.key != "type")
        for key in ("match", "exclude")
    }
    globs["values"] = sum(_texts(value["link"]) for value in resource["values"])
    devices = resource["inject"]["devices"]
    globs["inject"] = sum(_texts(one[key]) for one in devices for key in ("path", "name"))
    globs["health"] = sum(_texts(probe["file"]["path"]) for probe in resource["health"])
    selectors = {key: len(resource[key].value or ()) for key in ("match", "exclude")}
    return {"selectors": selectors, "globs": globs}


def _texts(field: Field) -> int:
    return 1 if field.text is not None else sum(map(_texts, field))


def _check_losses(resources: Iterable[Field]) -> None:
    """Warn of equal keys with different values: the kubelet keeps either one (ALL-6)."""
    first: dict[tuple[str, str], tuple[str, object, Field]] = {}
    for resource in resources:
        name = str(resource["name"].value)
        for kind, key, value, field in _given(resource["inject"]):
            other, of_other, there = first.setdefault((kind, key), (name, value, field))
            if other != name and (of_other != value or "$(" in str(value)):
                field.warn(
                    f"a container with this and {shown(other)} gets only one {kind} {shown(key)}",
                    f"the other one: {_place(there)}",
                    of_key=kind != "containerPath",
                )


def _given(inject: Field) -> Iterator[tuple[str, str, object, Field]]:
    for kind, part in (("variable", "env"), ("annotation", "annotations")):
        for field in inject[part]:
            yield kind, field.key, field.value, field
    for part in ("devices", "mounts"):
        for entry in inject[part]:
            path = entry["containerPath"]
            if path.text is not None and "$(" not in path.text and not path.text.endswith("/"):
                hosts = (entry[key].value for key in ("path", "hostPath", "subsystem"))
                host = next((one for one in hosts if one), None)
                yield "containerPath", path.text, host, path


def _place(field: Field) -> str:
    mark = field.document.mark(field.path)
    return f"{field.document.file}:{mark.line}:{mark.column}"
