"""What a test leaves changed is undone, and fails it; what main sets up is undone only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "import logging, os, signal\nfrom genericdp.cli import main\n"
LEAVING = {
    "a log handler": (
        "logging.getLogger().addHandler(logging.StreamHandler())",
        "'StreamHandler' not in str(logging.getLogger().handlers)",
    ),
    "a level": (
        "logging.getLogger('genericdp.x').setLevel('ERROR')",
        "logging.getLogger('genericdp.x').level == 0",
    ),
    "a filter": (
        "logging.getLogger('genericdp.x').addFilter(lambda record: False)",
        "not logging.getLogger('genericdp.x').filters",
    ),
    "what the page shows": (
        "from genericdp.status.state import Events; logging.getLogger().addHandler(Events())",
        "'Events' not in str(logging.getLogger().handlers)",
    ),
    "a variable": ("os.environ['LEFT'] = '1'", "'LEFT' not in os.environ"),
    "a lost variable": ("del os.environ['PATH']", "'PATH' in os.environ"),
    "a working folder": ("os.chdir('/')", "os.getcwd() != '/'"),
    "a umask": ("os.umask(0o007)", "os.umask(0o022) != 0o007"),
    "a signal handler": (
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL",
    ),
}


LEFT_BY_MAIN = (
    "assert main(['validate', '--log-level=debug', '/no/such/file']) == 2",
    "'Lines' not in str([one.formatter for one in logging.getLogger().handlers])",
)


def test_what_a_test_leaves_fails_it_and_is_gone_in_the_next_one(tmp_path: Path) -> None:
    """A test of the kernel log failed by a handler that another test had left, and closed."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import _isolated\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    pairs = [*LEAVING.values(), LEFT_BY_MAIN]
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
