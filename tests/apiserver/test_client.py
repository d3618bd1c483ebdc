from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from genericdp.apiserver import (
    SLICES,
    Access,
    ApiClient,
    claim_path,
    node_path,
)
from genericdp.errors import ApiError

from tests.apiserver.scenarios import SELECTOR, device, precondition, renewed, slice_of
from tests.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_what_was_created_can_be_got_updated_listed_and_deleted(
    server: ApiServer, client: ApiClient
) -> None:
    created = await client.create(SLICES, slice_of())
    path = f"{SLICES}/{created['metadata']['name']}"
    assert created["metadata"]["name"].startswith("node-1-genericdp-")
    updated = await client.update(path, renewed(created, device("ttyusb1")))
    assert updated["metadata"]["generation"] == 2
    assert await client.get(path) == updated
    server.put("resourceslices", slice_of(node="node-2"))
    (listed,) = (await client.list(SLICES, SELECTOR))[0]
    assert listed == {key: updated[key] for key in ("metadata", "spec")}
    await client.delete(path, **precondition(updated))
    assert await client.list(SLICES, SELECTOR) == ([], str(server.version))
    assert [write.verb for write in server.writes] == ["create", "update", "delete"]


async def test_an_object_that_is_not_there_is_told_by_its_name_whatever_that_holds(
    server: ApiServer, client: ApiClient
) -> None:
    server.put("resourceclaims", {"metadata": {"namespace": "a/b", "name": "c?d"}})
    assert (await client.get(claim_path("a/b", "c?d")))["metadata"]["name"] == "c?d"
    with pytest.raises(ApiError, match=r"404: resourceclaims.* \"other\" not found") as caught:
        await client.get(claim_path("a/b", "other"))
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


async def test_an_object_that_has_changed_is_neither_replaced_nor_deleted(
    server: ApiServer, client: ApiClient
) -> None:
    created = await client.create(SLICES, slice_of())
    path = f"{SLICES}/{created['metadata']['name']}"
    server.put("resourceslices", renewed(created, device("other")))
    with pytest.raises(ApiError, match="the object has been modified") as caught:
        await client.update(path, renewed(created, device("ttyusb1")))
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    with pytest.raises(ApiError, match="Precondition failed") as caught:
        await client.delete(path, **precondition(created))
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert len(server.objects("resourceslices")) == 1


async def test_a_watch_tells_of_changes_from_a_version_on(
    server: ApiServer, client: ApiClient
) -> None:
    _, version = await client.list(SLICES, SELECTOR)
    created = await client.create(SLICES, slice_of())
    server.put("resourceslices", slice_of(node="node-2"))
    async with client.watch(SLICES, resource_version=version, field_selector=SELECTOR) as events:
        assert await anext(events) == ("ADDED", created)
        server.bookmark()
        kind, bookmark = await anext(events)
        assert kind == "BOOKMARK"
        assert bookmark["metadata"]["resourceVersion"] == str(server.version)
        server.wipe("node-1")
        kind, deleted = await anext(events)
        assert (kind, deleted["spec"]) == ("DELETED", created["spec"])
        server.end_watches()
        assert [event async for event in events] == []
    asked_for = server.requests[-1].query
    assert asked_for["allowWatchBookmarks"] == "true"
    assert 300 <= int(asked_for["timeoutSeconds"]) <= 600


async def test_lines_of_a_watch_end_at_a_line_feed_only(
    server: ApiServer, client: ApiClient
) -> None:
    async with client.watch(SLICES, resource_version=str(server.version)) as events:
        name = "a\u2028b\u0085c\x1cd\re"
        line = f'{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}'
        content = line.replace("\r", "\\r").replace("\x1c", "\\u001c").encode()
        server.tell_watches(content[:20])
        server.tell_watches(content[20:] + b"\r\n\n")
        assert await anext(events) == ("ADDED", {"metadata": {"name": name}})


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "does not accept the token or certificate (401): "),
        (403, "refuses (403): as the test wants it; the ClusterRole of components/dra"),
        (409, "answers 409: as the test wants it"),
        (429, "answers 429: as the test wants it"),
        (500, "answers 500: as the test wants it"),
    ],
)
async def test_a_refusal_says_why_and_what_to_do(
    server: ApiServer, client: ApiClient, status: int, text: str
) -> None:
    with server.failing(status=status, retry_after=7), pytest.raises(ApiError) as caught:
        await client.create(SLICES, slice_of())
    assert text in str(caught.value)
    assert (caught.value.status, caught.value.retry_after) == (status, 7)


