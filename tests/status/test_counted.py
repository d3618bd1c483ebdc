"""Test what really happens to a daemon's resources, as its metrics show it."""

from __future__ import annotations

from tests.config.changing import BAD
from tests.world import World, resource, serial

NAME = "example.com/serial"
OTHER = "example.com/other"


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
        assert f"registrations_total{{{NAME},failure}}" not in found
        assert found[f"devices_forgotten_total{{{NAME}}}"] == 0
        assert found[f"allocations_total{{{NAME},success}}"] == 1
        assert 0 < found["allocation_duration_seconds_sum{}"] < 10
        assert found["discovery_duration_seconds_count{}"] >= 2
        assert found["device_events_total{file}"] >= 1
        world.kubelet.break_streams(NAME)
        await daemon.counts_so(lambda found: found[f"registrations_total{{{NAME},success}}"] == 2)


async def test_a_device_that_is_forgotten_is_counted_and_missed(world: World) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    at_least = resource(OTHER, "/dev/none", expect={"min": 1})
    async with world.serving(serial(forgetAfterSeconds=0, expect=2), at_least) as daemon:
        await daemon.registered(NAME)
        await daemon.counts_so(lambda found: found.get(f"devices_missing{{{NAME}}}") == 0)
        world.host.unplug("ttyUSB0")
        await daemon.counts_so(lambda found: found[f"devices_missing{{{NAME}}}"] == 1)
        found = await daemon.metrics()
        assert found[f"devices_forgotten_total{{{NAME}}}"] == 1
        assert found[f"devices_expected{{{NAME}}}"] == found[f"devices_expected_max{{{NAME}}}"] == 2
        assert found[f"devices_expected{{{OTHER}}}"] == found[f"devices_missing{{{OTHER}}}"] == 1
        without_a_maximum = {f"devices_{name}{{{OTHER}}}" for name in ("expected_max", "surplus")}
        assert without_a_maximum.isdisjoint(found)
        assert f"device_unhealthy{{ttyUSB0,gone,{NAME}}}" not in found
        world.host.unplug("ttyUSB1")
        await daemon.counts_so(lambda found: found[f"devices_missing{{{NAME}}}"] == 2)
        assert (await daemon.metrics())[f"devices_forgotten_total{{{NAME}}}"] == 2


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
        await daemon.counts_so(lambda found: found.get(f"{of_probe},success}}"))
        assert (await daemon.metrics())["probe_duration_seconds_count{}"] >= 2
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
        await daemon.counts_so(lambda found: found.get("config_reloads_total{applied}") == 2)
        found = await daemon.metrics()
        assert found["config_reloads_total{refused}"] >= 1
        assert found["config_reloads_total{unchanged}"] >= 1


async def test_twenty_resources_have_few_series_once_each_has_allocated(world: World) -> None:
    """A fleet of 5,000 nodes has 5,000 times as many."""
    config = []
    for number in range(20):
        config.append(resource(f"example.com/r{number}", f"/dev/r{number}-*", expect=2))
        for index in range(2):
            world.host.plug(f"r{number}-{index}")
    async with world.serving(*config) as daemon:
        for number in range(20):
            await daemon.registered(f"example.com/r{number}")
        await world.container(**{f"r{number}": 1 for number in range(20)})  # type: ignore[arg-type]
        _, body = await daemon.get("/metrics")
        series = [line for line in body.splitlines() if not line.startswith("#")]
        assert 100 < len(series) <= 400
