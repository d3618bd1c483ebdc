"""What really happens to a daemon's resources, as its metrics tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from genericdp import children
from genericdp.model import Command, FileCheck, Hook, Hooks, Probe
from genericdp.simulator.kubelet import Kubelet
from genericdp.status.metrics import exposition
from genericdp.status.model import ResourceStatus, Status
from genericdp.tally import Tally
from genericdp.template import parse
from tests.reloading.configs import BAD, config
from tests.reloading.following import following, until_true
from tests.supervising import World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from genericdp.supervisor import Supervisor

NAME = "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    async with Kubelet(short_folder / "kubelet") as kubelet:
        yield World(short_folder, kubelet)


def shown(tally: Tally, *names: str) -> dict[str, float]:
    """Each sample as ``name{label,…}``, labels in the order of their names."""
    state = Status(
        version="1",
        node="node-1",
        time=0.0,
        started=0.0,
        kubelet_folder="/k",
        kubelet_present=True,
        resources=tuple(ResourceStatus(name=name, registered=True) for name in names),
    )
    body, _ = exposition(tally.copy(), state)
    return {
        f"{one.name.removeprefix('genericdp_')}{{{','.join(one.labels.values())}}}": one.value
        for metric in text_string_to_metric_families(body.decode())
        for one in metric.samples
    }


def of_serial(supervisor: Supervisor) -> dict[str, float]:
    return shown(supervisor._tally, NAME)


async def test_registrations_lists_and_allocations_are_counted(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as supervisor:
        await world.active(supervisor, NAME)
        await world.container(serial=1)
        world.host.unplug("ttyUSB0")
        await world.kubelet.wait_for(lambda: not world.kubelet.allocatable(NAME))
        found = of_serial(supervisor)
        assert found[f"registrations_total{{{NAME},success}}"] == 1
        assert found[f"registrations_total{{{NAME},failure}}"] == 0
        assert found[f"stream_updates_total{{{NAME}}}"] == world.kubelet.observed.lists[NAME]
        assert found[f"allocations_total{{{NAME},success}}"] == 1
        assert 0 < found[f"allocation_duration_seconds_sum{{{NAME}}}"] < 10
        assert found["discovery_duration_seconds_count{}"] >= 2
        assert found["device_events_total{file}"] >= 1
        world.kubelet.break_streams(NAME)
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[NAME] == 2)
        await world.active(supervisor, NAME)
        assert of_serial(supervisor)[f"registrations_total{{{NAME},success}}"] == 2


async def test_a_refusal_of_the_kubelet_is_counted(world: World) -> None:
    odd = "example.com/never..valid/"
    async with world.serving(resource(odd, "/dev/ttyUSB*")) as supervisor:
        refused = f"registrations_total{{{odd},refused}}"
        await until_true(lambda: shown(supervisor._tally, odd).get(refused) == 1)
        assert shown(supervisor._tally, odd)[f"registrations_total{{{odd},success}}"] == 0


async def test_results_of_probes_and_hooks_are_counted_and_go_with_them(world: World) -> None:
    state = world.host.folder / "state"
    state.write_text("0")
    world.host.plug("ttyUSB0")
    check = FileCheck(path=parse("/state"), equals=parse("1"))
    fails = Hook(command=Command(argv=(parse("/bin/false"),)))
    probed = replace(
        serial(),
        health=(Probe(check=check, period_seconds=1, failure_threshold=1),),
        hooks=Hooks(allocate=fails),
    )
    with children.contain():
        async with world.serving(probed) as supervisor:
            await world.listed_once(NAME)
            assert of_serial(supervisor)[f"probe_results_total{{file-0,{NAME},failure}}"] >= 1
            state.write_text("1")
            await world.listed(NAME, "ttyUSB0")
            found = of_serial(supervisor)
            assert found[f"probe_results_total{{file-0,{NAME},success}}"] >= 1
            assert found[f"probe_duration_seconds_count{{file-0,{NAME}}}"] >= 2
            await world.refusal(serial=1)
            found = of_serial(supervisor)
            assert found[f"hook_results_total{{allocate,{NAME},failure}}"] == 1
            assert found[f"allocations_total{{{NAME},unusable}}"] == 1
            supervisor.resources.value = (serial(),)
            await until_true(lambda: not [one for one in of_serial(supervisor) if "file-0" in one])
            found = of_serial(supervisor)
            assert not [one for one in found if one.startswith("hook_results_total")]
            assert found[f"allocations_total{{{NAME},unusable}}"] == 1
            supervisor.resources.value = (replace(serial(), node_names=("another-node",)),)
            await until_true(lambda: not supervisor._tally.resources)
        await children.end_all()


async def test_what_became_of_each_config_is_counted(tmp_path: Path) -> None:
    file, tally = tmp_path / "c.yaml", Tally()
    file.write_text(config("ttyUSB0"))
    async with following(file, tally=tally) as followed:
        await followed.has("ttyUSB0")
        file.write_text(BAD)
        await followed.is_(lambda state: state.problems)
        file.write_text(config("ttyUSB0"))
        await followed.is_(lambda state: not state.problems)
        file.write_text(config("ttyUSB1"))
        await followed.has("ttyUSB1")
    found = shown(tally)
    assert found["config_reloads_total{applied}"] == 2
    assert found["config_reloads_total{refused}"] >= 1
    assert found["config_reloads_total{unchanged}"] >= 1
