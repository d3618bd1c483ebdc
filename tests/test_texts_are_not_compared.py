"""Human-readable strings are never compared or parsed: hardware and commands write them, too."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCT = Path(__file__).parents[1] / "genericdp"
CORE = ("devices", "health", "host", "kubelet", "dra", "cdi", "process", "status", "simulator")
FOR_PEOPLE = {"reason", "missing", "text"}
NO_TEXTS = {
    # The API server's: a code by its definition.
    "dra/driver.py: error.reason == 'NotFound'",
    # A path that the policy allows.
    "policy.py: rule.text == program",
    # Whether the same is logged again.
    "repeat.py: reason == self.reason",
}
_COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_PARSERS = {"startswith", "endswith", "find", "index", "split", "partition", "removeprefix"}


def _is_for_people(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in FOR_PEOPLE


def compared(code: str) -> Iterator[str]:
    """Yield each comparison of a field with a string for humans, and each attempt to parse one."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(op, _COMPARISONS) for op in node.ops) and any(
                map(_is_for_people, sides)
            ):
                yield ast.unparse(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _PARSERS
            and _is_for_people(node.func.value)
        ):
            yield ast.unparse(node)


def test_the_check_finds_what_it_is_for() -> None:
    code = "a = 'x' in one.text\nb = one.reason == X\nc = one.reason.startswith('list full')"
    assert len([*compared(code)]) == 3


def test_no_text_for_people_is_compared() -> None:
    found = {
        f"{path.relative_to(PRODUCT)}: {entry}"
        for path in (*PRODUCT.glob("*.py"), *(p for d in CORE for p in (PRODUCT / d).rglob("*.py")))
        for entry in compared(path.read_text())
    }
    assert found - NO_TEXTS == set()
