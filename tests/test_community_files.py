"""Files for humans who report or contribute."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["genericdp"]


def test_the_security_policy_names_the_contact_that_is_set() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert SETTINGS["contact"] in text
    assert ("@" in text) == ("@" in SETTINGS["contact"])


@pytest.mark.parametrize(
    "form", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml")), ids=lambda form: form.name
)
def test_an_issue_form_asks_its_questions_and_the_first_is_required(form: Path) -> None:
    """The keys that the forms of issues have, and IDs that differ."""
    template = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(template)
    questions = [part for part in template["body"] if part["type"] != "markdown"]
    assert all(question["attributes"]["label"] for question in questions)
    assert len({question["id"] for question in questions}) == len(questions)
    assert questions[0]["validations"]["required"]


def test_the_hooks_of_pre_commit_run_what_make_lint_installs() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    programs = {hook["entry"].split()[0] for hook in local["hooks"]}
    assert programs == {f".venv/bin/{name}" for name in ("ruff", "lint-imports", "genericdp")}
