"""Test what really happens to a daemon's resources, as its metrics show it."""

from __future__ import annotations

from tests.config.changing import BAD
from tests.world import World, serial

NAME = "example.com/serial"


async def test_registrations_lists_and_allocations_are_counted(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as daemon:
        await daemon.registered(NAME)
        await world.container(serial=1)
        world.host.unplug("ttyUSB0")
        await world.kubelet.wait_for(lambda: not world.kubelet.allocatable(NAME))
        lists = world.kubelet.observed.lists[NAME]
        await daemon.counts_so(lambda found: found[f"stream_updates_total{{{NAME}}}"] == lists)
        found = await daemon.metrics()
        assert found[f"registrations_total{{{NAME},success}}"] == 1
        assert found[f"registrations_total{{{NAME},failure}}"] == 0
        assert found[f"allocations_total{{{NAME},success}}"] == 1
        assert 0 < found[f"allocation_duration_seconds_sum{{{NAME}}}"] < 10
        assert found["discovery_duration_seconds_count{}"] >= 2
        assert found["device_events_total{file}"] >= 1
        world.kubelet.break_streams(NAME)
        await daemon.counts_so(lambda found: found[f"registrations_total{{{NAME},success}}"] == 2)


async def test_results_of_probes_and_hooks_are_counted_and_go_with_them(world: World) -> None:
    state = world.host.write("state", "0")
    world.host.plug("ttyUSB0")
    file = {"path": "/state", "equals": "1"}
    probed = serial(
        health=[{"file": file, "periodSeconds": 1, "failureThreshold": 1}],
        hooks={"allocate": {"exec": {"command": ["/bin/false"]}}},
    )
    async with world.serving(probed) as daemon:
        of_probe = f"probe_results_total{{file-0,{NAME}"
        await daemon.counts_so(lambda found: found.get(f"{of_probe},failure}}"))
        state.write_text("1")
        await world.listed(NAME, "ttyUSB0")
        await daemon.counts_so(lambda found: found[f"{of_probe},success}}"])
        assert (await daemon.metrics())[f"probe_duration_seconds_count{{file-0,{NAME}}}"] >= 2
        await world.refusal(serial=1)
        failed = f"hook_results_total{{allocate,{NAME},failure}}"
        await daemon.counts_so(lambda found: found.get(failed) == 1)
        unusable = f"allocations_total{{{NAME},unusable}}"
        assert (await daemon.metrics())[unusable] == 1
        await daemon.takes(serial())
        await daemon.counts_so(lambda found: not [match for match in found if "file-0" in match])
        found = await daemon.metrics()
        assert not [hit for hit in found if hit.startswith("hook_results_total")]
        assert found[unusable] == 1
        await daemon.takes(serial(nodeNames=["another-node"]))
        await daemon.counts_so(lambda found: not [match for match in found if NAME in match])


async def test_what_became_of_each_config_is_counted(world: World) -> None:
    async with world.serving(serial()) as daemon:
        await daemon.registered(NAME)
        await daemon.takes(BAD)
        await daemon.takes(serial())
        await daemon.takes(serial(replicas=2))
        await daemon.counts_so(lambda found: found["config_reloads_total{applied}"] == 2)
        found = await daemon.metrics()
        assert found["config_reloads_total{refused}"] >= 1
        assert found["config_reloads_total{unchanged}"] >= 1
