from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from genericdp.cli import main
from genericdp.cli.loading import load_in_time
from genericdp.config.files import Loaded

from tests.cli.explain_output import HEAD
from tests.hosts.hosts import Host
from tests.programs import quiet_grpc

ROOT = Path(__file__).parent.parent.parent
INVALID = ROOT / "tests/configs/invalid"
VALID = ROOT / "tests/configs/valid"
SHORTEST = str(VALID / "shortest.yaml")
Output = pytest.CaptureFixture[str]


def _run(
    *arguments: str, stdin: str = "", shell: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it, maybe by bash, which knows ``<(…)``."""
    command = [sys.executable, "-m", "genericdp", *arguments]
    return subprocess.run(
        ["bash", "-c", f'"$@" {shell}', "bash", *command] if shell else command,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **environment},
        input=stdin,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )


def test_good_configs_are_counted_and_problems_sorted_by_file(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: exit 2 and all problems; ``return 0`` at the end of ``execute`` brings it back."""
    assert main(["validate", SHORTEST]) == 0
    assert capsys.readouterr().out == "1 file, 1 resource: valid\n"
    assert main(["validate", SHORTEST, str(VALID / "node-names")]) == 0
    assert capsys.readouterr().out == "3 files, 3 resources: valid\n"
    assert main(["validate", str(INVALID / "many-problems.yaml")]) == 2
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (6, "")
    monkeypatch.chdir(INVALID)
    assert main(["validate", "tabs.yaml", "a-list.yaml"]) == 2
    *files, total = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert (files, total) == (["a-list.yaml", "tabs.yaml"], "2 problems in 2 files")


def test_a_machine_is_read_only_if_it_is_named(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, root = tmp_path / "c.yaml", Host("pps").build(tmp_path)
    config.write_text(
        f"{HEAD}  - {{name: example.com/pps, match: [{{udev: {{subsystem: pps}}}}]}}\n"
    )
    assert main(["validate", "--strict", str(config)]) == 0
    assert capsys.readouterr().out == "1 file, 1 resource: valid\n"
    monkeypatch.setenv("GENERICDP_ROOT", str(root))
    assert main(["validate", "--strict", str(config)]) == 2
    assert "which can change at boot" in capsys.readouterr().out


def test_json_says_the_same(capsys: Output) -> None:
    assert main(["validate", "-o", "json", str(INVALID / "duplicate-key.yaml")]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    assert answer["problems"] == [
        {
            "file": str(INVALID / "duplicate-key.yaml"),
            "line": 8,
            "column": 5,
            "path": ".resources[0].replicas",
            "message": "duplicate key 'replicas', first on line 7",
            "hint": "",
        }
    ]
    assert main(["validate", "-o", "json", str(VALID / "all-of-it.yaml")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["valid"], answer["files"], answer["resources"]) == (True, 1, 1)
    assert len(answer["warnings"]) == 1


def test_strict_makes_a_warning_as_bad_as_a_problem(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = tmp_path / "disks.yaml"
    text = Path(SHORTEST).read_text().replace("replicas: 100", "replicas: 1")
    disks.write_text(text.replace("/dev/fuse", "/dev/sd*"))
    warning = f"{disks}:6:15: warning: .resources[0].match[0].path: the system's disk may be"
    for words, code, total in (
        ([], 0, "1 file, 1 resource: valid"),
        (["--strict"], 2, "1 file, 1 resource: valid, but 1 warning (--strict)"),
        (["--strict", SHORTEST], 2, "2 files, 2 resources: valid, but 1 warning (--strict)"),
        (["--strict", "-o", "json"], 2, "}"),
    ):
        assert main(["validate", *words, str(disks)]) == code
        out = capsys.readouterr().out
        assert out.splitlines()[-1] == total
        assert "-o" in words or out.startswith(f"{warning} among these (exclude it)\n")
    assert main(["validate", "--strict", SHORTEST]) == 0
    assert main(["validate", "--strict", str(INVALID / "duplicate-key.yaml")]) == 2
    root = f"--root={ROOT / 'tests/fixtures/laptop'}"
    for old, new, code in ((disks, SHORTEST, 0), (SHORTEST, disks, 2)):
        assert main(["validate", "--strict", "--diff", root, str(old), str(new)]) == code
    monkeypatch.setenv("GENERICDP_STRICT", "true")
    assert main(["validate", str(disks)]) == 2


def test_what_cannot_be_read_is_one_line_and_never_a_hang(
    short_directory: Path, capsys: Output
) -> None:
    os.mkfifo(short_directory / "fifo")
    (short_directory / "empty").mkdir()
    (short_directory / "binary").write_bytes(bytes(range(256)))
    (short_directory / "bomb").write_text("a: &a [" + "x," * 99 + "]\nb: [" + "*a," * 999 + "]\n")
    (short_directory / "deep").write_text("[" * 100_000)
    names = ["fifo", "empty", "binary", "bomb", "deep", "nothing"]
    assert main(["validate", *(str(short_directory / name) for name in names)]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert len(lines) == len(names) + 1
    for name in names:
        assert any(f"/{name}:" in line for line in lines)


def test_any_file_name_and_any_terminal_will_do(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\n\xc3\xa4.yaml")
    path.write_text("resources: 'ä€'\n")
    done = _run("validate", str(path), PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr == ""
    assert "\\xff\\n\\xe4.yaml:1:1" in done.stdout
    assert "not the string '\\xe4\\u20ac'" in done.stdout


def _on_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_config_can_come_on_stdin(
    name: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, code, said in (
        ((INVALID / "duplicate-key.yaml").read_text(), 2, "<stdin>:8:5: .resources[0].replicas: "),
        (Path(SHORTEST).read_text(), 0, "1 file, 1 resource: valid\n"),
    ):
        _on_stdin(monkeypatch, text)
        assert main(["validate", name]) == code
        assert capsys.readouterr().out.startswith(said)


def test_a_process_reads_its_stdin() -> None:
    done = _run("validate", "/dev/stdin", stdin=Path(SHORTEST).read_text())
    assert (done.returncode, done.stdout) == (0, "1 file, 1 resource: valid\n")


def test_configs_can_come_through_pipes_of_a_shell(capsys: Output) -> None:
    bad = INVALID / "duplicate-key.yaml"
    done = _run("validate", shell=f"<(cat {bad}) --config <(cat {SHORTEST})")
    assert done.returncode == 2
    assert re.match(r"/dev/fd/\d+:8:5: \.resources\[0\]\.replicas: duplicate key", done.stdout)
    assert done.stdout.endswith("1 problem in 1 file\n")
    assert main(["validate", "/dev/fd/7777"]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "/dev/fd/7777 cannot be read" in answer.err


def test_the_same_resource_in_two_files_is_a_problem_of_one_config_alone(
    tmp_path: Path, capsys: Output
) -> None:
    """As PATHs each is valid; the daemon, which is given both, would refuse them."""
    copy = str(VALID / "as-json.yaml")
    assert main(["validate", SHORTEST, copy]) == 0
    same = str(tmp_path / "copy.yaml")
    Path(same).write_text(Path(SHORTEST).read_text())
    together = ["--config", SHORTEST, "--config", same]
    capsys.readouterr()
    assert main(["validate", *together]) == 2
    assert "is already the name of" in capsys.readouterr().out
    assert main(["validate", copy, "--config", SHORTEST]) == 0
    assert capsys.readouterr().out == "2 files, 2 resources: valid\n"


def test_the_variable_of_the_config_counts_where_nothing_else_is_given(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", f"{SHORTEST}:{ROOT / 'examples/configs/tpm.yaml'}")
    assert main(["validate"]) == 0
    assert capsys.readouterr().out == "2 files, 2 resources: valid\n"
    assert main(["validate", SHORTEST]) == 0
    assert capsys.readouterr().out == "1 file, 1 resource: valid\n"


@pytest.mark.parametrize("pipe", ["stdin", "descriptor"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("discover", "example.com/fuse"),
        ("explain /dev/none", "there is no such device"),
        ("allocate example.com/fuse=1", "example.com/fuse:"),
        ("simulate --once", "example.com/fuse:  100"),
    ],
)
def test_other_commands_take_what_comes_through_a_pipe_too(
    words: str, said: str, pipe: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"--root={ROOT / 'tests/fixtures/laptop'}"
    text = (ROOT / "examples/configs/fuse.yaml").read_text()
    _on_stdin(monkeypatch, text)
    read, write = os.pipe()
    with os.fdopen(read), quiet_grpc():
        os.write(write, text.encode())
        os.close(write)
        config = "-" if pipe == "stdin" else f"/dev/fd/{read}"
        main([*words.split(), root, "--config", config])
    answer = capsys.readouterr()
    assert said in answer.out
    assert answer.err == ""


def test_the_daemon_wants_a_config_that_it_can_read_again(capsys: Output) -> None:
    assert main(["run", "--config=-"]) == 2
    assert capsys.readouterr().err.startswith("genericdp: run takes no config from stdin")


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
