"""The answer to GetPreferredAllocation, from the latest device list."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from genericdp.devices.device import Device
from genericdp.devices.devicelist import NOTHING, DeviceList, Entry
from genericdp.devices.inventory import Identity
from genericdp.devices.topology import NOWHERE, Spot
from genericdp.devices.transitions import Event
from genericdp.host.root import Root
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import Servicer
from genericdp.model import Preference
from genericdp.prepare import CallTimeouts, Gate
from genericdp.reasons import Code, Reason

from tests.health.probed_devices import no_hooks
from tests.polling import others_run


def offer_of(
    spots: Mapping[str, Spot], *, replicas: int = 1, unhealthy: Collection[str] = ()
) -> DeviceList:
    def offered(name: str, spot: Spot) -> Entry[Device]:
        identity = Identity(inode=1)
        device = Device(
            id=name, key=name, path=f"/dev/{name}", identity=identity, replicas=replicas, spot=spot
        )
        entry = Entry(device=device).after(Event.MADE)
        why = Reason(Code.GONE, "it is broken")
        return entry.after(Event.GONE, why) if name in unhealthy else entry

    return DeviceList(entries=tuple(offered(name, spot) for name, spot in spots.items()))


def serving(
    offer: DeviceList, prefer: Preference, *, replicas: int = 1, **timeouts: float
) -> Servicer:
    gate = Gate(
        "x",
        root=Root(Path("/")),
        look_again=lambda: None,
        run_hooks=no_hooks(),
        timeouts=CallTimeouts(**timeouts),
    )
    servicer = Servicer(gate, prefer=prefer, replicas=replicas)
    servicer.set_devices(offer)
    return servicer


def asking(available: Collection[str], size: int, must: Collection[str] = ()) -> bytes:
    request = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
    )
    return api.PreferredAllocationRequest(container_requests=[request]).SerializeToString()


def ids_in(answer: bytes) -> list[str]:
    (only,) = api.PreferredAllocationResponse.FromString(answer).container_responses
    return list(only.deviceIDs)


async def test_each_container_has_an_answer_of_its_own() -> None:
    """D15: all have that of the last one."""
    both = [
        api.ContainerPreferredAllocationRequest(available_deviceIDs=[name], allocation_size=1)
        for name in "ab"
    ]
    request = api.PreferredAllocationRequest(container_requests=both).SerializeToString()
    offer = offer_of(dict.fromkeys("ab", NOWHERE))
    answer = await serving(offer, Preference.CLOSEST).preferred_allocation(request)
    found = api.PreferredAllocationResponse.FromString(answer).container_responses
    assert [list(match.deviceIDs) for match in found] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("available", "must", "size", "unhealthy", "expected"),
    [
        pytest.param("abc", "c", 2, "", "ac", id="what-must-be-given-is"),
        pytest.param("abc", "abc", 2, "", "", id="more-must-be-given-than-wanted"),
        pytest.param("ab", "", 5, "", "ab", id="fewer-than-wanted"),
        pytest.param("axy", "", 2, "", "ax", id="ids-that-nobody-knows"),
        pytest.param("", "", 0, "", "", id="nothing-of-nothing"),
        pytest.param("abc", "", -1, "", "", id="less-than-nothing"),
        # The kubelet may not know it yet, and Allocate would refuse it.
        pytest.param("abcd", "", 2, "ab", "cd", id="what-is-unhealthy-is-left-out"),
        pytest.param("abcd", "", 3, "ab", "acd", id="what-is-unhealthy-comes-last"),
        pytest.param("abcd", "b", 2, "ab", "bc", id="what-is-unhealthy-must-be-given"),
    ],
)
async def test_any_wish_has_an_answer(
    available: str, must: str, size: int, unhealthy: str, expected: str
) -> None:
    offer = offer_of(dict.fromkeys("abcd" if unhealthy else "abc", NOWHERE), unhealthy=unhealthy)
    request = asking(available, size, must)
    answer = await serving(offer, Preference.CLOSEST).preferred_allocation(request)
    assert ids_in(answer) == list(expected)


async def test_the_latest_list_and_config_count() -> None:
    offer = offer_of(dict.fromkeys("ab", NOWHERE), replicas=2)
    server = serving(offer, Preference.PACKED, replicas=2)
    shares = asking(["a", "a::1", "b", "b::1"], 2)
    assert ids_in(await server.preferred_allocation(shares)) == ["a", "a::1"]
    server.set_devices(NOTHING)
    assert ids_in(await server.preferred_allocation(shares)) == ["a", "a::1"], "no longer on offer"
    server.set_devices(offer)
    server.prefer = Preference.AUTO
    assert ids_in(await server.preferred_allocation(shares)) == ["a", "b"]


async def test_a_failure_is_an_empty_answer_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PRF-4: an error rejects the pod. What takes too long is left to the kubelet as well."""
    servicer = serving(offer_of({"a": NOWHERE}), Preference.CLOSEST)
    for _ in range(3):
        assert await servicer.preferred_allocation(b"nonsense") == b""
    assert caplog.messages == ["x: choosing preferred devices has failed"]
    assert "DecodeError" in caplog.text
    assert ids_in(await servicer.preferred_allocation(asking("a", 1))) == ["a"]
    many = dict.fromkeys(map(str, range(100)), NOWHERE)
    slow = serving(offer_of(many), Preference.CLOSEST, preferred=0.0)
    assert await slow.preferred_allocation(asking(many, 4)) == b""
    assert caplog.messages == ["x: choosing preferred devices has failed"] * 2


async def test_a_call_that_is_canceled_stays_so() -> None:
    many = dict.fromkeys(map(str, range(100)), NOWHERE)
    server = serving(offer_of(many), Preference.SPREAD)
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(server.preferred_allocation(asking(many, 4)))
        await others_run()
        call.cancel()
        await asyncio.wait([call])
    assert call.cancelled()
