from __future__ import annotations

import json
from pathlib import Path

import pytest

from genericdp.cli import main

SCHEMA = Path(__file__).parent.parent.parent / "schemas/genericdp.v1alpha1.json"


@pytest.mark.parametrize("arguments", [[], ["-o", "json"]])
def test_the_schema_is_printed_as_it_is_shipped(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed == SCHEMA.read_text()
    assert json.loads(printed)["title"] == "genericdp config"
