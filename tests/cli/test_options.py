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


def parsed(*argv: str) -> argparse.Namespace:
    return parse(["discover", *argv])


def test_each_flag_can_be_set_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", "/a.yaml:/b")
    monkeypatch.setenv("GENERICDP_ROOT", "/snapshot")
    monkeypatch.setenv("GENERICDP_NODE_NAME", "edge-1")
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    found = parsed()
    assert tuple(found.config) == (Path("/a.yaml"), Path("/b"))
    assert (found.root, node_name_of(found), found.output) == (Path("/snapshot"), "edge-1", "json")


def test_a_flag_counts_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "ROOT", "NODE_NAME"):
        monkeypatch.setenv(f"GENERICDP_{name}", "/variable")
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    found = parsed("--config=/x", "--config", "/y:z", "--root=/r", "--node-name=n", "--output=text")
    assert tuple(found.config) == (Path("/x"), Path("/y:z"))
    assert (found.root, node_name_of(found), found.output) == (Path("/r"), "n", "text")


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_NAME", "OUTPUT"):
        monkeypatch.setenv(f"GENERICDP_{name}", "")
    found = parsed("--config=/x")
    assert (found.node_name, found.output) == (None, "text")


def test_an_empty_variable_of_an_address_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a new user: an empty GENERICDP_LISTEN in a unit's environment ended each start."""
    for option in ("listen", "address"):
        monkeypatch.setenv(variable(option), "")
    assert main(["run", "--config=none.yaml", "--root=/no/such/folder"]) == 2
    assert "/no/such/folder" in capsys.readouterr().err
    assert main(["status", "--address=127.0.0.1:1"]) == 1
    assert "nothing listens at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["policy", "config", "root", "kubelet-dir", "state-dir", "pod-resources"]
)
def test_an_empty_variable_of_a_path_is_as_wrong_as_the_empty_flag(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else ``run`` is without the bounds that were asked for."""
    monkeypatch.setenv(variable(option), "")
    assert main(["run", "--config=none.yaml"]) == 2
    assert capsys.readouterr().err.startswith(f"genericdp: {variable(option)} is ''")
    monkeypatch.delenv(variable(option))
    assert main(["run", "--config=none.yaml", f"--{option}="]) == 2


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


def test_a_bad_value_in_a_variable_is_told_with_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "xml")
    assert main(["schema"]) == 2
    assert capsys.readouterr().err == (
        "genericdp: GENERICDP_OUTPUT is 'xml', but must be one of: text, json, yaml\n"
    )


def test_a_variable_that_names_no_config_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", ":")
    assert main(["discover", "--root", str(LAPTOP)]) == 2
    expected = "genericdp: GENERICDP_CONFIG is ':', which names nothing\n"
    assert capsys.readouterr().err == expected


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
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    found = re.findall(r"^  (?:-\w[^-]*)?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    options = [word for word in COMMANDS[name].arguments if word.startswith("--")]
    assert found == ["--help", *options]
    assert list(unknown_variables({variable(option): "x" for option in options})) == []


def test_flags_and_lists_can_be_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
        ("ONCE", "1", "GENERICDP_ONCE is '1', but must be one of: true, false"),
        ("LOG_FORMAT", "C", "GENERICDP_LOG_FORMAT is 'C', but must be one of: text, json"),
        ("ALLOCATE", "::", "GENERICDP_ALLOCATE is '::', which names nothing"),
    ],
)
def test_a_variable_with_what_its_option_does_not_take_is_told(
    name: str,
    text: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"GENERICDP_{name}", text)
    assert main(["simulate", "--config=x"]) == 2
    assert capsys.readouterr().err == f"genericdp: {said}\n"


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
    """What Kubernetes sets where a service has our name is passed over."""
    expected = [f"the variable {name!r} means nothing to genericdp{hint}" for hint in said]
    assert list(unknown_variables({name: text})) == expected


def test_a_misspelt_variable_is_a_warning_in_the_form_of_the_log() -> None:
    environment = {**os.environ, "GENERICDP_LOGLEVEL": "debug"}
    said = "the variable 'GENERICDP_LOGLEVEL' means nothing to genericdp (did you mean"
    code, _, complaint = _run(["schema"], environment)
    assert (code, complaint.startswith(f"warning: {said}")) == (0, True)
    _, _, complaint = _run(["run", "--config=-", "--log-format=json"], environment)
    line = json.loads(complaint.splitlines()[0])
    assert (line["level"], line["message"].startswith(said)) == ("warning", True)


@pytest.mark.parametrize(
    "words",
    [
        ["discover", "--config", ""],
        ["hardware", "--root", ""],
        ["run", "--config=x", "--kubelet-dir="],
        ["run", "--config=x", "--pod-resources="],
        ["validate", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_folder(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``--config "$UNSET"`` gives it."""
    assert main(words) == 2
    assert "an empty path" in capsys.readouterr().err


HOSTILE = {
    "VERSION": "1",
    "CONFIG": "x",
    "ROOT": "/nowhere",
    "OUTPUT": "json",
    "LOG_LEVEL": "loud",
    "LISTEN": ":1",
    "KUBELET_DIR": "/nowhere",
    "HELP": "1",
    "DOMAIN": "x",
    "ALLOCATE": "x",
    "ONCE": "1",
    "GENERICDP": "x",
    "GENERICDP_": "x",
    "genericdp_output": "json",
}


def test_variables_without_the_prefix_change_nothing() -> None:
    """C6: ``VERSION=1`` ends the process."""
    commands = [
        ["schema"],
        [
            "discover",
            f"--root={LAPTOP}",
            f"--config={REPOSITORY / 'examples/configs/fuse.yaml'}",
            "--node-name=n",
        ],
    ]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GENERICDP_")}
    for command in commands:
        told = [_run(command, environment) for environment in (clean, {**clean, **HOSTILE})]
        assert told[0] == told[1]
        assert told[0][0] == 0


def test_a_variable_with_the_prefix_does_change_it() -> None:
    """The other side of C6: were no variable read at all, the test above would pass too."""
    code, out, _ = _run(["schema"], {**os.environ, "GENERICDP_OUTPUT": "json"})
    assert code == 0
    assert json.loads(out)["title"] == "genericdp config"


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=REPOSITORY,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_path_that_no_unix_socket_can_have_is_bad_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--config=x", f"--pod-resources=/{'x' * 107}"]) == 2
    assert (
        "the path of a unix socket has at most 107: reach it under a shorter one"
        in capsys.readouterr().err
    )
