"""Flags that several commands share, and their variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.allocate import amounts_of
from genericdp.cli.command_line import parse
from genericdp.cli.parser import unknown_variables, variable
from genericdp.cli.root import node_name_of
from genericdp.errors import UsageError

if TYPE_CHECKING:
    from tests.cli.asking import Ask

REPOSITORY = Path(__file__).parents[2]
LAPTOP = REPOSITORY / "tests/fixtures/laptop"
FUSE = REPOSITORY / "examples/configs/fuse.yaml"
VARIABLES = {"CONFIG": "/a.yaml:/b", "ROOT": "/r", "NODE_NAME": "edge-1", "OUTPUT": "json"}
OPTIONS = ("--config=/x", "--config", "/y:z", "--root=/s", "--node-name=n", "--output=text")


@pytest.mark.parametrize(
    ("variables", "argv", "expected"),
    [
        (VARIABLES, (), (["/a.yaml", "/b"], "/r", "edge-1", "json")),
        (VARIABLES, OPTIONS, (["/x", "/y:z"], "/s", "n", "text")),
        ({"NODE_NAME": "", "OUTPUT": ""}, OPTIONS[:4], (["/x", "/y:z"], "/s", "other", "text")),
    ],
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
    found = parse(["discover", *argv])
    config = [str(path) for path in found.config]
    assert (config, str(found.root), node_name_of(found), found.output) == expected


@pytest.mark.parametrize(
    ("own", "plain", "expected"),
    [("a", "b", "a"), ("", "b", "b"), ("a", "", "a"), ("", "", "host-7.example.com")],
)
def test_the_node_s_name_comes_from_a_variable_or_the_host(
    own: str, plain: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERICDP_NODE_NAME", own)
    monkeypatch.setenv("NODE_NAME", plain)
    monkeypatch.setattr("socket.gethostname", lambda: "Host-7.example.com")
    assert node_name_of(parse(["discover", "--config=x"])) == expected


def test_flags_and_lists_can_be_variables(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setenv("GENERICDP_ROOT", str(LAPTOP))
    monkeypatch.setenv("GENERICDP_ALLOCATE", "a/b=1:c/d=2")
    monkeypatch.setenv("GENERICDP_ONCE", "true")
    taken = parse(["simulate", "--config=x"])
    assert (list(taken.amounts), taken.once) == (["a/b=1", "c/d=2"], True)
    replaced = parse(["simulate", "--config=x", "--allocate=e/f=3", "--allocate=g/h=4"])
    assert replaced.amounts == ["e/f=3", "g/h=4"]
    # ``wide`` is for commands with a table.
    monkeypatch.setenv("GENERICDP_OUTPUT", "wide")
    assert "DRIVER" in ask(f"discover {FUSE}").lines[0]


def test_an_empty_variable_of_an_address_is_none(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    """Found by a new user: an empty GENERICDP_LISTEN in a unit's environment ended each start."""
    for option in ("listen", "address"):
        monkeypatch.setenv(variable(option), "")
    said = ask("run --config=none.yaml --root=/no/such/directory", code=2).err
    assert "/no/such/directory" in said
    assert "nothing listens at 127.0.0.1:1" in ask("status --address=127.0.0.1:1", code=1).err


@pytest.mark.parametrize(
    ("line", "name", "text", "said"),
    [
        ("schema", "OUTPUT", "wide", "is 'wide', but must be one of: text, json, yaml"),
        ("discover", "CONFIG", ":", "is ':', which names nothing"),
        ("simulate --config=x", "ONCE", "1", "is '1', but must be one of: true, false"),
        # Else ``run`` is without the bounds that were requested.
        *(
            ("run --config=none.yaml", variable(option).removeprefix("GENERICDP_"), "", "is ''")
            for option in ("policy", "config", "root", "kubelet-dir", "state-dir", "pod-resources")
        ),
    ],
)
def test_a_variable_with_what_its_option_does_not_take_is_told(
    line: str, name: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv(f"GENERICDP_{name}", text)
    _, err = ask(line, code=2)
    assert err.startswith(f"genericdp: GENERICDP_{name} {said}")
    assert err.count("\n") == 1


def test_amounts_are_taken_apart() -> None:
    assert amounts_of(["example.com/a=1", "b=007"]) == {"example.com/a": 1, "b": 7}
    for text in ("a", "=1", ""):
        with pytest.raises(UsageError, match="is not of the form RESOURCE=N"):
            amounts_of([text])
    for count in ("", "0", "-1", "1.5", "x", "1 ", "²", "٣", "9" * 5000):
        with pytest.raises(UsageError, match="N has to be a whole number from 1 to 999,999,999"):
            amounts_of([f"a={count}"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("GENERICDP_LOGLEVEL", "debug", [" (did you mean GENERICDP_LOG_LEVEL?)"]),
        ("GENERICDP_XYZZY", "n", [""]),
        ("GENERICDP_CONFIG ", "n", [" (did you mean GENERICDP_CONFIG?)"]),
        ("GENERICDP_", "x", []),
        ("GENERICDP_SERVICE_PORT_HTTP", "80", []),
        ("GENERICDP_WEB_SERVICE_PORT", "80", []),
        ("GENERICDP_PORT_80_TCP_ADDR", "10.0.0.1", []),
    ],
)
def test_a_variable_that_is_none_of_ours_is_told(name: str, text: str, said: list[str]) -> None:
    """Variables that Kubernetes sets if a service has our name are ignored."""
    expected = [f"the variable {name!r} means nothing to genericdp{hint}" for hint in said]
    assert list(unknown_variables({name: text})) == expected


MISSPELT = (
    "the variable 'GENERICDP_LOGLEVEL' means nothing to genericdp"
    " (did you mean GENERICDP_LOG_LEVEL?)"
)


def test_a_misspelt_variable_is_a_warning_in_the_form_of_the_log(
    monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("GENERICDP_LOGLEVEL", "debug")
    assert ask("schema").err == f"warning: {MISSPELT}\n"
    line = json.loads(ask("run - --log-format=json", code=2).err.splitlines()[0])
    assert (line["level"], line["message"]) == ("warning", MISSPELT)


def test_variables_without_the_prefix_change_nothing(
    monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """C6: ``VERSION=1`` ends the process."""
    printed = ask(f"discover {FUSE} --root={LAPTOP}")
    for name in ("VERSION", "CONFIG", "ROOT", "OUTPUT", "HELP", "GENERICDP", "genericdp_output"):
        monkeypatch.setenv(name, "json")
    assert ask(f"discover {FUSE} --root={LAPTOP}") == printed
