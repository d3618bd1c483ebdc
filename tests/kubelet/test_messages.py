"""Test what the kubelet gets, in its own messages, and how long they may be."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from genericdp.devices.device import BindMount, ContainerEdits, DeviceSpec
from genericdp.kubelet import servicer as messages
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc

from tests.devices.making import decide, node
from tests.devices.making import resource as resource_of
from tests.world import World, resource

NAME = "example.com/serial"
MAX_BYTES = 4 * 1024 * 1024
SHARES = 10_000
DEVICES = 20


def test_an_answer_has_an_entry_for_each_container() -> None:
    """ALL-2: none would leak the ids, more than requested would be dropped."""
    edits = ContainerEdits(
        devices=(DeviceSpec(host_path="/dev/a", container_path="/dev/b", permissions="r"),),
        mounts=(BindMount(host_path="/h", container_path="/c", read_only=True),),
        env={"A": "1"},
        annotations={"k": "v"},
        cdi=("v.com/c=d",),
    )
    answer = api.AllocateResponse.FromString(messages.allocation([edits, ContainerEdits()]))
    first, second = answer.container_responses
    assert second == api.ContainerAllocateResponse()
    assert first == api.ContainerAllocateResponse(
        envs={"A": "1"},
        mounts=[api.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[api.DeviceSpec(container_path="/dev/b", host_path="/dev/a", permissions="r")],
        annotations={"k": "v"},
        cdi_devices=[api.CDIDevice(name="v.com/c=d")],
    )


@pytest.mark.parametrize(("known", "sent"), [(2, [[0], [0]]), (1, [[], []])])
def test_numa_nodes_are_sent_if_all_devices_have_some(known: int, sent: list[list[int]]) -> None:
    """LAW-8: a kubelet takes a device without nodes for one that fits everywhere."""
    files = [node(f"/dev/ttyUSB{number}", (188, number)) for number in range(2)]
    listed = decide([resource_of("serial", "/dev/ttyUSB*")], files)[NAME]
    entries = [
        replace(entry, device=replace(entry.device, numa_nodes=(0,) if i < known else ()))
        for i, entry in enumerate(listed.devices.values())
    ]
    encoded = messages.encode_list(replace(listed, entries=tuple(entries)))
    found = api.ListAndWatchResponse.FromString(encoded).devices
    assert [[numa.ID for numa in device.topology.nodes] for device in found] == sent
    # The kubelet would take an empty topology for a constraint that no node meets.
    assert [device.HasField("topology") for device in found] == [bool(nodes) for nodes in sent]


async def test_a_list_of_more_than_fits_never_passes_four_mebibytes_and_uses_them(
    short_directory: Path,
) -> None:
    """K11: the size with all devices Unhealthy counts; the rest is not offered, and reported."""
    world = World(short_directory)
    for number in range(DEVICES):
        world.host.plug(f"ttyUSB{number}")
    many = resource(NAME, "/dev/ttyUSB*", replicas=SHARES)
    async with world.kubelet, world.serving(many) as daemon:
        await world.listed_once(NAME)
        total = DEVICES * SHARES
        await daemon.log.says(f"of {total} devices, shares counted, fit into the {MAX_BYTES}")
        (path,) = world.kubelet.paths(NAME)
        options = [("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
            stream = rpc.DevicePluginStub(channel).ListAndWatch(api.Empty())
            answer = await stream.read()
            stream.cancel()
    assert isinstance(answer, api.ListAndWatchResponse)
    for share in answer.devices:
        share.health = "Unhealthy"
    size, count = answer.ByteSize(), len(answer.devices) // SHARES
    assert 0 < count < DEVICES
    assert MAX_BYTES - size / count < size <= MAX_BYTES
    warnings = [line for line in daemon.log.lines if line.startswith("warning")]
    left_out = DEVICES - count
    assert warnings == [f"warning {NAME}: list full: left out are {left_out} of the devices"]
    assert world.kubelet.observed.registrations[NAME] == 1


def test_generated_code_is_not_newer_than_the_protobuf_we_ask_for() -> None:
    """New generated code with an older runtime fails at import."""
    root = Path(__file__).parents[2]
    header = (root / "genericdp/kubelet/api/deviceplugin_pb2.py").read_text()
    made_with = header.split("# Protobuf Python Version: ")[1].split("\n")[0]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert f"protobuf>={made_with}" in project["dependencies"]
