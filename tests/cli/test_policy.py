"""``--policy``, wherever a config is applied. What it forbids: tests/cases/discover/policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from genericdp.cli import main

from tests.cases.machine import Machine
from tests.cli.explain_output import HEAD as CONFIG_HEAD
from tests.config.bounded import HEAD
from tests.printed import resources_in

CONFIG = f"{CONFIG_HEAD}  - {{name: example.com/r, match: [{{udev: {{subsystem: misc}}}}]}}\n"
EXAMPLES = Path(__file__).parents[2] / "examples"
APPLYING = [
    *("discover", "explain /dev/fuse", "allocate example.com/r=1", "probe", "simulate --once"),
    "run --kubelet-dir=kubelet",
]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _place(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(short_directory)
    monkeypatch.setenv("GENERICDP_CONFIG", "c.yaml")
    monkeypatch.setenv("GENERICDP_ROOT", "host")
    Path("c.yaml").write_text(CONFIG)
    Path("machine.yaml").write_text("nodes: {fuse: 10:229}\n")
    Machine(Path("machine.yaml"), Path("host"))


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
    command: str, policy: str | None, reported: str, capsys: Capture
) -> None:
    """Not even ``run``, which waits for a config that is bad."""
    if policy is not None:
        Path("p.yaml").write_text(HEAD + policy)
    assert main([*command.split(), "--policy=p.yaml"]) == 2
    assert reported in (said := capsys.readouterr().err)
    if command.startswith("run"):
        end = "the policy p.yaml cannot be used, and nothing is served without its bounds"
        assert said.splitlines()[-1].startswith(f"genericdp: {end}")
        assert main([*command.split(), "--policy=p.yaml", "--log-format=json"]) == 2
        *_, first, last = map(json.loads, capsys.readouterr().err.splitlines())
        assert (first["level"], last["level"]) == ("error", "error")
        assert first["message"].startswith("p.yaml:")
        assert last["message"].startswith(end)


@pytest.mark.parametrize("command", APPLYING[:-1], ids=lambda words: words.split()[0])
def test_a_config_that_breaks_the_policy_is_refused_with_both_places(
    command: str, capsys: Capture
) -> None:
    Path("p.yaml").write_text(f"{HEAD}env: []\n")
    assert main([*command.split(), "--policy=p.yaml"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("c.yaml:4:")
    assert said.endswith(" (policy p.yaml:1 has no 'devices', which allows none)\n")


def test_what_the_host_knows_is_a_reason_with_a_code(capsys: Capture) -> None:
    Path("p.yaml").write_text(f"{HEAD}devices: {{paths: [/dev/null]}}\n")
    assert main(["discover", "--policy=p.yaml", "-o", "json"]) == 0
    (left,) = resources_in(capsys.readouterr().out)["example.com/r"]["notOffered"]
    assert (left["path"], left["code"]) == ("/dev/fuse", "forbidden")


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_policy_is_not_taken_from_stdin(name: str, capsys: Capture) -> None:
    assert main(["validate", f"--policy={name}"]) == 2
    assert "a policy has to be a file" in capsys.readouterr().err


def test_validate_takes_a_policy_from_the_environment_too(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("p.yaml").write_text(HEAD)
    Path("p.yaml").chmod(0o666)
    monkeypatch.setenv("GENERICDP_POLICY", "p.yaml")
    assert main(["validate"]) == 2
    out = capsys.readouterr().out
    assert "(policy p.yaml:1 has no 'devices', which allows none)" in out
    assert "p.yaml:1:1: warning: any user can write this policy" in out
    assert out.endswith("1 problem in 1 file\n")


def test_each_example_of_a_policy_allows_what_it_says(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names, in its first line, the example config that it is written for."""
    monkeypatch.delenv("GENERICDP_ROOT")
    policies = sorted((EXAMPLES / "policies").iterdir())
    assert policies
    for policy in policies:
        config = policy.read_text().partition("\n")[0].rpartition(" ")[2]
        assert main(["validate", f"--policy={policy}", str(EXAMPLES.parent / config)]) == 0
        assert capsys.readouterr().out.endswith("valid\n")
    others = [str(path) for path in sorted((EXAMPLES / "configs").iterdir())]
    assert main(["validate", f"--policy={policies[0]}", *others]) == 2
