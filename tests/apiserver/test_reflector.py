from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.apiserver.client import SLICES, ApiClient, ApiError
from genericdp.apiserver.reflector import Reflector
from genericdp.observed import until
from tests.apiserver.scenarios import SELECTOR, device, precondition, renewed, slice_of
from tests.apiserver.server import ApiServer
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.apiserver.store import Json

SECONDS = 30.0


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@asynccontextmanager
async def reflecting(
    server: ApiServer, *, silence_seconds: float = 90.0
) -> AsyncIterator[Reflector]:
    """Run a reflector for the slices of a node."""
    async with ApiClient(server.access, silence_seconds=silence_seconds) as api:
        reflector = Reflector(api, SLICES, SELECTOR, pause=0.01)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(reflector.run())
            yield reflector
            running.cancel()


async def knows(reflector: Reflector, *items: Json) -> None:
    """Wait until these are what it knows."""
    wanted = {item["metadata"]["name"]: item for item in items}
    assert await until(
        lambda: reflector.objects.value == wanted, reflector.objects, timeout_seconds=SECONDS
    ), reflector.objects.value


async def fails(reflector: Reflector, why: str) -> None:
    """Wait until it says this; nothing: until it watches."""
    assert await until(
        lambda: why in reflector.failure.value if why else not reflector.failure.value,
        reflector.failure,
        timeout_seconds=SECONDS,
    ), reflector.failure.value


async def watches(server: ApiServer, count: int = 1) -> None:
    await poll_until(lambda: server.watching == count)


def verbs(server: ApiServer) -> list[str]:
    return [one.verb for one in server.requests]


async def test_what_there_is_and_what_changes_is_known(server: ApiServer) -> None:
    first = server.put("resourceslices", slice_of())
    server.put("resourceslices", slice_of(node="node-2"))
    async with reflecting(server) as reflector:
        assert reflector.objects.value is None
        await knows(reflector, first)
        await watches(server)
        second = server.put("resourceslices", slice_of())
        await knows(reflector, first, second)
        changed = server.put("resourceslices", renewed(first, device("other")))
        await knows(reflector, changed, second)
        assert verbs(server) == ["list", "watch"]
        server.wipe("node-1")
        await knows(reflector)
        assert await until(lambda: reflector.lists.value > 1, reflector.lists)


async def test_a_list_follows_a_watch_that_the_server_ends(server: ApiServer) -> None:
    async with reflecting(server) as reflector:
        await watches(server)
        server.end_watches()
        await poll_until(lambda: verbs(server) == ["list", "watch"] * 2)
        await knows(reflector, server.put("resourceslices", slice_of()))


async def test_a_watch_that_is_cut_off_after_a_while_goes_on_where_it_was_and_is_no_failure(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reflecting(server) as reflector:
        await watches(server)
        server.put("resourceslices", slice_of(node="node-2"))
        server.bookmark()
        server.cut_watches()
        await poll_until(lambda: len(server.requests) == 3)
        await knows(reflector, server.put("resourceslices", slice_of()))
        assert reflector.failure.value == ""
    assert caplog.messages == []
    assert verbs(server) == ["list", "watch", "watch"]
    versions = [int(one.query["resourceVersion"]) for one in server.requests[1:]]
    assert versions[1] == versions[0] + 1, "the bookmark does not count"


async def test_a_version_that_is_no_longer_known_leads_to_another_list_at_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reflecting(server) as reflector:
        await watches(server)
        with server.failing(verbs={"watch"}, times=1, cut=True):
            server.cut_watches()
            await fails(reflector, "does not answer")
            server.compact()
        created = server.put("resourceslices", slice_of())
        await knows(reflector, created)
        await fails(reflector, "")
    assert verbs(server).count("list") == 2
    assert "410" not in caplog.text, "that is no failure, after which it would wait"


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"ADDED"}\n', b"\xff\n"])
async def test_a_garbled_watch_begins_again(server: ApiServer, line: bytes) -> None:
    async with reflecting(server) as reflector:
        await watches(server)
        server.tell_watches(line)
        await fails(reflector, "the API server's answer")
        await fails(reflector, "")
        await knows(reflector, server.put("resourceslices", slice_of()))


async def test_a_silent_watch_begins_again(server: ApiServer) -> None:
    async with reflecting(server, silence_seconds=0.05) as reflector:
        await fails(reflector, "does not answer in time")
        await knows(reflector, server.put("resourceslices", slice_of()))


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_refusals_are_said_once_until_they_end(
    server: ApiServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO, "genericdp")
    with server.failing(status=status):
        async with reflecting(server) as reflector:
            await fails(reflector, f"{status}")
            await poll_until(lambda: len(server.requests) > 3)
            assert reflector.objects.value is None
            with server.failing(target="nowhere"):
                server.end_watches()
    async with reflecting(server) as reflector:
        await fails(reflector, "")
        await knows(reflector)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("; trying again")


