"""The answer to GetPreferredAllocation, from the latest device list."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from genericdp.devices.devicelist import NOTHING, DeviceList
from genericdp.gate import CallTimeouts, Gate
from genericdp.host.root import Root
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import Servicer
from genericdp.model import Preference

from tests.devices.making import decide, node, resource
from tests.health.probed_devices import no_hooks


def offer_of(names: Iterable[str], *, replicas: int = 1, gone: Collection[str] = ()) -> DeviceList:
    files = {name: node(f"/dev/{name}", (188, i)) for i, name in enumerate(names)}
    resources = [resource("x", "/dev/*", replicas=replicas)]
    before = decide(resources, files.values())
    left = [file for name, file in files.items() if name not in gone]
    return decide(resources, left, before)["example.com/x"]


def serving(
    offer: DeviceList,
    prefer: Preference = Preference.CLOSEST,
    *,
    replicas: int = 1,
    **timeouts: float,
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


def asking(*containers: tuple[Collection[str], int, Collection[str]]) -> bytes:
    """Return a request: available IDs, how many are wanted, and which must be among them."""
    requests = [
        api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        for available, size, must in containers
    ]
    return api.PreferredAllocationRequest(container_requests=requests).SerializeToString()


def ids_in(answer: bytes) -> list[list[str]]:
    found = api.PreferredAllocationResponse.FromString(answer).container_responses
    return [list(container.deviceIDs) for container in found]


async def test_each_container_has_an_answer_of_its_own() -> None:
    """D15: all have that of the last one."""
    request = asking(("a", 1, ""), ("b", 1, ""))
    answer = await serving(offer_of("ab")).preferred_allocation(request)
    assert ids_in(answer) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("available", "must", "size", "gone", "expected"),
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
    available: str, must: str, size: int, gone: str, expected: str
) -> None:
    servicer = serving(offer_of("abcd" if gone else "abc", gone=gone))
    answer = await servicer.preferred_allocation(asking((available, size, must)))
    assert ids_in(answer) == [list(expected)]


async def test_the_latest_list_and_config_count() -> None:
    offer = offer_of("ab", replicas=2)
    server = serving(offer, Preference.PACKED, replicas=2)
    shares = asking((["a", "a::1", "b", "b::1"], 2, ""))
    assert ids_in(await server.preferred_allocation(shares)) == [["a", "a::1"]]
    server.set_devices(NOTHING)
    assert ids_in(await server.preferred_allocation(shares)) == [["a", "a::1"]], "not on offer"
    server.set_devices(offer)
    server.prefer = Preference.AUTO
    assert ids_in(await server.preferred_allocation(shares)) == [["a", "b"]]


async def test_a_failure_is_an_empty_answer_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PRF-4: an error rejects the pod. What takes too long is left to the kubelet as well."""
    servicer = serving(offer_of("a"))
    for _ in range(3):
        assert await servicer.preferred_allocation(b"nonsense") == b""
    assert caplog.messages == ["x: choosing preferred devices has failed"]
    assert "DecodeError" in caplog.text
    assert ids_in(await servicer.preferred_allocation(asking(("a", 1, "")))) == [["a"]]
    many = [str(number) for number in range(100)]
    slow = serving(offer_of(many), preferred=0.0)
    assert await slow.preferred_allocation(asking((many, 4, ""))) == b""
