from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest
@pytest.mark.skipif(True, reason="there is no chromium on this machine")
def test_page(): pass
def test_events(): pytest.skip("needs umockdev, python3-gi and gir1.2-umockdev-1.0 of Debian")
def test_files(): pytest.skip("needs root to give files away")
def test_old(): pytest.skip("asyncio chooses by itself")
def test_good(): pass
"""


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    hooks = "pytest_runtest_makereport, pytest_terminal_summary"
    (folder / "conftest.py").write_text(f"from tests.skipping import {hooks}\n")
    (folder / "test_it.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_line_names_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("skipped ")]
    assert line == (
        "skipped 4 tests: apt-get install chromium umockdev python3-gi gir1.2-umockdev-1.0;"
        " asyncio chooses by itself; needs root"
    )


def test_in_ci_a_skip_is_a_failure_unless_it_was_agreed_on(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1
    assert (
        "skipped, though nothing may be with CI set: needs root to give files away" in done.stdout
    )
    assert "2 failed, 1 passed, 1 skipped, 1 error" in done.stdout, done.stdout


def test_the_summary_of_pytest_stays_the_last_line(tmp_path: Path) -> None:
    assert run(tmp_path).stdout.rstrip().splitlines()[-1].startswith("1 passed, 4 skipped in ")
