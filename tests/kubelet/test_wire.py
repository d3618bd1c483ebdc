"""Our reading and writing beside protobuf's own: of what is right, and of any bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.devices.device import BindMount, ContainerEdits, DeviceNode
from genericdp.errors import InvalidCallError
from genericdp.kubelet import messages, wire
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from tests.budget import examples

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
TEXTS = st.lists(TEXT, max_size=4)
MAPPING = st.dictionaries(TEXT, TEXT, max_size=4)
SMALL = st.integers(-(2**31), 2**31 - 1)
NUMBERS = st.sampled_from([0, 1, 127, 128, 300, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
EDITS = st.builds(
    ContainerEdits,
    devices=st.lists(
        st.builds(DeviceNode, host_path=TEXT, container_path=TEXT, permissions=TEXT), max_size=3
    ).map(tuple),
    mounts=st.lists(
        st.builds(BindMount, host_path=TEXT, container_path=TEXT, read_only=st.booleans()),
        max_size=3,
    ).map(tuple),
    env=MAPPING,
    annotations=MAPPING,
    cdi=TEXTS.map(tuple),
)


@given(st.lists(EDITS, max_size=3))
def test_an_answer_to_allocate_is_written_as_protobuf_writes_it(edits: list[Any]) -> None:
    """Also where a text of it is empty or long; only of a map's entries the order is our own."""
    answer = api.AllocateResponse(
        container_responses=[
            api.ContainerAllocateResponse(
                envs=one.env,
                mounts=[
                    api.Mount(
                        container_path=mount.container_path,
                        host_path=mount.host_path,
                        read_only=mount.read_only,
                    )
                    for mount in one.mounts
                ],
                devices=[
                    api.DeviceSpec(
                        container_path=node.container_path,
                        host_path=node.host_path,
                        permissions=node.permissions,
                    )
                    for node in one.devices
                ],
                annotations=one.annotations,
                cdi_devices=[api.CDIDevice(name=name) for name in one.cdi],
            )
            for one in edits
        ]
    )
    written = messages.allocation(edits)
    assert api.AllocateResponse.FromString(written) == answer
    assert sorted(written) == sorted(answer.SerializeToString())
    if not any(len(one.env) > 1 or len(one.annotations) > 1 for one in edits):
        assert written == answer.SerializeToString()
    turned = [replace(one, env=dict(reversed(one.env.items()))) for one in edits]
    assert messages.allocation(turned) == written


@given(TEXT, TEXT, st.booleans(), st.booleans())
def test_a_registration_is_written_as_protobuf_writes_it(
    endpoint: str, resource: str, start: bool, preferred: bool
) -> None:
    given_options = messages.options(pre_start_required=start, preferred_allocation=preferred)
    expected = api.DevicePluginOptions(
        pre_start_required=start, get_preferred_allocation_available=preferred
    )
    assert given_options == expected.SerializeToString()
    assert (
        messages.registration(endpoint=endpoint, resource=resource, options=given_options)
        == api.RegisterRequest(
            version="v1beta1", endpoint=endpoint, resource_name=resource, options=expected
        ).SerializeToString()
    )


@given(st.lists(TEXTS, max_size=3))
def test_preferred_devices_are_written_as_protobuf_writes_them(ids: list[list[str]]) -> None:
    answer = api.PreferredAllocationResponse(
        container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=one) for one in ids]
    )
    assert messages.preferred_allocation(ids) == answer.SerializeToString()


@given(st.lists(st.tuples(TEXTS, TEXTS, SMALL), max_size=3))
def test_wishes_are_read_as_they_were_written(
    asked: list[tuple[list[str], list[str], int]],
) -> None:
    request = api.PreferredAllocationRequest(
        container_requests=[
            api.ContainerPreferredAllocationRequest(
                available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
            )
            for available, must, size in asked
        ]
    )
    found = messages.wishes(request.SerializeToString())
    assert [(list(one.available), list(one.must), one.size) for one in found] == asked


def _of_allocate(request: bytes) -> object:
    parsed = api.AllocateRequest.FromString(request)
    return tuple(tuple(one.devices_ids) for one in parsed.container_requests)


def _of_start(request: bytes) -> object:
    return tuple(api.PreStartContainerRequest.FromString(request).devices_ids)


def _of_wishes(request: bytes) -> object:
    parsed = api.PreferredAllocationRequest.FromString(request)
    return tuple(
        (tuple(one.available_deviceIDs), tuple(one.must_include_deviceIDs), one.allocation_size)
        for one in parsed.container_requests
    )


READERS: dict[str, tuple[Callable[[bytes], object], Callable[[bytes], object]]] = {
    "Allocate": (messages.requested_ids, _of_allocate),
    "PreStartContainer": (messages.started_ids, _of_start),
    "GetPreferredAllocation": (messages.wishes, _of_wishes),
}


def _piece(field: int, kind: int, content: bytes, number: int) -> bytes:
    body = {0: wire.varint(number), 1: bytes(8), 2: wire.varint(len(content)) + content}
    return wire.varint(field << 3 | kind) + body.get(kind, bytes(4))


CONTENT = st.recursive(
    st.binary(max_size=6) | TEXT.map(str.encode),
    lambda inner: st.lists(
        st.builds(_piece, st.integers(1, 4) | st.just(200), st.sampled_from([0, 1, 2, 2, 5]),
                  inner, NUMBERS),
        max_size=4,
    ).map(b"".join),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=examples(150))
@given(request=CONTENT, cut=st.integers(0, 3), more=st.binary(max_size=2))
def test_any_bytes_are_read_as_protobuf_reads_them(
    name: str, request: bytes, cut: int, more: bytes
) -> None:
    """Also that they cannot be. Of groups, which no message has, we are more sure than protobuf."""
    ours, theirs = READERS[name]
    request = request[: len(request) - cut] + more
    try:
        found = ours(request)
    except InvalidCallError as error:
        if "kind of field" not in str(error):
            with pytest.raises(DecodeError):
                theirs(request)
        return
    assert found == theirs(request)


@pytest.mark.parametrize(
    "broken",
    [b"\x08", b"\x0a", b"\x0a\x05ab", b"\x00\x00", b"\x09\x00", b"\x0b", b"\x0c", b"\x0e",
     b"\x08" + b"\xff" * 10, b"\xff" * 5 + b"\x01", b"\x0a\x02\xff\xff"],
    ids=bytes.hex,
)  # fmt: skip
def test_what_is_no_message_is_refused(broken: bytes) -> None:
    with pytest.raises(InvalidCallError):
        messages.started_ids(broken)
