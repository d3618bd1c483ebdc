"""Each hint that says what to write is followed: what it says is not refused in turn.

``topology: off`` was answered with ``write 'off'``, which is not a topology either.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Content
from genericdp.config.policy import load_policy
from genericdp.config.schema import CONFIG, KINDS, resolved_schema

from tests.config.loading import loaded
from tests.config.mistakes import (
    changed,
    document_with,
    followed,
    part_at,
    renamed,
    value_at,
    values_of,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.errors import KeyPath, Problem

    from tests.config.mistakes import Tree

pytestmark = pytest.mark.slow

WRONG = (
    *("5", "010", "0x10", "1.0", "1e30", "0x403", "2024-01-01", "off", "~", "", "''", "x", "-x"),
    *("'4.0'", "'0x403'", "'03:00.0'", "'true'", "/dev/x", "Example.com/a", "path:/dev/x", "none_"),
    *("'403'", "'0302'", "'0403:6001'", "'RW'"),
    *("[]", "{}", "[x]", "{path: /dev/x}", "{-path: /dev/x}"),
)
"""What people write where something else is meant."""


def _values() -> dict[str, list[tuple[str, KeyPath]]]:
    """Return each kind of value of the schemas once: the kind of document and the place, by key."""
    known: set[tuple[object, str]] = set()
    values: dict[str, list[tuple[str, KeyPath]]] = {}
    for kind in KINDS:
        for path in values_of(schema := resolved_schema(kind)):
            meaning = path[-1:], json.dumps(part_at(schema, path))
            if meaning not in known:
                known.add(meaning)
                values.setdefault(f"{kind}-{'-'.join(map(str, path[2:3]))}", []).append(
                    (kind, path)
                )
    return values


VALUES = _values()


def problems_of(tree: Tree, kind: str) -> tuple[Problem, ...]:
    return _problems_of(written(tree), kind)


@cache
def _problems_of(text: str, kind: str) -> tuple[Problem, ...]:
    """Return them; of the same text once, since many hints lead to the same."""
    if kind == CONFIG:
        return loaded(text).problems
    return load_policy(Path("p.yaml"), Content(text=text.encode())).problems


def mistakes(kind: str, path: KeyPath) -> Iterator[Tree]:
    """Yield documents with one mistake each: in a value, in a template, or in the key."""
    tree = document_with(kind, path)
    assert problems_of(tree, kind) == (), written(tree)
    yield from (changed(tree, path, source) for source in WRONG)
    for text in ("$(device.path)", "/a$(device.name)"):
        if problems_of(changed(tree, path, text), kind) == ():
            yield changed(tree, path, text.replace("evi", "eiv"))
            yield changed(tree, path, f"{text[:-2]})")
            yield changed(tree, path, f"'{text[:-1]}:x)'")
    value = value_at(tree, path)
    if isinstance(value, str):
        yield changed(tree, path, value.swapcase())
    if path == ("resources",):
        yield changed(tree, path, {resource.pop("name"): resource for resource in value})
    if path and isinstance(key := path[-1], str):
        is_known = key in part_at(resolved_schema(kind), path[:-1]).get("properties", {})
        for word in (key[:-1], key * 2, key.upper()) if is_known else ("1", "on", "A=B"):
            if word and word not in value_at(tree, path[:-1]):
                yield renamed(tree, path, word)


def follow(tree: Tree, kind: str) -> int:
    """Follow each hint of a document; return how many said what to write."""
    count = 0
    before = problems_of(tree, kind)
    for problem in before:
        others = {item.message for item in before if item.path == problem.path} - {problem.message}
        for better in followed(tree, problem):
            count += 1
            left = [
                each_problem
                for each_problem in problems_of(better, kind)
                if each_problem.path == problem.path
            ]
            refused = [str(entry) for entry in left if entry.message not in others]
            assert not refused, f"{written(tree)}\n{problem}\n{written(better)}\n{refused}"
    return count


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_what_a_hint_says_to_write_is_not_refused_in_turn(
    values: list[tuple[str, KeyPath]],
) -> None:
    """This covers every value of the schemas, with every mistake."""
    count = sum(follow(tree, kind) for kind, path in values for tree in mistakes(kind, path))
    assert count >= len(values)
