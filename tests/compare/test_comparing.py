"""``tools/compare`` finds a change that a user can see."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tools.compare.__main__ import Comparison
from tools.compare.jobs import all_jobs
from tools.compare.sides import ROOT, Side

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.compare.jobs import Job

pytestmark = pytest.mark.slow


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as a wheel has it."""
    directory = tmp_path / "package"
    shutil.copytree(
        ROOT / "genericdp", directory / "genericdp", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "schemas", directory / "genericdp/schemas")
    return directory


@pytest.fixture
def comparison(package: Path) -> Iterator[Comparison]:
    comparing = Comparison(Side("base", package), Side("current", ROOT))
    yield comparing
    comparing.close()


def job_of(directory: Path, name: str) -> Job:
    directory.mkdir()
    return next(job for job in all_jobs(("hosts",), 0, 0, directory) if job.name == name)


def test_a_changed_word_is_shown_with_the_commands_that_show_it_again(
    comparison: Comparison, package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = package / "genericdp/schemas/genericdp.v1alpha1.json"
    schema.write_text(schema.read_text().replace('"resources"', '"resourcez"'))
    comparison.run(job_of(tmp_path / "scratch", "host can with its example"))
    told = capfd.readouterr().out
    assert comparison.differences
    assert "DIFFERENT: host can with its example: validate" in told
    assert f"PYTHONPATH={package} " in told
    assert " -m genericdp discover --config " in told


def test_generated_pairs_find_another_default_permission(
    comparison: Comparison, package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for file in (package / "genericdp").rglob("*.py"):
        file.write_text(file.read_text().replace('"rw"', '"rwm"'))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for job in all_jobs(("generated",), 20, 1, scratch):
        comparison.run(job)
        if comparison.differences:
            break
    assert '"permissions": "rwm"' in capfd.readouterr().out
