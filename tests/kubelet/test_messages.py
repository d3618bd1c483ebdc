from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.device import BindMount, ContainerEdits, DeviceNode
from genericdp.errors import InvalidCallError
from genericdp.kubelet import messages
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

IDS = st.text(st.characters(codec="utf-8"), max_size=300)


def topology(nodes: list[int]) -> api.TopologyInfo | None:
    """None rather than one without nodes, which would be a wish that nothing fulfils."""
    return api.TopologyInfo(nodes=[api.NUMANode(ID=one) for one in nodes]) if nodes else None


@given(st.lists(st.tuples(IDS, st.booleans(), st.lists(st.integers(0, 9))), max_size=5))
def test_joined_entries_are_the_list_that_protobuf_would_write(
    devices: list[tuple[str, bool, list[int]]],
) -> None:
    joined = b"".join(
        messages.listed_device(name, healthy=healthy, numa_nodes=nodes)
        for name, healthy, nodes in devices
    )
    whole = api.ListAndWatchResponse(
        devices=[
            api.Device(
                ID=name,
                health="Healthy" if healthy else "Unhealthy",
                topology=topology(nodes),
            )
            for name, healthy, nodes in devices
        ]
    )
    assert joined == whole.SerializeToString()


def test_a_request_is_taken_apart_by_container() -> None:
    request = api.AllocateRequest(
        container_requests=[
            api.ContainerAllocateRequest(devices_ids=["b", "a"]),
            api.ContainerAllocateRequest(),
        ]
    )
    assert messages.requested_ids(request.SerializeToString()) == (("b", "a"), ())


def test_what_is_no_request_is_said_to_be_none() -> None:
    with pytest.raises(InvalidCallError, match="no AllocateRequest"):
        messages.requested_ids(b"\xff\xff\xff")


def test_an_answer_has_an_entry_for_each_container() -> None:
    """ALL-2: none would leak the ids, more than asked for would be dropped."""
    edits = ContainerEdits(
        devices=(DeviceNode(host_path="/dev/a", container_path="/dev/b", permissions="r"),),
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


def test_the_ids_of_a_container_that_starts_are_taken_out() -> None:
    request = api.PreStartContainerRequest(devices_ids=["b", "a"])
    assert messages.started_ids(request.SerializeToString()) == ("b", "a")
    with pytest.raises(InvalidCallError, match="no PreStartContainerRequest"):
        messages.started_ids(b"\xff\xff\xff")


def test_a_registration_names_version_endpoint_resource_and_options() -> None:
    """REG-7: the options are for old kubelets; the same as the socket answers."""
    options = messages.options(pre_start_required=True)
    request = api.RegisterRequest.FromString(
        messages.registration(endpoint="a.sock", resource="example.com/a", options=options)
    )
    assert request.options.pre_start_required
    assert not request.options.get_preferred_allocation_available
    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "a.sock",
        "example.com/a",
    )


def test_generated_code_is_not_newer_than_the_protobuf_we_ask_for() -> None:
    """New generated code with an older runtime fails at import."""
    import tomllib
    from pathlib import Path

    root = Path(__file__).parents[2]
    header = (root / "genericdp/kubelet/v1beta1/deviceplugin_pb2.py").read_text()
    made_with = header.split("# Protobuf Python Version: ")[1].split("\n")[0]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert f"protobuf>={made_with}" in project["dependencies"]
