"""``genericdp simulate``: what it shows as things change, and containers that hooks refuse.

Of one picture: tests/cases/simulate.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.errors import GenericdpError, ungrouped
from genericdp.settings import Settings
from genericdp.simulator.simulation import Simulation

from tests.world import Host

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from genericdp.simulator.pods import Start

    from tests.cli.asking import Answer, Ask

pytestmark = pytest.mark.slow

CONFIG = """\
  - name: example.com/serial
    match: [{path: "/dev/ttyUSB*"}]
    replicas: 2
    inject:
      env: {SERIAL: $(device.path)}
"""
BY_DRA = """\
    servedBy: dra
    attributes: {port: $(device.name)ü, nothing: $(usb.serial)}
"""
AMOUNT = "example.com/serial=1"


class Place:
    """A machine with an adapter, and its config."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.host = Host(ask.directory / "host")
        self.host.plug("ttyUSB0")
        self.host.plug("null", minor=3)
        self.takes = ask.config
        self.takes(CONFIG)

    def once(self, words: str = "", code: int = 0) -> Answer:
        """Give one picture: here, as to start a process takes longer."""
        where = "--config=config.yaml --root=host"
        return self.ask(f"simulate {where} --once {words}", code=code)

    @asynccontextmanager
    async def running(self, words: str = "") -> AsyncIterator[Process]:
        """Begin it and end it with Ctrl-C, which is a good end."""
        command = f"-m genericdp simulate --config=config.yaml --root=host {words}"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command.split(), stdout=pipe, stderr=pipe
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                await process.communicate()
        assert process.returncode == 0


@pytest.fixture
def place(ask: Ask) -> Place:
    return Place(ask)


async def counts(process: Process) -> list[str]:
    """Read one picture, and return the counts of Capacity and Allocatable."""
    read = await until_line(process, "Allocatable:")
    read += await until_line(process, "  ")
    return [line.partition(":  ")[2] for line in read.splitlines() if ":  " in line[10:]]


async def until_line(process: Process, text: str) -> str:
    """Read up to a line with this text; give all that was read."""
    assert process.stdout is not None
    read = ""
    async with asyncio.timeout(60):
        while text not in read:
            line = (await process.stdout.readline()).decode()
            assert line, read
            read += line
    return read


def test_a_picture_as_data_has_a_container_as_allocate_gives_it(place: Place, ask: Ask) -> None:
    shown = place.once(f"--allocate={AMOUNT} -o json").data
    given = ask(f"allocate config.yaml --root=host {AMOUNT} -o json").data
    assert shown["container"] == given["example.com/serial"]
    assert (shown["resourceSlices"], shown["error"], shown["news"]) == ([], "", "")


