"""Rules of akri's udev handler as selectors: all conditions of a rule must hold."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from genericdp.converting.draft import Said
from genericdp.converting.udevrules import OF_ANY, RuleError, Term, terms_of
from genericdp.glob import is_glob, pattern_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.converting.draft import Resource

_D11 = (
    "All conditions must hold. akri hands {fields} to libudev, for which one of them is enough: it"
    " may offer more."
)
_D12 = "!= takes a glob here, as == does; in akri it takes a regular expression."
_FOR_ALL = (
    " It holds for all rules: what another one finds of these is not offered here, but by akri."
)
_BAR = "a|b is either of them, as in udev's manual; akri looks for the bar itself."
_ONE_PARENT = (
    "Of {fields} all must hold for one and the same device that it sits on, as in udev's manual;"
    " akri takes any."
)
_KEYS = {"KERNEL": "name", "SUBSYSTEM": "subsystem", "DRIVERS": "driver"}
_MAPPINGS = {"ATTR": "attributes", "ENV": "properties"}
_VALUES = {
    "DRIVER": (
        "own_driver",
        Said(
            {"link": "$(device.syspath)/driver"},
            ["The driver of the device itself, not of what it sits on."],
        ),
    ),
    "DEVPATH": ("devpath", Said({"text": "$(device.syspath)", "regex": "^/sys(/.*)$"})),
}
_TAG = "of a tag's glob only a star at its end can be told in what udev has for all tags"
_LACKS = "a device without {key}: only where it is and differs can be asked for"


@dataclass(slots=True)
class _Selector:
    """One rule on its way."""

    udev: dict[str, Any] = field(default_factory=dict)
    ancestor: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def made(self) -> dict[str, Any]:
        made: dict[str, Any] = {"udev": self.udev or {"subsystem": "*"}}
        if self.ancestor:
            made["hardware"] = {"udev": self.ancestor}
        if self.values:
            made["values"] = self.values
        return made


def add_rules(rules: Iterable[str], resource: Resource) -> None:
    """Add what rules find to a resource, or say in comments why that cannot be."""
    if sum(_add_rule(rule, resource) for rule in rules) > 1:
        for said in resource.exclude:
            said.comments[-1] += _FOR_ALL


def _add_rule(rule: str, resource: Resource) -> bool:
    """Add what a rule finds; gives whether that can be."""
    try:
        terms = terms_of(rule)
        base, excluded = _selectors(terms, resource)
    except RuleError as error:
        resource.left.append(f"Not converted, the rule {rule}: {error}.")
        return False
    remarks = [f"udevRule: {rule}", *_remarks(terms)]
    for said in resource.match:
        if said.value == base:
            said.comments += remarks
            break
    else:
        resource.match.append(Said(base, remarks))
    for term, selector in excluded:
        why = "" if term.field not in {"KERNEL", "DRIVER", "ENV"} else f" {_D12}"
        if all(said.value != selector for said in resource.exclude):
            resource.exclude.append(Said(selector, [f"{term.written}.{why}"]))
    return True


def _remarks(terms: tuple[Term, ...]) -> list[str]:
    wanted = [term for term in terms if not term.is_negated]
    found = []
    if len([term for term in wanted if term.field == "ENV"]) > 1:
        fields = " and ".join(f"ENV{{{term.key}}}" for term in wanted if term.field == "ENV")
        found.append(_D11.format(fields=fields))
    above = [term for term in wanted if term.field in OF_ANY]
    if len(above) > 1:
        found.append(_ONE_PARENT.format(fields=" and ".join(term.written for term in above)))
    if any(term.has_bar for term in terms):
        found.append(_BAR)
    return found


def _selectors(
    terms: tuple[Term, ...], resource: Resource
) -> tuple[dict[str, Any], list[tuple[Term, dict[str, Any]]]]:
    """Give what a rule finds, and what of it each of its negated conditions takes out."""
    for glob in (glob for term in terms for glob in term.globs):
        if (problem := pattern_problem(glob)) is not None:
            raise RuleError(problem)
    base = _Selector()
    negated = [term for term in terms if term.is_negated and not _is_there(term)]
    for term in terms:
        if term not in negated:
            _add(base, term, ("?*",) if _is_there(term) else term.globs, resource)
    excluded = []
    for term in negated:
        one = deepcopy(base)
        if term.field in OF_ANY:
            # Any device above that matches is one too many, whatever else holds for it.
            one.ancestor = {}
        _add(one, term, term.globs, resource, over=True)
        excluded.append((term, one.made()))
    return base.made(), excluded


def _is_there(term: Term) -> bool:
    """Say whether a term asks that a property or attribute is there and not empty."""
    return term.is_negated and term.globs == ("",) and term.field in {"ENV", "ATTR", "ATTRS"}


def _add(
    selector: _Selector,
    term: Term,
    globs: tuple[str, ...],
    resource: Resource,
    *,
    over: bool = False,
) -> None:
    """Add one condition; ``over``: where the same key is asked for already, this one counts."""
    if globs == ("",):
        raise RuleError(f"{term.written}: " + _LACKS.format(key=term.key or term.field))
    value: str | list[str] = globs[0] if len(globs) == 1 else list(globs)
    where = selector.ancestor if term.field in OF_ANY else selector.udev
    field_ = term.field if term.field == "DRIVERS" else term.field.removesuffix("S")
    if field_ in _KEYS:
        _put(where, _KEYS[field_], value, term, over=over)
    elif field_ in _MAPPINGS:
        _put(where.setdefault(_MAPPINGS[field_], {}), term.key, value, term, over=over)
    elif field_ == "TAG":
        tags = [_tag(glob) for glob in globs]
        _put(where.setdefault("properties", {}), "TAGS", tags, term, over=over)
    else:
        name, said = _VALUES[field_]
        resource.values[name] = said
        if field_ == "DEVPATH":
            value = [glob.removeprefix("/sys") for glob in globs]
        _put(selector.values, name, value, term, over=over)


def _put(
    where: dict[str, Any], key: str, value: str | list[str], term: Term, *, over: bool
) -> None:
    if key in where and where[key] != value and not over:
        message = "two conditions for the same key must both hold, which a selector cannot say"
        raise RuleError(f"{term.written}: {message}")
    where[key] = value


def _tag(glob: str) -> str:
    """Give the glob for what udev has as ``:one:two:``."""
    if is_glob(glob.removesuffix("*")) or ":" in glob:
        raise RuleError(_TAG)
    return f"*:{glob}:*"
