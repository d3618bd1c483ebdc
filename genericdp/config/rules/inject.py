"""Rules of ``inject``: paths, mounts, variables and annotations that exclude each other."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.config.document import shown_path
from genericdp.config.rules.parts import (
    finds_several,
    injects,
    is_served_by_dra,
    references_in,
    replicas,
)
from genericdp.devices.resourcenames import name_problem
from genericdp.glob import is_glob
from genericdp.model import MAX_CDI_KIND, EnvVar, InjectBy, is_cdi_kind
from genericdp.printing import quoted
from genericdp.template import Template, is_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.config.document import Field

_RUNTIMES = re.compile(r"/(containerd|crio|cri-dockerd|docker|podman)\.sock$")
_MAX_SHARE_MOUNTS = 256
"""Limit of the shares of a device that each have a mount."""
_JOINS = ("separator", "prefix", "suffix")
_TakenPaths = dict[str, tuple["Field", object, bool]]
"""The first entry at each path in the container, its source, and whether it is optional."""


def check_inject(resource: Field) -> None:
    """Find mistakes in what a resource injects."""
    _check_entries(injects(resource))
    _check_by_cdi(resource)
    _check_share_mounts(resource)
    _warn_of_one_place(resource)


def _warn_of_one_place(resource: Field) -> None:
    """Warn where each of several devices would be at the same path of a container."""
    if is_served_by_dra(resource) or not finds_several(resource):
        return
    for entry in (entry for inject in injects(resource) for entry in inject["devices"]):
        path = entry["containerPath"]
        inside = _fixed_path(path.text, None)
        if inside and inside.startswith("/") and "$(device." in str(entry["path"].value):
            stem = inside.rstrip("0123456789")
            path.warn(
                "a container that requests two devices is refused: both would be at this path",
                f"write {quoted(f'{stem}$(allocation.index)')}",
            )


def _check_entries(listed: Sequence[Field]) -> None:
    """Find mistakes in the ``inject`` of a resource, which is the first, and of its entries."""
    taken: _TakenPaths = {}
    joins: dict[str, tuple[Field, EnvVar]] = {}
    has_own_nodes = listed[0]["devices"].value is None
    for inject in listed:
        for entry in (*inject["devices"], *inject["mounts"]):
            if entry["containerPath"].value == "/":
                message = "the root of the container cannot be replaced"
                entry["containerPath"].refuse(message)
        _warn_of_paths(inject, own_nodes=inject is not listed[0] and has_own_nodes)
        # The nodes of two entries need not be in one container.
        _check_collisions(inject, taken if inject is listed[0] else taken.copy())
        for variable in inject["env"]:
            _check_joins(variable, joins)


def _check_by_cdi(resource: Field) -> None:
    """Find keys that CDI does not support, and ``by`` in the wrong place."""
    own, *of_entries = injects(resource)
    for inject in of_entries:
        if "by" in inject.written():
            message, hint = "'by' is for all devices of a resource", "write it into its own inject"
            inject["by"].refuse(message, hint, of_key=True)
    if own["by"].value != InjectBy.CDI or is_served_by_dra(resource):
        return
    _check_cdi_name(resource, own["by"])
    for entry in chain.from_iterable(inject["devices"] for inject in (own, *of_entries)):
        inside = entry["containerPath"]
        for reference in references_in(inside.text or "") or ():
            if reference.scope == "allocation" or is_share(reference):
                message = (
                    f"'$({reference.scope}.{reference.name})' is not known where nodes come by CDI"
                )
                inside.refuse(message, "use $(device.name) or $(device.id), or omit by: cdi")


def _check_cdi_name(resource: Field, by: Field) -> None:
    """Find a name that cannot be a CDI kind, or not the name of a file."""
    name = resource["name"].text or ""
    if references_in(name) != ():
        return
    if name_problem(name) is None and not is_cdi_kind(name):
        message = f"{quoted(name)} is not a CDI kind, so its devices cannot come by CDI"
        by.refuse(message, "let the domain and the type begin with a letter")
    elif len(name) > MAX_CDI_KIND:
        message = f"the name has {len(name)} characters: with by: cdi at most {MAX_CDI_KIND} are"
        resource["name"].refuse(f"{message} possible", "use a shorter domain, or omit by: cdi")


def _check_share_mounts(resource: Field) -> None:
    """Find mounts for each share if there would be too many, because each is checked."""
    shares = replicas(resource)
    mounts = chain.from_iterable(inject["mounts"] for inject in injects(resource))
    for path in (mount["hostPath"] for mount in mounts) if shares > _MAX_SHARE_MOUNTS else ():
        if any(map(is_share, references_in(path.text or "") or ())):
            message = f"this would be {shares:,} mounts of a device: at most {_MAX_SHARE_MOUNTS}"
            path.refuse(
                f"{message} are possible", "mount the directory above, or use fewer replicas"
            )


def _warn_of_paths(inject: Field, *, own_nodes: bool) -> None:
    """Warn of improbable paths; ``own_nodes``: the devices' own nodes are injected, too."""
    for path in (mount["hostPath"] for mount in inject["mounts"] if mount["hostPath"].text):
        if not str(path.value).strip("/") or _RUNTIMES.search(str(path.value)):
            warning = "this gives access to every file of the host"
            path.warn(warning, "mount only what is needed")
        elif is_glob(str(path.value)):
            path.warn("wildcards are literal here", "name the one path that is to be mounted")
    for path in (entry["path"] for entry in inject["devices"]):
        if own_nodes and path.text == "$(device.path)":
            path.warn("this node is given in addition, with rw", "write inject: {devices: []}, too")


