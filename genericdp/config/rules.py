"""Rules for a config that a schema cannot express, and the check of a whole config."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.config.document import Field, problem_of, shown_path
from genericdp.config.dra import check_classes, check_served_by, is_served_by_dra
from genericdp.config.policy import check_policy
from genericdp.config.schema import CONFIG, resolved_schema
from genericdp.config.selectors import check_selectors, injects, may_find_several
from genericdp.config.sharing import check_exclusive
from genericdp.config.texts import check_text, formatted, place_of
from genericdp.config.validation import validate
from genericdp.devices.resourcenames import name_problem
from genericdp.glob import is_glob
from genericdp.health.kinds import KINDS
from genericdp.model import (
    EnvVar,
    InjectBy,
    Preference,
    ValueKind,
    is_cdi_kind,
)
from genericdp.printing import quoted
from genericdp.template import (
    MAX_TEXT,
    MAX_TEXTS,
    MAX_VALUES,
    Template,
    TemplateSyntaxError,
    byte_length,
    is_share,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.config.document import Document
    from genericdp.config.schema import Schema
    from genericdp.errors import Finding, Problem
    from genericdp.policy import Policy
    from genericdp.template import Reference

_MAX_PER_RESOURCE = 256
"""Selectors of a resource, and globs; the schema has the same limit for each list."""
_MAX_PER_CONFIG = 4096
_TOO_MANY = {
    "selectors": "one selector takes a list of globs, as path: [/dev/ttyUSB*, /dev/ttyACM*]",
    "globs": "one glob covers many paths, as /dev/ttyUSB*",
}
"""What there is a limit of, and what to do about it."""
_ON_THE_HOST = {"glob", "path-glob", "path-glob-template", "path-template"}
"""Formats of what is looked up on the host."""
_WILDCARD = re.compile(r"[*?[]")
_RUNTIMES = re.compile(r"/(containerd|crio|cri-dockerd|docker|podman)\.sock$")
_MAX_SHARE_MOUNTS = 256
"""Shares of a device with a mount of their own."""
_JOINS = ("separator", "prefix", "suffix")
_TakenPaths = dict[str, tuple[Field, object, bool]]
"""Path in the container to the entry that is first there, its source, and if that is optional."""
_WHEN_RUN = (
    *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
    *("failureThreshold", "successThreshold"),
)


def check_config(
    documents: Sequence[Document], policy: Policy | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Return the problems and the warnings of all documents of a config together.

    What a policy does not allow is a problem.
    """
    checked: list[tuple[Document, list[Finding]]] = []
    resources: list[Field] = []
    totals: Counter[str] = Counter()
    for document in documents:
        findings, sound = validate(document, CONFIG)
        checked.append((document, findings))
        for resource in Field(sound, (), sound.data, findings)["resources"]:
            resources.append(resource)
            _check_resource(resource, totals)
            if policy is not None:
                check_policy(resource, policy)
    _check_names(resources)
    check_classes(resources)
    check_exclusive(resources)
    _check_losses(resources)
    found = [(document, finding) for document, findings in checked for finding in findings]
    warnings = {problem_of(one, document) for document, one in found if one.warning}
    problems = {problem_of(one, document) for document, one in found if not one.warning}
    return sorted(problems), sorted(warnings)


def _check_resource(resource: Field, totals: Counter[str]) -> None:
    """Find what is wrong with a resource; ``totals`` counts selectors and globs of the config."""
    # What is declared wrongly is declared: its use is no second mistake.
    values = resource["values"]
    is_wrong = "values" in resource.written() and not isinstance(values.value, dict)
    declared = None if is_wrong else values.written()
    texts = list(formatted(resource, _resource_schema()))
    for field, form in texts:
        check_text(field, form, declared)
    _check_resulting_names(resource)
    _check_sizes(resource)
    _check_counts(resource, texts, totals)
    check_selectors(resource, declared)
    _check_values(values)
    _check_closeness(resource)
    _check_injects(injects(resource))
    _check_by_cdi(resource)
    _check_share_mounts(resource)
    check_served_by(resource)
    several = may_find_several(resource["match"])
    for probe in resource["health"]:
        _check_probe(probe, several=several)
    for hook in resource["hooks"]:
        _check_kind(hook["exec"])
    if resource["hooks"].value and (resource["replicas"].value or 1) > 1:
        message = "hooks run while other containers may be using the same device"
        resource["hooks"].warn(message, "replicas is more than 1", of_key=True)


