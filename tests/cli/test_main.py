from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp import __version__
from genericdp.cli import main
from genericdp.cli.commands import COMMANDS

REPOSITORY = Path(__file__).parents[2]
THIS_MACHINE = REPOSITORY / "examples/configs/this-machine.yaml"

pytestmark = pytest.mark.slow


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(f"    {command} " in printed for command in COMMANDS)


@pytest.mark.parametrize("words", [["--help", "run"], ["-h"]], ids=" ".join)
def test_help_is_whole_whatever_stands_behind_it(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    whole = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().out == whole


def test_the_version_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"genericdp {__version__}\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "genericdp.v1alpha1.json"),
        (["-o", "json", "--kind=config"], "genericdp.v1alpha1.json"),
        (["--kind", "policy"], "genericdp-policy.v1alpha1.json"),
    ],
)
def test_the_schema_is_printed_as_it_is_shipped(
    words: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *words]) == 0
    assert capsys.readouterr().out == (REPOSITORY / "schemas" / name).read_text()


@pytest.mark.parametrize("words", ["--help", "--version", "frob", "completion bash"])
def test_what_reads_no_config_imports_nothing_for_it(words: str) -> None:
    """So that it takes no longer than Python needs to start."""
    heavy = ("asyncio", "grpc", "yaml", "jsonschema", "genericdp.config", "genericdp.devices")
    code = (
        "import sys\nfrom genericdp.cli import main\n"
        f"try: main({words.split()})\nexcept SystemExit: pass\n"
        f"sys.exit(', '.join(one for one in {heavy} if one in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_teaches_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert re.search(rf"example:\n  (sudo )?genericdp {command} ?", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], "the following arguments are required: COMMAND (see genericdp --help)"),
        (["frob"], "there is no command 'frob' (see genericdp --help)"),
        (
            ["vaildate", "x.yaml"],
            "there is no command 'vaildate' (did you mean validate?) (see genericdp --help)",
        ),
        (["cdi"], "the following arguments are required: COMMAND (see genericdp cdi --help)"),
        (["cdi", "frob"], "there is no command 'cdi frob' (see genericdp cdi --help)"),
        (
            ["cdi", "genrate", "--config=x"],
            "there is no command 'cdi genrate' (did you mean cdi generate?)"
            " (see genericdp cdi --help)",
        ),
        (["--verison"], "--verison (did you mean --version?) (see genericdp --help)"),
        (
            ["run", "--confg", "x"],
            "unrecognized arguments: --confg (did you mean --config?) (see genericdp run --help)",
        ),
        (["--", "run"], "the command has to come first: genericdp run (see genericdp --help)"),
        (["--"], "the following arguments are required: COMMAND (see genericdp --help)"),
        (
            ["--config", "a b", "run"],
            "the command has to come first: genericdp run --config 'a b' (see genericdp --help)",
        ),
        (
            ["--config", "x", "cdi", "watch"],
            "the command has to come first: genericdp cdi watch --config x (see genericdp --help)",
        ),
        (
            ["discover", "--config=a", "--config", "./a"],
            "argument --config: a is given twice (see genericdp discover --help)",
        ),
        (
            ["run", "--config=-", "--config=/dev/stdin"],
            "argument --config: stdin (-) is given twice (see genericdp run --help)",
        ),
        (
            ["validate"],
            "a config is required: PATH or --config (see genericdp validate --help)",
        ),
        (["validate", "-", "-"], "stdin (-) is given twice, but can be read only once"),
        (
            ["run", "--config=x", "--frob"],
            "unrecognized arguments: --frob (see genericdp run --help)",
        ),
        (
            ["discover", "serial.yaml", "x"],
            "unrecognized arguments: x (see genericdp discover --help)",
        ),
        (
            ["discover", "a.yaml", "b.yaml"],
            "unrecognized arguments: b.yaml (did you mean --config a.yaml --config b.yaml?)"
            " (see genericdp discover --help)",
        ),
        (
            ["discover", "--config=a.yaml", "b.yaml"],
            "unrecognized arguments: b.yaml (did you mean --config a.yaml --config b.yaml?)"
            " (see genericdp discover --help)",
        ),
        (
            ["explain", "serial.yaml"],
            "a config is required: FILE DEVICE, or --config PATH DEVICE"
            " (see genericdp explain --help)",
        ),
        (
            ["allocate", "a/b=1", "--root", "/x"],
            "a config is required: FILE RESOURCE=N, or --config PATH RESOURCE=N"
            " (see genericdp allocate --help)",
        ),
        (
            ["explain", "--config=x", "a", "b"],
            "unrecognized arguments: b (see genericdp explain --help)",
        ),
        (
            ["schema", "serial.yaml"],
            "unrecognized arguments: serial.yaml (see genericdp schema --help)",
        ),
        (["schema", "--odd"], "unrecognized arguments: --odd (see genericdp schema --help)"),
        (["run"], "a config is required: FILE or --config (see genericdp run --help)"),
        (["run", "--config=x", "--log-level=loud"], "(see genericdp run --help)"),
        (["discover", "--config"], "expected one argument (see genericdp discover --help)"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("genericdp: ")
    assert printed.err.rstrip().endswith(expected)


@pytest.mark.parametrize(
    ("setting", "argv"),
    [
        ("", ["run", "--config=x", "--log-format=json", "--frob"]),
        ("", ["simulate", "--log-format", "json", "--config=x", "--frob"]),
        ("json", ["run", "--config=x", "--frob"]),
    ],
)
def test_with_a_log_in_json_the_last_line_is_json_too(
    setting: str,
    argv: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash loop must not be the one thing that an alert on the level never sees."""
    monkeypatch.setenv("GENERICDP_LOG_FORMAT", setting)
    assert main(argv) == 2
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"]) == (
        "error",
        f"unrecognized arguments: --frob (see genericdp {argv[0]} --help)",
    )
    assert line["time"].endswith("+00:00")


def test_only_commands_with_a_log_have_its_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod that logs JSON, ``kubectl exec … genericdp validate`` is for people."""
    monkeypatch.setenv("GENERICDP_LOG_FORMAT", "json")
    for name, command in COMMANDS.items():
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
        assert ("--log-format" in capsys.readouterr().out) == command.until_signaled, name
    assert main(["validate", "--frob", "x"]) == 2
    assert capsys.readouterr().err.startswith("genericdp: ")


def test_a_reader_that_goes_away_is_no_failure() -> None:
    """``genericdp schema | head -1``."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        ended = subprocess.run(
            [sys.executable, "-m", "genericdp", "schema"],
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


FUSE = str(REPOSITORY / "examples/configs/fuse.yaml")


def run(words: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m genericdp "$@" {redirection}', sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_a_full_disk_is_told_of_help_and_version_too(
    word: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    ended = run([word], ">/dev/full")
    said = "genericdp: stdout cannot be written: no space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, said)


@pytest.mark.parametrize("words", [["schema"], ["--help"], ["--version"], ["run", "--help"]])
def test_a_closed_stdout_is_one_line_and_exit_code_1(words: list[str]) -> None:
    """Of all commands: test_bad_places.py. Here the shell has closed it."""
    ended = run(words, ">&-")
    said = "genericdp: stdout is closed: there is nowhere to print to\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_messages_do_not_go_to_stdout_where_stderr_is_closed() -> None:
    ended = run(["discover"], "2>&-")
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.parametrize(
    "setting",
    [
        "LC_ALL=C",
        "LC_ALL=C PYTHONIOENCODING=ascii",
        "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
    ],
    ids=["utf-8", "ascii", "ascii-paths"],
)
def test_no_locale_is_in_the_way_of_any_character(setting: str, tmp_path: Path) -> None:
    (tmp_path / "root/dev").mkdir(parents=True)
    (tmp_path / "root/sys/devices").mkdir(parents=True)
    (tmp_path / "root/dev/é").touch()
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    ended = subprocess.run(
        ["env", *setting.split(), sys.executable, "-c", EACH, tmp_path / "root", config],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.isascii() or "=ascii" not in setting


EACH = """
import sys
from genericdp.cli import main
root, config = sys.argv[1:]
for command, *words in (
    ("discover", f"--root={root}", f"--config={config}"),
    ("explain", f"--root={root}", f"--config={config}", "/dev/\\xe9"),
    ("validate", config),
    ("simulate", "--once", f"--root={root}", f"--config={config}"),
):
    sys.argv[1:] = command, *words
    assert main() == 0, command
"""
"""A process for all of them: to start one takes longer than what it does."""
CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/plain
    match: [{path: "/dev/é", type: file}]
    inject: {env: {"NAME": "é"}}
"""


def test_run_offers_no_devices_of_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a new user: the node's kubelet was offered another machine's devices."""
    (tmp_path / "node.tar.gz").touch()
    assert main(["run", f"--config={FUSE}", f"--root={tmp_path / 'node.tar.gz'}"]) == 2
    assert "is a snapshot, whose devices are not this machine's" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("hardware", 143),
        (f"probe --config {THIS_MACHINE}", 143),
        (f"simulate --once --config {THIS_MACHINE}", 0),
    ],
)
def test_a_signal_just_before_the_event_loop_runs_ends_without_a_word(
    words: str, code: int
) -> None:
    """Python would complain of a coroutine that never ran."""
    script = (
        "import asyncio, os, signal, sys\n"
        "from genericdp.cli import main\n"
        "def signaled(make=asyncio.events.new_event_loop):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return make()\n"
        "asyncio.events.new_event_loop = signaled\n"
        "sys.exit(main())"
    )
    argv = [sys.executable, "-c", script, *words.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
