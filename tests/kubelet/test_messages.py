"""What the kubelet is told, in its own messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.device import BindMount, ContainerEdits, DeviceSpec
from genericdp.kubelet import servicer as messages
from genericdp.kubelet.api import deviceplugin_pb2 as api
from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from collections.abc import ItemsView, ValuesView

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import Entry


def test_an_answer_has_an_entry_for_each_container() -> None:
    """ALL-2: none would leak the ids, more than asked for would be dropped."""
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


class _Counting(dict[str, "Entry[Device]"]):
    """Counts how often somebody goes through all devices."""

    walks = 0

    def items(self) -> ItemsView[str, Entry[Device]]:  # type: ignore[override]
        self.walks += 1
        return super().items()

    def values(self) -> ValuesView[Entry[Device]]:  # type: ignore[override]
        self.walks += 1
        return super().values()


def test_a_list_is_gone_through_as_often_however_many_devices_there_are() -> None:
    """For each device, all were asked for their NUMA nodes."""
    files = [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(50)]
    listed = decide([resource("serial", "/dev/ttyUSB*")], files)["example.com/serial"]
    counting = _Counting(listed.devices)
    vars(listed)["devices"] = counting
    encoded = messages.encode_list(listed)
    assert len(api.ListAndWatchResponse.FromString(encoded).devices) == 50
    assert counting.walks <= 2


def test_generated_code_is_not_newer_than_the_protobuf_we_ask_for() -> None:
    """New generated code with an older runtime fails at import."""
    import tomllib
    from pathlib import Path

    root = Path(__file__).parents[2]
    header = (root / "genericdp/kubelet/api/deviceplugin_pb2.py").read_text()
    made_with = header.split("# Protobuf Python Version: ")[1].split("\n")[0]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert f"protobuf>={made_with}" in project["dependencies"]
