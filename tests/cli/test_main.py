from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from genericdp import __version__
from genericdp.cli import main
from genericdp.cli.commands import COMMANDS

REPOSITORY = Path(__file__).parents[2]
THIS_MACHINE = REPOSITORY / "examples/configs/this-machine.yaml"

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.slow


def help_of(words: str, capsys: Capture) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_command_whatever_stands_behind_it(capsys: Capture) -> None:
    whole = help_of("--help", capsys)
    assert all(f"    {command} " in whole for command in COMMANDS)
    assert help_of("--help run", capsys) == help_of("-h", capsys) == whole


def test_the_version_is_an_option(capsys: Capture) -> None:
    assert help_of("--version", capsys) == f"genericdp {__version__}\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "genericdp.v1alpha1.json"),
        (["-o", "json", "--kind=config"], "genericdp.v1alpha1.json"),
        (["--kind", "policy"], "genericdp-policy.v1alpha1.json"),
    ],
)
def test_the_schema_is_printed_as_it_is_shipped(
    words: list[str], name: str, capsys: Capture
) -> None:
    assert main(["schema", *words]) == 0
    assert capsys.readouterr().out == (REPOSITORY / "schemas" / name).read_text()


def test_what_reads_no_config_imports_nothing_for_it() -> None:
    """So that it takes no longer than Python needs to start."""
    heavy = ("asyncio", "grpc", "yaml", "jsonschema", "genericdp.config", "genericdp.devices")
    code = (
        "import contextlib, sys\nfrom genericdp.cli import main\n"
        "for words in (['--help'], ['--version'], ['frob'], ['completion', 'bash']):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):\n"
        "        main(words)\n"
        f"    found = [name for name in {heavy} if name in sys.modules]\n"
        "    if found: sys.exit(f'{words}: {found}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_teaches_with_an_example(command: str, capsys: Capture) -> None:
    example = rf"example:\n  (sudo )?genericdp {command} ?"
    assert re.search(example, help_of(f"{command} --help", capsys))


BAD_USAGE = {
    "": "the following arguments are required: COMMAND",
    "frob": "there is no command 'frob'",
    "vaildate x.yaml": "there is no command 'vaildate' (did you mean validate?)",
    "--verison": "unrecognized arguments: --verison (did you mean --version?)",
    "-- run": "the command has to come first: genericdp run",
    "--": "the following arguments are required: COMMAND",
    "--config 'a b' run": "the command has to come first: genericdp run --config 'a b'",
    "--config x cdi watch": "the command has to come first: genericdp cdi watch --config x",
    "cdi": "the following arguments are required: COMMAND",
    "cdi frob": "there is no command 'cdi frob'",
    "cdi genrate --config=x": "there is no command 'cdi genrate' (did you mean cdi generate?)",
    "run --confg x": "unrecognized arguments: --confg (did you mean --config?)",
    "run --config=x --frob": "unrecognized arguments: --frob",
    "run --config=- --config=/dev/stdin": "argument --config: stdin (-) is given twice",
    "run": "a config is required: FILE or --config",
    "discover --config=a --config ./a": "argument --config: a is given twice",
    "discover --config": "argument --config: expected one argument",
    "discover serial.yaml x": "unrecognized arguments: x",
    "discover a.yaml b.yaml": "unrecognized arguments: b.yaml"
    " (did you mean --config a.yaml --config b.yaml?)",
    "discover --config=a.yaml b.yaml": "unrecognized arguments: b.yaml"
    " (did you mean --config a.yaml --config b.yaml?)",
    "validate": "a config is required: PATH or --config",
    "explain serial.yaml": "a config is required: FILE DEVICE, or --config PATH DEVICE",
    "explain --config=x a b": "unrecognized arguments: b",
    "allocate a/b=1 --root /x": "a config is required: FILE RESOURCE=N, or --config PATH"
    " RESOURCE=N",
    "allocate": "the following arguments are required: RESOURCE=N",
    "schema serial.yaml": "unrecognized arguments: serial.yaml",
    "schema --odd": "unrecognized arguments: --odd",
}
"""What is said of a command line, before it says which help to see."""


@pytest.mark.parametrize("line", BAD_USAGE)
def test_bad_usage_is_one_line_and_exit_code_2(line: str, capsys: Capture) -> None:
    words = shlex.split(line)
    assert main(words) == 2
    out, err = capsys.readouterr()
    command = words[0] if words and words[0] in {"cdi", *COMMANDS} else ""
    see = " ".join(["(see genericdp", *command.split(), "--help)"])
    assert (out, err) == ("", f"genericdp: {BAD_USAGE[line]} {see}\n")


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["run", "--config=x", "--log-level=loud"], "(see genericdp run --help)\n"),
        (["validate", "-", "-"], ": stdin (-) is given twice, but can be read only once\n"),
    ],
)
def test_other_bad_usage_is_too(words: list[str], end: str, capsys: Capture) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("genericdp: ")
    assert err.endswith(end)


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
    capsys: Capture,
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
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod that logs JSON, ``kubectl exec … genericdp validate`` is for humans."""
    monkeypatch.setenv("GENERICDP_LOG_FORMAT", "json")
    for name, command in COMMANDS.items():
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
        assert ("--log-format" in capsys.readouterr().out) == command.until_signaled, name
    assert main(["validate", "--frob", "x"]) == 2
    assert capsys.readouterr().err.startswith("genericdp: ")


FUSE = str(REPOSITORY / "examples/configs/fuse.yaml")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("--help >/dev/full", 1, "stdout cannot be written: no space left on device"),
        ("--version >/dev/full", 1, "stdout cannot be written: no space left on device"),
        ("schema >&-", 1, "stdout is closed: there is nowhere to print to"),
        ("discover 2>&-", 2, ""),
    ],
)
def test_what_cannot_be_printed_is_a_line_and_an_exit_code(line: str, code: int, said: str) -> None:
    """All commands are in test_bad_places.py. Here a shell does it, and Python does not buffer."""
    script = f'PYTHONUNBUFFERED=1 exec "$0" -m genericdp {line}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = f"genericdp: {said}\n" if said else ""
    assert (done.returncode, done.stdout, done.stderr) == (code, "", expected)


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


def test_run_offers_no_devices_of_a_snapshot(tmp_path: Path, capsys: Capture) -> None:
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
