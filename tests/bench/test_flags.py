from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compare
from bench.flags import between, writable_file


@pytest.mark.parametrize("text", ["0.5", "nan", "-1", "101", "a", ""])
def test_a_number_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        between(1, 100)(text)


def test_a_number_within_them_is_taken() -> None:
    assert between(1, 100, int)("7") == 7


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    assert writable_file(str(tmp_path / "a.json")) == tmp_path / "a.json"
    for wrong in (tmp_path, tmp_path / "none" / "a.json"):
        with pytest.raises(argparse.ArgumentTypeError):
            writable_file(str(wrong))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"lines": [1]}', "none"])
def test_a_file_that_is_no_run_is_told(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert compare.main([str(file), str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_nothing_to_compare_is_no_agreement(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"lines": []}')
    assert compare.main([str(file), str(file)]) == 1


@pytest.mark.parametrize("ignored", [signal.SIG_IGN, signal.SIG_DFL])
def test_sigterm_ends_it_as_by_hand_also_where_a_script_runs_it_with_an_ampersand(
    ignored: signal.Handlers,
) -> None:
    """Such a shell has it ignore SIGINT, and so did it ignore SIGTERM."""
    program = (
        "import signal, sys\n"
        "from bench.flags import end_as_by_hand\n"
        "end_as_by_hand()\n"
        "try:\n"
        "    print('begins', flush=True)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, ignored),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 130
