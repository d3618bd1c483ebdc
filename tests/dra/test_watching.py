"""The local copy of the ResourceSlices in the API, against a simulated API server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from genericdp.apiserver import SLICES, ApiClient
from genericdp.dra.publisher import StoredSlices
from genericdp.errors import ApiAccessError, ApiError
from genericdp.observed import until

from tests.apiserver.scenarios import DRIVER, NODE, device, renewed, slice_of
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genericdp.apiserver import Access

    from tests.apiserver.server import ApiServer
    from tests.apiserver.store import Json

SECONDS = 30.0


@asynccontextmanager
async def storing(
    server: ApiServer, *, silence_seconds: float = 90.0
) -> AsyncIterator[StoredSlices]:
    """Follow the slices of a node."""
    async with ApiClient(server.access, silence_seconds=silence_seconds) as api:
        stored = StoredSlices(api, driver=DRIVER, node_name=NODE, pause=0.01, list_within=3600.0)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(stored.run())
            yield stored
            running.cancel()


async def knows(stored: StoredSlices, *items: Json) -> None:
    """Wait until these are what it knows."""
    wanted = [_content(item) for item in items]
    assert await until(
        lambda: [_content(entry) for entry in (stored.by_name.value or {}).values()] == wanted,
        stored.by_name,
        timeout_seconds=SECONDS,
    ), stored.by_name.value


def _content(item: Json) -> Json:
    """Return an object as it is in a list."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


async def fails(stored: StoredSlices, why: str) -> None:
    """Wait until it says this; nothing: until it watches."""
    await poll_until(lambda: why in stored.failure.value if why else not stored.failure.value)


async def watches(server: ApiServer, count: int = 1) -> None:
    await poll_until(lambda: server.watching == count)


def verbs(server: ApiServer) -> list[str]:
    return [request.verb for request in server.requests if request.verb != "get"]


async def test_what_there_is_and_what_changes_is_known(server: ApiServer) -> None:
    first = server.put("resourceslices", slice_of())
    server.put("resourceslices", slice_of(node="node-2"))
    async with storing(server) as stored:
        assert stored.by_name.value is None
        await knows(stored, first)
        await watches(server)
        second = server.put("resourceslices", slice_of())
        await knows(stored, first, second)
        changed = server.put("resourceslices", renewed(first, device("other")))
        await knows(stored, changed, second)
        assert verbs(server) == ["list", "watch"]
        server.wipe("node-1")
        await knows(stored)
        await poll_until(lambda: stored.listed.value > 1)


async def test_a_list_follows_a_watch_that_the_server_ends(server: ApiServer) -> None:
    async with storing(server) as stored:
        await watches(server)
        server.end_watches()
        await poll_until(lambda: verbs(server) == ["list", "watch"] * 2)
        await knows(stored, server.put("resourceslices", slice_of()))


async def test_a_watch_that_is_cut_off_after_a_while_goes_on_where_it_was_and_is_no_failure(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with storing(server) as stored:
        await watches(server)
        server.put("resourceslices", slice_of(node="node-2"))
        server.bookmark()
        server.cut_watches()
        await poll_until(lambda: len(verbs(server)) == 3)
        await knows(stored, server.put("resourceslices", slice_of()))
        assert stored.failure.value == ""
    assert caplog.messages == []
    assert verbs(server) == ["list", "watch", "watch"]
    queries = [request.query for request in server.requests if request.verb == "watch"]
    versions = [int(query["resourceVersion"]) for query in queries]
    assert versions[1] == versions[0] + 1, "the bookmark does not count"


async def test_a_version_that_is_no_longer_known_leads_to_another_list_at_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with storing(server) as stored:
        await watches(server)
        with server.failing(verbs={"watch"}, times=1, cut=True):
            server.cut_watches()
            await fails(stored, "does not answer")
            server.compact()
        created = server.put("resourceslices", slice_of())
        await knows(stored, created)
        await fails(stored, "")
    assert verbs(server).count("list") == 2
    assert "answers 410" not in caplog.text, "that is not a failure, after which it would wait"


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"ADDED"}\n', b"\xff\n"])
async def test_a_garbled_watch_begins_again(server: ApiServer, line: bytes) -> None:
    async with storing(server) as stored:
        await watches(server)
        server.tell_watches(line)
        await fails(stored, "the API server's answer")
        await fails(stored, "")
        await knows(stored, server.put("resourceslices", slice_of()))