def _check_joins(variable: Field, first: dict[str, tuple[Field, EnvVar]]) -> None:
    """Find a variable whose values would be joined in two ways."""
    written = {field.key: field.value for field in variable if field.key in _JOINS}
    how = EnvVar(value=Template(()), **written)
    other, written_before = first.setdefault(variable.key, (variable, how))
    if written_before != how:
        different = next(key for key in _JOINS if getattr(written_before, key) != getattr(how, key))
        message = f"its {different} is not that of {shown_path(other.path)}"
        variable.refuse(message, "all values of a variable are joined in one way", of_key=True)


def _check_collisions(inject: Field, taken: _TakenPaths) -> None:
    """Find entries that would put different things at one path of the container."""
    for key, host in (("devices", "path"), ("mounts", "hostPath")):
        for entry in inject[key]:
            inside = _fixed_path(entry["containerPath"].text, entry[host].text)
            if inside is None:
                continue
            source = (key, entry[host].value, key == "mounts" and entry["readOnly"].value is False)
            is_optional = entry["optional"].value is True
            first, of_first, may_lack = taken.setdefault(inside, (entry, source, is_optional))
            if of_first != source and not is_optional and not may_lack:
                at = shown_path(first.path)
                entry.refuse(f"{quoted(inside)} in the container is already that of {at}")


def _fixed_path(inside: str | None, host: str | None) -> str | None:
    text = host if inside is None and host is not None and not is_glob(host) else inside
    if text is None or text.endswith("/"):
        return None
    return text if references_in(text) == () else None


def check_losses(resources: Sequence[Field]) -> None:
    """Warn of equal keys with different values: the kubelet keeps either one (ALL-6)."""
    first: dict[tuple[str, str], tuple[str, object, Field]] = {}
    for resource in resources:
        name = str(resource["name"].value)
        for kind, key, value, field in chain(*map(_container_edits, injects(resource))):
            other, of_other, there = first.setdefault((kind, key), (name, value, field))
            if other != name and (of_other != value or "$(" in str(value)):
                field.warn(
                    f"a container with this and {quoted(other)} gets only one {kind} {quoted(key)}",
                    f"the other one: {there.place}",
                    of_key=kind != "containerPath",
                )


def _container_edits(inject: Field) -> Iterator[tuple[str, str, object, Field]]:
    """Yield the things of which a container can have only one: kind, key and value."""
    for kind, part in (("variable", "env"), ("annotation", "annotations")):
        for field in inject[part]:
            yield kind, field.key, field.value, field
    for part in ("devices", "mounts"):
        for entry in inject[part]:
            path = entry["containerPath"]
            if (inside := _fixed_path(path.text, None)) is not None:
                hosts = (entry[key].value for key in ("path", "hostPath", "subsystem"))
                yield "containerPath", inside, next(filter(None, hosts), None), path
