"""Rules within one resource that a schema cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, exactly_one, guess, shown
from genericdp.config.injecting import inject_findings
from genericdp.config.limits import resource_limit_findings
from genericdp.config.names import name_problem, value_name_problem
from genericdp.config.probes import health_findings, hook_findings
from genericdp.config.schema import schema
from genericdp.config.selectors import (
    may_find_several,
    selector_findings,
    selectors_findings,
    undeclared,
)
from genericdp.config.texts import (
    Context,
    glob_findings,
    path_findings,
    regex_findings,
    template_findings,
)
from genericdp.model import Preference
from genericdp.template import (
    MOST_TEXT,
    MOST_TEXTS,
    MOST_VALUES,
    TemplateSyntaxError,
    byte_length,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.config.tree import Document, Path, Plain

_SOURCES = ("text", "file", "link")


def resource_findings(at: Path, resource: dict[str, Any], document: Document) -> Iterator[Finding]:
    """Give what the rules say of one resource whose values have the right types."""
    if (name := resource.get("name")) is not None and (problem := name_problem(name)) is not None:
        yield Finding(path=(*at, "name"), message=f"{shown(name)}: {problem}")
    yield from glob_findings((*at, "nodeNames"), resource.get("nodeNames"))
    yield from _size_findings(at, resource)
    yield from resource_limit_findings(at, resource)
    # What is declared wrongly is declared: its use is no second mistake.
    values = document.keys((*at, "values"))
    for key in ("match", "exclude"):
        for i, selector in enumerate(resource.get(key) or ()):
            if isinstance(selector, dict):
                yield from selector_findings((*at, key, i), selector, document, values)
    yield from selectors_findings(at, resource)
    yield from _values_findings((*at, "values"), resource.get("values") or {}, document, values)
    yield from _group_findings(at, resource, document)
    yield from _closeness_findings((*at, "closeness"), resource, values)
    for key in ("id", "groupBy"):
        if isinstance(text := resource.get(key), str):
            yield from template_findings((*at, key), text, Context(values=values))
    inside = Context(device_id=True, values=values)
    yield from inject_findings((*at, "inject"), resource.get("inject"), document, inside)
    several = may_find_several(resource.get("match"))
    health = resource.get("health")
    yield from health_findings((*at, "health"), health, document, inside, several=several)
    yield from hook_findings((*at, "hooks"), resource.get("hooks"), inside)
    if resource.get("hooks") and resource.get("replicas", 1) > 1:
        yield Finding(
            path=(*at, "hooks"),
            message="hooks run while other containers may be using the same device",
            hint="replicas is more than 1",
            of_key=True,
            warning=True,
        )


def _group_findings(at: Path, resource: dict[str, Any], document: Document) -> Iterator[Finding]:
    needs = resource.get("groupNeeds")
    if needs is None:
        return
    if isinstance(needs, str) and needs != "each":
        message = f"{shown(needs)} is neither a whole number nor 'each'"
        yield Finding(path=(*at, "groupNeeds"), message=message, hint=_each_hint(needs))
    if "groupBy" not in document.keys(at):
        message = "'groupNeeds' says nothing without 'groupBy'"
        yield Finding(path=(*at, "groupNeeds"), message=message, of_key=True)


def _closeness_findings(
    at: Path, resource: dict[str, Any], values: frozenset[str]
) -> Iterator[Finding]:
    closeness = resource.get("closeness")
    if not isinstance(closeness, dict):
        return
    if isinstance(name := closeness.get("value"), str) and name not in values:
        yield undeclared((*at, "value"), name, values)
    prefer = resource.get("prefer", Preference.AUTO)
    spread = prefer == Preference.AUTO and (resource.get("replicas") or 1) > 1
    if spread or prefer in {Preference.NONE, Preference.SPREAD, Preference.PACKED}:
        why = "auto and replicas more than 1, so shares are spread" if spread else prefer
        yield Finding(
            path=at,
            message=f"'closeness' has no effect: prefer is {why}",
            hint="only closest looks at it",
            of_key=True,
            warning=True,
        )


def _each_hint(text: str) -> str:
    if text.isdecimal():
        return f"write {text} without quotes"
    hint = guess(text, ["each"])
    return hint if hint.startswith("did") else ""


def _values_findings(
    at: Path, values: Mapping[str, Any], document: Document, declared: frozenset[str]
) -> Iterator[Finding]:
    known = schema()["$defs"]["value"]["properties"]
    for name, value in values.items():
        here = (*at, name)
        if problem := value_name_problem(name):
            yield Finding(path=here, message=problem, of_key=True)
        if not isinstance(value, dict):
            continue
        yield from exactly_one(here, document.keys(here), _SOURCES, known)
        context = Context(values=declared)
        for key in _SOURCES:
            if not isinstance(text := value.get(key), str):
                continue
            if key == "text":
                yield from template_findings((*here, key), text, context)
            else:
                yield from path_findings((*here, key), text, context, glob=key == "link")
        if isinstance(regex := value.get("regex"), str):
            yield from regex_findings((*here, "regex"), regex)
    yield from _nesting_findings(at, values)


def _nesting_findings(at: Path, values: Mapping[str, Any]) -> Iterator[Finding]:
    uses = {name: _used(value) & values.keys() for name, value in values.items()}
    circles = list(_circles_of(uses))
    for circle in circles:
        message = f"the value {circle[0]!r} needs itself: {' -> '.join((*circle, circle[0]))}"
        yield Finding(path=(*at, circle[0]), message=message, of_key=True)
    if not circles:
        yield from _too_deep(at, uses)


def _too_deep(at: Path, uses: Mapping[str, set[str]]) -> Iterator[Finding]:
    """Find the values that lie one deeper than is possible: what needs those is no other mistake.

    ``uses`` has no circles.
    """
    known: set[str] = set()
    for _ in range(MOST_VALUES):
        known |= {name for name, used in uses.items() if used <= known}
    for name, used in uses.items():
        if name not in known and used <= known:
            yield Finding(
                path=(*at, name),
                message=f"the value {name!r} lies more than {MOST_VALUES} values deep",
                hint="write the texts that it is made of into fewer values",
                of_key=True,
            )


def _size_findings(at: Path, resource: dict[str, Any]) -> Iterator[Finding]:
    """Say which texts are too long, alone or together."""
    for path, text in _texts(at, resource):
        if (size := byte_length(text)) > MOST_TEXT:
            yield Finding(
                path=path,
                message=f"the text has {size:,} bytes, at most {MOST_TEXT:,} are possible",
                hint="give long texts to containers as files (see inject.mounts)",
            )
    given = {key: resource.get(key) for key in ("inject", "health", "hooks")}
    size = sum(byte_length(text) for _, text in _texts(at, given))
    if size > MOST_TEXTS:
        message = f"the texts of a device have {size:,} bytes, at most {MOST_TEXTS:,} are possible"
        yield Finding(path=at, message=message, hint="inject, health and hooks count together")


def _texts(at: Path, data: Plain) -> Iterator[tuple[Path, str]]:
    if isinstance(data, str):
        yield at, data
    elif isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _texts((*at, key), value)


def _used(value: object) -> set[str]:
    if not isinstance(value, dict):
        return set()
    used = set()
    for key in _SOURCES:
        try:
            references = parse(value.get(key) or "").references
        except TemplateSyntaxError:
            continue
        used |= {reference.name for reference in references if reference.scope == "value"}
    return used


def _circles_of(uses: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Walk depth first and give each way that comes back to where it was; no recursion."""
    done: set[str] = set()
    for start in uses:
        way, open_ends = [start], [sorted(uses[start])]
        while way:
            if way[-1] in done or not open_ends[-1]:
                done.add(way.pop())
                open_ends.pop()
                continue
            following = open_ends[-1].pop(0)
            if following in way:
                yield way[way.index(following) :]
            elif following not in done:
                way.append(following)
                open_ends.append(sorted(uses[following]))
