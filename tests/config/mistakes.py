"""Configs made from the schema, with a mistake; and hints, followed as a person would."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml
from genericdp.config.document import shown_path
from genericdp.config.schema import resolved_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.errors import KeyPath, Problem

Part = dict[str, Any]
Tree = Any
"""Mappings and lists, whose keys and scalars are YAML as it is written."""

_OF_FORMAT = {
    "path-glob": "/dev/a*",
    "path-template": "/sys/a",
    "path-glob-template": "/dev/a*",
    "directory-template": "/opt/a",
    "re2": "(?P<a>.*)",
    "resource-name": "example.com/a",
    "resource-names": "example.com/a*",
    "value-name": "v",
    "cdi-name-template": "example.com/a=b",
    "program": "/bin/a",
    "template": "$(device.name)",
    "string-template": "$(device.name)",
    "int-template": "1",
    "bool-template": "on",
    "version-template": "1.0",
    "quantity-template": "8",
    "quantity": "1",
    "policy-path": "/dev/a*",
    "policy-command": "/bin/a",
}
"""A good text for a format; for the others ``a``."""
_OF_TITLE = {
    "a SHA-256": "0" * 64,
    "made of": "r",
    "two": "*",
    "four": "*",
    "six": "*",
    "a PCI": "*",
}
"""A good text for a pattern, by how its title begins."""
_WITH: dict[str, Tree] = {
    "names": {"name": "example.com/$(value.v)"},
    "attributes": {"servedBy": "dra"},
    "metadata": {"servedBy": "dra"},
    "unhealthyTaint": {"servedBy": "dra"},
    "parameters": {"servedBy": "dra"},
    "capacity": {"servedBy": "dra", "sharing": "capacity"},
    "sharing": {"servedBy": "dra"},
    "release": {"servedBy": "dra"},
    "exclusive": {"replicas": "2", "id": "a-$(device.name)"},
}
"""What a resource with a key needs, by rules that the schema cannot express."""


def values_of(part: Part, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the way to each value that a schema describes."""
    yield path
    for key, value in part.get("properties", {}).items():
        if value.get("not") != {} and not ("match" in path and key == "by"):
            yield from values_of(value, (*path, key))
    if isinstance(value := part.get("additionalProperties"), dict):
        yield from values_of(value, (*path, "a"))
    for i, value in enumerate(_entries(part)):
        yield from values_of(value, (*path, i))


def _entries(part: Part) -> list[Part]:
    return [*part.get("prefixItems", ()), *([part["items"]] if "items" in part else [])]


def part_at(part: Part, path: KeyPath) -> Part:
    for step in path:
        part = (
            _entries(part)[step]
            if isinstance(step, int)
            else part.get("properties", {}).get(step) or part["additionalProperties"]
        )
    return part


def document_with(kind: str, path: KeyPath) -> Tree:
    """Return a good document that has a value at a path of the schema."""
    tree = _made(resolved_schema(kind), path)
    if path[:1] == ("resources",):
        (resource,) = tree["resources"]
        for key in path:
            resource |= _WITH.get(str(key), {})
        if "match" not in path:
            resource["match"] = [{"path": "/dev/b"}]
        resource.setdefault("inject", {}).setdefault("env", {"B": "b"})
        resource.setdefault("values", {}).update(v={"text": "b"}, limit={"text": "b"})
    return tree


def _made(part: Part, path: KeyPath = ()) -> Tree:
    types = part.get("type", "")
    if "const" in part or "enum" in part:
        return part["const"] if "const" in part else part["enum"][0]
    if not path and "string" in types and "array" in types:
        return _made({**part["items"], "type": "string"})
    if path and isinstance(step := path[0], int):
        before = [_made(entry) for entry in _entries(part)[:step]]
        return [*before, _made(_entries(part)[step], path[1:])]
    if path or types == "object":
        return _mapping(part, path)
    if types == "array":
        return [_made(entry) for entry in _entries(part)[:1]]
    if "integer" in types or "number" in types:
        return _OF_FORMAT.get(part.get("format", ""), "1")
    return "true" if types == "boolean" else _text(part)


def _mapping(part: Part, path: KeyPath) -> Tree:
    keys = {str(path[0]): _made(part_at(part, path[:1]), path[1:])} if path else {}
    needed = [*part.get("required", ())]
    for key in keys:
        needed += part.get("dependentRequired", {}).get(key, ())
    needed += [item["required"][0] for item in part.get("anyOf", ())[:1]]
    choices = [entry["required"][0] for entry in part.get("oneOf", ())]
    if choices and not {*choices} & {*keys, *needed}:
        needed.append(choices[0])
    if part.get("minProperties") and not keys:
        needed.append(next(iter(part.get("properties", "a"))))
    for key in needed:
        keys.setdefault(key, _made(part_at(part, (key,))))
    return keys


def _text(part: Part) -> str:
    title = part.get("title", "")
    of_title = [text for start, text in _OF_TITLE.items() if title.startswith(start)]
    return json.dumps(next(iter(of_title), _OF_FORMAT.get(part.get("format", ""), "a")))


def written(tree: Tree) -> str:
    """Return the YAML of a tree."""
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{key}: {written(value)}' for key, value in tree.items())}}}"
    return f"[{', '.join(map(written, tree))}]" if isinstance(tree, list) else str(tree)


def parsed(source: str) -> Tree:
    """Return the tree of a value that is written on one line."""
    if not source.startswith(("[", "{")):
        return source
    return _tree_of(yaml.compose(source, yaml.BaseLoader))


