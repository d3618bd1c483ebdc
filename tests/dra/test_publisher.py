"""Publication of ResourceSlices, against the simulated kubelet for an API server."""

from __future__ import annotations

import asyncio
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
) -> AsyncIterator[Publisher]:
    """Run a publisher of the node."""
    async with ApiClient(server.access) as client:
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


async def settled(server: ApiServer, publisher: Publisher, *, is_stored: bool = True) -> int:
    """Have the publisher write once more, and return how often it had written before that."""
    writes, pool = len(server.writes), f"{NODE}/example.com/video"
    publisher.wanted.value = {**(publisher.wanted.value or {}), **decide([VIDEO], [CAMERA])}
    await poll_until(lambda: devices(server, pool) if is_stored else slices(server, pool))
    assert len(server.writes) == writes + 1
    return writes


async def test_devices_are_published_for_the_node_and_stay(server: ApiServer) -> None:
    async with publishing(server, lists(130)) as publisher:
        await shows(publisher, serial="")
    assert len(slices(server)) == 3
    assert devices(server) == [f"ttyUSB{number}" for number in range(130)]
    (owner,) = slices(server)[0]["metadata"]["ownerReferences"]
    (its_node,) = server.objects("nodes")
    assert (owner["kind"], owner["uid"]) == ("Node", its_node["metadata"]["uid"])
    assert verbs(server) == ["create"] * 3


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


async def test_nothing_is_deleted_before_it_is_known_what_is_wanted(server: ApiServer) -> None:
    server.put("resourceslices", slice_of())
    async with publishing(server, None) as publisher:
        await poll_until(lambda: server.watching)
        assert verbs(server) == []
        publisher.wanted.value = {}
        await poll_until(lambda: not server.objects("resourceslices"))


async def test_one_device_that_vanishes_is_one_update_and_keeps_its_place(
    server: ApiServer,
) -> None:
    async with publishing(server, lists(130)) as publisher:
        await shows(publisher, serial="")
        before = slices(server)
        publisher.wanted.value = lists(130, without=(70,))
        await poll_until(lambda: len(devices(server)) == 129)
        assert slices(server)[0] == before[0]
        publisher.wanted.value = lists(130)
        await poll_until(lambda: len(devices(server)) == 130)
        await settled(server, publisher)
    assert [slice_["spec"] for slice_ in slices(server)] == [entry["spec"] for entry in before]
    assert verbs(server) == ["create"] * 3 + ["update"] * 2 + ["create"]


async def test_a_restarted_daemon_leaves_the_slices_as_they_are(server: ApiServer) -> None:
    async with publishing(server, lists(130)) as publisher:
        await shows(publisher, serial="")
    backwards = {
        name: replace(list_, entries=list_.entries[::-1]) for name, list_ in lists(130).items()
    }
    async with publishing(server, backwards) as publisher:
        await shows(publisher, serial="")
        assert await settled(server, publisher) == 3


async def test_at_rest_nothing_is_written_whatever_the_watch_does(server: ApiServer) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        for disturb in (server.bookmark, server.end_watches, server.cut_watches, server.compact):
            await poll_until(lambda: server.watching)
            disturb()
        await settled(server, publisher)