async def test_a_silent_watch_begins_again(server: ApiServer) -> None:
    async with storing(server, silence_seconds=0.05) as stored:
        await fails(stored, "does not answer in time")
        await knows(stored, server.put("resourceslices", slice_of()))


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_refusals_are_said_once_until_they_end(
    server: ApiServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO, "genericdp")
    with server.failing(status=status):
        async with storing(server) as stored:
            await fails(stored, f"{status}")
            await poll_until(lambda: len(server.requests) > 3)
            assert stored.by_name.value is None
            with server.failing(target="nowhere"):
                server.end_watches()
    async with storing(server) as stored:
        await fails(stored, "")
        await knows(stored)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("; trying again")


async def test_what_is_known_stays_while_the_server_is_gone(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "genericdp")
    first = server.put("resourceslices", slice_of())
    async with storing(server) as stored:
        await watches(server)
        await server.stop()
        await fails(stored, "Connection refused")
        await knows(stored, first)
        second = server.put("resourceslices", slice_of())
        server.remove("resourceslices", first["metadata"]["name"])
        await server.start()
        await knows(stored, second)
        await fails(stored, "")
    assert caplog.messages[-1] == f"the API server answers again: watching {SLICES}"


async def test_slices_are_known_though_the_node_is_missing(server: ApiServer) -> None:
    server.remove("nodes", NODE)
    first = server.put("resourceslices", slice_of())
    async with storing(server) as stored:
        await fails(stored, "the cluster has no Node node-1")
        await knows(stored, first)
        uid = server.add_node(NODE)["metadata"]["uid"]
        await fails(stored, "")
        assert stored.node is not None
        assert stored.node.uid == uid


async def test_a_list_that_is_asked_for_comes_although_the_watch_goes_on(server: ApiServer) -> None:
    async with storing(server) as stored:
        await watches(server)
        stored.list_again(within=0)
        stored.list_again(within=3600)
        await poll_until(lambda: verbs(server) == ["list", "watch"] * 2)


async def test_missing_access_is_looked_for_rarely() -> None:
    looks = 0

    def no_access() -> Access:
        nonlocal looks
        looks += 1
        raise ApiAccessError("there is none")

    async with ApiClient(no_access) as api:
        stored = StoredSlices(api, driver=DRIVER, node_name=NODE, pause=0.2)
        with suppress(TimeoutError):
            await asyncio.wait_for(stored.run(), 2.5)
    assert looks <= 8


async def test_retry_after_is_respected(server: ApiServer) -> None:
    with server.failing(status=429, retry_after=3600, times=1):
        async with storing(server) as stored:
            await fails(stored, "429")
            # Several of its own pauses.
            assert not await until(lambda: stored.node is not None, timeout_seconds=0.2)
    assert [request.verb for request in server.requests] == ["get"]


def sendable(item: Json, *devices: Json) -> Json:
    """Return what to send in place of an object, or to create one like it."""
    metadata = {"ownerReferences": [], **item["metadata"]}
    return {**renewed(item, *devices), "metadata": metadata}


def only(stored: StoredSlices) -> Json:
    """Return the only slice that is known."""
    (entry,) = (stored.by_name.value or {}).values()
    return entry


async def test_what_was_written_is_known_before_the_watch_tells(server: ApiServer) -> None:
    async with storing(server) as stored:
        await knows(stored)
        with server.failing(verbs={"watch"}, hangs=True):
            await stored.send("create", sendable(slice_of(), device("a")))
            await stored.send("update", sendable(only(stored), device("b")))
            assert only(stored)["spec"]["devices"] == [device("b")]
            await stored.send("delete", only(stored))
            await knows(stored)
    assert [write.verb for write in server.writes] == ["create", "update", "delete"]


