"""Loads a policy, and checks the plain texts of a config, globs included, against it.

What templates give is only known on the host, and checked there. But where a section of the policy
allows nothing at all, they are refused as well.
"""

from __future__ import annotations

import hashlib
import re
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from genericdp import glob
from genericdp.config.files import Content, Loaded, unreadable, unusable
from genericdp.config.files import shown as shown_file
from genericdp.config.finding import Finding, problem_of, shown
from genericdp.config.read import read_config
from genericdp.config.schema import POLICY, schema
from genericdp.config.validation import validate
from genericdp.glob import may_name, segments_of
from genericdp.model import FileType, PathSelector
from genericdp.policy import CDI_ANNOTATION, SECTIONS, Policy, Rule, Section
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Sequence

    from genericdp.config.tree import Document, Path
    from genericdp.errors import Problem

    Resource = dict[str, Any]

_IF_EMPTY = (
    "a policy that allows nothing has two lines: 'apiVersion: genericdp.io/v1alpha1' and"
    " 'kind: DevicePluginPolicy'"
)
_NODE_TYPES = {FileType.CHAR, FileType.BLOCK}
_TOKEN = re.compile(r"\[!?+\]?+[^]]*\]|.", re.DOTALL)
"""A part of a glob that stands for one character, or a ``*``."""


def load_policy(path: pathlib.Path, given: Content | OSError) -> Loaded:
    """Return the policy of a file that has been read, or all of its problems."""
    if isinstance(given, OSError):
        hint = "it is the policy that --policy or GENERICDP_POLICY names"
        problem = replace(unreadable(path, given), hint=hint)
        return Loaded(problems=(problem,), policy_is_unusable=True)
    documents, problems = read_config(shown_file(path), given.text, if_empty=_IF_EMPTY)
    for extra in documents[1:]:
        message = "a policy is one document, and this is another one"
        problems.append(problem_of(Finding(path=(), message=message), extra))
    for document in documents[:1]:
        found, rest = validate(document, POLICY)
        findings = [*found, *_by_rules(rest.data)]
        problems += (problem_of(finding, document) for finding in findings)
    if problems:
        return Loaded(problems=tuple(problems), policy_is_unusable=True)
    policy = _policy(documents[0], sha256=hashlib.sha256(given.text).hexdigest())
    return Loaded(policy=policy, warnings=tuple(_warnings(path, given.doubt)))


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
    for path, text in _texts_in(data):
        match path:
            case ("devices", "paths", _) | ("files", _) | ("mounts", _, "hostPath"):
                problem = _path_problem(text)
            case ("commands", _, "path"):
                wrong = f"a command is named in full, without wildcards: {shown(text)}"
                problem = _path_problem(text) or (wrong if glob.is_glob(text) else None)
            case ("env" | "annotations" | "cdi", _) | ("commands", _, "env", _):
                problem = glob.pattern_problem(text)
            case _:
                problem = None
        if problem:
            yield Finding(path=path, message=problem)


def _path_problem(text: str) -> str | None:
    if "$(" in text:
        return f"a policy takes no templates: {shown(text)}"
    return glob.path_problem(text)


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


def policy_findings(at: Path, resource: Resource, policy: Policy) -> Iterator[Finding]:
    """Yield what a resource asks for and the policy does not allow."""
    for path, text in _texts_in(resource):
        for check in (_path_findings, _node_findings, _name_findings, _command_findings):
            for finding in check(path, text, resource, policy):
                yield replace(finding, path=(*at, *finding.path))


