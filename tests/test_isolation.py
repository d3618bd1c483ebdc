"""What a test leaves changed is undone, and fails it; what main sets up is undone only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "import logging, os, signal\nfrom genericdp.cli import main\n"
ROOT_LOGGER, LOGGER = "logging.getLogger()", "logging.getLogger('genericdp.x')"
LEAVING = [
    # what a test leaves, and whether it is gone in the next one
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


def test_what_a_test_leaves_fails_it_and_is_gone_in_the_next_one(tmp_path: Path) -> None:
    """A test of the kernel log failed by a handler that another test had left, and closed."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import _isolated\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    pairs = [*LEAVING, LEFT_BY_MAIN]
    (tmp_path / "test_it.py").write_text(
        HEAD
        + "".join(
            f"def test_{number}():\n    {leave}\ndef test_after_{number}():\n    assert {gone}\n"
            for number, (leave, gone) in enumerate(pairs)
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ERROR ")]
    assert failed == [f"test_it.py::test_{number}" for number in range(len(LEAVING))], done.stdout
    assert f"{2 * len(pairs)} passed, {len(LEAVING)} errors" in done.stdout
