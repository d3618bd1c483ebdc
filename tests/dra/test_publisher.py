"""Publication of ResourceSlices, against the simulated kubelet for an API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
from genericdp.apiserver import ApiClient
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.resourcenames import label
from genericdp.devices.transitions import Event
from genericdp.dra.publisher import Publisher, StoredSlices
from genericdp.observed import Observed, until
from genericdp.reasons import NOT_PROBED
from genericdp.settings import DRIVER

from tests.apiserver.scenarios import slice_of
from tests.apiserver.server import ApiServer
from tests.devices.making import decide, node, resource
from tests.polling import poll_until

Json = dict[str, Any]

NODE = "node-1"
SERIAL, VIDEO = resource("serial", "/dev/ttyUSB*"), resource("video", "/dev/video*")
POOL = f"{NODE}/example.com/serial"
USB = [node(f"/dev/ttyUSB{number}", (188, number)) for number in range(130)]
CAMERA = node("/dev/video0", (81, 0))
SECONDS = 30.0


@cache
def lists(count: int = 2, *, without: tuple[int, ...] = ()) -> Mapping[str, DeviceList]:
    """This many serial ports, of which some have disappeared."""
    before = decide([SERIAL], USB[:count])
    present = [entry for number, entry in enumerate(USB[:count]) if number not in without]
    return decide([SERIAL], present, before)


@asynccontextmanager
async def publishing(
    server: ApiServer,
    wanted: Mapping[str, DeviceList] | None,
    *,
    registered: Observed[bool] | None = None,
    pause: float = 0.01,
    probed_within: float = 5.0,
    list_within: float = 60.0,
    silence_seconds: float = 90.0,
) -> AsyncIterator[Publisher]:
    """Run a publisher of the node."""
    async with ApiClient(server.access, silence_seconds=silence_seconds) as client:
        stored = StoredSlices(
            client, driver=DRIVER, node_name=NODE, pause=pause, list_within=list_within
        )
        publisher = Publisher(
            stored,
            wanted=Observed(wanted),
            registered=registered or Observed(True),
            probed_within=probed_within,
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(publisher.run())
            yield publisher
            running.cancel()


async def shows(publisher: Publisher, **reasons: str) -> None:
    """Wait until these resources have reasons with these strings; empty: none."""
    wanted = {f"example.com/{name}": why for name, why in reasons.items()}

    def is_so() -> bool:
        state = publisher.state.value
        return state.keys() == wanted.keys() and all(
            why in state[name] if why else not state[name] for name, why in wanted.items()
        )

    assert await until(is_so, publisher.state, timeout_seconds=SECONDS), publisher.state.value


def slices(server: ApiServer, pool: str = POOL) -> list[Json]:
    found = [
        object_
        for object_ in server.objects("resourceslices")
        if object_["spec"]["pool"]["name"] == pool
    ]
    return sorted(found, key=lambda entry: str(entry["metadata"]["name"]))


def devices(server: ApiServer, pool: str = POOL) -> list[str]:
    """The IDs of what is on offer, without what has a taint."""
    return [
        device["attributes"]["id"]["string"]
        for slice_ in slices(server, pool)
        for device in slice_["spec"].get("devices", ())
        if not device.get("taints")
    ]


def shows_devices(server: ApiServer, ids: list[str]) -> bool:
    return devices(server) == ids


def verbs(server: ApiServer) -> list[str]:
    return [write.verb for write in server.writes]


async def settled(server: ApiServer, publisher: Publisher) -> int:
    """Have the publisher write once more, and return how often it had written before that."""
    writes, pool = len(server.writes), f"{NODE}/example.com/video"
    publisher.wanted.value = {**(publisher.wanted.value or {}), **decide([VIDEO], [CAMERA])}
    await poll_until(lambda: devices(server, pool))
    assert len(server.writes) == writes + 1
    return writes


async def test_nothing_is_written_before_the_driver_is_registered(server: ApiServer) -> None:
    registered = Observed(False)
    async with publishing(server, lists(), registered=registered) as publisher:
        await poll_until(lambda: server.watching)
        assert verbs(server) == []
        await shows(publisher)
        registered.value = True
        await shows(publisher, serial="")
        registered.value = False
        publisher.wanted.value = lists(3)
        await poll_until(lambda: len(devices(server)) == 3)


async def test_devices_keep_their_places_in_slices_whatever_happens_to_others(
    server: ApiServer,
) -> None:
    async with publishing(server, lists(130)) as publisher:
        await shows(publisher, serial="")
        before = slices(server)
        assert devices(server) == [f"ttyUSB{number}" for number in range(130)]
        publisher.wanted.value = lists(130, without=(70,))
        await poll_until(lambda: len(devices(server)) == 129)
        assert [slices(server)[number] for number in (0, 2)] == [before[0], before[2]]
        publisher.wanted.value = lists(130)
        await poll_until(lambda: len(devices(server)) == 130)
    assert [slice_["spec"] for slice_ in slices(server)] == [entry["spec"] for entry in before]
    assert verbs(server) == ["create"] * 3 + ["update"] * 2
    backwards = {
        name: replace(list_, entries=list_.entries[::-1]) for name, list_ in lists(130).items()
    }
    async with publishing(server, backwards) as publisher:  # another daemon
        await shows(publisher, serial="")
        assert await settled(server, publisher) == 5


async def test_a_watch_that_is_cut_off_after_a_while_goes_on_where_it_was_and_is_no_failure(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    def reads() -> list[str]:
        return [request.verb for request in server.requests if request.verb in {"list", "watch"}]

    async with publishing(server, lists(), list_within=3600.0) as publisher:
        await shows(publisher, serial="")
        await poll_until(lambda: server.watching)
        server.put("resourceslices", slice_of(node="node-2"))
        server.bookmark()
        server.cut_watches()
        await poll_until(lambda: len(reads()) == 3)
        await poll_until(lambda: server.watching)
        server.wipe(NODE)
        await poll_until(lambda: devices(server))
        assert publisher.slices.failure.value == ""
    assert caplog.messages == []
    assert reads()[:3] == ["list", "watch", "watch"]
    first, second = [request.query for request in server.requests if request.verb == "watch"][:2]
    assert int(second["resourceVersion"]) > int(first["resourceVersion"]), "as the bookmark said"


async def test_a_silent_watch_begins_again(server: ApiServer) -> None:
    async with publishing(server, lists(), silence_seconds=0.05) as publisher:
        await poll_until(lambda: "does not answer in time" in publisher.slices.failure.value)
        server.wipe(NODE)
        await poll_until(lambda: devices(server))


async def test_a_list_from_before_a_write_whose_answer_is_lost_is_not_believed(
    server: ApiServer,
) -> None:
    """The slice would be created once more."""
    held = asyncio.Event()
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        await poll_until(lambda: server.watching)
        with server.failing(verbs={"list"}, held=held):
            before = len(server.requests)
            server.compact()
            server.end_watches()
            await poll_until(lambda: "list" in [each.verb for each in server.requests[before:]])
            with server.failing(verbs={"create"}, cut=True, times=1):
                publisher.wanted.value = {**lists(), **decide([VIDEO], [CAMERA])}
                await shows(publisher, serial="", video="does not answer")
            held.set()
        await shows(publisher, serial="", video="")
        assert verbs(server) == ["create", "create"]


@pytest.mark.parametrize(
    ("verbs", "fault", "why"),
    [
        ({"create"}, {"status": 422}, "422"),
        ({"update"}, {"status": 503}, "503"),
        ({"delete"}, {"status": 403}, "refuses (403)"),
    ],
)
async def test_what_is_not_granted_is_told_once_and_heals(
    server: ApiServer, verbs: set[str], fault: Json, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    if "create" not in verbs:
        async with publishing(server, lists(129)) as publisher:
            await shows(publisher, serial="")
    wanted = lists(128 if "delete" in verbs else 3, without=(1,))
    caplog.clear()
    with server.failing(verbs=verbs, times=4, **fault):
        async with publishing(server, wanted) as publisher:
            await shows(publisher, serial=why)
            await shows(publisher, serial="")
        assert len(devices(server)) == sum(
            device.is_healthy for device in wanted["example.com/serial"].devices.values()
        )
    assert len([message for message in caplog.messages if why in message]) == 1
    # Whether the watch has begun again is logged in its own time.
    messages = [record.message for record in caplog.records if "publisher" in record.name]
    last = max(number for number, message in enumerate(messages) if why in message)
    assert any("published" in message for message in messages[last:])


async def test_nothing_is_sent_for_as_long_as_the_api_server_asks_for(server: ApiServer) -> None:
    with server.failing(verbs={"create"}, status=429, retry_after=3600, times=1):
        async with publishing(server, lists()) as publisher:
            await shows(publisher, serial="429")
            publisher.wanted.value = {**lists(3), **decide([VIDEO], [CAMERA])}
            await shows(publisher, serial="429", video="429")
    assert not server.objects("resourceslices")


async def test_a_failing_server_gets_one_write_at_a_time_however_many_pools_there_are(
    server: ApiServer,
) -> None:
    names = [f"serial{number}" for number in range(20)]
    wanted = decide([resource(name, f"/dev/{name}*") for name in names], [])
    with server.failing(verbs={"create"}, status=500):
        async with publishing(server, wanted, pause=3600.0) as publisher:
            await shows(publisher, **dict.fromkeys(names, "500"))
    assert verbs(server) == ["create"]


def unprobed() -> Mapping[str, DeviceList]:
    """Devices of which no probe has a result yet."""
    return {
        name: replace(
            list_,
            entries=tuple(entry.after(Event.NOT_PROBED, NOT_PROBED) for entry in list_.entries),
        )
        for name, list_ in lists().items()
    }


async def test_a_restart_waits_for_first_results_of_probes(server: ApiServer) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
    async with publishing(server, unprobed(), probed_within=3600.0) as publisher:
        await shows(publisher, serial="first probe results")
        publisher.wanted.value = lists()
        await shows(publisher, serial="")
        assert verbs(server) == ["create"]
        publisher.wanted.value = unprobed()  # these are other devices
        await poll_until(lambda: not devices(server))
    async with publishing(server, unprobed(), probed_within=0.05) as publisher:  # but not forever
        await shows(publisher, serial="")


async def test_what_a_lost_write_has_done_is_looked_at_before_all_counts_as_published(
    server: ApiServer,
) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        with server.failing(verbs={"watch", "list", "get"}, status=500):
            server.cut_watches()
            with server.failing(verbs={"update"}, cut=True, times=1):
                publisher.wanted.value = lists(3)
                await shows(publisher, serial="does not answer")
            publisher.wanted.value = {**lists(), **decide([VIDEO], [CAMERA])}
            await shows(publisher, serial="does not answer", video="")
            assert len(devices(server)) == 3
        await poll_until(lambda: len(devices(server)) == 2)
        await shows(publisher, serial="", video="")


async def test_news_that_are_older_than_a_write_cause_no_other_write(server: ApiServer) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        (old,) = slices(server)
        publisher.wanted.value = lists(3)
        await poll_until(lambda: len(devices(server)) == 3)
        await poll_until(lambda: server.watching)
        server.tell_watches(json.dumps({"type": "MODIFIED", "object": old}).encode() + b"\n")
        server.put("resourceslices", slice_of(pool="gone"))  # comes after it, and is deleted
        await poll_until(lambda: "delete" in verbs(server))
    assert verbs(server) == ["create", "update", "delete"]


async def test_a_refused_pool_does_not_hold_up_another(server: ApiServer) -> None:
    wanted = {**lists(), **decide([VIDEO], [CAMERA])}
    with server.failing(verbs={"create"}, status=422, times=1):
        async with publishing(server, wanted, pause=30.0) as publisher:
            await shows(publisher, serial="422", video="")


async def test_fields_that_are_dropped_are_told_once_and_not_sent_again(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dropped = {"spec.devices.attributes.resource", "metadata.ownerReferences"}
    async with publishing(server, lists(65)) as publisher:
        await shows(publisher, serial="")
        publisher.wanted.value = lists(65, without=(1,))
        await poll_until(lambda: "update" in verbs(server))
        server.wipe(NODE)
        await poll_until(lambda: len(slices(server)) == 2)
        await shows(publisher, serial="")
        assert verbs(server) == ["create"] * 2 + ["update"] + ["create"] * 2
        listed = publisher.slices.listed.value
        server.end_watches()
        await poll_until(lambda: publisher.slices.listed.value > listed)
        assert await settled(server, publisher) == 5
    (message,) = [text for text in caplog.messages if "changes or drops fields" in text]
    assert "spec.devices[].attributes.resource" in message
    assert "ownerReferences" in message


def taints(server: ApiServer) -> dict[str, list[Json]]:
    """The taints of each device that has some, by its ID."""
    return {
        device["attributes"]["id"]["string"]: device["taints"]
        for slice_ in slices(server)
        for device in slice_["spec"].get("devices", ())
        if device.get("taints")
    }


async def test_a_taint_keeps_its_time_while_other_devices_change(server: ApiServer) -> None:
    async with publishing(server, lists(3, without=(1,))) as publisher:
        await shows(publisher, serial="")
        before = taints(server)
        assert before.keys() == {"ttyUSB1"}
        publisher.wanted.value = lists(3, without=(1, 2))
        await poll_until(lambda: taints(server).keys() == {"ttyUSB1", "ttyUSB2"})
        assert taints(server)["ttyUSB1"] == before["ttyUSB1"]
        assert taints(server)["ttyUSB2"] != before["ttyUSB1"]
        before = taints(server)
    async with publishing(server, lists(3, without=(0, 1, 2))) as publisher:  # another daemon
        await shows(publisher, serial="")
        assert {
            name: found for name, found in taints(server).items() if name != "ttyUSB0"
        } == before
        publisher.wanted.value = lists(3)
        await poll_until(lambda: not taints(server))


async def test_where_taints_are_dropped_no_slice_ever_has_a_device_that_is_not_healthy(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dropped = {"spec.devices.taints"}
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        assert publisher.slices.fields.why == ""
        for without in ((1,), (0, 1), (0,)):
            publisher.wanted.value = lists(without=without)
            left = [f"ttyUSB{number}" for number in range(2) if number not in without]
            await poll_until(partial(shows_devices, server, left))
        await shows(publisher, serial="")
    why = (
        "the API server drops taints of devices, because of its version or a feature gate: devices"
        " that are not Healthy are left out of ResourceSlices"
    )
    assert publisher.slices.fields.why == why
    assert caplog.messages.count(why) == 1
    assert not any(
        device.get("taints")
        for write in server.writes
        for device in write.body["spec"].get("devices", ())
    )


async def test_a_downgrade_of_the_api_server_takes_devices_that_are_not_healthy(
    server: ApiServer,
) -> None:
    async with publishing(server, lists(without=(1,))) as publisher:
        await shows(publisher, serial="")
        assert taints(server).keys() == {"ttyUSB1"}
        await server.stop()
        await poll_until(lambda: publisher.slices.failure.value)
        server.dropped = {"spec.devices.taints"}
        await server.start()
        publisher.wanted.value = lists(3, without=(1,))
        await poll_until(lambda: devices(server) == ["ttyUSB0", "ttyUSB2"])
        await poll_until(lambda: not taints(server))
        await shows(publisher, serial="")


async def test_the_node_is_looked_at_now_and_then(server: ApiServer) -> None:
    server.add_node(NODE, kubelet_version="v1.35.4")

    def extended() -> object:
        return slices(server)[0]["spec"]["devices"][0]["attributes"]["extendedResource"]["bool"]

    async with publishing(server, lists(), list_within=0.002) as publisher:
        await shows(publisher, serial="")
        assert extended() is False
        server.remove("nodes", NODE)
        uid = server.add_node(NODE, kubelet_version="v1.36.0")["metadata"]["uid"]
        await poll_until(extended)
        owners = slices(server)[0]["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [uid]


async def test_a_proxy_that_has_no_such_path_does_not_mean_that_the_node_is_missing(
    server: ApiServer,
) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        message = "the server could not find the requested resource"
        with server.failing(verbs={"get"}, target="/nodes/", status=404, message=message):
            server.end_watches()
            await poll_until(lambda: "or has no such API" in publisher.slices.failure.value)
            assert publisher.slices.node is not None
        await poll_until(lambda: not publisher.slices.failure.value)


async def test_a_slice_that_vanished_unnoticed_after_its_creation_is_missed(
    server: ApiServer,
) -> None:
    with server.failing(verbs={"watch"}, hangs=True):
        async with publishing(server, lists(), list_within=0.05) as publisher:
            await shows(publisher, serial="")
            (first,) = slices(server)
            server.wipe(NODE)
            await poll_until(lambda: len(devices(server)) == 2)
            assert slices(server)[0]["metadata"]["uid"] != first["metadata"]["uid"]


async def test_pools_that_are_not_wanted_are_removed(server: ApiServer) -> None:
    async with publishing(server, {**lists(), **decide([VIDEO], [CAMERA])}) as publisher:
        await shows(publisher, serial="", video="")
        publisher.wanted.value = decide([VIDEO], [CAMERA])
        await poll_until(lambda: not slices(server))
        await shows(publisher, video="")


async def test_why_a_device_is_in_no_slice_is_shown_and_logged(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    twin = label("ttyUSB0")
    spec = resource("serial", "/dev/*")
    async with publishing(server, decide([spec], [USB[0], node(f"/dev/{twin}", (1, 1))])) as item:
        await shows(item, serial="")
    assert devices(server) == ["ttyUSB0"]
    (message,) = [text for text in caplog.messages if "not in a ResourceSlice" in text]
    assert "its name is that of" in message
