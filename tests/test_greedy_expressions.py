"""Expressions that take very long concern the resource that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.fixtures.make_tree import Tree
from tests.printed import resources_in
from tests.world import config, resource

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow


def test_one_resource_with_slow_expressions_does_not_keep_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each search is within its bounds; together they would take half a minute."""
    tree = Tree(tmp_path / "root")
    for number in range(8):
        tree.node(f"ttyS{number}", f"4:{64 + number}")
    (tmp_path / "root/big").write_text("ab" * 30_000)
    text = {"text": "$(value.big)$(device.name)", "regex": "[ab]*a[ab]{900}c"}
    greedy = resource(
        "example.com/greedy",
        "/dev/ttyS[0-6]",
        values={"big": {"file": "/big"}, **{f"v{i}": text for i in range(10)}},
        inject={"env": {f"V{i}": f"$(value.v{i}:-none)" for i in range(10)}},
    )
    file = tmp_path / "config.yaml"
    file.write_text(config(greedy, resource("example.com/modest", "/dev/ttyS*")))
    options = ["--config", str(file), "--root", str(tmp_path / "root"), "-o", "json"]
    assert main(["discover", *options]) == 0
    found = resources_in(capsys.readouterr().out)
    assert [device["id"] for device in found["example.com/modest"]["devices"]] == ["ttyS7"]
    (refusal,) = found["example.com/greedy"]["notOffered"]
    assert "its regular expressions take more than 2 s" in refusal["reason"]
