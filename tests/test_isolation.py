"""A test that leaves something changed, and a test that is skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "import logging, os, signal\nfrom genericdp.cli import main\n"
ROOT_LOGGER, LOGGER = "logging.getLogger()", "logging.getLogger('genericdp.x')"
LEAVING = [
    # what a test leaves, and whether the next test has it undone
    (
        f"{ROOT_LOGGER}.addHandler(logging.StreamHandler())",
        f"'StreamHandler' not in str({ROOT_LOGGER}.handlers)",
    ),
    (f"{LOGGER}.setLevel('ERROR')", f"{LOGGER}.level == 0"),
    (f"{LOGGER}.addFilter(lambda record: False)", f"not {LOGGER}.filters"),
    (
        f"from genericdp.status.state import Events; {ROOT_LOGGER}.addHandler(Events())",
        f"'Events' not in str({ROOT_LOGGER}.handlers)",
    ),
    ("os.environ['LEFT'] = '1'", "'LEFT' not in os.environ"),
    ("del os.environ['PATH']", "'PATH' in os.environ"),
    ("os.chdir('/')", "os.getcwd() != '/'"),
    ("os.umask(0o007)", "os.umask(0o022) != 0o007"),
    (
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL",
    ),
]
LEFT_BY_MAIN = (
    "assert main(['validate', '--log-level=debug', '/no/such/file']) == 2",
    f"'Lines' not in str([one.formatter for one in {ROOT_LOGGER}.handlers])",
)


def run_pytest(directory: Path, conftest: str, tests: str, **environment: str) -> tuple[int, str]:
    """Run tests of their own; return the exit code, and what was said."""
    (directory / "conftest.py").write_text(conftest)
    (directory / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (directory / "test_it.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_what_a_test_leaves_fails_it_and_is_gone_in_the_next_one(tmp_path: Path) -> None:
    """A test of the kernel log failed by a handler that another test had left, and closed."""
    pairs = [*LEAVING, LEFT_BY_MAIN]
    tests = (
        f"def test_{number}():\n    {leave}\ndef test_after_{number}():\n    assert {gone}\n"
        for number, (leave, gone) in enumerate(pairs)
    )
    conftest = "from tests.conftest import _isolated\n"
    _, said = run_pytest(tmp_path, conftest, HEAD + "".join(tests))
    failed = [line.split()[1] for line in said.splitlines() if line.startswith("ERROR ")]
    assert failed == [f"test_it.py::test_{number}" for number in range(len(LEAVING))], said
    assert f"{2 * len(pairs)} passed, {len(LEAVING)} errors" in said


SKIPPED = """
import pytest
@pytest.mark.skipif(True, reason="there is no chromium on this machine")
def test_page(): pass
def test_files(): pytest.skip("needs root to give files away")
def test_old(): pytest.skip("asyncio chooses by itself")
def test_good(): pass
"""


def test_in_ci_a_skip_is_a_failure_unless_it_was_agreed_on(tmp_path: Path) -> None:
    hooks = "pytest_runtest_makereport, pytest_terminal_summary"
    code, said = run_pytest(tmp_path, f"from tests.skipping import {hooks}\n", SKIPPED, CI="true")
    assert code == 1
    assert "skipped, though nothing may be with CI set: needs root to give" in said
    assert "skipped 1 test: asyncio chooses by itself" in said
    assert "1 failed, 1 passed, 1 skipped, 1 error" in said, said
