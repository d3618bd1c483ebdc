"""``--policy``, wherever a config is applied. What it forbids: tests/cases/discover/policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cases.machine import Machine
from tests.config.bounded import HEAD

if TYPE_CHECKING:
    from tests.cli.asking import Ask

EXAMPLES = Path(__file__).parents[2] / "examples"
APPLYING = [
    *("discover", "explain /dev/fuse", "allocate example.com/r=1", "probe", "simulate --once"),
    "run --kubelet-dir=kubelet",
]


@pytest.fixture(autouse=True)
def _place(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", "config.yaml")
    monkeypatch.setenv("GENERICDP_ROOT", "host")
    ask.config("name: example.com/r, match: [{udev: {subsystem: misc}}]")
    Machine(Path("host"), ask.write("machine.yaml", "nodes: {fuse: 10:229}\n"))


@pytest.mark.parametrize(
    ("policy", "reported"),
    [
        ("device: {}\n", "p.yaml:3:1: .device: unknown key 'device' (did you mean"),
        (None, "p.yaml:1:1: it does not exist (it is the policy that --policy or GENERICDP_POLICY"),
    ],
    ids=["wrong", "missing"],
)
@pytest.mark.parametrize("command", APPLYING, ids=lambda words: words.split()[0])
def test_no_command_goes_on_without_the_bounds_that_were_asked_for(
    command: str, policy: str | None, reported: str, ask: Ask
) -> None:
    """Not even ``run``, which waits for a config that is bad."""
    if policy is not None:
        ask.write("p.yaml", HEAD + policy)
    said = ask(f"{command} --policy=p.yaml", code=2).err
    assert reported in said
    if command.startswith("run"):
        end = "the policy p.yaml cannot be used, and nothing is served without its bounds"
        assert said.splitlines()[-1].startswith(f"genericdp: {end}")
        said = ask(f"{command} --policy=p.yaml --log-format=json", code=2).err
        *_, first, last = map(json.loads, said.splitlines())
        assert (first["level"], last["level"]) == ("error", "error")
        assert first["message"].startswith("p.yaml:")
        assert last["message"].startswith(end)


@pytest.mark.parametrize("command", APPLYING[:-1], ids=lambda words: words.split()[0])
def test_a_config_that_breaks_the_policy_is_refused_with_both_places(
    command: str, ask: Ask
) -> None:
    ask.write("p.yaml", f"{HEAD}env: []\n")
    said = ask(f"{command} --policy=p.yaml", code=2).err
    assert said.startswith("config.yaml:4:")
    assert said.endswith(" (policy p.yaml:1 has no 'devices', which allows none)\n")


def test_validate_takes_a_policy_from_the_environment_too(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask.write("p.yaml", HEAD).chmod(0o666)
    monkeypatch.setenv("GENERICDP_POLICY", "p.yaml")
    out = ask("validate", code=2).out
    assert "(policy p.yaml:1 has no 'devices', which allows none)" in out
    assert "p.yaml:1:1: warning: any user can write this policy" in out
    assert out.endswith("1 problem in 1 file\n")


def test_each_example_of_a_policy_allows_what_it_says(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names, in its first line, the example config that it is written for."""
    monkeypatch.delenv("GENERICDP_ROOT")
    policies = sorted((EXAMPLES / "policies").iterdir())
    assert policies
    for policy in policies:
        config = policy.read_text().partition("\n")[0].rpartition(" ")[2]
        said = ask(f"validate --policy={policy}", EXAMPLES.parent / config).out
        assert said.endswith("valid\n")
    ask(f"validate --policy={policies[0]}", *sorted((EXAMPLES / "configs").iterdir()), code=2)
