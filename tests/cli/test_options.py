"""Flags that several commands share, and their variables."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main
from genericdp.cli.allocate import amounts_of
from genericdp.cli.command_line import parse
from genericdp.cli.commands import COMMANDS
from genericdp.cli.parser import unknown_variables, variable
from genericdp.cli.root import node_name_of
from genericdp.errors import UsageError

if TYPE_CHECKING:
    import argparse

REPOSITORY = Path(__file__).parents[2]
LAPTOP = REPOSITORY / "tests/fixtures/laptop"
FUSE = REPOSITORY / "examples/configs/fuse.yaml"
Capture = pytest.CaptureFixture[str]


def parsed(*argv: str) -> argparse.Namespace:
    return parse(["discover", *argv])


VARIABLES = {"CONFIG": "/a.yaml:/b", "ROOT": "/r", "NODE_NAME": "edge-1", "OUTPUT": "json"}
OPTIONS = ("--config=/x", "--config", "/y:z", "--root=/s", "--node-name=n", "--output=text")


@pytest.mark.parametrize(
    ("variables", "argv", "expected"),
    [
        (VARIABLES, (), (["/a.yaml", "/b"], "/r", "edge-1", "json")),
        (VARIABLES, OPTIONS, (["/x", "/y:z"], "/s", "n", "text")),
        ({"NODE_NAME": "", "OUTPUT": ""}, OPTIONS[:4], (["/x", "/y:z"], "/s", "other", "text")),
    ],
    ids=["each option has a variable", "an option counts before it", "an empty one is not one"],
)
def test_options_can_be_set_in_the_environment(
    variables: dict[str, str],
    argv: tuple[str, ...],
    expected: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NODE_NAME", "other")
    for name, text in variables.items():
        monkeypatch.setenv(f"GENERICDP_{name}", text)
    found = parsed(*argv)
    config = [str(path) for path in found.config]
    assert (config, str(found.root), node_name_of(found), found.output) == expected


def test_an_empty_variable_of_an_address_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Found by a new user: an empty GENERICDP_LISTEN in a unit's environment ended each start."""
    for option in ("listen", "address"):
        monkeypatch.setenv(variable(option), "")
    assert main(["run", "--config=none.yaml", "--root=/no/such/directory"]) == 2
    assert "/no/such/directory" in capsys.readouterr().err
    assert main(["status", "--address=127.0.0.1:1"]) == 1
    assert "nothing listens at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["policy", "config", "root", "kubelet-dir", "state-dir", "pod-resources"]
)
def test_an_empty_variable_of_a_path_is_as_wrong_as_the_empty_flag(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Else ``run`` is without the bounds that were requested."""
    monkeypatch.setenv(variable(option), "")
    assert main(["run", "--config=none.yaml"]) == 2
    assert capsys.readouterr().err.startswith(f"genericdp: {variable(option)} is ''")
    monkeypatch.delenv(variable(option))
    assert main(["run", "--config=none.yaml", f"--{option}="]) == 2
    assert "an empty path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["discover", "--config", ""], ["hardware", "--root", ""], ["validate", ""]]
)
def test_an_empty_path_is_not_the_current_directory(words: list[str], capsys: Capture) -> None:
    """As ``--config "$UNSET"`` gives it."""
    assert main(words) == 2
    assert "an empty path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("own", "plain", "expected"), [("a", "b", "a"), ("", "b", "b"), ("a", "", "a")]
)
def test_the_node_s_name_comes_from_the_flag_its_variable_or_node_name(
    own: str, plain: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERICDP_NODE_NAME", own)
    monkeypatch.setenv("NODE_NAME", plain)
    assert node_name_of(parsed("--config=x")) == expected


def test_without_any_name_it_is_the_host_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "Host-7.example.com")
    assert node_name_of(parsed("--config=x")) == "host-7.example.com"


@pytest.mark.parametrize(
    ("words", "name", "text", "said"),
    [
        ("schema", "OUTPUT", "xml", "is 'xml', but must be one of: text, json, yaml"),
        ("schema", "OUTPUT", "wide", "is 'wide', but must be one of: text, json, yaml"),
        ("discover", "CONFIG", ":", "is ':', which names nothing"),
        ("simulate --config=x", "ONCE", "1", "is '1', but must be one of: true, false"),
        ("simulate --config=x", "LOG_FORMAT", "C", "is 'C', but must be one of: text, json"),
        ("simulate --config=x", "ALLOCATE", "::", "is '::', which names nothing"),
    ],
)
def test_a_variable_with_what_its_option_does_not_take_is_told(
    words: str, name: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv(f"GENERICDP_{name}", text)
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"genericdp: GENERICDP_{name} {said}\n"


def test_a_variable_asks_only_commands_with_a_table_to_be_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "wide")
    assert main(["discover", f"--config={FUSE}", f"--root={LAPTOP}"]) == 0
    assert "DRIVER" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("texts", "amounts"),
    [
        (["example.com/a=1"], {"example.com/a": 1}),
        (["a=2", "b=3"], {"a": 2, "b": 3}),
        (["a=007"], {"a": 7}),
    ],
)
def test_amounts_are_taken_apart(texts: list[str], amounts: dict[str, int]) -> None:
    assert amounts_of(texts) == amounts


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_an_amount_needs_a_resource_and_a_number(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form RESOURCE=N"):
        amounts_of([text])


@pytest.mark.parametrize("count", ["", "0", "-1", "1.5", "x", "1 ", "²", "٣", "9" * 5000])
def test_an_amount_that_is_none_is_told_what_is_one(count: str) -> None:
    with pytest.raises(UsageError, match="N has to be a whole number from 1 to 999,999,999"):
        amounts_of([f"a={count}"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_that_its_variables_are_known_by(
    name: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    found = re.findall(r"^  (?:-\w[^-]*)?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    options = [word for word in COMMANDS[name].arguments if word.startswith("--")]
    assert found == ["--help", *options]
    assert list(unknown_variables({variable(option): "x" for option in options})) == []


def test_flags_and_lists_can_be_variables(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("GENERICDP_ALL", "true")
    monkeypatch.setenv("GENERICDP_ROOT", str(LAPTOP))
    assert main(["discover"]) == 0
    assert "/dev/fuse" in capsys.readouterr().out
    monkeypatch.setenv("GENERICDP_ALLOCATE", "a/b=1:c/d=2")
    monkeypatch.setenv("GENERICDP_ONCE", "true")
    taken = parse(["simulate", "--config=x"])
    assert (list(taken.amounts), taken.once) == (["a/b=1", "c/d=2"], True)
    replaced = parse(["simulate", "--config=x", "--allocate=e/f=3", "--allocate=g/h=4"])
    assert replaced.amounts == ["e/f=3", "g/h=4"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("GENERICDP_LOGLEVEL", "debug", [" (did you mean GENERICDP_LOG_LEVEL?)"]),
        ("GENERICDP_NODENAME", "n", [" (did you mean GENERICDP_NODE_NAME?)"]),
        ("GENERICDP_XYZZY", "n", [""]),
        ("GENERICDP_CONFIG ", "n", [" (did you mean GENERICDP_CONFIG?)"]),
        ("GENERICDP_XYZZY", "", []),
        ("GENERICDP_", "x", []),
        ("GENERICDP", "x", []),
        ("GENERICDP_ONCE", "x", []),
        ("GENERICDP_SERVICE_HOST", "10.0.0.1", []),
        ("GENERICDP_SERVICE_PORT_HTTP", "80", []),
        ("GENERICDP_WEB_SERVICE_PORT", "80", []),
        ("GENERICDP_PORT", "tcp://10.0.0.1:80", []),
        ("GENERICDP_PORT_80_TCP_ADDR", "10.0.0.1", []),
    ],
)
def test_a_variable_that_is_none_of_ours_is_told(name: str, text: str, said: list[str]) -> None:
    """Variables that Kubernetes sets if a service has our name are ignored."""
    expected = [f"the variable {name!r} means nothing to genericdp{hint}" for hint in said]
    assert list(unknown_variables({name: text})) == expected


HOSTILE = (
    "VERSION=1 CONFIG=x ROOT=/nowhere OUTPUT=json LOG_LEVEL=loud LISTEN=:1 "
    "KUBELET_DIR=/nowhere HELP=1 DOMAIN=x ALLOCATE=x ONCE=1 GENERICDP=x GENERICDP_=x "
    "genericdp_output=json"
)
MISSPELT = (
    "the variable 'GENERICDP_LOGLEVEL' means nothing to genericdp"
    " (did you mean GENERICDP_LOG_LEVEL?)"
)


@pytest.mark.parametrize(
    "words", [["schema"], ["discover", f"--root={LAPTOP}", f"--config={FUSE}", "--node-name=n"]]
)
def test_variables_without_the_prefix_change_nothing(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """C6: ``VERSION=1`` ends the process."""
    assert main(words) == 0
    printed = capsys.readouterr()
    for pair in HOSTILE.split():
        monkeypatch.setenv(*pair.split("="))
    assert main(words) == 0
    assert capsys.readouterr() == printed


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("schema", f"warning: {MISSPELT}\n"),
        ("run --config=- --log-format=json", '{"time"'),
    ],
)
def test_a_misspelt_variable_is_a_warning_in_the_form_of_the_log(words: str, start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", *words.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "GENERICDP_LOGLEVEL": "debug"},
    )
    assert done.stderr.startswith(start)
    if start.startswith("{"):
        line = json.loads(done.stderr.splitlines()[0])
        assert (line["level"], line["message"]) == ("warning", MISSPELT)


def test_a_path_that_no_unix_socket_can_have_is_bad_usage(capsys: Capture) -> None:
    assert main(["run", "--config=x", f"--pod-resources=/{'x' * 107}"]) == 2
    said = "the path of a unix socket has at most 107: reach it under a shorter one"
    assert said in capsys.readouterr().err