@pytest.mark.parametrize(
    ("verbs", "fault", "why"),
    [
        ({"create"}, {"status": 403}, "refuses (403)"),
        ({"create"}, {"status": 422}, "422"),
        ({"create"}, {"status": 429, "retry_after": 0}, "429"),
        ({"create"}, {"content": b"{"}, "JSON"),
        ({"update"}, {"status": 500}, "500"),
        ({"update"}, {"status": 503}, "503"),
        ({"delete"}, {"status": 403}, "refuses (403)"),
        ({"delete"}, {"status": 503}, "503"),
        ({"get"}, {"status": 403}, "refuses (403)"),
        ({"get"}, {"content": b"[]"}, "JSON"),
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


async def test_probes_without_results_are_not_waited_for_forever(server: ApiServer) -> None:
    async with publishing(server, unprobed(), probed_within=0.05) as publisher:
        await shows(publisher, serial="")
    assert verbs(server) == ["create"]


async def test_an_answer_that_is_lost_makes_no_second_slice(server: ApiServer) -> None:
    with server.failing(verbs={"create"}, cut=True, times=2):
        async with publishing(server, lists(65)) as publisher:
            await shows(publisher, serial="")
            await settled(server, publisher)
    assert len(slices(server)) == 2


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


@pytest.mark.parametrize("status", [404, 409])
async def test_a_slice_that_is_not_as_it_was_is_looked_at_again(
    server: ApiServer, status: int
) -> None:
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="")
        with server.failing(verbs={"update"}, status=status, times=1):
            publisher.wanted.value = lists(3)
            await poll_until(lambda: len(devices(server)) == 3)
        await settled(server, publisher)


async def test_a_reason_that_names_another_slice_each_time_is_told_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dropped = {"spec.pool.resourceSliceCount"}
    async with publishing(server, lists()) as publisher:
        await shows(publisher, serial="must be greater than zero")
        await poll_until(lambda: len(server.writes) > 3)
    assert len([message for message in caplog.messages if "greater than zero" in message]) == 1


async def test_a_refused_pool_does_not_hold_up_another(server: ApiServer) -> None:
    wanted = {**lists(), **decide([VIDEO], [CAMERA])}
    with server.failing(verbs={"create"}, status=422, times=1):
        async with publishing(server, wanted, pause=30.0) as publisher:
            await shows(publisher, serial="422", video="")


async def test_somebody_who_undoes_what_is_written_is_not_fought_without_end(
    server: ApiServer,
) -> None:
    async with publishing(server, lists(), pause=0.05) as publisher:
        for _ in range(4):
            await poll_until(lambda: len(devices(server)) == 2)
            (only,) = slices(server)
            server.put("resourceslices", {**only, "spec": {**only["spec"], "devices": []}})
        await shows(publisher, serial="keeps changing or deleting")
        assert verbs(server) == ["create", "update", "update", "update"]
        publisher.wanted.value = lists(3)  # what is new is written nevertheless
        await shows(publisher, serial="")


async def test_fields_that_are_dropped_are_told_once_and_not_sent_again(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dropped = {"spec.devices.attributes.id", "metadata.ownerReferences"}
    async with publishing(server, lists(65)) as publisher:
        await shows(publisher, serial="")
        publisher.wanted.value = lists(65, without=(1,))
        await poll_until(lambda: "update" in verbs(server))
        server.wipe(NODE)
        await poll_until(lambda: len(slices(server)) == 2)
        await shows(publisher, serial="")
        assert verbs(server) == ["create"] * 2 + ["update"] + ["create"] * 2
    (message,) = [text for text in caplog.messages if "changes or drops fields" in text]
    assert "spec.devices[].attributes.id" in message
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


async def test_a_taint_that_somebody_adds_or_takes_is_put_right(server: ApiServer) -> None:
    async with publishing(server, lists(without=(1,))) as publisher:
        await shows(publisher, serial="")
        before = taints(server)
        for by_hand in ([{"key": "a/b", "effect": "NoExecute"}], []):
            (slice_,) = slices(server)
            changed = [{**device, "taints": by_hand} for device in slice_["spec"]["devices"]]
            server.put("resourceslices", slice_ | {"spec": slice_["spec"] | {"devices": changed}})
            await poll_until(lambda: taints(server).keys() == {"ttyUSB1"})
            (taint,) = taints(server)["ttyUSB1"]
            assert (taint["key"], taint["value"]) == ("genericdp.io/missing", "gone")
    assert before.keys() == {"ttyUSB1"}


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


async def test_an_upgrade_of_the_api_server_brings_taints_and_a_downgrade_takes_them(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server.dropped = {"spec.devices.taints"}
    async with publishing(server, lists(without=(1,))) as publisher:
        await shows(publisher, serial="")
        assert publisher.slices.fields.why

        async def restarts() -> None:
            await server.stop()
            await poll_until(lambda: publisher.slices.failure.value)
            await server.start()

        server.dropped = frozenset()
        await restarts()
        await poll_until(lambda: taints(server).keys() == {"ttyUSB1"})
        assert publisher.slices.fields.why == ""
        assert "the API server keeps all fields of devices" in caplog.messages
        server.dropped = {"spec.devices.taints"}
        await restarts()
        publisher.wanted.value = lists(3, without=(1,))
        await poll_until(lambda: devices(server) == ["ttyUSB0", "ttyUSB2"])
        await poll_until(lambda: not taints(server))
        await shows(publisher, serial="")


async def test_an_api_server_that_stores_hardly_anything_is_not_overrun(server: ApiServer) -> None:
    server.dropped = {"spec.pool.generation", "spec.devices", "metadata.ownerReferences"}
    async with publishing(server, lists(65)) as publisher:
        await shows(publisher, serial="")
        await settled(server, publisher, is_stored=False)
        assert verbs(server) == ["create"] * 3
    assert not devices(server)


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


async def test_pools_that_are_not_wanted_are_removed_but_not_those_of_others(
    server: ApiServer,
) -> None:
    foreign = slice_of(pool="gpu")
    foreign["spec"]["driver"] = "gpu.example.com"
    others = [
        server.put("resourceslices", slice_of(node="node-2")),
        server.put("resourceslices", foreign),
    ]
    async with publishing(server, {**lists(), **decide([VIDEO], [CAMERA])}) as publisher:
        await shows(publisher, serial="", video="")
        publisher.wanted.value = decide([VIDEO], [CAMERA])
        await poll_until(lambda: not slices(server))
        await shows(publisher, video="")
    assert all(other in server.objects("resourceslices") for other in others)


async def test_leftovers_by_the_hundred_are_deleted_without_a_pause(server: ApiServer) -> None:
    """As they are after the last resource of a large node has left the config."""
    for _ in range(450):
        server.put("resourceslices", slice_of())
    async with publishing(server, {}, pause=3600.0):
        await poll_until(lambda: not server.objects("resourceslices"))


async def test_why_a_device_is_in_no_slice_is_shown_and_logged(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    twin = label("ttyUSB0")
    spec = resource("serial", "/dev/*")
    async with publishing(server, decide([spec], [USB[0], node(f"/dev/{twin}", (1, 1))])) as item:
        await shows(item, serial="")
    (message,) = [text for text in caplog.messages if "not in a ResourceSlice" in text]
    assert "its name is that of" in message
