"""``genericdp probe``: commands that really run, and files below a root."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]
    Probe = Callable[..., int]

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"

SCRIPT = """\
#!/bin/sh
case "$GENERICDP_DEVICE_ID" in
*good) echo all is well;;
*bad) echo first; echo second; exit 3;;
*) i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 4;;
esac
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder of plain files: devices of this machine that need no rights."""
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("bad", "good"):
        (folder / name).touch()
    script = tmp_path / "check"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return folder


@pytest.fixture
def probe(tmp_path: Path, plain: Path) -> Probe:
    """Write a config and probe it on this machine."""

    def run(*arguments: str, resources: str = "") -> int:
        config = tmp_path / "config.yaml"
        config.write_text(HEAD + (resources or own(plain, health=exec_of(tmp_path / "check"))))
        return main(["probe", f"--config={config}", "--node-name=n", *arguments])

    return run


def exec_of(*command: Path | str) -> str:
    return f"{{exec: {{command: {json.dumps([str(word) for word in command])}}}}}"


def own(folder: Path, *, name: str = "own", glob: str = "*", health: str = "") -> str:
    """A resource of plain files, whose ids are short."""
    return (
        f"  - name: example.com/{name}\n"
        f"    match: [{{path: '{folder}/{glob}', type: file}}]\n"
        "    id: $(device.name)\n"
        f"    inject: {{env: {{FILE_{name.upper()}: $(device.path)}}}}\n"
        f"    health: [{health}]\n"
    )


def without_times(text: str) -> list[str]:
    return [re.sub(r"\d+\.\d{3} s", "T", line) for line in text.splitlines()]


def cells(text: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in without_times(text)]


def test_each_result_is_a_row_and_what_a_failed_command_wrote_stands_below(
    probe: Probe, tmp_path: Path, capsys: Capture
) -> None:
    assert probe() == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    check = tmp_path / "check"
    assert cells(printed.out) == [
        ["RESOURCE", "DEVICE", "PROBE", "RESULT", "TIME", "REASON"],
        ["example.com/own", "bad", f"exec {check}", "failed", "T", "exited with 3: second"],
        ["", "first"],
        ["", "second"],
        ["example.com/own", "good", f"exec {check}", "passed", "T", "-"],
    ]
    rows = [line for line in printed.out.splitlines() if not line.startswith(" ")]
    column = rows[0].index("RESULT")
    assert [row[column : column + 6] for row in rows] == ["RESULT", "failed", "passed"]


def test_wide_adds_the_path(probe: Probe, plain: Path, capsys: Capture) -> None:
    assert probe("-o", "wide") == 1
    rows = cells(capsys.readouterr().out)
    heading = ["RESOURCE", "DEVICE", "PATH", "PROBE", "RESULT", "TIME", "REASON"]
    assert (rows[0], rows[-1][:3]) == (heading, ["example.com/own", "good", f"{plain}/good"])


def test_of_long_output_the_end_is_shown_and_json_has_all(
    probe: Probe, plain: Path, capsys: Capture
) -> None:
    (plain / "long").touch()
    assert probe("--device=long") == 1
    shown = capsys.readouterr().out.splitlines()[2:]
    assert shown[0] == "    … 20 lines before (see -o json)"
    assert shown[1:] == [f"    line {i}" for i in range(21, 31)]
    assert probe("--device=long", "-o", "json") == 1
    device = resources_in(capsys.readouterr().out)["example.com/own"]["devices"][0]
    assert device["probes"][0]["output"] == "".join(f"line {i}\n" for i in range(1, 31))


def test_json_says_the_same(probe: Probe, plain: Path, tmp_path: Path, capsys: Capture) -> None:
    assert probe("-o", "json") == 1
    (own,) = resources_in(capsys.readouterr().out).values()
    assert (own["capacity"], own["allocatable"]) == (2, 1)
    bad, good = own["devices"]
    label, failure = f"exec {tmp_path / 'check'}", "exited with 3: second"
    assert (bad["id"], bad["path"], bad["state"]) == ("bad", f"{plain}/bad", "Unhealthy")
    assert bad["reason"] == f"{label}: {failure}"
    assert (good["id"], good["state"], good["reason"]) == ("good", "Healthy", "")
    (failed,), (passed,) = bad["probes"], good["probes"]
    assert 0 < failed.pop("seconds") < 5
    assert 0 < passed.pop("seconds") < 5
    assert failed == {
        "probe": "exec-0",
        "result": "failure",
        "reason": failure,
        "label": label,
        "output": "first\nsecond\n",
    }
    assert passed == {
        "probe": "exec-0",
        "result": "success",
        "reason": "",
        "label": label,
        "output": "all is well\n",
    }


def two(plain: Path, tmp_path: Path) -> str:
    health = exec_of(tmp_path / "check")
    return own(plain, glob="g*", name="one", health=health) + own(plain, glob="b*", health=health)


@pytest.mark.parametrize(
    ("arguments", "code", "devices"),
    [
        ([], 1, ["good", "bad"]),
        (["example.com/one"], 0, ["good"]),
        (["example.com/own"], 1, ["bad"]),
        (["--device=good"], 0, ["good"]),
        (["example.com/one", "--device", "good"], 0, ["good"]),
    ],
)
def test_only_what_is_asked_for_is_run_and_only_that_counts(
    arguments: list[str],
    code: int,
    devices: list[str],
    probe: Probe,
    plain: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    assert probe(*arguments, resources=two(plain, tmp_path)) == code
    rows = [row for row in cells(capsys.readouterr().out)[1:] if row[0]]
    assert [row[1] for row in rows] == devices


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["example.com/missing"],
            "the config has no resource 'example.com/missing' for this node"
            " (it has: example.com/one, example.com/own)",
        ),
        (
            ["--device=none"],
            "no device 'none' is on offer (there are: good, bad); see genericdp discover",
        ),
        (
            ["example.com/own", "--device=good"],
            "no device 'good' of example.com/own is on offer"
            " (there are: bad); see genericdp discover",
        ),
    ],
)
def test_what_does_not_exist_is_bad_usage_and_says_what_does(
    arguments: list[str],
    complaint: str,
    probe: Probe,
    plain: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    assert probe(*arguments, resources=two(plain, tmp_path)) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"genericdp: {complaint}\n")


def test_a_resource_without_probes_or_devices_says_so(
    probe: Probe, plain: Path, capsys: Capture
) -> None:
    resources = own(plain) + own(plain, name="none", glob="none*", health="{open: {}}")
    assert probe(resources=resources) == 0
    assert capsys.readouterr().out.splitlines() == [
        "example.com/own has no probes",
        "example.com/none has no devices here (see genericdp discover)",
    ]
    assert probe("-o", "json", resources=resources) == 0
    found = resources_in(capsys.readouterr().out)
    assert found["example.com/none"]["devices"] == []
    assert [one["probes"] for one in found["example.com/own"]["devices"]] == [[], []]


def test_a_device_that_lacks_a_node_has_failed_without_being_probed(
    probe: Probe, plain: Path, tmp_path: Path, capsys: Capture
) -> None:
    ran = tmp_path / "ran"
    resource = own(plain, glob="good", health=exec_of("/bin/touch", ran))
    resource = resource.replace(
        "{env: {FILE_OWN: $(device.path)}}", "{devices: [{path: /dev/no-such-node}]}"
    )
    assert probe(resources=resource) == 1
    assert cells(capsys.readouterr().out)[1:] == [
        ["example.com/own", "good", "-", "failed", "-", "/dev/no-such-node does not exist"]
    ]
    assert not ran.exists()


def test_probes_of_one_device_do_not_overlap_and_those_of_several_do(
    probe: Probe, plain: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Each waits for another device's, and fails if its own device has one running."""
    script = tmp_path / "meet"
    script.write_text(
        "#!/bin/sh\nset -e\n"
        f"cd {tmp_path}; mkdir running-$GENERICDP_DEVICE_ID; touch here-$GENERICDP_DEVICE_ID\n"
        "until [ -e here-good -a -e here-bad ]; do sleep 0.01; done\n"
        "sleep 0.05; rmdir running-$GENERICDP_DEVICE_ID\n"
    )
    script.chmod(0o755)
    health = f"{exec_of(script)}, {exec_of(script, 'again')}"
    assert probe(resources=own(plain, health=health)) == 0, capsys.readouterr().out
