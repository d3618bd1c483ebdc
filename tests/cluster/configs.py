"""Configs that the cluster's tests put in place of the first one."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.scenarios import FUSE, HEAD


def single(*more: str) -> str:
    """Give one with three shares of /dev/fuse and nothing else, but for more lines of it."""
    lines = (f"  - name: {FUSE}", "    match: [{path: /dev/fuse}]", "    replicas: 3", *more)
    return HEAD + "\n".join(lines) + "\n"


def many(count: int) -> str:
    """Give a config with this many resources, ``example.com/many-0`` and on, each of one device."""
    line = "  - {{name: example.com/many-{0}, match: [{{path: /dev/{1}}}]}}\n"
    nodes = sorted(path.name for path in Path("/dev").iterdir() if path.is_char_device())
    return HEAD + "".join(line.format(number, nodes[number]) for number in range(count))
