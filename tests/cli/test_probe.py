"""``genericdp probe``: commands that really run, and files below a root."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.cli.explain_output import HEAD
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]
    Probe = Callable[..., int]

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
    """A directory of plain files: devices of this machine that need no rights."""
    directory = tmp_path / "plain"
    directory.mkdir()
    for name in ("bad", "good"):
        (directory / name).touch()
    script = tmp_path / "check"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return directory


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


def own(directory: Path, *, name: str = "own", glob: str = "*", health: str = "") -> str:
    """A resource of plain files, whose ids are short."""
    return (
        f"  - name: example.com/{name}\n"
        f"    match: [{{path: '{directory}/{glob}', type: file}}]\n"
        "    id: $(device.name)\n"
        f"    inject: {{env: {{FILE_{name.upper()}: $(device.path)}}}}\n"
        f"    health: [{health}]\n"
    )


def cells(text: str) -> list[list[str]]:
    """Return the cells of each line, with T for a time."""
    return [re.split(r"  +", re.sub(r"\d+\.\d{3} s", "T", line)) for line in text.splitlines()]


def test_each_result_is_a_row_and_what_a_failed_command_wrote_stands_below(
    probe: Probe, plain: Path, tmp_path: Path, capsys: Capture
) -> None:
    label = f"exec {tmp_path / 'check'}"
    assert probe() == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    assert cells(printed.out) == [
        ["RESOURCE", "DEVICE", "PROBE", "RESULT", "TIME", "REASON"],
        ["example.com/own", "bad", label, "failed", "T", "exited with 3: second"],
        ["", "first"],
        ["", "second"],
        ["example.com/own", "good", label, "passed", "T", "-"],
    ]
    rows = [line for line in printed.out.splitlines() if not line.startswith(" ")]
    column = rows[0].index("RESULT")
    assert [row[column : column + 6] for row in rows] == ["RESULT", "failed", "passed"]
    assert probe("-o", "wide") == 1
    rows_wide = cells(capsys.readouterr().out)
    heading = ["RESOURCE", "DEVICE", "PATH", "PROBE", "RESULT", "TIME", "REASON"]
    assert (rows_wide[0], rows_wide[-1][:3]) == (
        heading,
        ["example.com/own", "good", f"{plain}/good"],
    )


def test_of_long_output_the_end_is_shown_and_data_has_all(
    probe: Probe, plain: Path, capsys: Capture
) -> None:
    (plain / "long").touch()
    assert probe("--device=long") == 1
    shown = capsys.readouterr().out.splitlines()[2:]
    ends = [f"    line {i}" for i in range(21, 31)]
    assert shown == ["    … 20 lines before (see -o json)", *ends]
    assert probe("--device=long", "-o", "json") == 1
    (device,) = resources_in(capsys.readouterr().out)["example.com/own"]["devices"]
    assert device["probes"][0]["output"] == "".join(f"line {i}\n" for i in range(1, 31))


def test_data_says_the_same(probe: Probe, plain: Path, tmp_path: Path, capsys: Capture) -> None:
    assert probe("-o", "json") == 1
    (own,) = resources_in(capsys.readouterr().out).values()
    assert (own["capacity"], own["allocatable"]) == (2, 1)
    label, failure = f"exec {tmp_path / 'check'}", "exited with 3: second"
    known = [
        [device[key] for key in ("id", "path", "state", "reason")] for device in own["devices"]
    ]
    assert known == [
        ["bad", f"{plain}/bad", "Unhealthy", f"{label}: {failure}"],
        ["good", f"{plain}/good", "Healthy", ""],
    ]
    results = [result for device in own["devices"] for result in device["probes"]]
    assert all(0 < result.pop("seconds") < 5 for result in results)
    keys = ("probe", "result", "reason", "label", "output")
    assert results == [
        dict(zip(keys, ("exec-0", "failure", failure, label, "first\nsecond\n"), strict=True)),
        dict(zip(keys, ("exec-0", "success", "", label, "all is well\n"), strict=True)),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "devices"),
    [
        ("", 1, ["good", "bad"]),
        ("example.com/one", 0, ["good"]),
        ("example.com/own", 1, ["bad"]),
        ("--device=good", 0, ["good"]),
        ("example.com/one --device good", 0, ["good"]),
        (
            "example.com/no",
            2,
            "the config has no resource 'example.com/no' for this node (it has: {})",
        ),
        ("--device=no", 2, "no device 'no' is on offer (there are: good, bad){}"),
        (
            "example.com/own --device=good",
            2,
            "no device 'good' of example.com/own is on offer (there are: bad){}",
        ),
    ],
)
def test_only_what_is_asked_for_is_run_and_only_that_counts(
    arguments: str,
    code: int,
    devices: list[str] | str,
    probe: Probe,
    plain: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    health = exec_of(tmp_path / "check")
    both = own(plain, glob="g*", name="one", health=health) + own(plain, glob="b*", health=health)
    assert probe(*arguments.split(), resources=both) == code
    out, err = capsys.readouterr()
    if isinstance(devices, str):
        rest = (
            "example.com/one, example.com/own"
            if "it has" in devices
            else "; see genericdp discover"
        )
        assert (out, err) == ("", f"genericdp: {devices.format(rest)}\n")
    else:
        assert [row[1] for row in cells(out)[1:] if row[0]] == devices


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
    assert [device["probes"] for device in found["example.com/own"]["devices"]] == [[], []]


def test_a_device_that_lacks_a_node_has_failed_without_being_probed(
    probe: Probe, plain: Path, tmp_path: Path, capsys: Capture
) -> None:
    ran = tmp_path / "ran"
    resource = own(plain, glob="good", health=exec_of("/bin/touch", ran))
    lacking = resource.replace(
        "{env: {FILE_OWN: $(device.path)}}", "{devices: [{path: /dev/none}]}"
    )
    assert probe(resources=lacking) == 1
    assert cells(capsys.readouterr().out)[1:] == [
        ["example.com/own", "good", "-", "failed", "-", "/dev/none does not exist"]
    ]
    assert not ran.exists()


def test_a_command_that_is_not_there_is_a_reason(
    probe: Probe, plain: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert probe(resources=own(plain, glob="good", health=exec_of(tmp_path / "none"))) == 1
    row = cells(capsys.readouterr().out)[1]
    assert (row[3], row[5]) == ("failed", "cannot be started: No such file or directory")


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
