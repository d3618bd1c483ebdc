"""One udev rule as akri takes it: fields, operators and quoted values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from genericdp.converting.naming import no_template

_TERM = re.compile(
    r"""\s*(?P<field>[A-Z_]+)(?:\{(?P<key>[^}"]*)\})?\s*(?P<operator>[-+:!=]?=)\s*"(?P<value>[^"]*)"\s*"""
)
OF_ITSELF = frozenset({"ATTR", "DEVPATH", "DRIVER", "ENV", "KERNEL", "SUBSYSTEM", "TAG"})
OF_ANY = frozenset({"ATTRS", "DRIVERS", "KERNELS", "SUBSYSTEMS", "TAGS"})
"""Fields that are about the device or any that it sits on."""
_KEYED = frozenset({"ATTR", "ATTRS", "ENV"})
_ALIASES = {"ATTRIBUTE": "ATTR", "ATTRIBUTES": "ATTRS"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One condition: a field, its key in braces, and the globs any of which it must match."""

    field: str
    key: str
    globs: tuple[str, ...]
    is_negated: bool
    written: str
    has_bar: bool


class RuleError(ValueError):
    """A text that akri takes for no rule, with what is wrong."""


def terms_of(rule: str) -> tuple[Term, ...]:
    """Take a rule apart; raises RuleError."""
    found: list[Term] = []
    at = 0
    while at < len(rule) or not found:
        match = _TERM.match(rule, at)
        if match is None:
            raise RuleError(f"{rule[at : at + 40]!r} is no condition of a udev rule")
        found.append(_term(match))
        at = match.end()
        if at < len(rule):
            if rule[at] != ",":
                raise RuleError(f"a comma is expected before {rule[at : at + 40]!r}")
            at += 1
    return tuple(found)


def _term(match: re.Match[str]) -> Term:
    field = _ALIASES.get(match["field"], match["field"])
    written = match[0].strip()
    if match["operator"] not in {"==", "!="}:
        raise RuleError(f"{written}: it sets something; akri takes only == and !=")
    if field not in OF_ITSELF | OF_ANY:
        raise RuleError(f"{written}: akri does not know {field}")
    if (field in _KEYED) != bool(match["key"]):
        wanted = "needs a name in braces" if field in _KEYED else "takes no name in braces"
        raise RuleError(f"{written}: {field} {wanted}")
    globs = tuple(_glob(one) for one in match["value"].split("|"))
    if len(globs) > 1 and "" in globs:
        raise RuleError(f"{written}: one of its alternatives is empty")
    return Term(
        field=field,
        key=match["key"] or "",
        globs=globs,
        is_negated=match["operator"] == "!=",
        written=written,
        has_bar=len(globs) > 1,
    )


def _glob(pattern: str) -> str:
    """Give udev's pattern in our globs: only the sign of a negated bracket differs."""
    return no_template(pattern.replace("[^", "[!"))
