"""``genericdp simulate --allocate`` where hooks run, and what becomes of the container."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import ContainerEdits, DeviceSpec
from genericdp.errors import GenericdpError, ungrouped
from genericdp.settings import Settings
from genericdp.simulator.simulation import Simulation

from tests.cli.test_simulate import Capture, ends, once, simulate, until_line
from tests.printed import resources_in
from tests.world import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.simulator.pods import Start
    from genericdp.simulator.simulation import NodeResource

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/card
    match: [{{path: /dev/null}}]
    inject: {{env: {{CARD: $(device.path)}}}}
    hooks:
      {hook}: {{exec: {{command: [/bin/sh, -c, '{script}']}}}}
"""
LOCKED = "echo the card is locked; exit 3"
ASKED = "--allocate=example.com/card=1"
QUIET = "--log-level=error"
WHY = (
    "rpc error: code = FailedPrecondition desc = example.com/card: device null:"
    " its {} hook /bin/sh exited with 3: the card is locked"
)
START_FAILED = f"device plugin PreStartContainer rpc failed with err: {WHY.format('preStart')}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "host")
    host.plug("null", minor=3)
    return host


HERE = "--root=/"
"""Simulate on this machine, where commands run."""


def config(host: Host, hook: str, script: str) -> Path:
    path = host.directory.parent / "config.yaml"
    path.write_text(CONFIG.format(hook=hook, script=script))
    return path


def test_once_fails_where_the_container_would_wait_for_its_pre_start_hook(
    host: Host, capsys: Capture
) -> None:
    config(host, "preStart", LOCKED)
    reported = f"genericdp: the container would wait: {START_FAILED}\n"
    code, out, err = once(capsys, host, ASKED, QUIET, HERE)
    assert (code, err) == (1, reported)
    assert out.splitlines()[1:] == ["Capacity and Allocatable:", "  example.com/card:  1"]
    code, out, err = once(capsys, host, ASKED, QUIET, "-o", "json", HERE)
    assert (code, err) == (1, reported)
    shown = json.loads(out)
    assert [resource["allocatable"] for resource in shown["resources"]] == [1]
    error = f"CreateContainerConfigError: {START_FAILED}"
    assert (shown["container"], shown["error"]) == (None, error)


def test_an_allocate_hook_that_fails_refuses_the_container_for_good(
    host: Host, capsys: Capture
) -> None:
    config(host, "allocate", LOCKED)
    code, out, err = once(capsys, host, ASKED, QUIET, HERE)
    assert (code, out) == (1, "")
    said = "no container would get this: UnexpectedAdmissionError: Allocate failed due to "
    assert err.startswith(f"genericdp: {said}")
    assert WHY.format("allocate") in err


NOT_RUN = "of a copy, hooks and all probes but file are not run, and count as passed"


@pytest.mark.parametrize("hook", ["allocate", "preStart"])
def test_hooks_really_run_unless_it_is_a_copy_and_the_container_is_shown(
    hook: str, host: Host, tmp_path: Path, capsys: Capture
) -> None:
    ran = tmp_path / "ran"
    config(host, hook, f"echo once >> {ran}")
    code, out, err = once(capsys, host, ASKED, HERE)
    assert (code, err, ran.read_text()) == (0, "", "once\n")
    assert out.splitlines()[-1] == "  env         CARD=/dev/null"
    config(host, hook, f"rm {ran}; exit 1")
    code, out, err = once(capsys, host, ASKED)
    assert (code, out.splitlines()[-1]) == (0, "  env         CARD=/dev/null")
    assert err.endswith(f"warning --root {host.directory}: {NOT_RUN}\n")
    assert ran.exists()


@pytest.mark.parametrize(
    ("most", "state"),
    [
        (99, ("Healthy", "")),
        (90, ("Unhealthy", "file: /sys/temp is '97', more than 90")),
    ],
)
def test_of_a_copy_probes_read_files_and_run_and_open_nothing(
    most: int, state: tuple[str, str], host: Host, tmp_path: Path, capsys: Capture
) -> None:
    ran = tmp_path / "ran"
    host.write("/sys/temp", "97")
    path = config(host, "allocate", "")
    path.write_text(
        f"{path.read_text().partition('    hooks:')[0]}    health:\n"
        f"      - exec: {{command: [/bin/sh, -c, 'touch {ran}; exit 1']}}\n"
        "      - open: {}\n"
        "      - kernelLog: {regex: .}\n"
        f"      - file: {{path: /sys/temp, max: {most}}}\n"
    )
    (host.directory / "dev/null").chmod(0)
    code, out, err = once(capsys, host, "-o", "json")
    (card,) = resources_in(out).values()
    assert (code, card["allocatable"]) == (0, int(state[0] == "Healthy"))
    assert [(device["state"], device["reason"]) for device in card["devices"]] == [state]
    assert err.count(NOT_RUN) == 1
    assert not ran.exists()


async def test_a_container_that_waits_is_in_the_picture_with_its_reason(host: Host) -> None:
    config(host, "preStart", LOCKED)
    process = await simulate(host, ASKED, QUIET, HERE)
    lines = (await until_line(process, "(Ctrl-C")).splitlines()
    await ends(process)
    assert lines[-3:-1] == [
        "The container waits, and is started again every 10 s:",
        f"  CreateContainerConfigError: {START_FAILED}",
    ]


class Pictures(list["Start | None"]):
    """The container in each picture; ends the simulation when it runs."""

    def __call__(
        self, picture: Mapping[str, NodeResource], start: Start | None, _news: str
    ) -> None:
        assert picture["example.com/card"].allocatable == 1
        self.append(start)
        if start is not None and start.given is not None:
            raise GenericdpError("the container runs")


async def test_a_container_that_waits_is_started_until_it_runs(
    host: Host, tmp_path: Path, short_directory: Path
) -> None:
    """PRE-1: and what it waits for is reported once, however often the same is tried."""
    tries = tmp_path / "tries"
    script = f"echo >> {tries}; test $$(wc -l < {tries}) = 3 && exit 0; {LOCKED}"
    path = config(host, "preStart", script)
    shown = Pictures()
    simulation = Simulation(
        Settings(
            configs=(path,),
            kubelet_directory=short_directory,
            cdi_directory=short_directory,
            root=Path("/"),
            node_name="n",
        ),
        amounts={"example.com/card": 1},
        once=False,
        show=shown,
        retry_seconds=0.01,
    )
    async with asyncio.timeout(60):
        with pytest.raises(GenericdpError, match="the container runs"):
            async with ungrouped():
                await simulation.run()
    waits, runs = shown
    assert waits is not None
    assert waits.message == START_FAILED
    assert runs is not None
    node = DeviceSpec(host_path="/dev/null", container_path="/dev/null", permissions="rw")
    assert runs.given == ContainerEdits(devices=(node,), env={"CARD": "/dev/null"})
    assert tries.read_text().count("\n") == 3
