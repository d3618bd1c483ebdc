"""``tools/compare``: equal packages do not differ, and a change that a user can see is found."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tools.compare.__main__ import Comparison
from tools.compare.generating import config_for, facts_of
from tools.compare.jobs import all_jobs
from tools.compare.sides import ROOT, Side

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.compare.jobs import Job


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as a wheel has it."""
    folder = tmp_path / "package"
    shutil.copytree(
        ROOT / "genericdp", folder / "genericdp", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "schemas", folder / "genericdp/schemas")
    return folder


@pytest.fixture
def comparison(package: Path) -> Iterator[Comparison]:
    comparing = Comparison(Side("base", package), Side("current", ROOT))
    yield comparing
    comparing.close()


def job_of(folder: Path, name: str) -> Job:
    folder.mkdir()
    return next(job for job in all_jobs(("hosts",), 0, 0, folder) if job.name == name)


def test_equal_packages_do_not_differ(
    comparison: Comparison, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    comparison.run(job_of(tmp_path / "scratch", "host can with its example"))
    assert comparison.commands > 3
    assert (comparison.differences, capfd.readouterr().out) == (0, "")


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


def test_a_seed_decides_a_generated_config_and_most_of_them_are_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    jobs = list(all_jobs(("generated",), 40, 7, scratch))
    valid = sum(main(["validate", str(job.config)]) == 0 for job in jobs)
    capsys.readouterr()
    assert valid > len(jobs) / 2
    facts = facts_of(jobs[0].root)
    assert config_for(Random("7/0"), facts) == config_for(Random("7/0"), facts)
