"""What a schema cannot say of one resource, and the check of a whole config."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from genericdp.config.across import check_across, check_counts
from genericdp.config.finding import Field, Finding, guess, problem_of, shown
from genericdp.config.names import is_cdi_name, name_hint, name_problem
from genericdp.config.policy import check_policy
from genericdp.config.schema import CONFIG, schema
from genericdp.config.selectors import check_selectors, may_find_several, undeclared
from genericdp.config.texts import (
    Context,
    check_globs,
    check_path,
    check_regex,
    check_template,
)
from genericdp.config.tree import shown_path
from genericdp.config.validation import validate
from genericdp.glob import is_glob
from genericdp.model import Preference
from genericdp.template import (
    MAX_TEXT,
    MAX_TEXTS,
    MAX_VALUES,
    TemplateSyntaxError,
    byte_length,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.config.tree import Document, Plain
    from genericdp.errors import Problem
    from genericdp.policy import Policy

_SOURCES = ("text", "file", "link")
_GIVEN = {"GENERICDP_RESOURCE", "GENERICDP_DEVICE_ID", "GENERICDP_DEVICE_PATHS"}
_WHEN_RUN = (
    *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
    *("failureThreshold", "successThreshold"),
)


def check(
    documents: Sequence[Document], policy: Policy | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Return the problems and the warnings of all documents of a config together.

    What a policy does not allow is a problem.
    """
    checked: list[tuple[Document, list[Finding]]] = []
    resources: list[Field] = []
    for document in documents:
        findings, sound = validate(document, CONFIG)
        checked.append((document, findings))
        for resource in Field(sound, (), sound.data, findings)["resources"]:
            resources.append(resource)
            _check_resource(resource)
            if policy is not None:
                check_policy(resource, policy)
    check_across(resources)
    found = [(document, finding) for document, findings in checked for finding in findings]
    warnings = {problem_of(one, document) for document, one in found if one.warning}
    problems = {problem_of(one, document) for document, one in found if not one.warning}
    return sorted(problems), sorted(warnings)


def resources_of(document: Document) -> list[Plain]:
    """Return the resources of a document."""
    listed = document.data.get("resources") if isinstance(document.data, dict) else None
    return listed if isinstance(listed, list) else []


def _check_resource(resource: Field) -> None:
    name = resource["name"]
    if name.text is not None and (problem := name_problem(name.text)) is not None:
        name.refuse(f"{shown(name.text)}: {problem}", name_hint(name.text))
    check_globs(resource["nodeNames"])
    _check_sizes(resource)
    check_counts(resource)
    # What is declared wrongly is declared: its use is no second mistake.
    values = resource["values"]
    is_wrong = "values" in resource.written() and not isinstance(values.value, dict)
    declared = None if is_wrong else values.written()
    context = Context(values=declared)
    check_selectors(resource, declared)
    _check_values(values, context)
    _check_closeness(resource, declared)
    check_template(resource["id"], context)
    check_template(resource["groupBy"], context)
    inside = Context(device_id=True, values=declared)
    _check_inject(resource["inject"], inside)
    several = may_find_several(resource["match"])
    for probe in resource["health"]:
        _check_probe(probe, inside, several=several)
    for hook in resource["hooks"]:
        _check_exec(hook["exec"], inside)
    if resource["hooks"].value and (resource["replicas"].value or 1) > 1:
        message = "hooks run while other containers may be using the same device"
        resource["hooks"].warn(message, "replicas is more than 1", of_key=True)


def _check_sizes(resource: Field) -> None:
    """Find texts that are too long, alone or together."""
    for field, text in _texts(resource):
        if (size := byte_length(text)) > MAX_TEXT:
            field.refuse(
                f"the text has {size:,} bytes, at most {MAX_TEXT:,} are possible",
                "give long texts to containers as files (see inject.mounts)",
            )
    parts = (resource[key] for key in ("inject", "health", "hooks"))
    size = sum(byte_length(text) for part in parts for _, text in _texts(part))
    if size > MAX_TEXTS:
        message = f"the texts of a device have {size:,} bytes, at most {MAX_TEXTS:,} are possible"
        resource.refuse(message, "inject, health and hooks count together")


def _texts(field: Field) -> Iterator[tuple[Field, str]]:
    if field.text is not None:
        yield field, field.text
    for inner in field:
        yield from _texts(inner)


def _check_closeness(resource: Field, values: frozenset[str] | None) -> None:
    closeness = resource["closeness"]
    if closeness.value is None:
        return
    name = closeness["value"]
    if name.text is not None and values is not None and name.text not in values:
        undeclared(name, name.text, values)
    prefer = resource["prefer"].value or Preference.AUTO
    spread = prefer == Preference.AUTO and (resource["replicas"].value or 1) > 1
    if spread or prefer in {Preference.NONE, Preference.SPREAD, Preference.PACKED}:
        why = "auto and replicas more than 1, so shares are spread" if spread else prefer
        message = f"'closeness' has no effect: prefer is {why}"
        closeness.warn(message, "only closest looks at it", of_key=True)


def _check_values(values: Field, context: Context) -> None:
    for value in values:
        check_template(value["text"], context)
        check_path(value["file"], context)
        check_path(value["link"], context, glob=True)
        check_regex(value["regex"])
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
            first = min(map([*uses].index, circle))
            at = circle.index([*uses][first])
            way = [*circle[at:], *circle[: at + 1]]
            message = f"the value {way[0]!r} refers to itself: {' -> '.join(way)}"
            values[way[0]].refuse(message, of_key=True)
            for used in uses.values():
                used.difference_update(circle)
            for name in circle:
                del uses[name]