@pytest.mark.parametrize("content", [None, b"404 page not found\n"])
async def test_a_server_that_does_not_know_slices_is_too_old(
    server: ApiServer, client: ApiClient, content: bytes | None
) -> None:
    with server.failing(content=content), pytest.raises(ApiError, match=r"Kubernetes 1\.34") as e:
        await client.list("/apis/resource.k8s.io/v2/resourceslices")
    assert (e.value.status, e.value.reason) == (404, "")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"metadata": 1}', b"\xff", b"[" * 100_000, b'{"items": {}}']
)
async def test_an_answer_that_is_no_object_is_an_error(
    server: ApiServer, client: ApiClient, content: bytes
) -> None:
    with server.failing(content=content), pytest.raises(ApiError, match="the API server's answer"):
        await client.list(SLICES)
    with server.failing(cut=True), pytest.raises(ApiError, match="does not answer"):
        await client.list(SLICES)


@pytest.mark.parametrize(
    ("line", "then", "why"),
    [
        (b"[]\n", None, "the API server"),
        (b'{"type":"ADDED","object":[]}\n', None, "the API server"),
        (b'{"type":"ADDED","object":{}}\n', None, "the API server"),
        (b'{"type":"ERROR","object":{"code":"x"}}\n', None, "the API server"),
        (b'{"type":"ADDED"', ApiServer.end_watches, "does not end"),
        (b"", ApiServer.cut_watches, "does not answer"),
    ],
)
async def test_a_watch_that_tells_no_event_or_is_cut_off_is_an_error_without_a_status(
    server: ApiServer,
    client: ApiClient,
    line: bytes,
    then: Callable[[ApiServer], None] | None,
    why: str,
) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        async with client.watch(SLICES, resource_version=str(server.version)) as events:
            server.tell_watches(line)
            if then is not None:
                then(server)
            await anext(events)
    assert caught.value.status is None


async def test_a_silent_server_is_not_waited_for_for_long(server: ApiServer) -> None:
    async with asyncio.timeout(60), ApiClient(server.access, answer_seconds=0.2) as client:
        with server.failing(hangs=True), pytest.raises(ApiError, match="does not answer in time"):
            await client.list(SLICES)
        assert await client.list(SLICES)
    async with asyncio.timeout(60), ApiClient(server.access, silence_seconds=0.2) as client:
        with pytest.raises(ApiError, match="does not answer in time") as caught:
            async with client.watch(SLICES, resource_version=str(server.version)) as events:
                await anext(events)
        assert caught.value.status is None


async def test_requests_are_counted_by_verb_and_result(server: ApiServer) -> None:
    counted: list[tuple[str, str]] = []
    async with ApiClient(server.access, count=lambda *entry: counted.append(entry)) as client:
        await client.list(SLICES)
        with server.failing(status=403), pytest.raises(ApiError):
            await client.create(SLICES, slice_of())
        async with client.watch(SLICES, resource_version=str(server.version)):
            pass
        await server.stop()
        with pytest.raises(ApiError):
            await client.get(node_path("node-1"))
    assert counted == [
        ("list", "success"),
        ("create", "403"),
        ("watch", "success"),
        ("get", "unreachable"),
    ]


async def test_a_request_that_is_canceled_leaves_the_client_usable(server: ApiServer) -> None:
    async with ApiClient(server.access) as client:
        for _ in range(3):
            with server.failing(hangs=True), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await client.list(SLICES)
        assert await client.list(SLICES)


async def test_a_connection_is_closed_whose_handshake_is_canceled() -> None:
    """The library leaves it to the garbage collection."""
    has_begun, has_ended = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        has_begun.set()
        await reader.read()
        has_ended.set()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ApiClient(lambda: Access(server=f"https://127.0.0.1:{port}")) as client:
            gc.disable()
            try:
                async with asyncio.TaskGroup() as tasks:
                    asking = tasks.create_task(client.list(SLICES))
                    await has_begun.wait()
                    asking.cancel()
                async with asyncio.timeout(30):
                    await has_ended.wait()
            finally:
                gc.enable()


async def test_environment_variables_do_not_lead_elsewhere(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    async with ApiClient(lambda: Access(server=server.url)) as client:
        assert await client.list(SLICES)
