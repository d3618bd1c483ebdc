"""A policy from its file: read, checked, built."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from genericdp.config.files import Content, Source, content, unquoted
from genericdp.config.finding import Finding, problem_of
from genericdp.config.finding import shown as quoted
from genericdp.config.loaded import shown, unusable
from genericdp.config.read import read_config
from genericdp.config.schema import POLICY, schema
from genericdp.config.validation import validate
from genericdp.glob import is_glob, path_problem, pattern_problem
from genericdp.policy import SECTIONS, Bound, Policy, Section

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from genericdp.config.tree import Document, Path
    from genericdp.errors import Problem

_HEX = frozenset("0123456789abcdef")
_SHA256_DIGITS = 64
_WHAT_IT_IS = "it is the policy that --policy or GENERICDP_POLICY names"
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
    text: bytes = b""


def load_policy(path: pathlib.Path) -> LoadedPolicy:
    """Give the policy of a file, or all of its problems; raises nothing."""
    name = shown(path)
    given = content(Source(name=name, path=path))
    if not isinstance(given, Content):
        return LoadedPolicy(problems=(replace(given, hint=_WHAT_IT_IS),))
    text = given.text
    documents, problems = read_config(name, text, if_empty=_IF_EMPTY)
    for extra in documents[1:]:
        message = "a policy is one document, and this is another one"
        problems.append(problem_of(Finding(path=(), message=message), extra))
    for document in documents[:1]:
        found, rest = validate(document, POLICY)
        findings = [*found, *_by_rules(rest)]
        problems += (problem_of(finding, document) for finding in findings)
    if problems:
        problems = unquoted(set(problems), {name: given})
        return LoadedPolicy(problems=tuple(sorted(problems)), text=text)
    policy = _policy(documents[0], sha256=hashlib.sha256(text).hexdigest())
    return LoadedPolicy(policy=policy, warnings=tuple(_warnings(path, given.doubt)), text=text)


def _warnings(path: pathlib.Path, doubt: str) -> Iterator[Problem]:
    if doubt:
        yield unusable(path, f"who can do so chooses the policy: {doubt}")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "anybody" if mode & stat.S_IWOTH else "its group"
        yield unusable(path, f"{who} can write this policy: whoever can bounds nobody (chmod go-w)")


def _by_rules(document: Document) -> Iterator[Finding]:
    data = document.data if isinstance(document.data, dict) else {}
    devices = data.get("devices")
    if isinstance(devices, dict):
        yield from _path_problems(("devices", "paths"), devices.get("paths"))
    yield from _path_problems(("files",), data.get("files"))
    for key in ("env", "annotations", "cdi"):
        yield from _glob_problems((key,), data.get(key))
    for i, mount in enumerate(data.get("mounts") or ()):
        if isinstance(mount, dict):
            yield from _path_problems(("mounts", i), mount)
    for i, command in enumerate(data.get("commands") or ()):
        if isinstance(command, dict):
            yield from _command_problems(("commands", i), command)


def _path_problems(at: Path, paths: Any) -> Iterator[Finding]:  # noqa: ANN401  # plain data
    listed = [("hostPath", paths.get("hostPath"))] if isinstance(paths, dict) else None
    for step, text in listed or enumerate(paths or ()):
        if isinstance(text, str) and (problem := _path_problem(text)):
            yield Finding(path=(*at, step), message=problem)


def _path_problem(text: str) -> str | None:
    if "$(" in text:
        return f"a policy takes no templates: {quoted(text)}"
    return path_problem(text)


def _glob_problems(at: Path, texts: Any) -> Iterator[Finding]:  # noqa: ANN401  # plain data
    for i, text in enumerate(texts or ()):
        if isinstance(text, str) and (problem := pattern_problem(text)):
            yield Finding(path=(*at, i), message=problem)


def _command_problems(at: Path, command: dict[str, Any]) -> Iterator[Finding]:
    if isinstance(path := command.get("path"), str):
        if problem := _path_problem(path):
            yield Finding(path=(*at, "path"), message=problem)
        elif is_glob(path):
            message = f"a command is named in full, without wildcards: {quoted(path)}"
            yield Finding(path=(*at, "path"), message=message)
    if isinstance(digest := command.get("sha256"), str) and not _is_sha256(digest):
        message = f"{quoted(digest)} is no SHA-256, which has {_SHA256_DIGITS} hexadecimal digits"
        hint = "sha256sum FILE prints it"
        yield Finding(path=(*at, "sha256"), message=message, hint=hint)
    yield from _glob_problems((*at, "env"), command.get("env"))


def _is_sha256(text: str) -> bool:
    return len(text) == _SHA256_DIGITS and set(text.lower()) <= _HEX


def _policy(document: Document, *, sha256: str) -> Policy:
    data = document.data
    devices = data.get("devices") or {}
    paths = devices.get("paths", _default_paths()) if "devices" in data else ()
    block = ("devices", "block")
    sections = {key: _section(document, key) for key in SECTIONS if key != "devices"}
    return Policy(
        place=_place(document, ()),
        devices=Section(
            key="devices",
            place=_place(document, ("devices",), of_key=True),
            given="devices" in data,
            bounds=tuple(
                Bound(text=text, place=_place(document, ("devices", "paths", i)))
                for i, text in enumerate(paths)
            ),
        ),
        block=devices.get("block", False),
        block_place=_place(document, block, of_key=True) if "block" in devices else "",
        sha256=sha256,
        **sections,
    )


def _default_paths() -> list[str]:
    default: list[str] = schema(POLICY)["$defs"]["devices"]["properties"]["paths"]["default"]
    return default


def _section(document: Document, key: str) -> Section:
    listed = document.data.get(key)
    return Section(
        key=key,
        place=_place(document, (key,), of_key=True),
        given=listed is not None,
        bounds=tuple(_bound(one, _place(document, (key, i))) for i, one in enumerate(listed or ())),
    )


def _bound(one: str | dict[str, Any], place: str) -> Bound:
    if isinstance(one, str):
        return Bound(text=one, place=place)
    return Bound(
        text=one.get("hostPath") or one["path"],
        place=place,
        read_only=one.get("readOnly", True),
        sha256=one.get("sha256", "").lower(),
        env=tuple(one.get("env", ())),
    )


def _place(document: Document, path: Path, *, of_key: bool = False) -> str:
    return f"{document.file}:{document.mark(path, of_key=of_key).line}"
