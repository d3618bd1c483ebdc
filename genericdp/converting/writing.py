"""Writes configs with comments: quoted as our language demands, nothing escapes from a comment."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from genericdp.config.scalars import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.converting.draft import Draft, Resource, Said

_WIDTH = 96
_PLAIN = re.compile(r"[A-Za-z/$][A-Za-z0-9_/.$()*-]*")
_SELECTORS = {"udev", "pci", "usb", "net", "type", "values"}
"""Where one of them is a key, each key has a line of its own."""
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def written(draft: Draft) -> str:
    """Give the text of a config."""
    lines = [*_comments(draft.head, ""), "apiVersion: genericdp.io/v1alpha1"]
    lines += ["kind: DevicePluginConfig", "resources:"]
    for i, resource in enumerate(draft.resources):
        lines += [""] if i else []
        lines += _withheld(resource) if resource.withheld else _resource(resource)
    if draft.left:
        lines += ["", *_comments(draft.left, "")]
    return "\n".join(lines) + "\n"


def resource_lines(resource: Resource) -> list[str]:
    """Give the text of one resource, whether or not it can be offered."""
    return list(_resource(resource))


def value_lines(key: str, value: object) -> list[str]:
    """Give a value, under its key if that is not empty, as lines of YAML."""
    head = f"{_key(key)}: " if key else ""
    if isinstance(value, dict) and value:
        inner = [line for name, one in value.items() for line in value_lines(str(name), one)]
        return [head.rstrip(), *(f"  {line}" for line in inner)] if head else inner
    if isinstance(value, list) and value:
        inner = []
        for one in value:
            first, *rest = value_lines("", one) or ["{}"]
            inner += [f"- {first}", *(f"  {line}" for line in rest)]
        return [head.rstrip(), *(f"  {line}" for line in inner)] if head else inner
    return [head + flow(value)]


def flow(value: Any) -> str:  # noqa: ANN401  # whatever YAML holds
    """Write a value in one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{_key(k)}: {flow(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
        case _:
            return quoted(str(value))


def quoted(text: str) -> str:
    """Write a text so that every YAML reads this text."""
    if _PLAIN.fullmatch(text) and reading(text) is None:
        return text
    if not text.isprintable():
        return '"' + "".join(map(_escaped, text)) + '"'
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'


def _key(key: object) -> str:
    text = str(key)
    return text if _KEY.fullmatch(text) and reading(text) is None else quoted(text)


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"


def _resource(resource: Resource) -> Iterator[str]:
    yield from _comments(resource.comments, "  ")
    yield f"  - name: {quoted(resource.name)}"
    if resource.node_names:
        yield f"    nodeNames: {flow(resource.node_names)}"
    yield from _list("match", resource.match, "    ")
    yield from _list("exclude", resource.exclude, "    ")
    if resource.values:
        yield "    values:"
        for name, said in resource.values.items():
            yield from _comments(said.comments, "      ")
            yield f"      {name}: {flow(said.value)}"
    if resource.group_by:
        yield f"    groupBy: {quoted(resource.group_by)}"
    if resource.replicas != 1:
        yield f"    replicas: {resource.replicas}"
    if resource.topology:
        yield f"    topology: {resource.topology}"
    yield from _inject(resource)
    yield from _comments(resource.left, "    ")


def _inject(resource: Resource) -> Iterator[str]:
    if resource.devices is None and not resource.mounts and not resource.env:
        return
    yield "    inject:"
    if resource.devices is not None:
        yield from _list("devices", resource.devices, "      ")
    if resource.mounts:
        yield from _list("mounts", resource.mounts, "      ")
    if resource.env:
        yield "      env:"
        for name, text in resource.env.items():
            yield f"        {_key(name)}: {quoted(text)}"


def _list(key: str, entries: Iterable[Said], indent: str) -> Iterator[str]:
    entries = list(entries)
    if not entries:
        if key == "devices":
            yield f"{indent}devices: []"
        return
    yield f"{indent}{key}:"
    for said in entries:
        yield from _comments(said.comments, f"{indent}  ")
        value = _collapsed(said.value)
        if len(value) > 1 and not set(value) & _SELECTORS:
            yield f"{indent}  - {flow(value)}"
            continue
        lines = [line for name, one in value.items() for line in _fitted(name, one, indent)]
        yield from (f"{indent}  {' ' if i else '-'} {line}" for i, line in enumerate(lines))


def _collapsed(value: Any) -> Any:  # noqa: ANN401  # whatever a selector holds
    """Write lists of one glob as that glob."""
    if isinstance(value, dict):
        return {key: _collapsed(one) for key, one in value.items()}
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _fitted(key: str, value: object, indent: str) -> list[str]:
    """Write a key in one line if that has room."""
    line = f"{_key(key)}: {flow(value)}"
    if len(indent) + len(line) + 4 <= _WIDTH + 4 or not isinstance(value, dict | list):
        return [line]
    if isinstance(value, dict):
        return [f"{_key(key)}:", *(f"  {_key(k)}: {flow(one)}" for k, one in value.items())]
    return [f"{_key(key)}:", *(f"  - {flow(one)}" for one in value)]


def _withheld(resource: Resource) -> Iterator[str]:
    yield from _comments([f"Not offered: {resource.withheld}."], "  ")
    if resource.match:
        yield from (f"  # {line.removeprefix('  ')}" for line in _resource(resource))
    else:
        said = [*resource.comments, *resource.left]
        yield from _comments([f"It was to be {resource.name}.", *said], "  ")


def _comments(texts: Iterable[str], indent: str) -> Iterator[str]:
    for text in texts:
        for line in text.split("\n"):
            # Anything else that YAML takes for the end of a line would end the comment.
            safe = "".join(c if c.isprintable() else _escaped(c) for c in line)
            lead = " " * (len(safe) - len(safe.lstrip(" ")))
            wrapped = (
                [safe]
                if lead
                else textwrap.wrap(
                    safe, _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False
                )
            )
            yield from (f"{indent}# {one}".rstrip() for one in wrapped or [""])