def _resource_schema() -> Schema:
    found: Schema = resolved_schema()["properties"]["resources"]["items"]
    return found


def _check_resulting_names(resource: Field) -> None:
    """Find a name that is a template without ``names``, and ``names`` that cannot result."""
    name, names = resource["name"].text, resource["names"]
    if name is None or (references := _references(name)) is None:
        return
    has_names = "names" in resource.written()
    if references and not has_names:
        hint = "list the full names that may result, as in names: [vendor.com/a*]"
        resource["name"].refuse("a name that is a template needs 'names'", hint)
    elif has_names and not references:
        message = f"the name {quoted(name)} is no template, so 'names' has no meaning"
        names.refuse(message, "omit it", of_key=True)
    for one in names if references else ():
        start, of_name = _WILDCARD.split(one.text or "")[0], name.partition("$(")[0]
        if one.text is not None and not (start.startswith(of_name) or of_name.startswith(start)):
            one.refuse(f"{quoted(one.text)} cannot result from the name {quoted(name)}")


def _check_sizes(resource: Field) -> None:
    """Find texts that are too long, alone or together."""
    sizes = Counter[str | int]()
    for field in resource.strings():
        size = byte_length(str(field.value))
        if place_of(field)[0] in {"inject", "health", "hooks"}:
            sizes[field.path[3] if field.path[2] == "match" else ""] += size
        if size > MAX_TEXT:
            field.refuse(
                f"the text has {size:,} bytes, at most {MAX_TEXT:,} are possible",
                "give long texts to containers as files (see inject.mounts)",
            )
    total = sizes.pop("", 0) + max(sizes.values(), default=0)  # each device is of some entry
    if total > MAX_TEXTS:
        message = f"the texts of a device have {total:,} bytes, at most {MAX_TEXTS:,} are possible"
        resource.refuse(message, "inject, health and hooks count together")


def _check_counts(
    resource: Field, texts: Sequence[tuple[Field, str]], totals: Counter[str]
) -> None:
    """Find how far a resource goes beyond its limits; the key that does is at fault."""
    selectors = [selector.path[2] for key in ("match", "exclude") for selector in resource[key]]
    globs = [field.path[2] for field, form in texts if form in _ON_THE_HOST]
    globs = [key for key in globs if key != "nodeNames"]
    for kind, keys in (("selectors", selectors), ("globs", globs)):
        if len(keys) > _MAX_PER_RESOURCE:
            message = f"the resource has {len(keys)} {kind}: at most {_MAX_PER_RESOURCE}"
            at_fault = resource[keys[_MAX_PER_RESOURCE]]
            at_fault.refuse(f"{message} are allowed", _TOO_MANY[kind], of_key=True)
        before = totals[kind]
        totals[kind] += len(keys)
        if before <= _MAX_PER_CONFIG < totals[kind]:
            message = f"with this resource the config has {totals[kind]} {kind}"
            resource.refuse(f"{message}: at most {_MAX_PER_CONFIG} are allowed", _TOO_MANY[kind])


def _check_closeness(resource: Field) -> None:
    closeness = resource["closeness"]
    if closeness.value is None or is_served_by_dra(resource):
        return
    prefer = resource["prefer"].value or Preference.AUTO
    spread = prefer == Preference.AUTO and (resource["replicas"].value or 1) > 1
    if spread or prefer in {Preference.NONE, Preference.SPREAD, Preference.PACKED}:
        why = "auto and replicas more than 1, so shares are spread" if spread else prefer
        message = f"'closeness' has no effect: prefer is {why}"
        closeness.warn(message, "only closest looks at it", of_key=True)


