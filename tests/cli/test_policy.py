"""``--policy`` of the daemon and of ``validate``. Other commands: tests/cases/policies."""

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
RESOURCE = "name: example.com/r, match: [{udev: {subsystem: misc}}]"


@pytest.mark.parametrize(
    ("policy", "reported"),
    [
        ("device: {}\n", "p.yaml:3:1: .device: unknown key 'device' (did you mean"),
        (None, "p.yaml:1:1: it does not exist (it is the policy that --policy or GENERICDP_POLICY"),
    ],
    ids=["wrong", "missing"],
)
def test_the_daemon_does_not_start_without_the_bounds_that_were_asked_for(
    policy: str | None, reported: str, ask: Ask
) -> None:
    """Though it waits for a config that is bad."""
    Machine(Path("host"))
    ask.config(RESOURCE)
    if policy is not None:
        ask.write("p.yaml", HEAD + policy)
    command = "run config.yaml --root=host --kubelet-dir=kubelet --policy=p.yaml"
    said = ask(command, code=2).err
    assert reported in said
    end = "the policy p.yaml cannot be used, and nothing is served without its bounds"
    assert said.splitlines()[-1].startswith(f"genericdp: {end}")
    *_, first, last = map(json.loads, ask(f"{command} --log-format=json", code=2).err.splitlines())
    assert (first["level"], last["level"]) == ("error", "error")
    assert first["message"].startswith("p.yaml:")
    assert last["message"].startswith(end)


def test_validate_takes_a_policy_from_the_environment_too(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask.config(RESOURCE)
    ask.write("p.yaml", HEAD).chmod(0o666)
    monkeypatch.setenv("GENERICDP_POLICY", "p.yaml")
    out = ask("validate config.yaml", code=2).out
    assert "(policy p.yaml:1 has no 'devices', which allows none)" in out
    assert "p.yaml:1:1: warning: any user can write this policy" in out
    assert out.endswith("1 problem in 1 file\n")


def test_each_example_of_a_policy_allows_what_it_says(ask: Ask) -> None:
    """Each names, in its first line, the example config that it is written for."""
    policies = sorted((EXAMPLES / "policies").iterdir())
    assert policies
    for policy in policies:
        config = policy.read_text().partition("\n")[0].rpartition(" ")[2]
        said = ask(f"validate --policy={policy}", EXAMPLES.parent / config).out
        assert said.endswith("valid\n")
    ask(f"validate --policy={policies[0]}", *sorted((EXAMPLES / "configs").iterdir()), code=2)
