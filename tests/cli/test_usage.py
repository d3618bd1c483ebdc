"""Command lines: help, mistakes, what stands for the config, and failures."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp import __version__
from genericdp.cli.command_line import parse
from genericdp.cli.commands import COMMANDS
from genericdp.cli.parser import unknown_variables, variable

if TYPE_CHECKING:
    from tests.cli.asking import Ask

REPOSITORY = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def ended(*argv: object) -> subprocess.CompletedProcess[str]:
    words = [*map(str, argv)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_help_names_every_command_whatever_stands_behind_it(ask: Ask) -> None:
    whole = ask("--help").out
    assert all(f"    {command} " in whole for command in COMMANDS)
    assert ask("--help run").out == ask("-h").out == whole
    assert ask("--version").out == f"genericdp {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_and_the_options_that_it_has_variables_for(
    name: str, ask: Ask
) -> None:
    command, shown = COMMANDS[name], ask(f"{name} --help").out
    assert re.search(rf"example:\n  (sudo )?genericdp {name} ?", shown)
    found = re.findall(r"^  (?:-\w[^-]*)?(--[a-z-]+)", shown, re.MULTILINE)
    options = [word for word in command.arguments if word.startswith("--")]
    assert found == ["--help", *options]
    assert list(unknown_variables({variable(option): "x" for option in options})) == []
    assert ("--log-format" in options) == command.until_signaled


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "genericdp.v1alpha1.json"),
        ("-o json --kind=config", "genericdp.v1alpha1.json"),
        ("--kind policy", "genericdp-policy.v1alpha1.json"),
    ],
)
def test_the_schema_is_printed_as_it_is_shipped(words: str, name: str, ask: Ask) -> None:
    assert ask(f"schema {words}").out == (REPOSITORY / "schemas" / name).read_text()


BAD_USAGE = {
    "": "the following arguments are required: COMMAND",
    "lint x.yaml": "there is no command 'lint' (did you mean validate?)",
    "validate -f x.yaml": "unrecognized arguments: -f (a config is given without it, as FILE)",
    "--verison": "unrecognized arguments: --verison (did you mean --version?)",
    "-- run": "the command has to come first: genericdp run",
    "--config 'a b' run": "the command has to come first: genericdp run --config 'a b'",
    "--config x cdi watch": "the command has to come first: genericdp cdi watch --config x",
    "cdi": "the following arguments are required: COMMAND",
    "cdi genrate --config=x": "there is no command 'cdi genrate' (did you mean cdi generate?)",
    "cdi watch": "a config is required: FILE or --config",
    "run --confg x": "unrecognized arguments: --confg (did you mean --config?)",
    "run --config=- --config=/dev/stdin": "argument --config: stdin (-) is given twice",
    "discover --config=a --config ./a": "argument --config: a is given twice",
    "discover --config": "argument --config: expected one argument",
    "discover a.yaml b.yaml": "unrecognized arguments: b.yaml"
    " (did you mean --config a.yaml --config b.yaml?)",
    "discover --\u202eevil\x1b[31m": r"unrecognized arguments: --\u202eevil\x1b[31m",
    "validate": "a config is required: PATH or --config",
    "explain serial.yaml": "a config is required: FILE DEVICE, or --config PATH DEVICE",
    "allocate a/b=1 --root /x": "a config is required: FILE RESOURCE=N, or --config PATH"
    " RESOURCE=N",
}
"""What is said of a command line, before it says which help to see."""


@pytest.mark.parametrize("line", BAD_USAGE)
def test_bad_usage_is_one_line_and_exit_code_2(line: str, ask: Ask) -> None:
    words = shlex.split(line)
    command = words[0] if words and words[0] in {"cdi", *COMMANDS} else ""
    command += " watch" * (line == "cdi watch")
    see = " ".join(["(see genericdp", *command.split(), "--help)"])
    assert ask(line, code=2) == ("", f"genericdp: {BAD_USAGE[line]} {see}\n")


A_PATH = "an empty path"
DRIVER = "is not a DRA driver's name"
ADDRESS = "not of the form HOST:PORT"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --config=x --log-level=loud", "(see genericdp run --help)\n"),
        ("run --config=-", "genericdp: run takes no config from stdin"),
        ("cdi watch --config=-", "cdi watch takes no config from stdin: it is read again"),
        ("validate - -", ": stdin (-) is given twice, but can be read only once\n"),
        ("validate /dev/fd/7777", "/dev/fd/7777 cannot be read"),
        # As ``--config "$UNSET"`` gives it: it is not the current directory.
        ("discover --config ''", A_PATH),
        *((f"run --config=none.yaml --{option}=", A_PATH) for option in ("policy", "state-dir")),
        # Found by a new user: the node's kubelet was offered another machine's devices.
        ("run --config=config.yaml --root=node.tar.gz", "a snapshot, whose devices are not this"),
        (f"run --config=x --pod-resources=/{'x' * 107}", "at most 107: reach it under a shorter"),
        # Specs there outlast a reboot.
        ("cdi generate config.yaml --output=/etc/cdi", "use --static if the devices never change"),
        ("cdi generate config.yaml --output=/etc/../etc/cdi", "use --static if the devices never"),
        ("cdi generate config.yaml --output=config.yaml", "--output config.yaml is not a direc"),
        ("explain --config any.yaml ''", "DEVICE is an empty string"),
        ("explain /dev/null c.yaml", "'c.yaml' is a config: it comes before DEVICE"),
        ("validate --policy=-", "a policy has to be a file"),
        ("convert c.yaml", "--from"),
        *(
            (f"deviceclasses --config x '--dra-driver={name}'", f"{name!r} {DRIVER}")
            for name in ("Dra.example.com", "a/b", "-a", "a..b", "")
        ),
        ("status --address=9733", ADDRESS),
        ("status --address=http://h:1", ADDRESS),
    ],
)
def test_what_cannot_be_meant_is_a_line_and_exit_code_2(line: str, said: str, ask: Ask) -> None:
    ask.write("node.tar.gz", "")
    ask.config("name: a/b, match: [{path: /dev/x}]")
    out, err = ask(line, code=2)
    assert said in f"{out}{err}"
    assert (out + err).count("\n") <= 2


@pytest.mark.parametrize(
    ("variable", "line", "config", "other"),
    [
        ("", "run c.yaml", "c.yaml", None),
        ("", "cdi watch c.yaml", "c.yaml", None),
        ("", "explain c.yaml --root /x /dev/fuse", "c.yaml", "/dev/fuse"),
        ("", "explain --config c.yaml /dev/fuse", "c.yaml", "/dev/fuse"),
        ("", "probe c.yaml", "c.yaml", None),
        ("", "probe c.yaml a/b", "c.yaml", "a/b"),
        ("", "allocate c.yaml --root /x a/b=1", "c.yaml", ["a/b=1"]),
        ("", "allocate a/b=1 --config c.yaml c/d=2", "c.yaml", ["a/b=1", "c/d=2"]),
        ("v.yaml", "discover c.yaml", "c.yaml", None),
        ("v.yaml", "probe a/b", "v.yaml", "a/b"),
        ("v.yaml", "probe c.yaml a/b", "c.yaml", "a/b"),
        ("v.yaml", "allocate a/b=1 c/d=2", "v.yaml", ["a/b=1", "c/d=2"]),
    ],
)
def test_the_first_argument_is_the_config_where_no_other_is_given(
    variable: str, line: str, config: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the variable gives one, if an argument is left."""
    if variable:
        monkeypatch.setenv("GENERICDP_CONFIG", variable)
    given = vars(parse(line.split()))
    key = {"explain": "device", "probe": "resource"}.get(given["command"], "amounts")
    assert ([*map(str, given["config"])], given.get(key)) == ([config], other)


