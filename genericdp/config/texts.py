"""What is wrong with one text: a template, a path, a glob, a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import template
from genericdp.config.finding import Finding, shown
from genericdp.config.limits import level_findings
from genericdp.glob import path_problem, pattern_problem
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from genericdp.config.tree import Path
    from genericdp.regex import Pattern
    from genericdp.template import Reference, Template

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

_MAX_LISTED = 20
_ABSOLUTE = {("device", "path"), ("device", "syspath")}
_MAYBE_ABSOLUTE = {"property", "attribute"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What may be named at one place of a config, beside what may be named everywhere."""

    device_id: bool = False
    allocation: bool = False
    values: frozenset[str] = frozenset()


def complaints(template: Template, context: Context) -> Iterator[tuple[Reference, str, str]]:
    """Yield each reference that cannot exist at this place, with what is wrong and a hint."""
    for reference in template.references:
        if (complaint := _complaint(reference, context)) is not None:
            yield reference, *complaint


def _complaint(reference: Reference, context: Context) -> tuple[str, str] | None:
    scope, name = reference.scope, reference.name
    if scope not in SCOPES:
        return f"unknown scope {scope!r} in '{reference}'", _did_you_mean(scope, SCOPES)
    known = context.values if scope == "value" else SCOPES[scope]
    if known is not None and name not in known:
        hint = _did_you_mean(name, known)
        if scope == "value" and not known:
            hint = "declare it under values"
        return f"unknown name {name!r} in '{reference}'", hint
    if scope == "attribute" and (name.startswith("/") or ".." in name.split("/")):
        return f"'{reference}' does not lie below the device", "name a file below its sysfs folder"
    if (scope, name) == ("device", "id") and not context.device_id:
        return "'$(device.id)' cannot be used here", "only in inject, health and hooks"
    if scope == "allocation" and not context.allocation:
        hint = "only in containerPath, env and annotations"
        return "'$(allocation.index)' cannot be used here", hint
    return None


def _did_you_mean(word: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # most configs are right

    if close := get_close_matches(word, sorted(known), n=1):
        return f"did you mean {close[0]!r}?"
    more = ", …" if len(known) > _MAX_LISTED else ""
    return f"known: {', '.join(sorted(known)[:_MAX_LISTED])}{more}"


def template_findings(path: Path, text: str, context: Context) -> Iterator[Finding]:
    """Say what is wrong with a template at its place."""
    try:
        parsed = template.parse(text)
    except template.TemplateSyntaxError as error:
        yield Finding(path=path, message=str(error))
        return
    for _, message, hint in complaints(parsed, context):
        yield Finding(path=path, message=message, hint=hint)


def path_findings(
    path: Path, text: str, context: Context, *, glob: bool = False, folder: bool = False
) -> Iterator[Finding]:
    """Say what is wrong with a template that gives an absolute path.

    With ``glob`` the text outside of references is a pattern; a ``folder`` may end in ``/``.
    """
    found = list(template_findings(path, text, context))
    yield from found
    if found:
        return
    parsed = template.parse(text)
    if (message := _leading_problem(parsed)) is not None:
        yield Finding(path=path, message=message, hint="begin with '/' or $(device.path)")
        return
    shape = _shape(parsed)
    if folder and shape != "/":
        shape = shape.removesuffix("/")
    if not glob:
        shape = shape.translate({ord(character): "x" for character in "*?[]"})
    if (problem := path_problem(shape)) is not None:
        yield Finding(path=path, message=problem.replace(repr(shape), shown(text)))
    elif glob:
        yield from level_findings(path, shape, text)


def _leading_problem(parsed: Template) -> str | None:
    first = parsed.parts[0] if parsed.parts else ""
    if isinstance(first, str) or _may_be_absolute(first):
        return None
    return f"'{first}' cannot give an absolute path"


def _may_be_absolute(reference: Reference) -> bool:
    return (reference.scope, reference.name) in _ABSOLUTE or reference.scope in _MAYBE_ABSOLUTE


def _shape(parsed: Template) -> str:
    """Give the path as it could become: references stand for a name or a whole path."""
    return "".join(
        part if isinstance(part, str) else "/x" if i == 0 and _may_be_absolute(part) else "x"
        for i, part in enumerate(parsed.parts)
    )


def glob_findings(path: Path, globs: object, *, paths: bool = False) -> Iterator[Finding]:
    """Say what is wrong with a glob or a list of globs; ``paths`` are absolute ones."""
    for at, text in each_text(path, globs):
        if "$(" in text:
            yield Finding(
                path=at,
                message=f"templates are not taken here: {shown(text)}",
                hint="only in values, groupBy, id, inject, health and hooks",
            )
            continue
        problem = path_problem(text) if paths else pattern_problem(text)
        if problem is not None:
            yield Finding(path=at, message=problem)
        elif paths:
            yield from level_findings(at, text, text)


def each_text(path: Path, texts: object) -> Iterator[tuple[Path, str]]:
    """Give each text of a text or a list of texts, with its path."""
    if isinstance(texts, str):
        yield path, texts
    elif isinstance(texts, list):
        yield from (((*path, i), text) for i, text in enumerate(texts) if isinstance(text, str))


def regex_findings(path: Path, pattern: str) -> Iterator[Finding]:
    """Say what is wrong with a regular expression."""
    if isinstance(problem := _compiled(pattern), str):
        hint = "RE2 has neither look-around nor back-references" if _is_perl(problem) else ""
        if problem.startswith("it takes more than"):
            hint = "use smaller counts in {…}, and narrower classes than \\pL and ."
        message = f"{shown(pattern)} is no regular expression: {problem}"
        yield Finding(path=path, message=message, hint=hint)


def _is_perl(problem: str) -> bool:
    return "perl operator" in problem or "escape sequence" in problem


def named_groups(pattern: str) -> frozenset[str] | None:
    """Give the named groups of a regular expression, or None if it is none."""
    regex = _compiled(pattern)
    return None if isinstance(regex, str) else frozenset(regex.groupindex)


def _compiled(pattern: str) -> Pattern | str:
    """Give the compiled pattern, or what is wrong with it."""
    try:
        return compiled(pattern)
    except PatternError as error:
        return str(error)