def test_a_temporary_directory_with_too_long_a_path_is_told_as_such(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    out, err = place.once(code=2)
    assert out == ""
    assert "but the path of a unix socket has at most 107: set TMPDIR to a shorter path" in err
    assert list(long.iterdir()) == []


NAMES = "exclusive: false, replicas: 2, match: [{path: /dev/ttyUSB0}], id: r{i}"


@pytest.mark.parametrize(
    ("inject", "cuts"),
    [
        ("env: {A{i}: b}", {"Capacity and Allocatable:": 30}),
        ("devices: [{path: /dev/no}]", {"Capacity:": 45, "Allocatable:": 45, "Unhealthy:": 45}),
    ],
)
def test_a_picture_of_many_resources_fits_on_a_screen(
    inject: str, cuts: dict[str, int], place: Place
) -> None:
    line = f"name: example.com/r{{i}}, {NAMES}, inject: {{{inject}}}"
    place.takes(*(line.replace("{i}", str(i)) for i in range(50)))
    lines = place.once().lines
    more = [line for line in lines if line.endswith(" more: -o json has all")]
    assert len(lines) <= 23
    assert [line for line in lines[1:] if not line.startswith(" ")] == [*cuts]
    assert more == [f"  and {left_out} more: -o json has all" for left_out in cuts.values()]


def test_of_many_resources_without_devices_another_command_says_why(place: Place) -> None:
    place.takes(*(f"name: a/b{i}, match: [{{path: /dev/no{i}}}]" for i in range(6)))
    why = "genericdp discover config.yaml --root host"
    assert place.once().lines[-2:] == ["No devices:", f"  6 resources; why: {why}"]


def test_a_warning_about_the_config_is_given_once(place: Place) -> None:
    place.takes(f"{CONFIG}    health: [{{open: {{}}, periodSeconds: 1, timeoutSeconds: 5}}]\n")
    assert place.once().err.count("timeoutSeconds") == 1


async def test_changes_of_devices_and_of_the_config_show_at_once(place: Place) -> None:
    async with place.running() as process:
        assert await counts(process) == ["2"]
        assert "genericdp allocate " in await until_line(process, "Next: ")
        place.host.plug("ttyUSB1")
        assert await counts(process) == ["4   (was 2)"]
        place.host.unplug("ttyUSB0")
        assert await counts(process) == ["4", "2   (was 4)"]
        await until_line(process, "example.com/serial: ttyUSB0: /dev/ttyUSB0 does not exist")
        place.takes(CONFIG.replace("match", "matches"))
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while "cannot be used" not in (await process.stderr.readline()).decode():
                pass
        place.takes(CONFIG)
        await until_line(process, "  the config on disk is active again; the node shows:\n")
        place.takes(CONFIG.replace("replicas: 2", "replicas: 3"))
        await until_line(process, "  a new config is active; the node shows:\n")
        async with asyncio.timeout(60):  # its lists may come after it
            while await counts(process) != ["5   (was 4)", "3   (was 2)"]:
                pass


async def test_another_reason_shows_at_once_though_the_counts_stay_the_same(place: Place) -> None:
    place.takes(CONFIG.replace("    replicas", "    exclude: [{path: /dev/*0}]\n    replicas"))
    async with place.running() as process:
        await until_line(process, "example.com/serial: /dev/ttyUSB0: excluded by the config")
        await until_line(process, "(Ctrl-C ends it")
        place.host.plug("ttyUSB10")
        read = await until_line(process, "serial: /dev/ttyUSB10: excluded by the config")
        assert "No devices:\n  example.com/serial: all that is matched" in read
        place.host.unplug("ttyUSB0")
        place.host.unplug("ttyUSB10")
        await until_line(process, "example.com/serial: nothing on this node matches match[0]")


async def test_resource_slices_show_what_claims_can_have_and_follow_changes(place: Place) -> None:
    place.takes(CONFIG.replace("replicas: 2", "replicas: 30") + BY_DRA)
    async with place.running("--node-name=n") as process:
        first = (await until_line(process, "(Ctrl-C ends it")).splitlines()
        start = first.index("ResourceSlices:")
        assert first[start + 1 : start + 3] == [
            "  n/example.com/serial, slice 1 of 1: 30 devices",
            '    ttyusb0-8acffaea: port "ttyUSB0ü", id "ttyUSB0"',
        ]
        assert (len(first), first[-2]) == (22, "  and 13 more: -o json has all")
        place.host.unplug("ttyUSB0")
        read = await until_line(process, "ttyUSB0: /dev/ttyUSB0 does not exist")
        assert "n/example.com/serial, slice 1 of 1: 30 devices" in read
        assert ', id "ttyUSB0", taint genericdp.io/missing=gone:NoSchedule\n' in read


CARD = """\
  - name: example.com/card
    match: [{{path: /dev/null}}]
    inject: {{env: {{CARD: $(device.path)}}}}
    hooks:
      {hook}: {{exec: {{command: [/bin/sh, -c, '{script}']}}}}
"""
LOCKED = "echo the card is locked; exit 3"
ASKED = "--allocate=example.com/card=1"
HERE = "--log-level=error --root=/"
"""Simulate on this machine, where commands run."""
WHY = (
    "rpc error: code = FailedPrecondition desc = example.com/card: device null:"
    " its {} hook /bin/sh exited with 3: the card is locked"
)
START_FAILED = f"device plugin PreStartContainer rpc failed with err: {WHY.format('preStart')}"
NOT_RUN = "of a copy, hooks and all probes but file are not run, and count as passed"
GOT = "  env         CARD=/dev/null"


def test_once_fails_where_the_container_would_wait_for_its_pre_start_hook(place: Place) -> None:
    place.takes(CARD.format(hook="preStart", script=LOCKED))
    reported = f"genericdp: the container would wait: {START_FAILED}\n"
    assert place.once(f"{ASKED} {HERE}", code=1).err == reported
    said = place.once(f"{ASKED} {HERE} -o json", code=1)
    assert said.err == reported
    error = f"CreateContainerConfigError: {START_FAILED}"
    assert (said.data["container"], said.data["error"]) == (None, error)


def test_an_allocate_hook_that_fails_refuses_the_container_for_good(place: Place) -> None:
    place.takes(CARD.format(hook="allocate", script=LOCKED))
    out, err = place.once(f"{ASKED} {HERE}", code=1)
    assert out == ""
    said = "no container would get this: UnexpectedAdmissionError: Allocate failed due to "
    assert err.startswith(f"genericdp: {said}")
    assert WHY.format("allocate") in err


@pytest.mark.parametrize("hook", ["allocate", "preStart"])
def test_hooks_really_run_unless_it_is_a_copy_and_the_container_is_shown(
    hook: str, place: Place, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    place.takes(CARD.format(hook=hook, script=f"echo once >> {ran}"))
    said = place.once(f"{ASKED} {HERE}")
    assert (said.err, ran.read_text(), said.lines[-1]) == ("", "once\n", GOT)
    place.takes(CARD.format(hook=hook, script=f"rm {ran}; exit 1"))
    said = place.once(ASKED)
    assert said.lines[-1] == GOT
    assert said.err.endswith(f"warning --root host: {NOT_RUN}\n")
    assert ran.exists()


async def test_a_container_that_waits_is_in_the_picture_with_its_reason(place: Place) -> None:
    place.takes(CARD.format(hook="preStart", script=LOCKED))
    async with place.running(f"{ASKED} {HERE}") as process:
        lines = (await until_line(process, "(Ctrl-C")).splitlines()
    assert lines[-3:-1] == [
        "The container waits, and is started again every 10 s:",
        f"  CreateContainerConfigError: {START_FAILED}",
    ]


async def test_a_container_that_waits_is_started_until_it_runs(
    place: Place, tmp_path: Path, short_directory: Path
) -> None:
    """PRE-1: and what it waits for is reported once, however often the same is tried."""
    tries = tmp_path / "tries"
    script = f"echo >> {tries}; test $$(wc -l < {tries}) = 3 && exit 0; {LOCKED}"
    place.takes(CARD.format(hook="preStart", script=script))
    shown: list[Start | None] = []

    def show(_picture: object, start: Start | None, _news: str) -> None:
        """End the simulation when the container runs."""
        shown.append(start)
        if start is not None and start.given is not None:
            raise GenericdpError("the container runs")

    simulation = Simulation(
        Settings(
            configs=(Path("config.yaml"),),
            kubelet_directory=short_directory,
            cdi_directory=short_directory,
            root=Path("/"),
            node_name="n",
        ),
        amounts={"example.com/card": 1},
        once=False,
        show=show,
        retry_seconds=0.01,
    )
    async with asyncio.timeout(60):
        with pytest.raises(GenericdpError, match="the container runs"):
            async with ungrouped():
                await simulation.run()
    assert [start and start.message for start in shown] == [START_FAILED, ""]
    assert tries.read_text().count("\n") == 3
