"""Limits of what a server may send: more is an error before it is in memory."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.apiserver import SLICES, node_path
from genericdp.errors import ApiError

from tests.apiserver.scenarios import slice_of
from tests.memory import little_memory

if TYPE_CHECKING:
    from genericdp.apiserver import ApiClient

    from tests.apiserver.server import ApiServer

CHUNK = 64 * 1024
LONGEST = 2**22 - 2**15
"""Nearly as long as an answer can be: each chunk of it counts for a little more than its bytes."""
EVENT = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
SLICE = b'{"metadata":{"name":"a","uid":"b","resourceVersion":"1"},"spec":{}},'
LIST = b'{"metadata":{"resourceVersion":"1"},"items":['


ANSWERS = {
    "endless": ({"endless": b" " * CHUNK}, "answer has more than 4 MiB"),
    "endless list": ({"endless": SLICE * 900}, "answer has more than 4 MiB"),
    "objects": ({"content": LIST + b"{}," * (LONGEST // 3)}, "more than 200,000 values"),
    "nested": ({"content": b"[" * LONGEST}, "more than 200,000 values"),
    "number": ({"content": b"9" * LONGEST}, "not a JSON object"),
    "refusal": ({"status": 503, "content": b"x" * 2**23}, "answers 503: .*more than 4 MiB"),
    "bomb": (
        {"content": lambda: gzip.compress(bytes(2**28), compresslevel=1), "encoding": "gzip"},
        r"compressed \(gzip\)",
    ),
}


@pytest.mark.parametrize(("fault", "why"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_without_end_is_an_error_before_it_is_in_memory(
    server: ApiServer, client: ApiClient, fault: dict[str, Any], why: str
) -> None:
    # Not where it is collected: each process of xdist would compress it.
    made = {key: value() if callable(value) else value for key, value in fault.items()}
    with server.failing(**made), little_memory(), pytest.raises(ApiError, match=why):
        await client.list(SLICES)
    assert await client.list(SLICES)
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "content",
    [
        '{"metadata":{"name":"😀' + "a" * LONGEST + '"}}',
        '{"metadata":{"a":[%s{}]}}' % ('{"a":1},' * 99_000),
    ],
)
async def test_the_largest_answers_have_their_place(
    server: ApiServer, client: ApiClient, content: str
) -> None:
    server.add_node("x")
    with server.failing(content=content.encode()), little_memory():
        await client.get(node_path("x"))


async def test_a_line_of_a_watch_without_end_is_an_error(
    server: ApiServer, client: ApiClient
) -> None:
    with (
        server.failing(verbs={"watch"}, endless=b"x" * CHUNK),
        little_memory(),
        pytest.raises(ApiError, match="watch event has more than 4 MiB"),
    ):
        async with client.watch(SLICES, resource_version="1") as events:
            await anext(events)


async def test_a_flood_of_events_ends_the_watch_so_that_a_list_follows(
    server: ApiServer, client: ApiClient
) -> None:
    events = 0
    with server.failing(verbs={"watch"}, endless=EVENT * 800):
        async with client.watch(SLICES, resource_version="1") as watch:
            async for _ in watch:
                events += 1
    assert 2**22 - 2**15 < events * len(EVENT) < 2**22 + 2 * CHUNK


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
async def test_a_number_that_is_none_is_nothing_and_can_be_sent_back(
    server: ApiServer, client: ApiClient, number: bytes
) -> None:
    created = await client.create(SLICES, slice_of())
    name = created["metadata"]["name"]
    content = b'{"metadata":{"name":"a\\ud800","annotations":%s}}' % number
    with server.failing(verbs={"get"}, content=content):
        found = await client.get(f"{SLICES}/{name}")
    assert found["metadata"]["annotations"] is None
    with pytest.raises(ApiError, match="does not match the name on the URL"):
        await client.update(f"{SLICES}/{name}", {**created, "metadata": found["metadata"]})


async def test_an_answer_of_another_kind_is_an_error(server: ApiServer, client: ApiClient) -> None:
    server.add_node("node-1")
    with pytest.raises(ApiError, match="not a ResourceClaim"):
        await client.get(node_path("node-1"), kind="ResourceClaim")


async def test_what_a_server_says_is_escaped_and_short(
    server: ApiServer, client: ApiClient
) -> None:
    content = b'{"message":"\\u001b[2J\\u202e%s","code":403}' % (b"x" * 10_000)
    with server.failing(status=403, content=content), pytest.raises(ApiError) as caught:
        await client.list(SLICES)
    text = str(caught.value)
    assert text.isprintable()
    assert r"\x1b[2J\u202ex" in text
    assert len(text) < 1000
