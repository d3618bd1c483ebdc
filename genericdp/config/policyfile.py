"""Loads a policy: reads its file, checks it, builds the values."""

from __future__ import annotations

import hashlib
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, problem_of
from genericdp.config.finding import shown as quoted
from genericdp.config.loaded import shown, unusable
from genericdp.config.policycheck import texts_in
from genericdp.config.read import read_config
from genericdp.config.schema import POLICY, schema
from genericdp.config.validation import validate
from genericdp.glob import is_glob, path_problem, pattern_problem
from genericdp.policy import SECTIONS, Policy, Rule, Section

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from genericdp.config.files import Content
    from genericdp.config.tree import Document, Path
    from genericdp.errors import Problem

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_IF_EMPTY = (
    "a policy that allows nothing has two lines: 'apiVersion: genericdp.io/v1alpha1' and"
    " 'kind: DevicePluginPolicy'"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedPolicy:
    """A policy if there is no problem."""

    policy: Policy | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_policy(path: pathlib.Path, given: Content) -> LoadedPolicy:
    """Return the policy of a file that has been read, or all of its problems."""
    documents, problems = read_config(shown(path), given.text, if_empty=_IF_EMPTY)
    for extra in documents[1:]:
        message = "a policy is one document, and this is another one"
        problems.append(problem_of(Finding(path=(), message=message), extra))
    for document in documents[:1]:
        found, rest = validate(document, POLICY)
        findings = [*found, *_by_rules(rest.data)]
        problems += (problem_of(finding, document) for finding in findings)
    if problems:
        return LoadedPolicy(problems=tuple(problems))
    policy = _policy(documents[0], sha256=hashlib.sha256(given.text).hexdigest())
    return LoadedPolicy(policy=policy, warnings=tuple(_warnings(path, given.doubt)))


def _warnings(path: pathlib.Path, doubt: str) -> Iterator[Problem]:
    if doubt:
        yield unusable(path, f"who can do so chooses the policy: {doubt}")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "anybody" if mode & stat.S_IWOTH else "its group"
        yield unusable(path, f"{who} can write this policy, so it restricts nothing (chmod go-w)")


def _by_rules(data: object) -> Iterator[Finding]:
    """Yield what the schema cannot express."""
    for path, text in texts_in(data):
        match path:
            case ("devices", "paths", _) | ("files", _) | ("mounts", _, "hostPath"):
                problem = _path_problem(text)
            case ("commands", _, "path"):
                problem = _path_problem(text) or _wildcard_problem(text)
            case ("commands", _, "sha256") if not _SHA256.fullmatch(text):
                problem = f"{quoted(text)} is no SHA-256: 64 hexadecimal digits (sha256sum FILE)"
            case ("env" | "annotations" | "cdi", _) | ("commands", _, "env", _):
                problem = pattern_problem(text)
            case _:
                problem = None
        if problem:
            yield Finding(path=path, message=problem)


def _path_problem(text: str) -> str | None:
    if "$(" in text:
        return f"a policy takes no templates: {quoted(text)}"
    return path_problem(text)


def _wildcard_problem(text: str) -> str | None:
    wrong = f"a command is named in full, without wildcards: {quoted(text)}"
    return wrong if is_glob(text) else None


def _policy(document: Document, *, sha256: str) -> Policy:
    devices = document.data.get("devices") or {}
    at = ("devices", "block")
    return Policy(
        place=_place(document, ()),
        block=devices.get("block", False),
        block_place=_place(document, at, of_key=True) if "block" in devices else "",
        sha256=sha256,
        **{key: _section(document, key) for key in SECTIONS},
    )


def _section(document: Document, key: str) -> Section:
    at: Path = (key,)
    given = listed = document.data.get(key)
    if key == "devices" and given is not None:
        default = schema(POLICY)["$defs"]["devices"]["properties"]["paths"]["default"]
        at, listed = ("devices", "paths"), given.get("paths", default)
    return Section(
        key=key,
        place=_place(document, (key,), of_key=True),
        given=given is not None,
        rules=tuple(_rule(one, _place(document, (*at, i))) for i, one in enumerate(listed or ())),
    )


def _rule(one: str | dict[str, Any], place: str) -> Rule:
    if isinstance(one, str):
        return Rule(text=one, place=place)
    return Rule(
        text=one.get("hostPath") or one["path"],
        place=place,
        read_only=one.get("readOnly", True),
        sha256=one.get("sha256", "").lower(),
        env=tuple(one.get("env", ())),
    )


def _place(document: Document, path: Path, *, of_key: bool = False) -> str:
    return f"{document.file}:{document.mark(path, of_key=of_key).line}"
