"""Many that come anew, and many that do not read, cost no more than was decided."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.status.http import Limits
from genericdp.status.requests import Answer
from tests.polling import poll_until
from tests.status.asking import BIG, PATIENCE_SECONDS, request, serving

if TYPE_CHECKING:
    from genericdp.status.requests import HttpRequest

SIZE = len(BIG)
KEPT = b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_those_who_come_anew_are_taken_one_after_the_other() -> None:
    begun = time.monotonic()
    async with serving(limits=Limits(new_per_second=100, burst=10)) as it:
        await asyncio.gather(*(it.get(f"/{n}") for n in range(60)))
        assert time.monotonic() - begun >= (60 - 10 - 1) / 100
        assert len(it.asked) == 60


async def test_a_probe_is_answered_during_a_flood() -> None:
    async with serving() as it, asyncio.TaskGroup() as tasks:

        async def flood() -> None:
            while True:
                with suppress(ConnectionError):
                    await it.get("/flood")

        flooding = [tasks.create_task(flood()) for _ in range(50)]
        await poll_until(lambda: len(it.asked) >= Limits().burst + 100)
        for _ in range(5):
            assert (await it.get("/livez")).endswith(b"/livez\n")
        for one in flooding:
            one.cancel()


async def test_who_takes_longest_goes_when_slow_readers_hold_too_much() -> None:
    """Comes back where ``_send`` ends nobody: each holds a list that was made anew for it."""

    async def large(asked: HttpRequest) -> Answer:
        return Answer(status=200, body=asked.path.encode() + bytes(SIZE))

    limits = Limits(held_bytes=3 * SIZE + 1000)
    async with serving(large, limits=limits) as it:
        readers = []
        for n in range(8):
            reader, writer = await it.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            readers.append((reader, writer))
            writer.write(request(f"/{n}"))
            await poll_until(lambda n=n: len(it.asked) > n, seconds=PATIENCE_SECONDS)  # type: ignore[misc]
        await it.are_left(4)  # the newest, and three besides
        reader, writer = readers[-1]
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await reader.read()).endswith(b"/7" + bytes(SIZE))
        for _, writer in readers:
            writer.close()
        await it.are_left(0)


async def test_those_who_take_the_same_answer_hold_it_once() -> None:
    body = bytes(SIZE)

    async def same(_: HttpRequest) -> Answer:
        return Answer(status=200, body=body)

    async with serving(same, limits=Limits(held_bytes=0)) as it:
        said = await asyncio.gather(*(it.get("/x") for _ in range(5)))
        assert all(one.endswith(body) for one in said)


async def test_who_has_his_answer_and_stays_does_not_hold_it() -> None:
    body = bytes(SIZE)

    async def same(_: HttpRequest) -> Answer:
        return Answer(status=200, body=body)

    async with serving(same) as it:
        before = sys.getrefcount(body)
        reader, writer = await it.connect()
        writer.write(KEPT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(SIZE)) == SIZE
            await poll_until(lambda: sys.getrefcount(body) == before)
        assert it.server.connections == 1
        writer.close()
        await it.are_left(0)