@pytest.mark.parametrize(
    ("setting", "argv"),
    [
        ("", "run --config=x --log-format=json --frob"),
        ("json", "run --config=x --frob"),
    ],
)
def test_with_a_log_in_json_the_last_line_is_json_too(
    setting: str, argv: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash loop must not be the one thing that an alert on the level never sees."""
    monkeypatch.setenv("GENERICDP_LOG_FORMAT", setting)
    line = json.loads(ask(argv, code=2).err)
    said = f"unrecognized arguments: --frob (see genericdp {argv.split()[0]} --help)"
    assert (line["level"], line["message"]) == ("error", said)
    assert line["time"].endswith("+00:00")
    # In a pod that logs JSON, ``kubectl exec … genericdp validate`` is for humans.
    assert ask("validate --frob x", code=2).err.startswith("genericdp: ")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("--help >/dev/full", 1, "stdout cannot be written: no space left on device"),
        ("schema >&-", 1, "stdout is closed: there is nowhere to print to"),
        ("discover 2>&-", 2, ""),
    ],
)
def test_what_cannot_be_printed_is_a_line_and_an_exit_code(line: str, code: int, said: str) -> None:
    """All commands are in test_bad_places.py. Here a shell does it, and Python does not buffer."""
    script = f'PYTHONUNBUFFERED=1 exec "$0" -m genericdp {line}'
    done = ended("sh", "-c", script, sys.executable)
    expected = f"genericdp: {said}\n" if said else ""
    assert (done.returncode, done.stdout, done.stderr) == (code, "", expected)


EACH = """
import sys
from genericdp.cli import main
for words in ("discover", "explain /dev/\\xe9", "simulate --once"):
    sys.argv[1:] = [*words.split(), "--config=config.yaml", "--root=root"]
    assert main() == 0, words
"""
"""A process for all of them: to start one takes longer than what it does."""


@pytest.mark.parametrize(
    "setting", ["PYTHONIOENCODING=ascii", "PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"]
)
def test_no_locale_is_in_the_way_of_any_character(setting: str, ask: Ask) -> None:
    for path in ("root/dev/é", "root/sys/devices/x"):
        ask.write(path, "")
    ask.config('name: a/b, match: [{path: "/dev/é", type: file}], inject: {env: {"NAME": "é"}}')
    done = ended("env", "LC_ALL=C", *setting.split(), sys.executable, "-c", EACH)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() or "=ascii" not in setting


EVIL = "a\u202eb\x1b.yaml"
CONFIG = "name: example.com/evil, match: [{path: /dev/null}]"


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("explain c.yaml '\x1b[31mttyE9\u202e'", r"\x1b[31mttyE9\u202e is not offered"),
        ("allocate c.yaml example.com/evil=1 --id '\x1b[31m'", r"\x1b[31m"),
        ("validate key.yaml", r'.resources[0]["\u202egnp'),
        *((f"{words} '{EVIL}'", r"a\u202eb\x1b.yaml")
          for words in ("validate", "discover --config", "convert --from squat", "init")),
    ],
    ids=ascii,
)  # fmt: skip
def test_no_command_prints_what_moves_a_cursor_or_turns_text_around(
    line: str, reported: str, ask: Ask
) -> None:
    """Names of hardware: tests/cases/hardware/escaped."""
    ask.config(CONFIG, name="c.yaml")
    ask.config(f'{CONFIG}, "\\u202egnp": 1', name="key.yaml")
    ask.write(EVIL, "resources: [")
    printed = "".join(ask(line, code=1 if line.startswith("explain") else 2))
    assert reported in printed
    assert printed.replace("\n", "").isprintable()
