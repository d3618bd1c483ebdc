"""The workflows of .github, and what their steps do that needs no runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp import __version__

from tests.deploy.rendering import CHART, ROOT, tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.deploy

WORKFLOWS = ROOT / ".github/workflows"


def test_actionlint_and_shellcheck_have_nothing_to_say() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("no shellcheck")
    files = sorted(WORKFLOWS.glob("*.yml"))
    assert files
    ended = subprocess.run(
        [tool("actionlint"), "-shellcheck", shellcheck, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout + ended.stderr, ended.returncode) == ("", 0)
    # actionlint compares what uses the action with it, but does not read its scripts.
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        subprocess.run([shellcheck, "--shell=bash", "-"], input=step["run"], text=True, check=True)


def test_the_action_installs_the_version_that_it_is(tmp_path: Path) -> None:
    install, _ = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", install["run"]],
        cwd=tmp_path,
        env={**os.environ, "ACTION": str(ROOT), "DIRECTORY": str(tmp_path / "genericdp")},
        check=True,
    )
    installed = tmp_path / "genericdp/bin/genericdp"
    said = subprocess.run([installed, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.split()[-1] == __version__


def run_step(job: str, name: str, directory: Path, **variables: str) -> None:
    """Run a step of the release as its runner does."""
    workflow = yaml.safe_load((WORKFLOWS / "release.yml").read_text())
    (script,) = (step["run"] for step in workflow["jobs"][job]["steps"] if step.get("name") == name)
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=directory,
        env={**os.environ, **variables},
        check=True,
    )


def test_the_released_chart_has_the_released_image(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "deploy/helm/genericdp")
    run_step(
        "chart",
        "Package the chart, with the image that was just pushed",
        tmp_path,
        PATH=f"{tool('helm').parent}:{os.environ['PATH']}",
        REGISTRY="registry.example/someone",
        DIGEST=f"sha256:{'0' * 64}",
    )
    assert [path.name for path in tmp_path.glob("dist/*")] == [f"genericdp-{__version__}.tgz"]


def test_the_notes_of_a_release_are_those_of_its_version(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\nNot yet.\n\n## 0.2.0\n\nThis.\n\n## 0.1.0\n\nLong ago.\n"
    )
    run_step(
        "publish",
        "Write the notes",
        tmp_path,
        VERSION="0.2.0",
        REGISTRY="registry.example/someone",
        IMAGE_DIGEST="sha256:1",
        CHART_DIGEST="sha256:2",
        BASE="python:slim@sha256:3",
        IDENTITY="https://example.com/workflow",
        GITHUB_REPOSITORY="someone/genericdp",
    )
    notes = (tmp_path / "notes.md").read_text()
    assert notes.startswith("\nThis.\n")
    assert "Long ago" not in notes
    assert "`registry.example/someone/genericdp:0.2.0@sha256:1`" in notes
    assert "| `python:slim@sha256:3` |" in notes
