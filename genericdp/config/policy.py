"""Load a policy; ``rules/policy.py`` checks configs against it."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from genericdp.config.document import Field, problem_of
from genericdp.config.files import Content, Loaded, unreadable, unusable
from genericdp.config.manifests import read_config
from genericdp.config.schema import POLICY, resolved_schema, schema
from genericdp.config.texts import check_text, formatted
from genericdp.config.validation import validate
from genericdp.errors import Finding
from genericdp.policy import SECTIONS, Policy, Rule, Section
from genericdp.printing import first_few, printable

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Sequence

    from genericdp.config.document import Document
    from genericdp.errors import KeyPath, Problem

_IF_EMPTY = (
    "a policy that allows nothing has two lines: 'apiVersion: genericdp.io/v1alpha1' and"
    " 'kind: DevicePluginPolicy'"
)
_MAX_LISTED = 5


def load_policy(path: pathlib.Path, given: Content | OSError) -> Loaded:
    """Return the policy of a file that has been read, or all of its problems."""
    if isinstance(given, OSError):
        hint = "it is the policy that --policy or GENERICDP_POLICY names"
        problem = unreadable(path, given)._replace(hint=hint)
        return Loaded(problems=(problem,), policy_is_unusable=True)
    documents, problems = read_config(printable(str(path)), given.text, if_empty=_IF_EMPTY)
    loaded = policy_of(documents, problems, given.text)
    if loaded.policy is None:
        return loaded
    return replace(loaded, warnings=(*loaded.warnings, *_warnings(path, given.untrusted_link)))


def policy_of(documents: Sequence[Document], problems: Sequence[Problem], text: bytes) -> Loaded:
    """Return the policy in documents, or all of its problems."""
    problems = [*problems]
    warnings: list[Problem] = []
    for extra in documents[1:]:
        message = "a policy is one document, and this is another one"
        problems.append(problem_of(Finding((), message), extra))
    for document in documents[:1]:
        findings, sound = validate(document, POLICY)
        written = Field(sound, (), sound.data, findings)
        for field, form in formatted(written, resolved_schema(POLICY)):
            check_text(field, form, None)
        problems += (problem_of(finding, document) for finding in findings if not finding.warning)
        warnings = [problem_of(finding, document) for finding in findings if finding.warning]
    if problems:
        return Loaded(problems=tuple(problems), policy_is_unusable=True)
    return Loaded(
        policy=_policy(documents[0], sha256=hashlib.sha256(text).hexdigest()),
        warnings=tuple(warnings),
    )


def _warnings(path: pathlib.Path, untrusted_link: str) -> Iterator[Problem]:
    if untrusted_link:
        yield unusable(path, f"who can do so chooses the policy: {untrusted_link}")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "any user" if mode & stat.S_IWOTH else "its group"
        yield unusable(path, f"{who} can write this policy, so it restricts nothing (chmod go-w)")


def _policy(document: Document, *, sha256: str) -> Policy:
    devices = document.data.get("devices") or {}
    block = _place(document, ("devices", "block") if "block" in devices else ("devices",))
    return Policy(
        file=document.file,
        block=devices.get("block", False),
        block_says=f"policy {block} allows no block devices",
        sha256=sha256,
        **{key: _section(document, key) for key in SECTIONS},
    )


def _section(document: Document, key: str) -> Section:
    at: KeyPath = (key,)
    listed = document.data.get(key)
    where = f"policy {_place(document, at)}"
    if listed is None:
        return Section(says=f"{where} has no {key!r}, which allows none")
    if key == "devices":
        default = schema(POLICY)["$defs"]["devices"]["properties"]["paths"]["default"]
        at, listed = ("devices", "paths"), listed.get("paths", default)
    rules = tuple(_rule(document, (*at, i), entry) for i, entry in enumerate(listed))
    allowed = first_few([rule.text for rule in rules], _MAX_LISTED) or "none"
    return Section(says=f"{where} says {key}: {allowed}", rules=rules)


def _rule(document: Document, path: KeyPath, entry: str | dict[str, Any]) -> Rule:
    place = f"{document.file}:{document.mark(path).line}"
    if isinstance(entry, str):
        return Rule(text=entry, place=place)
    return Rule(
        text=entry.get("hostPath") or entry["path"],
        place=place,
        read_only=entry.get("readOnly", True),
        sha256=entry.get("sha256", "").lower(),
        env=tuple(entry.get("env", ())),
    )


def _place(document: Document, path: KeyPath) -> str:
    return f"{document.file}:{document.mark(path, of_key=True).line}"
