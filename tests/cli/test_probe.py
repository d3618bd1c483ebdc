"""``genericdp probe``: commands that really run, and how it ends early.

On a copy of another machine: tests/cases/discover/unprobed and tests/cases/health.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.probe import Probed, probe_once
from genericdp.devices.device import BoundProbe, Device
from genericdp.devices.devicelist import Entry
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import State
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.root import Root
from genericdp.model import Probe
from genericdp.status import view

from tests.cases.machine import Machine
from tests.host.kernel_log import Script, record
from tests.polling import poll_until
from tests.printed import resources_in

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from genericdp.host.kmsg import Log

    from tests.cli.asking import Answer, Ask

SCRIPT = """\
case "$GENERICDP_DEVICE_ID" in
*good) echo all is well;;
*bad) echo first; echo second; exit 3;;
*) i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 4;;
esac
"""


class Plain:
    """Plain files as devices of this machine that need no rights, a script, and a config."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.directory = ask.directory / "plain"
        self.add("bad", "good")
        self.check = self.exec_of(SCRIPT)

    def add(self, *names: str) -> None:
        for name in names:
            self.ask.write(f"plain/{name}", "")

    def exec_of(self, script: str, more: str = "") -> str:
        path = self.ask.write("check", f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        return f"{{exec: {{command: ['{path}']}}{more}}}"

    def resource(self, glob: str = "*", *, name: str = "own", health: str = "") -> str:
        """Give a resource whose ids are short."""
        return (
            f"name: example.com/{name}, match: [{{path: '{self.directory}/{glob}', type: file}}],"
            f" id: $(device.name), inject: {{env: {{FILE_{name.upper()}: $(device.path)}}}},"
            f" health: [{health}]"
        )

    def probe(self, words: str = "", *resources: str, code: int = 0) -> Answer:
        config = self.ask.config(*(resources or [self.resource(health=self.check)]))
        return self.ask(f"probe --config={config} --node-name=n {words}", code=code)


@pytest.fixture
def plain(ask: Ask) -> Plain:
    return Plain(ask)


def test_each_result_is_a_row_and_what_a_failed_command_wrote_stands_below(plain: Plain) -> None:
    label = f"exec {plain.ask.directory}/check"
    printed = plain.probe(code=1)
    assert printed.err == ""
    assert printed.rows == [
        ["RESOURCE", "DEVICE", "PROBE", "RESULT", "TIME", "REASON"],
        ["example.com/own", "bad", label, "failed", "T", "exited with 3: second"],
        ["", "first"],
        ["", "second"],
        ["example.com/own", "good", label, "passed", "T", "-"],
    ]
    wide = plain.probe("-o wide", code=1).rows
    assert wide[0] == ["RESOURCE", "DEVICE", "PATH", "PROBE", "RESULT", "TIME", "REASON"]
    assert wide[-1][:3] == ["example.com/own", "good", f"{plain.directory}/good"]


def test_of_long_output_the_end_is_shown_and_data_has_all(plain: Plain) -> None:
    plain.add("long")
    ends = [f"    line {i}" for i in range(21, 31)]
    shown = plain.probe("--device=long", code=1).lines[2:]
    assert shown == ["    … 20 lines before (see -o json)", *ends]
    said = plain.probe("--device=long -o json", code=1).out
    (device,) = resources_in(said)["example.com/own"]["devices"]
    assert device["probes"][0]["output"] == "".join(f"line {i}\n" for i in range(1, 31))


def test_data_says_the_same(plain: Plain) -> None:
    (own,) = resources_in(plain.probe("-o json", code=1).out).values()
    assert (own["capacity"], own["allocatable"]) == (2, 1)
    label, failure = f"exec {plain.ask.directory}/check", "exited with 3: second"
    bad, good = own["devices"]
    assert (bad["id"], bad["state"], bad["reason"]) == ("bad", "Unhealthy", f"{label}: {failure}")
    assert (good["id"], good["state"], good["reason"]) == ("good", "Healthy", "")
    results = [result for device in own["devices"] for result in device["probes"]]
    assert all(0 < result.pop("seconds") < 5 for result in results)
    keys = ("probe", "result", "reason", "label", "output")
    assert [tuple(map(result.get, keys)) for result in results] == [
        ("exec-0", "failure", failure, label, "first\nsecond\n"),
        ("exec-0", "success", "", label, "all is well\n"),
    ]


@pytest.mark.parametrize(
    ("words", "code", "devices"),
    [
        ("", 1, ["good", "bad"]),
        ("example.com/one", 0, ["good"]),
        ("--device=good", 0, ["good"]),
        ("example.com/own --device=bad", 1, ["bad"]),
    ],
)
def test_only_what_is_asked_for_is_run_and_only_that_counts(
    words: str, code: int, devices: list[str], plain: Plain
) -> None:
    first = plain.resource("g*", name="one", health=plain.check)
    said = plain.probe(words, first, plain.resource("b*", health=plain.check), code=code)
    assert [row[1] for row in said.rows[1:] if row[0]] == devices


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("example.com/no", "no resource 'example.com/no' for this node (it has: example.com/own)"),
        ("--device=no", "no device 'no' is on offer (there are: bad, good)"),
        ("example.com/own --device=no", "no device 'no' of example.com/own is on offer (there"),
    ],
)
def test_what_is_not_there_cannot_be_asked_for(words: str, said: str, plain: Plain) -> None:
    assert said in plain.probe(words, code=2).err