async def test_what_was_written_stays_as_it_was_sent_until_there_is_another_version(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dropped = {"spec.devices.attributes"}
    async with storing(server) as stored:
        await watches(server)
        await stored.send("create", sendable(slice_of(), device("a")))
        stored.list_again(within=0)
        await poll_until(lambda: stored.listed.value > 1)
        assert only(stored)["spec"]["devices"] == [device("a")]
        server.put("resourceslices", renewed(only(stored), {"name": "other"}))
        await poll_until(lambda: only(stored)["spec"]["devices"] == [{"name": "other"}])
    assert "drops fields of ResourceSlices: spec.devices[].attributes;" in caplog.text


async def test_news_that_are_older_than_a_write_change_nothing(server: ApiServer) -> None:
    seen: list[Json] = []
    async with storing(server) as stored:
        await watches(server)
        await stored.send("create", sendable(slice_of(), device("a")))
        await stored.send("update", sendable(only(stored), device("b")))
        updated = only(stored)
        with stored.by_name.calling(lambda: seen.append(dict(stored.by_name.value or {}))):
            last = server.put("resourceslices", slice_of())
            await knows(stored, updated, last)
    assert all(entry[updated["metadata"]["name"]] == updated for entry in seen)


@asynccontextmanager
async def list_under_way(server: ApiServer) -> AsyncIterator[asyncio.Event]:
    """Have a list be made, and its answer held back; yield the event that lets it go."""
    held = asyncio.Event()
    with server.failing(verbs={"list"}, held=held):
        server.compact()
        server.end_watches()
        await poll_until(lambda: verbs(server).count("list") == 2)
        yield held


async def test_what_is_written_during_a_list_is_kept(server: ApiServer) -> None:
    old = server.put("resourceslices", slice_of())
    seen = []
    async with storing(server) as stored:
        await watches(server)
        async with list_under_way(server) as held:
            await stored.send("create", sendable(slice_of(), device("a")))
            await stored.send("delete", old)
            new = only(stored)
            with stored.by_name.calling(lambda: seen.append(stored.by_name.value)):
                held.set()
                await watches(server)
                await knows(stored, new, server.put("resourceslices", slice_of()))
    assert all(entry is not None and new["metadata"]["name"] in entry for entry in seen)
    assert all(item is not None and old["metadata"]["name"] not in item for item in seen)


async def test_a_list_from_before_a_write_whose_answer_is_lost_is_not_believed(
    server: ApiServer,
) -> None:
    """The slice would be created once more."""
    seen = []
    async with storing(server) as stored:
        await watches(server)
        async with list_under_way(server) as held:
            with server.failing(verbs={"create"}, cut=True), pytest.raises(ApiError):
                await stored.send("create", sendable(slice_of(), device("a")))
            with stored.by_name.calling(lambda: seen.append(stored.by_name.value)):
                held.set()
                await poll_until(lambda: bool(stored.by_name.value))
    assert [len(entry or ()) for entry in seen] == [0, 1], "as before the list, and after it"
    assert verbs(server).count("list") == 3


async def test_slices_of_others_are_ignored_whatever_the_server_sends(server: ApiServer) -> None:
    """A server that ignores the field selector had them deleted."""
    server.selects = False
    other_driver = slice_of()
    other_driver["spec"]["driver"] = "other.io"
    for other in (slice_of(node="node-2"), other_driver):
        server.put("resourceslices", other)
    async with storing(server) as stored:
        await watches(server)
        ours = server.put("resourceslices", slice_of())
        await knows(stored, ours)
        server.put("resourceslices", slice_of(node="node-3"))
        more = server.put("resourceslices", slice_of())
        await knows(stored, ours, more)


async def test_other_content_under_a_known_version_is_taken_over(server: ApiServer) -> None:
    """As after a restore of etcd."""
    async with storing(server) as stored:
        await watches(server)
        owned = slice_of()
        owned["metadata"]["ownerReferences"] = []
        await stored.send("create", owned)
        (there,) = server.objects("resourceslices")
        there["spec"]["devices"] = []  # it is the server's own
        stored.list_again(within=0)
        await knows(stored, there)
