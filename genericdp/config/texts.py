"""What is wrong with one text: a template, a path, a glob, a regular expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import template
from genericdp.config.finding import Finding, shown
from genericdp.config.limits import level_findings
from genericdp.glob import path_problem, pattern_problem
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.tree import Path
    from genericdp.regex import Pattern
    from genericdp.template import Context, Template

_ABSOLUTE = {("device", "path"), ("device", "syspath")}
_MAYBE_ABSOLUTE = {"property", "attribute"}


def template_findings(path: Path, text: str, context: Context) -> Iterator[Finding]:
    """Say what is wrong with a template at its place."""
    try:
        parsed = template.parse(text)
    except template.TemplateSyntaxError as error:
        yield Finding(path=path, message=str(error))
        return
    for _, message, hint in template.complaints(parsed, context):
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


def _may_be_absolute(reference: template.Reference) -> bool:
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