def test_probes_of_one_device_do_not_overlap_and_those_of_several_do(plain: Plain) -> None:
    """Each waits for another device's, and fails if its own device has one running."""
    health = plain.exec_of(
        f"set -e; cd {plain.ask.directory}\n"
        "mkdir running-$GENERICDP_DEVICE_ID; touch here-$GENERICDP_DEVICE_ID\n"
        "until [ -e here-good -a -e here-bad ]; do sleep 0.01; done\n"
        "sleep 0.05; rmdir running-$GENERICDP_DEVICE_ID\n"
    )
    again = health.replace("']", "', again]")
    plain.probe("", plain.resource(health=f"{health}, {again}"))


def test_what_would_ask_this_machine_is_not_run_for_a_copy(ask: Ask) -> None:
    """A command would run here, and a plain file always opens."""
    Machine(ask.directory / "copy").node("sensor", "10:0")
    ran = ask.directory / "ran"
    health = f"{{exec: {{command: [/bin/touch, {ran}]}}}}, {{open: {{mode: r}}}}"
    ask.config(f"name: a/b, match: [{{path: /dev/sensor}}], health: [{health}]")
    said = ask("probe --config=config.yaml --root=copy -o json", code=1)
    (device,) = resources_in(said.out)["a/b"]["devices"]
    assert device["state"] == "Unprobed"
    assert [(probe["result"], probe["seconds"]) for probe in device["probes"]] == [("", None)] * 2
    assert not ran.exists()


def test_on_this_machine_nodes_are_opened(ask: Ask) -> None:
    ask.config("name: example.com/null, match: [{path: /dev/null}], health: [{open: {}}]")
    row = ["example.com/null", "null", "open", "passed", "T", "-"]
    assert ask("probe --config=config.yaml --node-name=n").rows[1:] == [row]


def logged(*regexes: str) -> Probed:
    probes = [Probe(check=KernelLogCheck(regex=regex)) for regex in regexes]
    bound = tuple(BoundProbe(probe=probe, check=probe.check) for probe in probes)
    device = Device(id="a", key="a", path="/dev/a", identity=Identity(inode=1), probes=bound)
    return Probed(resource="example.com/a", listed=Entry(device=device, state=State.HEALTHY))


def test_each_probe_of_the_kernel_s_log_has_its_own_answer() -> None:
    """Both were Unhealthy if the log were requested the device as a whole."""
    log = Script([record("a smokes", sequence=1), record("a drowns", sequence=2)])
    probed = probe_once([logged("a burns", "a drowns")], Root(Path("/")), open_log=log.open)
    assert [outcome and outcome.ok for outcome in probed[0].outcomes] == [True, False]
    assert probed[0].reason == "kernelLog: [1.000000] a drowns"


def test_a_log_that_cannot_be_read_is_a_reason() -> None:
    def open_log() -> Log:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), "/dev/kmsg")

    probed = probe_once([logged("x")], Root(Path("/")), open_log=open_log)
    assert probed[0].state is view.DeviceState.UNHEALTHY
    assert "Operation not permitted" in probed[0].reason


SLOW = """\
# Ctrl-C of a terminal does not reach a session of its own.
setsid sleep 600 &
echo $! >> {pids}
trap '' INT TERM HUP
echo $$ >> {pids}
while :; do sleep 600; done
"""


async def probe_slowly(plain: Plain, words: str, *, devices: int) -> Process:
    plain.add(*(f"file{number}" for number in range(devices)))
    script = SLOW.format(pids=plain.ask.directory / "pids")
    health = plain.exec_of(script, ", timeoutSeconds: 600, periodSeconds: 600")
    plain.ask.config(plain.resource("file*", health=health))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", *words.split(), "--config=config.yaml"),
        "--node-name=n",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: Process) -> tuple[int | None, bytes, bytes]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out, err


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("probe -o json", [signal.SIGTERM]),
        ("probe", [signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]),
    ],
)
async def test_a_signal_ends_the_commands_with_all_that_they_started_and_more_change_nothing(
    words: str, numbers: list[signal.Signals], plain: Plain
) -> None:
    process = await probe_slowly(plain, words, devices=2)
    pids = plain.ask.directory / "pids"
    await poll_until(lambda: pids.exists() and pids.read_text().count("\n") >= 4)
    started = [int(line) for line in pids.read_text().split()]
    assert all(map(alive, started))
    for number in numbers:
        process.send_signal(number)
    assert await ended(process) in [(128 + number, b"", b"") for number in numbers]
    assert [pid for pid in started if alive(pid)] == []


async def test_what_takes_its_time_says_how_far_it_is(plain: Plain) -> None:
    process = await probe_slowly(plain, "probe", devices=5)
    assert process.stderr is not None
    async with asyncio.timeout(60):
        line = (await process.stderr.readline()).decode()
    process.send_signal(signal.SIGINT)
    assert (await ended(process))[0] == 130
    slow = f"(exec {plain.ask.directory / 'check'})"
    named = ", ".join(f"file{number} {slow}" for number in range(3))
    assert line == f"0 of 5 devices are done; waiting for {named} and 2 more\n"
