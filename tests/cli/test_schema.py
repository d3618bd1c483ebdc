from __future__ import annotations

import json
from pathlib import Path

import pytest

from genericdp.cli import main

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"


@pytest.mark.parametrize(
    ("arguments", "name", "title"),
    [
        ([], "genericdp.v1alpha1.json", "genericdp config"),
        (["-o", "json", "--kind=config"], "genericdp.v1alpha1.json", "genericdp config"),
        (["--kind", "policy"], "genericdp-policy.v1alpha1.json", "genericdp policy"),
    ],
)
def test_the_schema_is_printed_as_it_is_shipped(
    arguments: list[str], name: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed == (SCHEMAS / name).read_text()
    assert json.loads(printed)["title"] == title