def _used(value: Field) -> set[str]:
    used: set[str] = set()
    for key in _SOURCES:
        try:
            references = parse(value[key].text or "").references
        except TemplateSyntaxError:
            continue
        used |= {reference.name for reference in references if reference.scope == "value"}
    return used


def _check_inject(inject: Field, context: Context) -> None:
    of_container = replace(context, allocation=True)
    for entry in inject["devices"]:
        check_path(entry["path"], context, glob=True)
        check_globs(entry["name"])
        _check_container_path(entry["containerPath"], of_container)
    for mount in inject["mounts"]:
        if mount["hostPath"].value == "/":
            mount["hostPath"].warn("this is every file of the host", "mount only what is needed")
        else:
            check_path(mount["hostPath"], context, folder=True)
        _check_container_path(mount["containerPath"], of_container)
    for variable in inject["env"]:
        check_template(variable["value"] if variable.text is None else variable, of_container)
    for annotation in inject["annotations"]:
        check_template(annotation, of_container)
    for name in inject["cdi"]:
        _check_cdi(name, context)
    _check_collisions(inject)


def _check_container_path(path: Field, context: Context) -> None:
    if path.value == "/":
        path.refuse("the root of the container cannot be replaced")
    else:
        check_path(path, context, folder=True)


def _check_cdi(name: Field, context: Context) -> None:
    parsed = check_template(name, context)
    if parsed is None:
        return
    shape = "".join(part if isinstance(part, str) else "x" for part in parsed.parts)
    literal = "".join(part for part in parsed.parts if isinstance(part, str))
    # A reference may bring the vendor or the class with it.
    is_whole = not parsed.references or ("/" in literal and "=" in literal)
    if is_whole and not is_cdi_name(shape):
        name.refuse(f"{shown(str(name.text))} is not a CDI device name, vendor/class=name")


def _check_collisions(inject: Field) -> None:
    """Find entries that would put different things at one path of the container."""
    taken: dict[str, tuple[Field, object, bool]] = {}
    for key, host in (("devices", "path"), ("mounts", "hostPath")):
        for entry in inject[key]:
            inside = _fixed_path(entry["containerPath"].text, entry[host].text)
            if inside is None:
                continue
            source, is_optional = (key, entry[host].value), entry["optional"].value is True
            first, of_first, may_lack = taken.setdefault(inside, (entry, source, is_optional))
            if of_first != source and not is_optional and not may_lack:
                at = shown_path(first.path)
                entry.refuse(f"{shown(inside)} in the container is already that of {at}")


def _fixed_path(inside: str | None, host: str | None) -> str | None:
    text = host if inside is None and host is not None and not is_glob(host) else inside
    if text is None or text.endswith("/"):
        return None
    try:
        return None if parse(text).references else text
    except TemplateSyntaxError:
        return None


def _check_probe(probe: Field, context: Context, *, several: bool) -> None:
    _check_exec(probe["exec"], context)
    _check_file(probe["file"], context)
    _check_log(probe["kernelLog"], context, several=several)
    written = probe.written()
    if "kernelLog" in written:
        for key in _WHEN_RUN:
            if key in written:
                message = f"{key!r} does nothing beside 'kernelLog', whose lines count as they come"
                probe[key].warn(message, of_key=True)
        return
    timeout, period = probe["timeoutSeconds"], probe["periodSeconds"].value
    by_default = "periodSeconds" not in written
    if by_default:
        period = schema()["$defs"]["probe"]["properties"]["periodSeconds"]["default"]
    if timeout.value is not None and period is not None and timeout.value > period:
        message = f"while it hangs it is done only every {timeout.value} s"
        timeout.warn(message, f"periodSeconds is {period}{' by default' if by_default else ''}")


def _check_exec(program: Field, context: Context) -> None:
    for argument in program["command"]:
        text = str(argument.text)
        if argument.path[-1] != 0:
            check_template(argument, context)
        elif "$(" in text:
            argument.refuse(f"the program cannot be a template: {shown(text)}")
        else:
            check_path(argument, Context())
    for variable in program["env"]:
        if variable.key in _GIVEN:
            message = f"every command is given {shown(variable.key)} by the daemon"
            variable.refuse(message, "omit it", of_key=True)
        check_template(variable, context)


def _check_file(check: Field, context: Context) -> None:
    path = check["path"]
    check_path(path, context)
    if any(one in (path.text or "") for one in "*?["):
        path.warn("wildcards are literal here: one file is read")
    check_regex(check["regex"])
    check_template(check["equals"], context)
    low, high = check["min"].value, check["max"].value
    if low is not None and high is not None and low > high:
        check["min"].refuse(f"no number is at least {low} and at most {high}")


def _check_log(check: Field, context: Context, *, several: bool) -> None:
    groups = check_regex(check["regex"])
    for key in ("where", "ignore"):
        for text in check[key]:
            if groups is not None and text.key not in groups:
                hint = guess(text.key, groups) if groups else "name it: (?P<name>...)"
                text.refuse(f"the regex has no group {shown(text.key)}", hint, of_key=True)
            if key == "where":
                check_template(text, context)
    # What is written in a wrong way is a problem already, and no lack.
    node = check["where"].document.node(check["where"].path)
    if several and check.value is not None and (node is None or node.items == {}):
        check.warn(
            "without 'where' every line makes all devices of the resource Unhealthy",
            "write where: {name: $(device.name)}, and (?P<name>...) into the regex",
            of_key=True,
        )
