"""``genericdp discover``: what it needs, and what it does not do. What it shows: tests/cases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from genericdp.cli import main

from tests.cli.explain_output import HEAD

NAME = "example.com/null"
CONFIG = f"{HEAD}  - {{name: {NAME}, match: [{{path: /dev/null}}]}}\n"


def test_it_works_as_a_user_without_root() -> None:
    """In a process of its own, which gives root up first where it has it."""
    program = f"""
import contextlib, io, os, pathlib, sys, tempfile
from genericdp.cli import main
from tests.fixtures.make_tree import Tree

def discover():
    with tempfile.TemporaryDirectory() as directory:
        Tree(pathlib.Path(directory)).node("null", "1:3")
        config = pathlib.Path(directory, "config.yaml")
        config.write_text({CONFIG!r})
        return main(["discover", f"--root={{directory}}", f"--config={{config}}"])

if os.geteuid() == 0:
    # Once before, since afterwards the modules may not be readable any more.
    with contextlib.redirect_stdout(io.StringIO()):
        discover()
    os.chdir("/")
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert os.geteuid() != 0
sys.exit(discover())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split() == [NAME, "null", "Healthy", "/dev/null", "-"]


@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        ("", "has no directory dev (give --root a directory with dev/ and sys/ of a machine, or a"),
        ("absent", "absent does not exist (give --root"),
        ("file/dev", "file/dev does not exist (give --root"),
        ("file", "file: it is not a snapshot"),
        ("pipe", "pipe is neither a directory nor a file (give --root"),
    ],
)
def test_a_root_that_is_none_is_one_line(
    directory: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "c.yaml").write_text(CONFIG)
    words = [f"--root={tmp_path / directory}", f"--config={tmp_path / 'c.yaml'}"]
    assert main(["discover", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert complaint in printed.err


def test_no_probe_is_run_unasked_and_a_line_says_who_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran, config = tmp_path / "ran", tmp_path / "config.yaml"
    host = [f"--config={config}", "--node-name=n"]
    hint = f"\nnot probed: genericdp probe {config} --node-name n runs the probes\n"
    commands = (["discover"], ["explain", "/dev/null"], ["allocate", f"{NAME}=1"])
    for health, hints in ((f"{{exec: {{command: [/bin/touch, {ran}]}}}}", 1), ("", 0)):
        config.write_text(CONFIG.replace("match:", f"health: [{health}], match:"))
        for command in commands:
            assert main([*command, *host]) == 0
            printed = capsys.readouterr()
            assert (printed.out.count(hint), printed.err) == (hints, "")
    assert not ran.exists()