def _check_values(values: Field) -> None:
    """Find values that refer to themselves or are nested too deep."""
    names = {value.key for value in values}
    uses = {value.key: _used(value) & names for value in values}
    depths: dict[str, int] = {}
    for name in _in_order(values, uses):
        depths[name] = 1 + max((depths[used] for used in uses[name]), default=0)
        # What needs that one is no other mistake.
        if depths[name] == MAX_VALUES + 1:
            values[name].refuse(
                f"the value {name!r} is nested more than {MAX_VALUES} values deep",
                "write the texts that it is made of into fewer values",
                of_key=True,
            )


def _in_order(values: Field, uses: dict[str, set[str]]) -> list[str]:
    """Return the values so that each comes after those that it uses; refuse what needs itself."""
    while True:
        try:
            return list(TopologicalSorter(uses).static_order())
        except CycleError as error:
            circle = error.args[1][:0:-1]
            at = circle.index(min(circle, key=[*uses].index))
            way = [*circle[at:], *circle[: at + 1]]
            message = f"the value {way[0]!r} refers to itself: {' -> '.join(way)}"
            values[way[0]].refuse(message, of_key=True)
            for used in uses.values():
                used.difference_update(circle)
            for name in circle:
                del uses[name]


def _used(value: Field) -> set[str]:
    sources = (_references(value[kind].text or "") for kind in ValueKind)
    return {one.name for found in sources for one in found or () if one.scope == "value"}


def _references(text: str) -> tuple[Reference, ...] | None:
    try:
        return parse(text).references
    except TemplateSyntaxError:  # a problem of its own
        return None


def _check_injects(listed: Sequence[Field]) -> None:
    """Find what is wrong with the ``inject`` of a resource, the first, and of its entries."""
    taken: _TakenPaths = {}
    joins: dict[str, tuple[Field, EnvVar]] = {}
    has_own_nodes = listed[0]["devices"].value is None
    for inject in listed:
        for entry in (*inject["devices"], *inject["mounts"]):
            if entry["containerPath"].value == "/":
                message = "the root of the container cannot be replaced"
                entry["containerPath"].refuse(message)
        _warn_of_paths(inject, own_nodes=inject is not listed[0] and has_own_nodes)
        # What two entries give need not meet in one container.
        _check_collisions(inject, taken if inject is listed[0] else taken.copy())
        for variable in inject["env"]:
            _check_joins(variable, joins)


def _check_by_cdi(resource: Field) -> None:
    """Find what cannot be where nodes come by CDI, and where ``by`` is in the wrong place."""
    own, *of_entries = injects(resource)
    for inject in of_entries:
        if "by" in inject.written():
            message, hint = "'by' is for all devices of a resource", "write it into its own inject"
            inject["by"].refuse(message, hint, of_key=True)
    if own["by"].value != InjectBy.CDI or is_served_by_dra(resource):
        return
    name = resource["name"].text or ""
    if _references(name) == () and name_problem(name) is None and not is_cdi_kind(name):
        message = f"{quoted(name)} is no CDI kind, so its devices cannot come by CDI"
        own["by"].refuse(message, "let the domain and the type begin with a letter")
    for entry in chain.from_iterable(inject["devices"] for inject in (own, *of_entries)):
        inside = entry["containerPath"]
        for reference in _references(inside.text or "") or ():
            if reference.scope == "allocation" or is_share(reference):
                message = (
                    f"'$({reference.scope}.{reference.name})' is not known where nodes come by CDI"
                )
                inside.refuse(message, "use $(device.name) or $(device.id), or omit by: cdi")


def _check_share_mounts(resource: Field) -> None:
    """Find mounts for each share of which there would be too many: each is looked at."""
    replicas = resource["replicas"].value or 1
    mounts = chain.from_iterable(inject["mounts"] for inject in injects(resource))
    for path in (mount["hostPath"] for mount in mounts) if replicas > _MAX_SHARE_MOUNTS else ():
        if any(map(is_share, _references(path.text or "") or ())):
            message = f"this would be {replicas:,} mounts of a device: at most {_MAX_SHARE_MOUNTS}"
            path.refuse(
                f"{message} are possible", "mount the directory above, or use fewer replicas"
            )


