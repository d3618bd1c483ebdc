"""Flags that several commands share, and their variables."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp.cli import COMMANDS, main
from genericdp.cli.environment import OPTIONS, take_variables, unknown_variables, variable
from genericdp.cli.options import (
    add_config,
    add_node_name,
    add_output,
    add_root,
    amounts_of,
    configs_of,
    node_name_of,
)
from genericdp.errors import UsageError

REPOSITORY = Path(__file__).parents[2]
LAPTOP = REPOSITORY / "tests/fixtures/laptop"


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_config(parser)
    add_root(parser)
    add_node_name(parser)
    add_output(parser)
    take_variables(parser)
    return parser.parse_args(argv)


def test_each_flag_can_be_set_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", "/a.yaml:/b")
    monkeypatch.setenv("GENERICDP_ROOT", "/snapshot")
    monkeypatch.setenv("GENERICDP_NODE_NAME", "edge-1")
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    found = parsed()
    assert configs_of(found) == (Path("/a.yaml"), Path("/b"))
    assert (found.root, node_name_of(found), found.output) == (Path("/snapshot"), "edge-1", "json")


def test_a_flag_counts_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "ROOT", "NODE_NAME"):
        monkeypatch.setenv(f"GENERICDP_{name}", "/variable")
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    found = parsed("--config=/x", "--config", "/y:z", "--root=/r", "--node-name=n", "--output=text")
    assert configs_of(found) == (Path("/x"), Path("/y:z"))
    assert (found.root, node_name_of(found), found.output) == (Path("/r"), "n", "text")


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOT", "NODE_NAME", "OUTPUT"):
        monkeypatch.setenv(f"GENERICDP_{name}", "")
    found = parsed("--config=/x")
    assert (found.root, found.node_name, found.output) == (Path("/"), None, "text")


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
    monkeypatch.setenv("GENERICDP_OUTPUT", "yaml")
    assert main(["version"]) == 2
    assert capsys.readouterr().err == (
        "genericdp: GENERICDP_OUTPUT is 'yaml', but must be one of: text, json\n"
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
        (["a=2", "a=3"], {"a": 5}),
        (["a=007"], {"a": 7}),
    ],
)
def test_amounts_are_taken_apart(texts: list[str], amounts: dict[str, int]) -> None:
    assert amounts_of(texts) == amounts


@pytest.mark.parametrize(
    "text", ["a", "a=", "a=0", "a=-1", "a=1.5", "a=x", "a=1 ", "a=²", "a=٣", f"a={'9' * 5000}"]
)
def test_an_amount_that_is_none_is_bad_usage(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form RESOURCE=N"):
        amounts_of([text])


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
    """C6: ``VERSION=1`` ends the process.

    Brought back by ``PREFIX = ""`` in ``environment``.
    """
    commands = [
        ["version"],
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
    code, out, _ = _run(["version"], {**os.environ, "GENERICDP_OUTPUT": "json"})
    assert code == 0
    assert "genericdp" in json.loads(out)


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
