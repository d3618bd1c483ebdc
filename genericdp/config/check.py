"""Every problem and warning of documents: the schema's first, then the rules'."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from genericdp.config.across import across
from genericdp.config.bounds import bounds_findings
from genericdp.config.conforming import TYPES, conforms
from genericdp.config.finding import Finding, problem_of
from genericdp.config.messages import findings_of
from genericdp.config.rules import resource_findings
from genericdp.config.schema import CONFIG, KINDS, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from genericdp.config.tree import Document, Path, Plain, YamlNode
    from genericdp.errors import Problem
    from genericdp.policy import Policy

MAX_ERRORS = 10_000
_VALUE_IS_WRONG = {
    *("type", "enum", "const", "minimum", "maximum", "minLength", "minItems", "maxItems"),
}


def check(
    documents: Sequence[Document], policy: Policy | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Give the problems and the warnings of all documents of a config together.

    What a policy does not allow is a problem.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    sound: list[Document] = []
    for document in documents:
        found, rest = by_schema(document, CONFIG)
        problems += (problem_of(finding, document) for finding in found)
        sound.append(rest)
    for document in sound:
        for finding in _by_rules(document, policy):
            (warnings if finding.warning else problems).append(problem_of(finding, document))
    for document, finding in across(sound):
        (warnings if finding.warning else problems).append(problem_of(finding, document))
    return sorted(set(problems)), sorted(set(warnings))


@cache
def _validator(kind: str) -> Validator:
    from jsonschema import Draft202012Validator  # takes longer than all else, and is for mistakes
    from jsonschema.validators import extend

    def has(kind: str) -> Callable[[object, object], bool]:
        return lambda _, value: TYPES[kind](value)

    numbers = {kind: has(kind) for kind in ("integer", "number")}
    strict = Draft202012Validator.TYPE_CHECKER.redefine_many(numbers)
    each = Draft202012Validator.VALIDATORS["items"]

    def items(
        validator: object, given: object, value: object, around: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        # A list that is too long is one mistake; checking 15,000 entries takes seconds.
        if isinstance(value, list) and len(value) <= around.get("maxItems", len(value)):
            yield from each(validator, given, value, around)

    extended = extend(Draft202012Validator, {"items": items}, type_checker=strict)  # type: ignore[no-untyped-call]
    validator: Validator = extended(schema(kind))
    return validator


def _errors(data: Plain, kind: str) -> list[ValidationError]:
    if conforms(data, schema(kind)):
        return []
    return list(islice(_validator(kind).iter_errors(data), MAX_ERRORS + 1))


def by_schema(document: Document, kind: str) -> tuple[list[Finding], Document]:
    """Give the findings of a kind's schema, and the document without the values that are wrong."""
    faulty = set(_faulty(document.root, ()))
    found = _errors(document.data, kind)
    if len(found) > MAX_ERRORS:
        # What is wrong is not known in full, so no rule can look at the rest.
        message = f"the document has more than {MAX_ERRORS} problems"
        return [Finding(path=(), message=message)], replace(document, data=None)
    errors = [
        error
        for error in found
        if not any(
            tuple(error.absolute_path)[:length] in faulty
            for length in range(len(error.absolute_path) + 1)
        )
    ]
    of_another_kind = _is_of_another_kind(document, kind)
    if of_another_kind:
        errors = [error for error in errors if error.validator == "const"]
    wrong_type = {tuple(error.absolute_path) for error in errors if error.validator == "type"}
    findings: list[Finding] = []
    wrong = set(faulty)
    for error in errors:
        path: Path = tuple(error.absolute_path)
        if error.validator != "type" and path in wrong_type:
            continue
        of_this = list(findings_of(error, document))
        findings += of_this
        wrong |= _wrong_values(error, path, of_this)
    rest = None if of_another_kind else _without(document.data, wrong, ())
    return findings, replace(document, data=rest)


def _wrong_values(error: ValidationError, path: Path, findings: list[Finding]) -> set[Path]:
    if error.validator == "additionalProperties":
        return {finding.path for finding in findings}
    return {path} if error.validator in _VALUE_IS_WRONG else set()


def _is_of_another_kind(document: Document, kind: str) -> bool:
    """Say whether this is some other Kubernetes document: its keys are not worth a word."""
    data = document.data
    if not isinstance(data, dict):
        return False
    if isinstance(named := data.get("kind"), str) and named in KINDS.keys() - {kind}:
        return True
    names = {key: schema(kind)["properties"][key]["const"] for key in ("apiVersion", "kind")}
    return all(isinstance(data.get(key), str) and data[key] != name for key, name in names.items())


def _faulty(node: YamlNode, path: Path) -> Iterator[Path]:
    if node.faulty:
        yield path
    for key, (_, value) in (node.items or {}).items():
        yield from _faulty(value, (*path, key))
    for i, value in enumerate(node.entries or ()):
        yield from _faulty(value, (*path, i))


def _without(data: Plain, wrong: set[Path], path: Path) -> Plain:
    """Leave out the wrong values; in a list None takes their place, so that indices stay."""
    if path in wrong:
        return None
    if isinstance(data, dict):
        return {
            key: _without(value, wrong, (*path, key))
            for key, value in data.items()
            if (*path, key) not in wrong
        }
    if isinstance(data, list):
        return [_without(value, wrong, (*path, i)) for i, value in enumerate(data)]
    return data


def _by_rules(document: Document, policy: Policy | None) -> Iterator[Finding]:
    for i, resource in enumerate(resources_of(document)):
        if isinstance(resource, dict):
            yield from resource_findings(("resources", i), resource, document)
            if policy is not None:
                yield from bounds_findings(("resources", i), resource, policy, document.keys)


def resources_of(document: Document) -> list[Plain]:
    """Give the resources of a document, None in the place of a wrong one."""
    listed = document.data.get("resources") if isinstance(document.data, dict) else None
    return listed if isinstance(listed, list) else []
