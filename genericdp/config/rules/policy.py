"""Check the literal strings of a config, globs included, against a policy.

The results of templates are known, and checked, only on the host. But if a section of the policy
allows nothing at all, templates are refused here, too. A glob is refused if nothing that it could
find is allowed; otherwise the files that it finds are checked on the host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.config.rules.parts import injects
from genericdp.glob import may_name, segments_of
from genericdp.health.kinds import KINDS
from genericdp.model import FileType, PathSelector
from genericdp.policy import CDI_ANNOTATION
from genericdp.printing import quoted
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.document import Field
    from genericdp.policy import Policy, Rule, Section

_NODE_TYPES = {FileType.CHAR, FileType.BLOCK}
_PLAIN = re.compile(r"(\[[*?[]\]|[^*?[])*")
"""The beginning of a glob, up to its first wildcard."""


def check_policy(resource: Field, policy: Policy) -> None:
    """Find everything that a resource uses and the policy does not allow."""
    _check_matched(resource, policy)
    for inject in injects(resource):
        _check_inject(inject, policy)
    for value in resource["values"]:
        _check_path(value["link"], policy.files, is_glob=True)
        _check_path(value["linkedBy"], policy.files, is_glob=True)
        _check_path(value["file"], policy.files)
    for command in (*resource["health"], *resource["hooks"]):
        for kind, check in KINDS.items():
            for key in check.files:
                _check_path(command[kind][key], policy.files)
        _check_command(command["exec"], policy)


def _check_inject(inject: Field, policy: Policy) -> None:
    for entry in inject["devices"]:
        _check_path(entry["path"], policy.devices, is_glob=True)
        if entry["subsystem"].text is not None and not policy.devices.rules:
            entry.refuse("it requests device nodes", policy.devices.says)
    for mount in inject["mounts"]:
        _check_mount(mount, policy)
    for variable in inject["env"]:
        _check_name(variable, policy.env)
    for annotation in inject["annotations"]:
        _check_name(annotation, policy.annotations)
        if annotation.key.startswith(CDI_ANNOTATION):
            _check_cdi(annotation, annotation.text or "", policy)
    for device in inject["cdi"]:
        _check_cdi(device, (device.text or "").partition("=")[0], policy)


def _check_matched(resource: Field, policy: Policy) -> None:
    section = policy.devices
    # Containers get the nodes that the resource lists instead of the matched ones.
    is_listed = resource["inject"]["devices"].value is not None
    for selector in () if is_listed else resource["match"]:
        if selector["udev"].value is not None and not section.rules:
            selector["udev"].refuse("it requests device nodes", section.says)
        types = {string.value for string in selector["type"].strings()} or {
            *PathSelector(globs=()).types
        }
        if types & _NODE_TYPES:
            for path in selector["path"].strings():
                _check_path(path, section, is_glob=True)
        if types & _NODE_TYPES == {FileType.BLOCK} and section.rules and not policy.block:
            selector["type"].refuse("block devices are not allowed", policy.block_says)


def _check_mount(mount: Field, policy: Policy) -> None:
    rules = _check_path(mount["hostPath"], policy.mounts)
    if rules and mount["readOnly"].value is False and all(rule.read_only for rule in rules):
        message = f"{quoted(mount['hostPath'].value)} may be mounted only for reading"
        mount["readOnly"].refuse(message, rules[0].says_read_only)


def _check_path(path: Field, section: Section, *, is_glob: bool = False) -> list[Rule]:
    """Return the rules that allow a path of the host; the results of templates are checked on the
    host.
    """
    plain = _plain(path.text or "")
    if path.text is None or (plain is None and section.rules):
        return []
    parts = segments_of(plain or "" if is_glob else glob.escape(plain or ""))
    rules = [rule for rule in section.rules if may_lie_within(parts, segments_of(rule.text))]
    if not rules:
        path.refuse(_outside(path.text), section.says)
    return rules


def _plain(text: str) -> str | None:
    """Return the result of a string without references; None if it has references."""
    try:
        parsed = parse(text)
    except TemplateSyntaxError:  # a separate problem
        return None
    return None if parsed.references else "".join(map(str, parsed.parts))


def _outside(text: str) -> str:
    if "$(" in text:
        return f"{quoted(text)} can lead to what is not allowed"
    return f"{quoted(text)} is not allowed"


def _check_name(field: Field, section: Section) -> None:
    if not section.allows_name(field.key):
        field.refuse(f"{quoted(field.key)} is not allowed", section.says, of_key=True)


def _check_cdi(field: Field, names: str, policy: Policy) -> None:
    plain = _plain(names)
    if not policy.cdi.rules or (plain is not None and policy.cdi_refusal(plain)):
        field.refuse(_outside(field.text or ""), policy.cdi.says)


def _check_command(program: Field, policy: Policy) -> None:
    if not program["command"].value or (path := program["command"][0]).text is None:
        return
    rule = policy.command_rule(path.text)
    if rule is None:
        path.refuse(f"the command {quoted(path.text)} is not allowed", policy.commands.says)
        return
    said = f"env: {', '.join(rule.env)}" if rule.env else "no env"
    for variable in program["env"]:
        if not glob.matches_any(rule.env, variable.key):
            message = f"the variable {quoted(variable.key)} is not allowed for {rule.text}"
            hint = f"policy {rule.place} says {said} for this command"
            variable.refuse(message, hint, of_key=True)


def may_lie_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Return False if no path that ``inner`` matches is one that ``outer`` matches.

    Both are globs, one for each level; ``outer`` includes everything below, too.
    """
    return len(outer) <= len(inner) and all(map(_may_be_same, inner, outer))


def _may_be_same(inner: str, outer: str) -> bool:
    start, allowed = _start(inner), _start(outer)
    if not glob.has_wildcard(inner):
        return may_name(outer, start) and glob.matches(outer, start)
    return may_name(outer, inner) and (start.startswith(allowed) or allowed.startswith(start))


def _start(pattern: str) -> str:
    """Return the common beginning of everything that a glob matches."""
    found = _PLAIN.match(pattern)
    return glob.unescape(found.group() if found else "")
