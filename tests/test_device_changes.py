"""What the kubelet, the log, ``/status`` and ``/metrics`` are told of devices that change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.kubelet.api import deviceplugin_pb2 as api
from tests.world import World, resource, serial

if TYPE_CHECKING:
    from tests.world import Daemon

NAME = "example.com/serial"


def of_devices(daemon: Daemon) -> list[str]:
    """Return what the log says of the resource's devices."""
    lines = (line.partition(" ")[2] for line in daemon.log.lines)
    of_it = [line.removeprefix(f"{NAME}: ") for line in lines if line.startswith(f"{NAME}: ")]
    return [line for line in of_it if "device" in line]


async def test_the_log_has_one_line_for_each_device_that_changes(world: World) -> None:
    for number in (1, 2):
        world.host.plug(f"ttyUSB{number}")
    async with world.serving(serial(forgetAfterSeconds=1)) as daemon:
        await daemon.log.says("2 of 2 devices healthy")
        world.host.unplug("ttyUSB2")
        await daemon.log.says("device ttyUSB2 is Unhealthy: /dev/ttyUSB2 does not exist")
        world.host.plug("ttyUSB2")
        await daemon.log.says("device ttyUSB2 is Healthy again")
        world.host.plug("ttyUSB3")
        await daemon.log.says("device ttyUSB3 is new")
        world.host.unplug("ttyUSB1")
        await daemon.log.says("device ttyUSB1 has left the list")
        assert of_devices(daemon) == [
            "2 of 2 devices healthy",
            "device ttyUSB2 is Unhealthy: /dev/ttyUSB2 does not exist",
            "device ttyUSB2 is Healthy again",
            "device ttyUSB3 is new",
            "device ttyUSB1 is Unhealthy: /dev/ttyUSB1 does not exist",
            "device ttyUSB1 has left the list",
        ]


async def test_many_devices_that_change_at_once_are_one_line(world: World) -> None:
    for number in range(105):
        world.host.plug(f"many/x{number}")
    async with world.serving(resource(NAME, "/dev/many/*")) as daemon:
        await daemon.registered(NAME)
        assert daemon.log.count("105 of 105 devices healthy") == 1
        # All at once, where a look amid changes of files may see only some of them.
        await daemon.takes(resource(NAME, "/dev/other/*"))
        first = "many_x0, many_x1, many_x2, many_x3, many_x4 and 100 more"
        line = await daemon.log.says(f"105 devices are Unhealthy: {first} (many_x0: ")
        assert line.startswith("info "), "somebody has edited the config"
        await daemon.takes(resource(NAME, "/dev/many/*"))
        line = await daemon.log.says(f"105 devices are Healthy again: {first}")
        assert line.endswith(" more")
        assert daemon.log.count(" is Unhealthy: ") == daemon.log.count(" is Healthy again") == 0


async def test_a_reason_is_logged_once_however_its_text_changes(world: World) -> None:
    world.host.plug("ttyUSB1")
    state = world.host.write("state", "91")
    probe = {"file": {"path": "/state", "max": 90}, "periodSeconds": 1, "failureThreshold": 1}
    async with world.serving(serial(health=[probe])) as daemon:
        await daemon.offers(NAME, ttyUSB1="file: /state is '91', more than 90")
        state.write_text("95")
        await daemon.offers(NAME, ttyUSB1="file: /state is '95', more than 90")
        state.write_text("hot")
        await daemon.offers(NAME, ttyUSB1="file: /state is 'hot', which is no number")
        state.write_text("20")
        await daemon.log.says("device ttyUSB1 is Healthy")
        assert daemon.log.count("ttyUSB1 is Unhealthy") == 1
        assert daemon.log.count("is now Unhealthy because") == 0


async def test_status_tells_since_when_a_device_is_as_it_is(world: World) -> None:
    for number in (1, 2):
        world.host.plug(f"ttyUSB{number}")
    async with world.serving(serial()) as daemon:

        async def since(name: str) -> str:
            found = {one["id"]: one["since"] for one in (await daemon.resource(NAME))["devices"]}
            return str(found[name])

        await daemon.counts(NAME, 2)
        first, other = await since("ttyUSB1"), await since("ttyUSB2")
        world.host.unplug("ttyUSB1")
        await daemon.offers(NAME, ttyUSB1="/dev/ttyUSB1 does not exist", ttyUSB2="")
        gone = await since("ttyUSB1")
        world.host.plug("ttyUSB1")
        await daemon.offers(NAME, ttyUSB1="", ttyUSB2="")
        assert first < gone < await since("ttyUSB1")
        assert await since("ttyUSB2") == other


async def test_metrics_call_probes_by_kind_and_place_and_never_by_what_they_run(
    world: World,
) -> None:
    world.host.plug("ttyUSB1")
    secret = {"command": ["/bin/sh", "-c", "exit 0", "--token=x"]}
    probes = [{"exec": secret}, {"file": {"path": "/state", "equals": "1"}}, {"exec": secret}]
    hooks = {"preStart": {"exec": secret}}
    world.host.write("state", "1")
    async with world.serving(serial(health=probes, hooks=hooks)) as daemon:
        await world.listed(NAME, "ttyUSB1")
        named = ("exec-0", "file-1", "exec-2")
        await daemon.counts_so(
            lambda found: all(
                found[f"probe_results_total{{{one},{NAME},success}}"] for one in named
            )
        )
        found = await daemon.metrics()
        assert len([one for one in found if one.startswith("probe_results_total")]) == 2 * len(
            named
        )
        assert f"hook_results_total{{preStart,{NAME},success}}" in found
        assert "token" not in (await daemon.get("/metrics"))[1]


async def test_all_devices_of_a_list_carry_their_numa_nodes_or_none_does(world: World) -> None:
    """LAW-8: a kubelet takes a device without nodes for one that fits everywhere."""
    world.host.write("/sys/devices/system/node/online", "0-1")
    for number in (0, 1):
        world.host.plug(f"ttyUSB{number}")
        folder = f"/sys/devices/virtual/tty/ttyUSB{number}"
        world.host.write(f"{folder}/numa_node", str(number))

    def nodes(told: api.ListAndWatchResponse) -> dict[str, list[int]]:
        return {one.ID: [node.ID for node in one.topology.nodes] for one in told.devices}

    async with world.serving(serial(forgetAfterSeconds=0)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        async with world.plugin(NAME) as plugin:
            lists = aiter(plugin.ListAndWatch(api.Empty()))
            assert nodes(await anext(lists)) == {"ttyUSB0": [0], "ttyUSB1": [1]}
            world.host.plug("ttyUSB2")
            assert nodes(await anext(lists)) == {"ttyUSB0": [], "ttyUSB1": [], "ttyUSB2": []}
            world.host.unplug("ttyUSB2")
            while "ttyUSB2" in (told := nodes(await anext(lists))):
                assert not any(told.values())
            assert told == {"ttyUSB0": [0], "ttyUSB1": [1]}