def _texts_in(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text of plain data with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts_in(one, (*path, key))
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _texts_in(one, (*path, i))


def _path_findings(path: Path, text: str, resource: Resource, policy: Policy) -> Iterator[Finding]:
    section, is_glob = _section_of(path, resource, policy)
    plain = _plain(text)
    if section is None or (plain is None and section.rules):
        return
    # A path is literal where no glob is possible.
    parts = segments_of(plain or "" if is_glob else glob.escape(plain or ""))
    rules = [rule for rule in section.rules if lies_within(parts, segments_of(rule.text))]
    if not rules:
        yield Finding(path=path, message=_outside(text), hint=section.says)
    elif all(rule.read_only for rule in rules) and _is_written(path, resource):
        message = f"{shown(text)} may be mounted only for reading"
        hint = rules[0].says_read_only
        yield Finding(path=(*path[:-1], "readOnly"), message=message, hint=hint)


def _is_written(path: Path, resource: Resource) -> bool:
    match path:
        case ("inject", "mounts", i, "hostPath"):
            return resource["inject"]["mounts"][i].get("readOnly") is False
        case _:
            return False


def _section_of(path: Path, resource: Resource, policy: Policy) -> tuple[Section | None, bool]:
    """Return what must allow a text, and whether it is a glob; None: it is no path of the host."""
    match path:
        case ("match", int(i), "path", *_) if _types_of_nodes(resource, i):
            return policy.devices, True
        case ("inject", "devices", _, "path"):
            return policy.devices, True
        case ("inject", "mounts", _, "hostPath"):
            return policy.mounts, False
        case ("values", _, "link"):
            return policy.files, True
        case ("values", _, "file") | ("health", _, "file", "path"):
            return policy.files, False
        case _:
            return None, False


def _plain(text: str) -> str | None:
    """Return what a text without templates gives; None: it has some."""
    try:
        parsed = parse(text)
    except TemplateSyntaxError:  # a problem of its own
        return None
    return None if parsed.references else "".join(map(str, parsed.parts))


def _outside(text: str) -> str:
    if glob.is_glob(text) or "$(" in text:
        return f"{shown(text)} can lead to what is not allowed"
    return f"{shown(text)} is not allowed"


def _node_findings(path: Path, _: str, resource: Resource, policy: Policy) -> Iterator[Finding]:
    """Check what asks for device nodes by other means than a path."""
    no_nodes = Finding(path=path[:3], message="it asks for device nodes", hint=policy.devices.says)
    match path:
        case ("inject", "devices", _, "subsystem") if not policy.devices.rules:
            yield no_nodes
        case ("match", _, "udev", *_) if not policy.devices.rules and not _lists_nodes(resource):
            yield no_nodes
        case ("match", int(i), "type", *_) if policy.devices.rules and not policy.block:
            if _types_of_nodes(resource, i) == {FileType.BLOCK}:
                message = "block devices are not allowed"
                yield Finding(path=path[:3], message=message, hint=policy.block_says)


def _lists_nodes(resource: Resource) -> bool:
    """Return whether ``inject.devices`` says which nodes containers get, in place of ``match``."""
    inject = resource.get("inject")
    return isinstance(inject, dict) and inject.get("devices") is not None


def _types_of_nodes(resource: Resource, i: int) -> set[str]:
    """Return the types of nodes that containers get as a selector of paths finds them."""
    if _lists_nodes(resource):
        return set()
    types = {text for _, text in _texts_in(resource["match"][i].get("type"))}
    return (types or set(PathSelector(globs=()).types)) & _NODE_TYPES


def _name_findings(path: Path, text: str, _: Resource, policy: Policy) -> Iterator[Finding]:
    """Check the names of variables and annotations, and CDI names."""
    match path:
        case ("inject", "env", str(name), *_):
            yield from _key_findings(path[:3], name, policy.env)
        case ("inject", "annotations", str(name)):
            yield from _key_findings(path, name, policy.annotations)
            if name.startswith(CDI_ANNOTATION):
                yield from _cdi_findings(path, text, text, policy)
        case ("inject", "cdi", _):
            yield from _cdi_findings(path, text, text.partition("=")[0], policy)
        case _:
            pass


def _key_findings(path: Path, name: str, section: Section) -> Iterator[Finding]:
    if not section.allows_name(name):
        message = f"{shown(name)} is not allowed"
        yield Finding(path=path, message=message, hint=section.says, of_key=True)


def _cdi_findings(path: Path, text: str, names: str, policy: Policy) -> Iterator[Finding]:
    plain = _plain(names)
    if not policy.cdi.rules or (plain is not None and policy.cdi_refusal(plain)):
        yield Finding(path=path, message=_outside(text), hint=policy.cdi.says)


def _command_findings(
    path: Path, text: str, resource: Resource, policy: Policy
) -> Iterator[Finding]:
    match path:
        case ("health" | "hooks", _, "exec", "command", 0):
            if policy.command_rule(text) is None:
                message = f"the command {shown(text)} is not allowed"
                yield Finding(path=path, message=message, hint=policy.commands.says)
        case ("health" | "hooks" as key, which, "exec", "env", str(name)):
            program = (resource[key][which]["exec"].get("command") or [None])[0]
            rule = policy.command_rule(program)
            if rule is not None and not glob.matches_any(rule.env, name):
                said = f"env: {', '.join(rule.env)}" if rule.env else "no env"
                yield Finding(
                    path=path,
                    message=f"the variable {shown(name)} is not allowed for {rule.text}",
                    hint=f"policy {rule.place} says {said} for this command",
                    of_key=True,
                )
        case _:
            pass


def lies_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Return whether each path that ``inner`` stands for is one that ``outer`` stands for.

    Both are globs, one for each level; ``outer`` stands for everything below, too. False also
    where it is hard to tell.
    """
    return len(outer) <= len(inner) and all(
        may_name(wide, narrow) and covers(wide, narrow)
        for wide, narrow in zip(outer, inner, strict=False)
    )


def covers(wide: str, narrow: str) -> bool:
    """Return whether a glob matches everything that another one matches; False if unsure.

    It reads ``narrow`` as if that were a text: a ``*`` there needs a ``*`` in ``wide``, anything
    else must be among what its counterpart in ``wide`` matches.
    """
    tokens = _TOKEN.findall(narrow)
    # Each token becomes one character, which what takes it in ``wide`` lists in brackets.
    letters = {token: chr(0xE000 + i) for i, token in enumerate(dict.fromkeys(tokens))}
    pattern = "".join(
        "*" if one == "*" else f"[\0{''.join(letters[two] for two in letters if _takes(one, two))}]"
        for one in _TOKEN.findall(wide)
    )
    return glob.matches(pattern, "".join(letters[token] for token in tokens))


def _takes(wide: str, narrow: str) -> bool:
    """Return whether a token that is no ``*`` matches every character that another one does."""
    # What a bracket takes changes only at a character that is written in it.
    codes = {ord(one) + offset for one in wide + narrow for offset in (-1, 0, 1)}
    characters = (chr(code) for code in codes if 0 < code <= 0x10FFFF)
    return narrow != "*" and all(
        glob.matches(wide, one) for one in characters if glob.matches(narrow, one)
    )
