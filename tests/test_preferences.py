"""The answer to GetPreferredAllocation, from the latest offer."""

from __future__ import annotations

import asyncio
import threading
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.device import Device
from genericdp.devices.inventory import Identity
from genericdp.devices.offers import NOTHING, Offer, Offered
from genericdp.devices.topology import NOWHERE, distance
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import Preference
from genericdp.preferences import Preferences
from tests.fixtures.topologies import two_sockets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from genericdp.devices.topology import Spot

GPUS = {name: spot for name, spot in two_sockets().spots.items() if name.endswith("-drm")}


def offer_of(
    spots: Mapping[str, Spot], *, replicas: int = 1, unhealthy: Collection[str] = ()
) -> Offer:
    def offered(name: str, spot: Spot) -> Offered:
        identity = Identity(inode=1)
        device = Device(
            id=name, key=name, path=f"/dev/{name}", identity=identity, replicas=replicas, spot=spot
        )
        return Offered(device=device, unhealthy="it is broken" if name in unhealthy else "")

    return Offer(offered={name: offered(name, spot) for name, spot in spots.items()})


def asking(available: Collection[str], size: int, must: Collection[str] = ()) -> bytes:
    one = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
    )
    return api.PreferredAllocationRequest(container_requests=[one]).SerializeToString()


def ids_in(answer: bytes) -> list[str]:
    (one,) = api.PreferredAllocationResponse.FromString(answer).container_responses
    return list(one.deviceIDs)


def spread_of(ids: Sequence[str]) -> int:
    return sum(distance(GPUS[one], GPUS[other]) for one, other in combinations(ids, 2))


@pytest.mark.parametrize("size", range(1, 9))
async def test_the_gpus_that_a_container_gets_sit_as_close_as_can_be(size: int) -> None:
    closest = Preferences("x", prefer=Preference.AUTO)
    given = ids_in(await closest.answer(asking(list(GPUS), size), offer_of(GPUS)))
    assert len(set(given)) == size
    assert spread_of(given) == min(map(spread_of, combinations(GPUS, size)))


async def test_each_container_has_an_answer_of_its_own() -> None:
    """D15: all have that of the last one."""
    first, *_, last = GPUS
    both = [
        api.ContainerPreferredAllocationRequest(available_deviceIDs=[one], allocation_size=1)
        for one in (first, last)
    ]
    request = api.PreferredAllocationRequest(container_requests=both).SerializeToString()
    answer = await Preferences("x", prefer=Preference.CLOSEST).answer(request, offer_of(GPUS))
    found = api.PreferredAllocationResponse.FromString(answer).container_responses
    assert [list(one.deviceIDs) for one in found] == [[first], [last]]


@pytest.mark.parametrize(
    ("available", "must", "size", "expected"),
    [
        pytest.param("abc", "c", 2, ["a", "c"], id="what-must-be-given-is"),
        pytest.param("abc", "abc", 2, [], id="more-must-be-given-than-wanted"),
        pytest.param("ab", "", 5, ["a", "b"], id="fewer-than-wanted"),
        pytest.param("axy", "", 2, ["a", "x"], id="ids-that-nobody-knows"),
        pytest.param("", "", 0, [], id="nothing-of-nothing"),
        pytest.param("abc", "", -1, [], id="less-than-nothing"),
    ],
)
async def test_any_wish_has_an_answer(
    available: str, must: str, size: int, expected: list[str]
) -> None:
    offer = offer_of(dict.fromkeys("abc", NOWHERE))
    closest = Preferences("x", prefer=Preference.CLOSEST)
    assert ids_in(await closest.answer(asking(available, size, must), offer)) == expected


async def test_what_is_unhealthy_is_given_last() -> None:
    """The kubelet may not know it yet, and Allocate would refuse it."""
    spots = dict.fromkeys("abcd", NOWHERE)
    offer = offer_of(spots, unhealthy="ab")
    closest = Preferences("x", prefer=Preference.CLOSEST)
    assert ids_in(await closest.answer(asking("abcd", 2), offer)) == ["c", "d"]
    assert ids_in(await closest.answer(asking("abcd", 3), offer)) == ["a", "c", "d"]
    assert ids_in(await closest.answer(asking("abcd", 2, must="b"), offer)) == ["b", "c"]


async def test_the_latest_offer_and_config_count() -> None:
    one = Preferences("x", prefer=Preference.PACKED, replicas=2)
    shares = asking(["a", "a::1", "b", "b::1"], 2)
    offer = offer_of(dict.fromkeys("ab", NOWHERE), replicas=2)
    assert ids_in(await one.answer(shares, offer)) == ["a", "a::1"]
    assert ids_in(await one.answer(shares, NOTHING)) == ["a", "a::1"], "no longer on offer"
    one.prefer = Preference.AUTO
    assert ids_in(await one.answer(shares, offer)) == ["a", "b"]


async def test_a_failure_is_an_empty_answer_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """PRF-4: an error rejects the pod."""

    def fail(*_: object, **__: object) -> list[str]:
        raise RecursionError("a mistake of ours")

    failing = Preferences("x", prefer=Preference.CLOSEST, choose=fail)
    for request in (asking("a", 1), asking("a", 1), asking("a" * 2000, 1), b"nonsense"):
        assert await failing.answer(request, offer_of({"a": NOWHERE})) == b""
    assert caplog.messages == ["x: no preferred devices are told"]
    assert "a mistake of ours" in caplog.text


async def test_what_takes_too_long_is_left_to_the_kubelet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    free = threading.Event()

    def hang(*_: object, **__: object) -> list[str]:
        free.wait(10)
        return []

    slow = Preferences("x", prefer=Preference.CLOSEST, choose=hang, seconds=0.01)
    many = dict.fromkeys(map(str, range(100)), NOWHERE)
    try:
        assert await slow.answer(asking(many, 4), offer_of(many)) == b""
    finally:
        free.set()
    assert caplog.messages == ["x: no preferred devices are told"]


@pytest.mark.parametrize(
    ("devices", "shares", "on_loop"), [(8, 1, True), (9, 1, False), (4, 1000, False)]
)
async def test_only_a_few_devices_are_decided_about_on_the_loop(
    devices: int, shares: int, on_loop: bool
) -> None:
    threads: list[threading.Thread] = []

    def choose(*_: object, **__: object) -> list[str]:
        threads.append(threading.current_thread())
        return []

    spots = dict.fromkeys(map(str, range(devices)), NOWHERE)
    ids = [f"{name}::{share}" for name in spots for share in range(1, shares + 1)]
    one = Preferences("x", prefer=Preference.SPREAD, choose=choose)
    await one.answer(asking(ids, 1), offer_of(spots, replicas=shares + 1))
    assert [thread is threading.main_thread() for thread in threads] == [on_loop]


async def test_a_call_that_is_canceled_stays_so() -> None:
    free = threading.Event()

    def hang(*_: object, **__: object) -> list[str]:
        free.wait(10)
        return []

    slow = Preferences("x", prefer=Preference.SPREAD, choose=hang)
    many = dict.fromkeys(map(str, range(100)), NOWHERE)
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(slow.answer(asking(many, 4), offer_of(many)))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    free.set()
    assert call.cancelled()