async def test_what_is_known_stays_while_the_server_is_gone(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "genericdp")
    first = server.put("resourceslices", slice_of())
    async with reflecting(server) as reflector:
        await watches(server)
        await server.stop()
        await fails(reflector, "Connection refused")
        await knows(reflector, first)
        second = server.put("resourceslices", slice_of())
        server.remove("resourceslices", first["metadata"]["name"])
        await server.start()
        await knows(reflector, second)
        await fails(reflector, "")
    assert caplog.messages[-1] == f"the API server answers again: watching {SLICES}"


async def test_what_is_due_before_a_list_may_fail_and_is_tried_again(server: ApiServer) -> None:
    outcomes = [ApiError("not yet", status=404), None]

    async def prepare() -> None:
        if outcomes and (error := outcomes.pop(0)) is not None:
            raise error

    async with ApiClient(server.access) as api:
        reflector = Reflector(api, SLICES, SELECTOR, before_list=prepare, pause=0.01)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(reflector.run())
            await fails(reflector, "not yet")
            await fails(reflector, "")
            running.cancel()
    assert verbs(server)[:1] == ["list"]


async def test_a_list_that_is_asked_for_comes_although_the_watch_goes_on(
    server: ApiServer,
) -> None:
    async with reflecting(server) as reflector:
        await watches(server)
        reflector.list_within(0.0)
        reflector.list_within(3600.0)
        await poll_until(lambda: verbs(server) == ["list", "watch"] * 2)


async def test_what_was_observed_stays_as_it_was_until_there_is_another_version(
    server: ApiServer,
) -> None:
    async with reflecting(server) as reflector:
        await knows(reflector)
        stored = server.put("resourceslices", slice_of())
        sent = renewed(stored, device("as-sent"))
        reflector.observe(sent)
        reflector.list_within(0.0)
        assert await until(lambda: reflector.lists.value > 1, reflector.lists)
        await knows(reflector, sent)
        await knows(reflector, server.put("resourceslices", renewed(stored, device("other"))))


async def test_retry_after_is_respected(server: ApiServer) -> None:
    with server.failing(status=429, retry_after=3600, times=1):
        async with reflecting(server) as reflector:
            await fails(reflector, "429")
            # Several of its own pauses.
            assert not await until(
                lambda: not reflector.failure.value, reflector.failure, timeout_seconds=0.2
            )
    assert verbs(server) == ["list"]


async def test_what_a_write_returned_is_known_before_the_watch_tells(server: ApiServer) -> None:
    async with (
        ApiClient(server.access) as client,
        reflecting(server) as reflector,
    ):
        await knows(reflector)
        created = await client.create(SLICES, slice_of())
        reflector.observe(created)
        path = f"{SLICES}/{created['metadata']['name']}"
        updated = await client.update(path, renewed(created, device("other")))
        reflector.observe(updated)
        reflector.observe(created)  # older: ignored
        await knows(reflector, updated)
        await client.delete(path, **precondition(updated))
        reflector.forget(updated["metadata"]["name"])
        await knows(reflector)


async def test_news_that_are_older_than_a_write_change_nothing(server: ApiServer) -> None:
    seen: list[Json] = []
    async with reflecting(server) as reflector:
        await watches(server)
        # Nothing of this has been read from the watch when it is observed.
        created = server.put("resourceslices", slice_of())
        updated = server.put("resourceslices", renewed(created, device("other")))
        reflector.observe(updated)
        reflector.forget("never there")
        with reflector.objects.calling(lambda: seen.append(dict(reflector.objects.value or {}))):
            last = server.put("resourceslices", slice_of())
            await knows(reflector, updated, last)
    assert all(one[updated["metadata"]["name"]] == updated for one in seen)


async def test_what_is_written_during_a_list_is_kept(server: ApiServer) -> None:
    old = server.put("resourceslices", slice_of())
    held, seen = asyncio.Event(), []
    async with reflecting(server) as reflector:
        await watches(server)
        with server.failing(verbs={"list"}, held=held):
            server.compact()
            server.end_watches()
            await poll_until(lambda: verbs(server).count("list") == 2)
            new = server.put("resourceslices", slice_of())
            server.remove("resourceslices", old["metadata"]["name"])
            reflector.observe(new)
            reflector.forget(old["metadata"]["name"])
            with reflector.objects.calling(lambda: seen.append(reflector.objects.value)):
                held.set()
                await watches(server)
                await knows(reflector, new, server.put("resourceslices", slice_of()))
    assert all(one is not None and new["metadata"]["name"] in one for one in seen)
    assert all(one is not None and old["metadata"]["name"] not in one for one in seen)
