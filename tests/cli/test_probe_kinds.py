"""``genericdp probe``: every kind of probe, on this machine and on a copy of another one."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.cli import main
from genericdp.cli.probe import NEEDS_TWO_RUNS, NOT_ON_SNAPSHOT, Probed, probe_once
from genericdp.devices.device import BoundProbe, Device
from genericdp.devices.devicelist import Entry
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import State
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.root import Root
from genericdp.model import Probe
from genericdp.status import view

from tests.cli.explain_output import HEAD
from tests.cli.test_probe import cells
from tests.fixtures.make_tree import Tree
from tests.host.kernel_log import Script, record
from tests.printed import resources_in

if TYPE_CHECKING:
    from genericdp.host.kmsg import Log

    Capture = pytest.CaptureFixture[str]


@pytest.fixture
def copy(tmp_path: Path) -> Tree:
    """A copy of a machine with two sensors."""
    tree = Tree(tmp_path / "copy")
    for number, temperature in enumerate(("41", "97")):
        tree.node(f"sensor{number}", f"10:{number}", temp=temperature)
    return tree


def of_copy(copy: Tree, *arguments: str, health: str) -> int:
    config = copy.directory.parent / "config.yaml"
    config.write_text(
        f"{HEAD}  - name: example.com/sensor\n    match: [{{path: '/dev/sensor*'}}]\n"
        f"    health: [{health}]\n"
    )
    where = [f"--config={config}", f"--root={copy.directory}", "--node-name=n"]
    return main(["probe", *where, *arguments])


def devices_in(printed: str) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = resources_in(printed)["example.com/sensor"]["devices"]
    return devices


MACHINE = Root(Path("/"))
TEMPERATURE = "/sys/devices/virtual/misc/$(device.name)/temp"
FILE = f"{{file: {{path: {TEMPERATURE}, max: 90}}}}"


def test_files_are_read_below_the_root(copy: Tree, capsys: Capture) -> None:
    assert of_copy(copy, health=FILE) == 1
    cool, hot = (TEMPERATURE.replace("$(device.name)", f"sensor{i}") for i in (0, 1))
    name, why = "example.com/sensor", f"{hot} is '97', more than 90"
    assert cells(capsys.readouterr().out)[1:] == [
        [name, "sensor0", f"file {cool}", "passed", "T", "-"],
        [name, "sensor1", f"file {hot}", "failed", "T", why],
    ]
    assert of_copy(copy, "--device=sensor0", health=FILE) == 0


@pytest.mark.parametrize(
    ("health", "label"),
    [
        ("{{exec: {{command: [/bin/touch, {}]}}}}", "exec /bin/touch"),
        ("{{open: {{mode: r}}}}", "open"),
        ("{{kernelLog: {{regex: 'xyz'}}}}", "kernelLog"),
    ],
)
def test_what_would_ask_this_machine_is_not_run_for_a_copy(
    health: str, label: str, copy: Tree, tmp_path: Path, capsys: Capture
) -> None:
    """A command would run here, the log is this machine's, a plain file always opens."""
    ran = tmp_path / "ran"
    assert of_copy(copy, "--device=sensor0", "-o", "json", health=health.format(ran)) == 1
    (found,) = devices_in(capsys.readouterr().out)
    assert (found["state"], found["reason"]) == ("Unprobed", f"{label}: {NOT_ON_SNAPSHOT}")
    assert found["probes"] == [
        {
            "probe": f"{label.partition(' ')[0]}-0",
            "result": "",
            "reason": NOT_ON_SNAPSHOT,
            "label": label,
            "seconds": None,
            "output": "",
        }
    ]
    assert not ran.exists()


def test_one_that_fails_makes_it_unhealthy_whatever_was_not_run(
    copy: Tree, capsys: Capture
) -> None:
    assert of_copy(copy, "-o", "json", health=f"{{open: {{}}}}, {FILE}") == 1
    states = [device["state"] for device in devices_in(capsys.readouterr().out)]
    assert states == ["Unprobed", "Unhealthy"]


def test_one_run_says_that_it_cannot_tell_whether_a_file_changes(
    copy: Tree, capsys: Capture
) -> None:
    """It passes, as the first run of the daemon does, and does not say that something changed."""
    health = FILE.replace("max: 90", "max: 90, changes: true")
    assert of_copy(copy, "-o", "json", health=health) == 1
    cool, hot = devices_in(capsys.readouterr().out)
    assert (cool["state"], cool["reason"]) == ("Healthy", f"file: {NEEDS_TWO_RUNS}")
    assert (cool["probes"][0]["result"], cool["probes"][0]["reason"]) == ("success", NEEDS_TWO_RUNS)
    assert (hot["state"], hot["probes"][0]["result"]) == ("Unhealthy", "failure")
    assert hot["reason"].endswith("temp is '97', more than 90")
    assert of_copy(copy, "--device=sensor0", health=health) == 0


def test_on_this_machine_nodes_are_opened(tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.yaml"
    null = "{name: example.com/null, match: [{path: /dev/null}], health: [{open: {}}]}"
    config.write_text(f"{HEAD}  - {null}\n")
    assert main(["probe", f"--config={config}", "--node-name=n"]) == 0
    row = ["example.com/null", "null", "open", "passed", "T", "-"]
    assert cells(capsys.readouterr().out)[1:] == [row]


def logged(*regexes: str) -> Probed:
    bound = tuple(
        BoundProbe(
            probe=Probe(check=KernelLogCheck(regex=regex)), check=KernelLogCheck(regex=regex)
        )
        for regex in regexes
    )
    device = Device(id="a", key="a", path="/dev/a", identity=Identity(inode=1), probes=bound)
    return Probed(resource="example.com/a", listed=Entry(device=device, state=State.HEALTHY))


def test_each_probe_of_the_kernel_s_log_has_its_own_answer() -> None:
    """Both were Unhealthy if the log were requested the device as a whole."""
    probed = probe_once(
        [logged("a burns", "a drowns")],
        MACHINE,
        open_log=Script([record("a smokes", sequence=1), record("a drowns", sequence=2)]).open,
    )
    assert [outcome and outcome.ok for outcome in probed[0].outcomes] == [True, False]
    assert probed[0].reason == "kernelLog: [1.000000] a drowns"


def test_a_log_that_cannot_be_read_is_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    def open_log() -> Log:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), "/dev/kmsg")

    probed = probe_once([logged("x")], MACHINE, open_log=open_log)
    assert probed[0].state is view.DeviceState.UNHEALTHY
    said = "the kernel's log cannot be read: Operation not permitted"
    assert probed[0].reason.startswith(f"kernelLog: {said}")
    assert [each_record.message.startswith(said) for each_record in caplog.records] == [True]
