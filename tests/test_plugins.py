"""Devices that change, in the kubelet's list, the log, ``/status`` and ``/metrics``."""

from __future__ import annotations

import grpc
import pytest

from tests.world import World, resource, serial

NAME, MODEM = "example.com/serial", "example.com/modem"
STATE = {"path": "/state/$(device.name)", "equals": "1"}


def probed() -> dict[str, object]:
    """Return serial adapters that are well while /state/NAME holds 1."""
    return serial(health=[{"file": STATE, "periodSeconds": 1, "failureThreshold": 1}])


def plug(world: World, count: int, state: str = "1") -> list[str]:
    """Plug this many adapters in, which are well."""
    names = [f"ttyUSB{number}" for number in range(count)]
    for name in names:
        world.host.write(f"state/{name}", state)
        world.host.plug(name)
    return names


async def test_many_devices_that_change_at_once_are_one_line(world: World) -> None:
    for number in range(105):
        world.host.plug(f"many/x{number}")
    async with world.serving(resource(NAME, "/dev/many/*")) as daemon:
        await daemon.registered(NAME)
        assert daemon.log.count("105 of 105 devices healthy") == 1
        # All at once, where a scan amid changes of files may see only some of them.
        await daemon.takes(resource(NAME, "/dev/other/*"))
        first = "many_x0, many_x1, many_x2, many_x3, many_x4 and 100 more"
        line = await daemon.log.says(f"105 devices are Unhealthy: {first} (many_x0: ")
        assert line.startswith("info "), "the config was edited"
        await daemon.takes(resource(NAME, "/dev/many/*"))
        line = await daemon.log.says(f"105 devices are Healthy again: {first}")
        assert line.endswith(" more")
        assert daemon.log.count(" is Unhealthy: ") == daemon.log.count(" is Healthy again") == 0


async def test_a_device_falls_and_returns_with_its_probe(world: World) -> None:
    """D6: nothing is Unhealthy forever. A reason is logged once however its text changes."""
    plug(world, 2, "20")
    state = world.host.directory / "state/ttyUSB0"
    hot = {"file": {"path": STATE["path"], "max": 90}, "periodSeconds": 1, "failureThreshold": 1}
    async with world.serving(serial(health=[hot])) as daemon:
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        state.write_text("91")
        await daemon.offers(NAME, ttyUSB0="file: /state/ttyUSB0 is '91', more than 90", ttyUSB1="")
        state.write_text("hot")
        failures = f"probe_results_total{{file-0,{NAME},failure}}"
        count = (await daemon.metrics())[failures]
        await daemon.counts_so(lambda found: found[failures] >= count + 2)
        await world.listed(NAME, "ttyUSB1")
        world.host.unplug("ttyUSB0")  # what the host says comes before what a probe says
        await daemon.offers(NAME, ttyUSB0="/dev/ttyUSB0 does not exist", ttyUSB1="")
        assert daemon.log.count("ttyUSB0 is Unhealthy") == 1
        state.write_text("20")
        world.host.plug("ttyUSB0")
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        assert world.kubelet.observed.registrations[NAME] == 1


async def test_what_changes_within_a_moment_goes_out_together(world: World) -> None:
    """LAW-7: each list costs the kubelet a write. The first change comes at once."""
    async with world.serving(serial()):
        await world.listed_once(NAME)
        lists = world.kubelet.observed.lists[NAME]
        await world.listed(NAME, *plug(world, 50))
        assert world.kubelet.observed.lists[NAME] - lists <= 4


async def test_a_device_that_turned_unhealthy_the_moment_before_is_refused(world: World) -> None:
    """The kubelet may ask before it has the list."""
    plug(world, 1)
    async with world.serving(probed()) as daemon:
        await world.listed(NAME, "ttyUSB0")
        world.kubelet.freeze()
        world.host.write("state/ttyUSB0", "broken")
        await daemon.offers(NAME, ttyUSB0="file: /state/ttyUSB0 is 'broken', not '1'")
        with pytest.raises(grpc.aio.AioRpcError, match="is Unhealthy: file: /state/ttyUSB0 is 'br"):
            await world.allocated(NAME, ["ttyUSB0"])
        world.kubelet.thaw()


async def test_metrics_call_probes_by_kind_and_place_and_never_by_what_they_run(
    world: World,
) -> None:
    plug(world, 1)
    secret = {"command": ["/bin/sh", "-c", "exit 0", "--token=x"]}
    wanted = {f"probe_results_total{{{name},{NAME},success}}" for name in ("exec-0", "file-1")}
    async with world.serving(serial(health=[{"exec": secret}, {"file": STATE}])) as daemon:
        await daemon.counts_so(lambda found: all(found.get(name) for name in wanted))
        assert "token" not in (await daemon.get("/metrics"))[1]


async def test_the_devices_that_a_container_gets_are_those_that_are_preferred(world: World) -> None:
    """Spread over devices, and packed after a reload that keeps the registration."""
    names = plug(world, 3)
    shares = [name + share for share in ("", "::1", "::2", "::3") for name in names]
    async with world.serving(serial(replicas=3)) as daemon:
        await world.listed(NAME, *shares[:9])
        given = await world.container("a", serial=3)
        assert given.env["SERIAL"] == "ttyUSB0,ttyUSB1,ttyUSB2"
        await daemon.takes(serial(replicas=4, prefer="packed"))
        await world.listed(NAME, *shares)
        assert (await world.container("b", serial=2)).env["SERIAL"] == "ttyUSB0"
        assert world.kubelet.observed.registrations[NAME] == 1
        await daemon.takes(serial(replicas=4, prefer="none"))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[NAME] == 2)


async def test_a_flip_is_one_list_of_one_resource_and_no_registration(world: World) -> None:
    """No list is sent twice, and no change ends a stream."""
    names = ("serial", "modem", "camera")
    resources = [resource(f"example.com/{name}", f"/dev/{name}*") for name in names]
    for major, name in enumerate(names, 200):
        for number in range(2):
            world.host.plug(f"{name}{number}", major=major)
    observed = world.kubelet.observed
    async with world.serving(*resources) as daemon:
        for name in names:
            await daemon.registered(f"example.com/{name}")
            await world.listed(f"example.com/{name}", f"{name}0", f"{name}1")
        lists = dict(observed.lists)
        world.host.unplug("serial1")
        await world.listed(NAME, "serial0")
        world.host.plug("serial1", major=200)
        await world.listed(NAME, "serial0", "serial1")
        # What else the flips might send comes before the list of a later change.
        world.host.plug("camera2", major=202)
        await world.listed("example.com/camera", "camera0", "camera1", "camera2")
        sent = {NAME: lists[NAME] + 2, "example.com/camera": lists["example.com/camera"] + 1}
        assert dict(observed.lists) == lists | sent
        assert set(observed.registrations.values()) == {1}