def _warn_of_paths(inject: Field, *, own_nodes: bool) -> None:
    """Warn of paths that are hardly meant; ``own_nodes``: it is beside the devices' own nodes."""
    for path in (mount["hostPath"] for mount in inject["mounts"] if mount["hostPath"].text):
        if not str(path.value).strip("/") or _RUNTIMES.search(str(path.value)):
            warning = "this gives access to every file of the host"
            path.warn(warning, "mount only what is needed")
        elif is_glob(str(path.value)):
            path.warn("wildcards are literal here", "name the one path that is to be mounted")
    for path in (entry["path"] for entry in inject["devices"]):
        if own_nodes and path.text == "$(device.path)":
            path.warn("this node is given beside, with rw", "write inject: {devices: []}, too")


def _check_joins(variable: Field, first: dict[str, tuple[Field, EnvVar]]) -> None:
    """Find a variable whose values would be joined in two ways."""
    written = {one.key: one.value for one in variable if one.key in _JOINS}
    how = EnvVar(value=Template(()), **written)
    other, its = first.setdefault(variable.key, (variable, how))
    if its != how:
        different = next(key for key in _JOINS if getattr(its, key) != getattr(how, key))
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
    return text if _references(text) == () else None


def _check_probe(probe: Field, *, several: bool) -> None:
    written = probe.written()
    kinds = [kind for kind in KINDS if kind in written]
    for kind in kinds:
        _check_kind(probe[kind], several=several)
    if followed := [kind for kind in kinds if not KINDS[kind].is_run]:
        for key in (key for key in _WHEN_RUN if key in written):
            message = f"{key!r} does nothing beside {followed[0]!r}, whose lines count as they come"
            probe[key].warn(message, of_key=True)
        return
    timeout, period = probe["timeoutSeconds"], probe["periodSeconds"].value
    by_default = "periodSeconds" not in written
    if by_default:
        probes = _resource_schema()["properties"]["health"]["items"]
        period = probes["properties"]["periodSeconds"]["default"]
    if timeout.value is not None and period is not None and timeout.value > period:
        message = f"while it hangs it is done only every {timeout.value} s"
        timeout.warn(message, f"periodSeconds is {period}{' by default' if by_default else ''}")


def _check_kind(check: Field, *, several: bool = False) -> None:
    """Find what the kind of a check knows to be wrong with it."""
    if check.value is not None:
        found = KINDS[check.key].mistakes(check.value, several=several)
        check.findings.extend(replace(one, path=(*check.path, *one.path)) for one in found)


def _check_names(resources: Sequence[Field]) -> None:
    """Find equal names."""
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
                f"{quoted(name)} is already the name of {shown_path(other.path)}"
                f" at {_place(other['name'])}",
                "names may be equal only where both resources have nodeNames",
            )
        first.setdefault(name, resource)
        if everywhere:
            first_everywhere.setdefault(name, resource)


def _check_losses(resources: Sequence[Field]) -> None:
    """Warn of equal keys with different values: the kubelet keeps either one (ALL-6)."""
    first: dict[tuple[str, str], tuple[str, object, Field]] = {}
    for resource in resources:
        name = str(resource["name"].value)
        for kind, key, value, field in chain(*map(_container_edits, injects(resource))):
            other, of_other, there = first.setdefault((kind, key), (name, value, field))
            if other != name and (of_other != value or "$(" in str(value)):
                field.warn(
                    f"a container with this and {quoted(other)} gets only one {kind} {quoted(key)}",
                    f"the other one: {_place(there)}",
                    of_key=kind != "containerPath",
                )


def _container_edits(inject: Field) -> Iterator[tuple[str, str, object, Field]]:
    """Yield what a container can have one of: its kind, its key, its value."""
    for kind, part in (("variable", "env"), ("annotation", "annotations")):
        for field in inject[part]:
            yield kind, field.key, field.value, field
    for part in ("devices", "mounts"):
        for entry in inject[part]:
            path = entry["containerPath"]
            if (inside := _fixed_path(path.text, None)) is not None:
                hosts = (entry[key].value for key in ("path", "hostPath", "subsystem"))
                yield "containerPath", inside, next(filter(None, hosts), None), path


def _place(field: Field) -> str:
    mark = field.document.mark(field.path)
    return f"{field.document.file}:{mark.line}:{mark.column}"
