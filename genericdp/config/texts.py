"""What is wrong with one text: a template, a path, a glob, a regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import template
from genericdp.config.finding import MAX_SHOWN, guess, shown
from genericdp.glob import has_wildcard, path_problem, pattern_problem
from genericdp.printing import shortened
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.finding import Field
    from genericdp.template import Reference, Template

MOST_LEVELS = 16
"""Levels of a path with wildcards: each may stand for a whole folder of folders."""

_USB = "vendor product serial port class interface bus number"
_PCI = "address vendor device subsystemVendor subsystemDevice class driver function iommuGroup"
_DEVICE = "path name syspath subsystem devtype driver major minor numa id"

SCOPES: dict[str, frozenset[str] | None] = {
    "device": frozenset(_DEVICE.split()),
    "property": None,
    "attribute": None,
    "usb": frozenset(_USB.split()),
    "pci": frozenset(_PCI.split()),
    "net": frozenset({"name", "linkType", "driver", "address"}),
    "value": None,
    "node": frozenset({"name"}),
    "allocation": frozenset({"index"}),
}
"""The names of each scope; None where the hardware or the config decides which exist."""

_ABSOLUTE = {("device", "path"), ("device", "syspath")}
_MAYBE_ABSOLUTE = {"property", "attribute"}
_FOREIGN = re.compile(rf"\$\{{(?:{'|'.join(SCOPES)})\.[^}}]*\}}|\{{\{{.*?\}}\}}")
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
_OF_PERL = re.compile(r"\(\?<?[=!]|\\[1-9]")
_COUNT = re.compile(r"\{[0-9]")
_SYNTAX = "templates are written $(device.path)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What may be named at one place of a config, beside what may be named everywhere."""

    device_id: bool = False
    allocation: bool = False
    values: frozenset[str] | None = frozenset()
    """None where that is not known, because they are written in a wrong way."""


def complaints(template: Template, context: Context) -> Iterator[tuple[Reference, str, str]]:
    """Yield each reference that cannot exist at this place, with what is wrong and a hint."""
    for reference in template.references:
        if (complaint := _complaint(reference, context)) is not None:
            yield reference, *complaint


def _complaint(reference: Reference, context: Context) -> tuple[str, str] | None:
    scope, name = reference.scope, reference.name
    if scope not in SCOPES:
        return f"unknown scope {scope!r} in '{reference}'", guess(scope, SCOPES)
    known = context.values if scope == "value" else SCOPES[scope]
    if known is not None and name not in known:
        hint = guess(name, known) if known else "declare it under values"
        return f"unknown name {name!r} in '{reference}'", hint
    if scope == "attribute" and (name.startswith("/") or ".." in name.split("/")):
        return f"'{reference}' does not lie below the device", "name a file below its sysfs folder"
    if (scope, name) == ("device", "id") and not context.device_id:
        return "'$(device.id)' cannot be used here", "only in inject, health and hooks"
    if scope == "allocation" and not context.allocation:
        hint = "only in containerPath, env and annotations"
        return "'$(allocation.index)' cannot be used here", hint
    return None


def check_template(field: Field, context: Context) -> Template | None:
    """Find what is wrong with a template; return it if nothing is."""
    if field.text is None:
        return None
    try:
        parsed = template.parse(field.text)
    except template.TemplateSyntaxError as error:
        field.refuse(str(error))
        return None
    found = list(complaints(parsed, context))
    for _, message, hint in found:
        field.refuse(message, hint)
    if foreign := _FOREIGN.search(field.text):
        field.warn(f"{shown(foreign[0])} is not a template and is used literally", _SYNTAX)
    return None if found else parsed


def check_path(field: Field, context: Context, *, glob: bool = False, folder: bool = False) -> None:
    """Find what is wrong with a template that gives an absolute path.

    With ``glob`` the text outside of references is a pattern; a ``folder`` may end in ``/``.
    """
    parsed = check_template(field, context)
    if parsed is None:
        return
    first = parsed.parts[0] if parsed.parts else ""
    if not isinstance(first, str) and not _may_be_absolute(first):
        message = f"'{first}' cannot give an absolute path"
        field.refuse(message, "begin with '/' or $(device.path)")
        return
    text, shape = str(field.text), _shape(parsed)
    if folder and shape != "/":
        shape = shape.removesuffix("/")
    if not glob:
        shape = shape.translate({ord(character): "x" for character in "*?[]"})
    if (problem := path_problem(shape, shortened(text, MAX_SHOWN))) is not None:
        hint = _SYNTAX if _FOREIGN.match(text) else ""
        field.refuse(problem, hint)
    elif glob:
        _check_wildcards(field, shape, text)


def _may_be_absolute(reference: Reference) -> bool:
    return (reference.scope, reference.name) in _ABSOLUTE or reference.scope in _MAYBE_ABSOLUTE


def _shape(parsed: Template) -> str:
    """Return the path as it could become: references stand for a name or a whole path."""
    return "".join(
        part if isinstance(part, str) else "/x" if i == 0 and _may_be_absolute(part) else "x"
        for i, part in enumerate(parsed.parts)
    )


def _check_wildcards(field: Field, pattern: str, text: str) -> None:
    levels = pattern.strip("/").count("/") + 1
    if levels > MOST_LEVELS and has_wildcard(pattern):
        message = f"{shown(text)} has {levels} levels: at most {MOST_LEVELS} are allowed in a glob"
        field.refuse(message, "write a path without wildcards, or select by udev, usb or pci")
    if found := _BRACES.search(text):
        field.warn(f"{shown(found[0])} is literal in a glob", "write a list of globs")


def check_globs(field: Field, *, paths: bool = False) -> None:
    """Find what is wrong with a glob or a list of globs; ``paths`` are absolute ones."""
    problem_of = path_problem if paths else pattern_problem
    for one, text in field.texts():
        if "$(" in text:
            message = f"templates are not allowed here: {shown(text)}"
            one.refuse(message, "only in values, groupBy, id, inject, health and hooks")
        elif problem := problem_of(text, shortened(text, MAX_SHOWN)):
            one.refuse(problem, "templates are not allowed here" if _FOREIGN.search(text) else "")
        elif paths:
            _check_wildcards(one, text, text)


def check_regex(field: Field) -> frozenset[str] | None:
    """Find what is wrong with a regular expression; return its named groups if nothing is."""
    if field.text is None:
        return None
    try:
        return frozenset(compiled(field.text).groupindex)
    except PatternError as error:
        message = f"{shown(field.text)} is not a valid regular expression: {error}"
        field.refuse(message, _regex_hint(field.text))
        return None


def _regex_hint(pattern: str) -> str:
    if _OF_PERL.search(pattern):
        return "RE2 has neither look-around nor back-references"
    if _COUNT.search(pattern):
        return "use smaller counts in {…}, and narrower classes than \\pL and ."
    return ""
