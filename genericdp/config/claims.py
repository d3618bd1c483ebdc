"""Manifests of claims and DeviceClasses: their parameters, held against configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.document import Field, problem_of
from genericdp.devices.parameters import ParameterError, given_by
from genericdp.devices.resourcenames import class_names
from genericdp.model import ServedBy
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
) -> list[tuple[Problem, bool]]:
    """Return the problems of parameters for our driver, and whether each is only a warning."""
    by_class = _by_class(resources)
    found = []
    of_classes: dict[str, set[str]] = {}
    """The parameters that DeviceClasses give, by their names."""
    roots = [Field(document, (), document.data, []) for document in documents]
    # Classes first, because claims need not give what their class does.
    for root in sorted(roots, key=lambda root: root["kind"].value != _CLASS):
        place, name = root, root["metadata"]["name"]
        for step in KINDS[root["kind"].value]:
            place = place[step]
        is_class = root["kind"].value == _CLASS
        classes = {"": name} if is_class else dict(_classes(place))
        given = {path: set(of_classes.get(str(each.value), ())) for path, each in classes.items()}
        for entry in place["config"]:
            if entry["opaque"]["driver"].value == driver:
                _check(entry, classes, by_class, given)
        if is_class:
            of_classes[str(name.value)] = given[""]
        else:
            _warn_of_lacking(classes, by_class, given)
        found += [(problem_of(each, root.document), each.warning) for each in root.findings]
    return found


def _by_class(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    """Return the resources of each DeviceClass that ``genericdp deviceclasses`` prints."""
    found: dict[str, list[Resource]] = {}
    for resource in resources:
        if resource.served_by is ServedBy.DRA:
            for name in resource.names or (resource.name,):
                for class_name in class_names(name):
                    found.setdefault(class_name, []).append(resource)
    return found


def _classes(devices: Field) -> Iterator[tuple[str, Field]]:
    """Yield each request or subrequest of a claim, with the name of its DeviceClass."""
    for request in devices["requests"]:
        name = request["name"].value
        # Before v1beta2 of the API it was in the request itself.
        alone = ((name, request), (name, request["exactly"]))
        listed = ((f"{name}/{each['name'].value}", each) for each in request["firstAvailable"])
        for path, asked in (*alone, *listed):
            if asked["deviceClassName"].text is not None:
                yield str(path), asked["deviceClassName"]


def _check(
    entry: Field,
    classes: Mapping[str, Field],
    by_class: Mapping[str, Sequence[Resource]],
    given: Mapping[str, set[str]],
) -> None:
    """Find a mistake in an entry of ``config``; add the names that it gives to each request.

    A class that is not one of ``genericdp deviceclasses`` may be for any resource of the config.
    """
    asked = {str(request.value) for request in entry["requests"]} or {*classes}
    paths = [path for path in classes if not asked.isdisjoint((path, path.partition("/")[0]))]
    names = {str(classes[path].value) for path in paths}
    is_known = names <= by_class.keys()
    listed = [each for name in (names if is_known else by_class) for each in by_class[name]]
    resources = [resource for resource in listed if resource.parameters] or listed
    known = {name for resource in resources for name in resource.parameters}
    opaque = _plain(entry["opaque"]["parameters"].value)
    errors = []
    for resource in resources:
        try:
            given_by(opaque, resource.parameters, known)
        except ParameterError as found:
            errors.append((found, resource))
    if errors and (is_known or len(errors) == len(resources)):
        error, resource = errors[0]
        field = entry["opaque"]["parameters"]
        below = field["parameters"][error.name] if error.name else field
        below.refuse(f"{resource.name}: {error.message}", error.hint)
    for path in paths if resources else ():
        given[path].update(known if errors else opaque.get("parameters", ()))


def _warn_of_lacking(
    classes: Mapping[str, Field],
    by_class: Mapping[str, Sequence[Resource]],
    given: Mapping[str, set[str]],
) -> None:
    for path, name in classes.items():
        for resource in by_class.get(str(name.value), ()):
            for parameter, declared in resource.parameters.items():
                if declared.default is None and parameter not in given[path]:
                    message = f"{resource.name}: parameter {parameter} has no default"
                    name.warn(message, f"give it {declared}, unless the DeviceClass does")


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value as in JSON; a scalar that versions of YAML read differently as written."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.source if isinstance(value, Unclear) else value