def _tree_of(node: Any) -> Tree:
    if isinstance(node, yaml.ScalarNode):
        return json.dumps(node.value) if node.style else node.value
    if isinstance(node, yaml.SequenceNode):
        return list(map(_tree_of, node.value))
    return {_tree_of(key): _tree_of(value) for key, value in node.value}


def changed(tree: Tree, path: KeyPath, source: str | Tree) -> Tree:
    """Return a copy with another value at a path."""
    value = parsed(source) if isinstance(source, str) else source
    if not path:
        return value
    tree = deepcopy(tree)
    _holder(tree, path)[path[-1]] = value
    return tree


def renamed(tree: Tree, path: KeyPath, key: str) -> Tree:
    """Return a copy with another key in place of the last one of a path."""
    tree = deepcopy(tree)
    holder = _holder(tree, path)
    entries = [(key if old == path[-1] else old, value) for old, value in holder.items()]
    holder.clear()
    holder.update(entries)
    assert len(holder) == len(entries), f"{key} is there twice"
    return tree


def _without(tree: Tree, path: KeyPath) -> Tree:
    tree = deepcopy(tree)
    del _holder(tree, path)[path[-1]]
    return tree


def _holder(tree: Tree, path: KeyPath) -> Tree:
    for step in path[:-1]:
        tree = tree[step]
    return tree


def value_at(tree: Tree, path: KeyPath) -> Tree:
    return _holder((tree,), (0, *path, "")) if path else tree


def _paths(tree: Tree, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the way to each value of a tree."""
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from _paths(tree[key], (*path, key))


def followed(tree: Tree, problem: Problem) -> list[Tree]:
    """Return what becomes of a tree if the hint is followed; several where it has choices.

    None, if the hint does not say what to write.
    """
    # Keys of a tree are YAML, those of a problem are not.
    known = {shown_path([_plain(step) for step in path]): path for path in _paths(tree)}
    path, hint, message = known[problem.path], problem.hint, problem.message
    if found := re.match(r"the key (\S+) is read as .*", message):
        path = (*path, found[1])
        return [renamed(tree, path, hint.removeprefix("write "))]
    if found := re.fullmatch(r"did you mean ('.*')\?", hint):
        return [_meant(tree, path, message, yaml.safe_load(found[1]))]
    if hint == "omit it":
        return [_without(tree, path)]
    if hint.startswith("one of ") and "cannot be combined" in message:
        return [_without(tree, path)]
    if hint == "begin each entry with '- '":
        entry = {key.strip("-"): value for key, value in value_at(tree, path).items()}
        return [changed(tree, path, [entry])]
    if hint == "write a space after the ':' of a key":
        key, _, value = yaml.safe_load(value_at(tree, path)).partition(":")
        return [changed(tree, path, {key: value})]
    better = _rearranged(tree, path, hint, message)
    return better or [changed(tree, path, value) for value in _to_write(hint)]


def _rearranged(tree: Tree, path: KeyPath, hint: str, message: str) -> list[Tree]:
    """Follow a hint that is about more, or less, than a whole value."""
    if found := re.fullmatch("begin each entry with '- name: (.*)'", hint):
        entries = [{"name": key, **entry} for key, entry in value_at(tree, path).items()]
        assert _plain(entries[0]["name"]) == found[1]
        return [changed(tree, path, entries)]
    if found := re.fullmatch("write ('.*'), and (.*): ('.*')", hint):
        return [changed(changed(tree, path, found[1]), (*path[:-1], found[2]), found[3])]
    if (found := re.fullmatch(r"write '(\$\(.*\))'", hint)) and "unknown name" in message:
        wrong = message.partition(" in ")[2].strip("'")
        text = _plain(value_at(tree, path)).replace(wrong, found[1])
        return [changed(tree, path, json.dumps(text))]
    return []


def _meant(tree: Tree, path: KeyPath, message: str, word: str) -> Tree:
    if message.startswith("unknown key"):
        return renamed(tree, path, json.dumps(word))
    if found := re.match(r"unknown (?:scope|name) ('.*') in", message):
        text = _plain(value_at(tree, path))
        return changed(tree, path, json.dumps(text.replace(yaml.safe_load(found[1]), word)))
    if message.startswith("undeclared value") and _plain(path[-1]) in message:
        return renamed(tree, path, json.dumps(word))
    return changed(tree, path, json.dumps(word))


def _to_write(hint: str) -> list[str]:
    if hint == "write '' for the empty string":
        return ["''"]
    if found := re.fullmatch(r"write (-?[\d.]+) or (-?[\d.]+)( without quotes)?", hint):
        return [found[1], found[2]]
    if found := re.fullmatch(r"write (.*), in quotes", hint):
        return [json.dumps(text) for start, text in _OF_TITLE.items() if found[1].startswith(start)]
    if found := re.fullmatch(r"one of (.*)", hint):
        return found[1].split(", ")
    if found := re.fullmatch(r"as in (.*?)(, or (.*))?", hint):
        return [found[1], *([found[3]] if found[3] else [])]
    found = re.fullmatch(r"write ('([^']|'')*'|\[.*\]|true|false|-?[\d.]+)( without quotes)?", hint)
    return [found[1]] if found else []


def _plain(source: str | int) -> Any:
    return _plain_text(source) if isinstance(source, str) else source


@cache
def _plain_text(source: str) -> Any:
    return yaml.load(source, yaml.CBaseLoader)
