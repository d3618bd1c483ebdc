from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest
@pytest.mark.skipif(True, reason="there is no chromium on this machine")
def test_page(): pass
def test_files(): pytest.skip("needs root to give files away")
def test_old(): pytest.skip("asyncio chooses by itself")
def test_good(): pass
"""


def test_in_ci_a_skip_is_a_failure_unless_it_was_agreed_on(tmp_path: Path) -> None:
    hooks = "pytest_runtest_makereport, pytest_terminal_summary"
    (tmp_path / "conftest.py").write_text(f"from tests.skipping import {hooks}\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir"]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "skipped, though nothing may be with CI set: needs root to give" in done.stdout
    assert "skipped 1 test: asyncio chooses by itself" in done.stdout
    assert "1 failed, 1 passed, 1 skipped, 1 error" in done.stdout, done.stdout
