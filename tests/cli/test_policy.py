"""``--policy``, wherever a config is applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genericdp.cli import main
from tests.config.bounded import HEAD
from tests.printed import resources_in
from tests.world import Host

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{udev: {subsystem: tty, name: "ttyUSB*"}}]
"""
EXAMPLES = Path(__file__).parents[2] / "examples"
APPLYING = [
    ("discover",),
    ("explain", "/dev/ttyUSB0"),
    ("allocate", "example.com/serial=1"),
    ("probe",),
    ("simulate", "--once"),
    ("run",),
]


class Place:
    def __init__(self, folder: Path) -> None:
        self.host = Host(folder / "host")
        self.host.plug("ttyUSB0")
        self.host.plug("ttyUSB1")
        subsystem = self.host.folder / "sys/class/tty"
        subsystem.mkdir(parents=True)
        for name in ("ttyUSB0", "ttyUSB1"):
            device = self.host.folder / "sys/devices/virtual/tty" / name
            (device / "subsystem").symlink_to("../../../../class/tty")
            (subsystem / name).symlink_to(f"../../devices/virtual/tty/{name}")
        self.config, self.policy = folder / "c.yaml", folder / "p.yaml"
        self.config.write_text(CONFIG)
        self.kubelet = folder / "k"

    def call(self, command: str, *more: str, policy: str) -> int:
        self.policy.write_text(HEAD + policy)
        folder = [f"--kubelet-dir={self.kubelet}"] if command == "run" else []
        return main(
            [command, *more, f"--config={self.config}", f"--root={self.host.folder}",
             "--node-name=n", f"--policy={self.policy}", *folder]
        )  # fmt: skip


@pytest.fixture
def place(short_folder: Path) -> Place:
    return Place(short_folder)


@pytest.mark.parametrize("command", APPLYING, ids=lambda words: words[0])
def test_no_command_goes_on_without_the_bounds_that_were_asked_for(
    place: Place, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Not even ``run``, which waits for a config that is bad."""
    assert place.call(*command, policy="device: {}\n") == 2
    captured = capsys.readouterr()
    assert f"{place.policy}:3:1: .device: unknown key 'device' (did you mean" in captured.err
    place.policy.unlink()
    folder = [f"--kubelet-dir={place.kubelet}"] if command[0] == "run" else []
    words = [*command, f"--config={place.config}", f"--policy={place.policy}", *folder]
    assert main([*words, f"--root={place.host.folder}"]) == 2
    told = (
        f"{place.policy}:1:1: it does not exist (it is the policy that --policy or GENERICDP_POLICY"
    )
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["device: {}\n", None], ids=["wrong", "missing"])
def test_the_last_line_says_that_the_policy_ends_it(
    place: Place, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        place.policy.write_text(HEAD + text)
    words = ["run", f"--config={place.config}", f"--policy={place.policy}"]
    words += [f"--kubelet-dir={place.host.folder}", f"--root={place.host.folder}"]
    said = f"the policy {place.policy} cannot be used, and nothing is served without its bounds"
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"genericdp: {said}")
    assert main([*words, "--log-format=json"]) == 2
    first, *_, last = map(json.loads, capsys.readouterr().err.splitlines()[-2:])
    assert (first["level"], last["level"]) == ("error", "error")
    assert first["message"].startswith(f"{place.policy}:")
    assert last["message"].startswith(said)
    assert main(["validate", f"--policy={place.policy}", str(place.config)]) == 2
    assert capsys.readouterr().out.endswith("; the policy cannot be used, so run would not start\n")


@pytest.mark.parametrize("command", APPLYING[:-1], ids=lambda words: words[0])
def test_a_config_that_breaks_the_policy_is_refused_with_both_places(
    place: Place, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert place.call(*command, policy="env: []\n") == 2
    assert capsys.readouterr().err == (
        f"{place.config}:5:20: .resources[0].match[0].udev: it asks for device nodes"
        f" (policy {place.policy}:1 has no 'devices', which allows none)\n"
    )


def test_what_the_host_knows_is_a_reason_of_the_device(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = "devices:\n  paths: [/dev/ttyUSB1]\n"
    assert place.call("discover", "-o", "json", policy=policy) == 0
    shown = resources_in(capsys.readouterr().out)["example.com/serial"]
    assert [one["id"] for one in shown["devices"]] == ["ttyUSB1"]
    (left,) = shown["notOffered"]
    why = (
        "/dev/ttyUSB0 is not among the device nodes that are allowed"
        f" (policy {place.policy}:3 says devices: /dev/ttyUSB1)"
    )
    assert left == {"path": "/dev/ttyUSB0", "code": "forbidden", "reason": why}
    assert place.call("explain", "/dev/ttyUSB0", policy=policy) == 0
    assert why in capsys.readouterr().out
    assert place.call("allocate", "example.com/serial=2", policy=policy) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_policy_is_not_taken_from_stdin(
    name: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", f"--policy={name}", str(place.config)]) == 2
    assert "a policy has to be a file" in capsys.readouterr().err


def test_validate_takes_a_policy_from_the_environment_too(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.policy.write_text(HEAD)
    place.policy.chmod(0o666)
    monkeypatch.setenv("GENERICDP_POLICY", str(place.policy))
    assert main(["validate", str(place.config)]) == 2
    out = capsys.readouterr().out
    assert "it asks for device nodes" in out
    assert f"{place.policy}:1:1: warning: anybody can write this policy" in out
    assert out.endswith("1 problem in 1 file\n")


def test_each_example_of_a_policy_allows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Each names, in its first line, the example config that it is written for."""
    policies = sorted((EXAMPLES / "policies").iterdir())
    assert policies
    for policy in policies:
        config = policy.read_text().partition("\n")[0].rpartition(" ")[2]
        assert main(["validate", f"--policy={policy}", str(EXAMPLES.parent / config)]) == 0
        assert capsys.readouterr().out.endswith("valid\n")
    others = [str(one) for one in sorted((EXAMPLES / "configs").iterdir())]
    assert main(["validate", f"--policy={policies[0]}", *others]) == 2
