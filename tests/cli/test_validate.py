"""``genericdp validate``, and configs through pipes. What is found: tests/configs, tests/cases."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.loading import load_in_time
from genericdp.config.files import Loaded

from tests.hosts.hosts import Host

if TYPE_CHECKING:
    from tests.cli.asking import Ask

ROOT = Path(__file__).parent.parent.parent
INVALID = ROOT / "tests/configs/invalid"
VALID = ROOT / "tests/configs/valid"
SHORTEST = VALID / "shortest.yaml"
LAPTOP = ROOT / "tests/fixtures/laptop"
BAD = INVALID / "duplicate-key.yaml"
ONE = "1 file, 1 resource: valid\n"


def test_a_machine_is_read_only_if_it_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ask.config("name: example.com/pps, match: [{udev: {subsystem: pps}}]")
    assert ask("validate --strict", config).out == ONE
    monkeypatch.setenv("GENERICDP_ROOT", str(Host("pps").build(ask.directory)))
    monkeypatch.setenv("GENERICDP_STRICT", "true")
    assert "which can change at boot" in ask("validate", config, code=2).out
    # A directory is one config.
    assert ask("validate", SHORTEST, VALID / "node-names").out == "3 files, 3 resources: valid\n"


def test_what_cannot_be_read_is_one_line_and_never_a_hang(ask: Ask) -> None:
    os.mkfifo("fifo")
    Path("empty").mkdir()
    Path("binary").write_bytes(bytes(range(256)))
    ask.write("bomb", "a: &a [" + "x," * 99 + "]\nb: [" + "*a," * 999 + "]\n")
    ask.write("deep", "[" * 100_000)
    names = ["fifo", "empty", "binary", "bomb", "deep", "nothing"]
    said = ask("validate", *names, code=2)
    assert said.err == ""
    assert {line.partition(":")[0] for line in said.lines[:-1]} == {*names}
    assert len(said.lines) == len(names) + 1


def _on_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_configs_can_come_through_stdin_and_pipes_of_a_shell() -> None:
    script = f'"$@" - <(cat {BAD}) --config <(cat {SHORTEST}) <{SHORTEST}'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "genericdp", "validate"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    problem, total = done.stdout.splitlines()
    assert re.match(r"/dev/fd/\d+:8:5: \.resources\[0\]\.replicas: duplicate key", problem)
    assert total == "1 problem in 1 file"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("discover", 0, "example.com/fuse"),
        ("explain /dev/none", 1, "there is no such device"),
        ("allocate example.com/fuse=1", 0, "example.com/fuse:"),
        ("simulate --once", 0, "example.com/fuse:  100"),
    ],
)
def test_other_commands_take_what_comes_through_a_pipe_too(
    words: str, code: int, said: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_stdin(monkeypatch, (ROOT / "examples/configs/fuse.yaml").read_text())
    answer = ask(f"{words} --root={LAPTOP} --config -", code=code)
    assert said in answer.out
    assert answer.err == ""


def test_the_config_of_another_plugin_can_come_on_stdin(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_stdin(monkeypatch, "- devicematch: ^rtc0$\n  nummaxdevices: 20\n")
    assert "smarter-devices/rtc0" in ask("convert --from smarter -").out


def test_a_filesystem_that_does_not_answer_is_a_problem() -> None:
    answered = threading.Event()

    def load(*_: object, **__: object) -> list[Loaded]:
        answered.wait(20)
        return [Loaded()]

    (loaded,) = load_in_time([Path("/nfs/x.yaml")], seconds=0.05, load=load)
    (problem,) = loaded.problems
    answered.set()
    assert str(problem) == (
        "/nfs/x.yaml:1:1: loading the config took longer than 0.05 s:"
        " its filesystem hangs, or this machine is too busy"
    )


def test_no_text_ends_the_annotation_that_it_stands_in(ask: Ask) -> None:
    config = ask.write("50%,a::b=%0A.yaml", '"\\n::set-env": 1\n')
    line = ask("validate -o github", config, code=2).lines[-2]
    assert line.startswith("::error file=50%25%2Ca%3A%3Ab=%250A.yaml,line=1,col=1::")
    assert line.endswith("'x-%0A::set-env')")


@pytest.mark.parametrize(
    ("workspace", "working", "given", "file"),
    [
        (".", "sub", "bad.yaml", "sub/bad.yaml"),
        (".", "sub", "../bad.yaml", "bad.yaml"),
        ("sub", ".", "/bad.yaml", "/bad.yaml"),
        ("", "sub", "/sub/bad.yaml", "bad.yaml"),
    ],
)
def test_github_finds_files_from_the_top_of_the_repository(
    workspace: str, working: str, given: str, file: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad.yaml", "sub/bad.yaml"):
        ask.write(name, BAD.read_text())
    top = str(ask.directory)
    monkeypatch.setenv("GITHUB_WORKSPACE", workspace and str(ask.directory / workspace))
    monkeypatch.chdir(working)
    path, shown = (f"{top}{text}" if text.startswith("/") else text for text in (given, file))
    assert ask("validate -o github", path, code=2).out.startswith(f"::error file={shown},line=8,")


def test_what_has_no_lines_is_no_file_to_github(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    _on_stdin(monkeypatch, BAD.read_text())
    *lines, total = ask("validate -o github nothing -", code=2).lines
    assert [line.partition(".")[0] for line in lines] == [
        "::error::<stdin>:8:5: ",
        "::error::nothing:1:1: it does not exist",
    ]
    assert total == "2 problems in 2 files"


def test_github_gets_an_answer_from_a_deleted_directory(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ask.directory / "gone").mkdir()
    monkeypatch.chdir("gone")
    (ask.directory / "gone").rmdir()
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    assert ask("validate -o github", BAD, code=2).out.startswith(f"::error file={BAD},line=")
