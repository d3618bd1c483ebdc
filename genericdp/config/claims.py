"""Manifests of claims and DeviceClasses: their parameters, held against configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.document import Field, problem_of
from genericdp.devices.parameters import ParameterError, given_by, is_for
from genericdp.devices.resourcenames import class_names
from genericdp.model import ServedBy
from genericdp.printing import first_few, quoted, suggestion
from genericdp.scalars import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.config.document import Document
    from genericdp.errors import Problem
    from genericdp.model import Resource

_CLASS = "DeviceClass"
KINDS = {
    "ResourceClaim": ("spec", "devices"),
    "ResourceClaimTemplate": ("spec", "spec", "devices"),
    _CLASS: ("spec",),
}
"""What leads to ``config`` in each kind."""


def check_claims(
    documents: Iterable[Document], resources: Iterable[Resource], driver: str
) -> tuple[list[Problem], list[Problem]]:
    """Return the problems of parameters for our driver, and warnings of claims without any
    mention of it or of its DeviceClasses.
    """
    by_class = _by_class(resources)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for document in documents:
        place = root = Field(document, (), document.data, [])
        for step in KINDS[root["kind"].value]:
            place = place[step]
        is_class = root["kind"].value == _CLASS
        classes = {"": str(root["metadata"]["name"].value)} if is_class else dict(_classes(place))
        own = [entry for entry in place["config"] if entry["opaque"]["driver"].value == driver]
        for entry in own:
            _check(entry, classes, by_class)
        # A class is not misspelled anywhere: it may be for another driver.
        if not own and not is_class and by_class.keys().isdisjoint(classes.values()):
            what = f"nothing is for {driver}, or a DeviceClass of the config: it is not checked"
            root["kind"].warn(what, f"classes are {first_few([*by_class], 3) or 'missing'}")
        for finding in root.findings:
            (warnings if finding.warning else problems).append(problem_of(finding, document))
    return problems, warnings


def _by_class(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    """Return the resources of each DeviceClass that ``genericdp deviceclasses`` prints."""
    found: dict[str, list[Resource]] = {}
    for resource in resources:
        if resource.served_by is ServedBy.DRA:
            for name in resource.names or (resource.name,):
                for class_name in class_names(name):
                    found.setdefault(class_name, []).append(resource)
    return found


def _classes(devices: Field) -> Iterator[tuple[str, str]]:
    """Yield each request or subrequest of a claim, with the name of its DeviceClass."""
    for request in devices["requests"]:
        name = request["name"].value
        # Before v1beta2 of the API it was in the request itself.
        alone = ((name, request), (name, request["exactly"]))
        listed = ((f"{name}/{each['name'].value}", each) for each in request["firstAvailable"])
        for path, asked in (*alone, *listed):
            if (class_name := asked["deviceClassName"].text) is not None:
                yield str(path), class_name


def _check(
    entry: Field, classes: Mapping[str, str], by_class: Mapping[str, Sequence[Resource]]
) -> None:
    """Find a mistake in an entry of ``config``.

    A class that is not one of ``genericdp deviceclasses`` may be for any resource of the config.
    """
    requests = [str(request.value) for request in entry["requests"]]
    for request in entry["requests"]:
        if not any(is_for([str(request.value)], path) for path in classes):
            known_names = [name for path in classes for name in (path.partition("/")[0], path)]
            request.refuse(
                f"there is no request {quoted(str(request.value))}",
                suggestion(str(request.value), dict.fromkeys(known_names)),
            )
    names = {name for path, name in classes.items() if is_for(requests, path)}
    is_known = names <= by_class.keys()
    listed = [each for name in (names if is_known else by_class) for each in by_class[name]]
    resources = [resource for resource in listed if resource.parameters] or listed
    known = {name for resource in resources for name in resource.parameters}
    field = entry["opaque"]["parameters"]
    errors = []
    for resource in resources:
        try:
            given_by(_plain(field.value), resource.parameters, known)
        except ParameterError as found:
            errors.append((found, resource))
    if errors and (is_known or len(errors) == len(resources)):
        error, resource = errors[0]
        below = field["parameters"][error.name] if error.name else field
        below.refuse(f"{resource.name}: {error.message}", error.hint)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value as in JSON; a scalar that versions of YAML read differently as written."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.source if isinstance(value, Unclear) else value
