"""Nobody who connects can cost the daemon much, or keep others from being answered."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from genericdp.status.http import Limits
from tests.polling import poll_until
from tests.scarcity import spare_descriptors
from tests.status.asking import BIG, PATIENCE_SECONDS, Serving, answered, request, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from genericdp.status.requests import Answer, HttpRequest

CROWD = 1000
PIECE = b"GET /livez HTTP/1.1\r\nHost: no"


@asynccontextmanager
async def crowd(it: Serving, count: int, data: bytes) -> AsyncIterator[list[socket.socket]]:
    """So many connections that have sent this and wait."""
    loop, sockets = asyncio.get_running_loop(), []
    try:
        for _ in range(count):
            one = socket.socket()
            sockets.append(one)
            one.setblocking(False)
            await loop.sock_connect(one, ("127.0.0.1", it.port))
            with suppress(ConnectionError):  # it may have had to go already
                await loop.sock_sendall(one, data)
        yield sockets
    finally:
        for one in sockets:
            one.close()


async def is_over(one: socket.socket) -> bool:
    """Wait until the other side has ended it."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.get_running_loop().sock_recv(one, 1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("data", [b"", PIECE, request("/big")], ids=["silent", "slow", "unread"])
async def test_a_thousand_that_wait_keep_nobody_from_being_answered(data: bytes) -> None:
    """Newcomers are never refused; who has been waiting longest has to go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD * 2:
        pytest.skip("needs more descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        async with serving() as it:
            async with crowd(it, CROWD, data):
                for at in range(10):
                    assert (await it.get(f"/{at}")).endswith(b"/%d\n" % at)
                    assert it.server.connections <= Limits().connections + 1
            assert (await it.get("/after")).endswith(b"/after\n")
            await it.are_left(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_probes_are_answered_while_a_thousand_come() -> None:
    async with serving() as it, asyncio.TaskGroup() as tasks:

        async def come() -> None:
            for _ in range(20):
                async with crowd(it, 50, PIECE):
                    await asyncio.sleep(0)

        coming = tasks.create_task(come())
        probes = 0
        while not coming.done():
            assert (await it.get("/livez")).endswith(b"/livez\n")
            probes += 1
        assert probes


async def test_the_one_that_waits_longest_goes_first() -> None:
    async with serving(limits=Limits(connections=3)) as it, crowd(it, 3, b"") as sockets:
        await it.are_left(3)
        assert (await it.get("/x")).endswith(b"/x\n")
        assert await is_over(sockets[0])
        sockets[1].send(request("/y"))
        assert (await asyncio.get_running_loop().sock_recv(sockets[1], 99)).startswith(b"HTTP/1.1")


async def test_one_that_is_being_answered_does_not_go_as_long_as_others_wait() -> None:
    go_on = asyncio.Event()

    async def slowly(asked: HttpRequest) -> Answer:
        if asked.path == "/slow":
            await go_on.wait()
        return await answered(asked)

    async with serving(slowly, limits=Limits(connections=3)) as it, asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(it.get("/slow"))
        await it.are_left(1)
        async with crowd(it, 20, b""):
            assert (await it.get("/x")).endswith(b"/x\n")
            go_on.set()
            assert (await slow).endswith(b"/slow\n")


async def test_of_all_who_wait_one_of_the_peer_that_has_most_of_them_goes() -> None:
    async with serving(limits=Limits(connections=4)) as it:
        loop, other = asyncio.get_running_loop(), socket.socket()
        other.setblocking(False)
        other.bind(("127.0.0.2", 0))
        await loop.sock_connect(other, ("127.0.0.1", it.port))
        await it.are_left(1)
        async with crowd(it, 30, PIECE):
            assert (await it.get("/x")).endswith(b"/x\n")
            other.send(request("/y"))
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await loop.sock_recv(other, 99)).startswith(b"HTTP/1.1 200")
        other.close()


@pytest.mark.parametrize("data", [b"", b"\r\n", PIECE, request() + PIECE])
async def test_who_does_not_end_his_request_is_not_waited_for(data: bytes) -> None:
    limits = Limits(request=0.2, idle=60.0)
    async with serving(limits=limits) as it, crowd(it, 1, data):
        await it.are_left(1)
        await it.are_left(0)


async def test_bytes_that_trickle_buy_no_time() -> None:
    async with serving(limits=Limits(request=0.3)) as it, crowd(it, 1, PIECE) as (one,):
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    one.send(b"x")
                    await asyncio.sleep(0.02)


async def test_a_connection_that_is_not_used_again_ends() -> None:
    data = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving(limits=Limits(idle=0.2)) as it, crowd(it, 1, data) as (one,):
        assert await asyncio.get_running_loop().sock_recv(one, 99)
        await it.are_left(0)


async def test_who_does_not_take_his_answer_is_not_waited_for() -> None:
    limits = Limits(answer=0.2, bytes_per_second=len(BIG) * 10)
    async with serving(limits=limits) as it, crowd(it, 5, request("/big")):
        await poll_until(lambda: len(it.asked) == 5)  # the first may be gone before the last asks
        await it.are_left(0)


async def test_a_big_answer_arrives_whole() -> None:
    async with serving() as it:
        assert (await it.get("/big")).endswith(b"\r\n\r\n" + BIG)


async def test_who_sends_on_after_a_refusal_is_told_nevertheless() -> None:
    """An end without reading would take the answer along."""
    body = b"x" * 200_000
    async with serving() as it:
        said = await it.says(request("/", f"Content-Length: {len(body)}") + body)
        assert said.startswith(b"HTTP/1.1 413 ")
        await it.are_left(0)


class _Scarce(socket.socket):
    """No descriptor is left for what it would give."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_without_descriptors_it_waits_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = _Scarce()
    one.setblocking(False)
    one.bind(("127.0.0.1", 0))
    one.listen(5)
    one.failures = 3
    async with serving(listener=one) as it:
        assert (await it.get("/x")).endswith(b"/x\n")
    assert [record.getMessage() for record in caplog.records] == [
        "no connection to the endpoints: Too many open files"
    ]


async def test_where_descriptors_run_short_who_waits_makes_room() -> None:
    async with serving() as it:
        async with crowd(it, 5, b""):
            await it.are_left(5)
            with spare_descriptors(1):  # for the client's own end
                assert (await it.get("/x")).endswith(b"/x\n")
        await it.are_left(0)


async def test_who_asks_again_and_again_keeps_nobody_from_being_answered() -> None:
    """Each connection is answered ten times a second, however fast it asks."""
    async with serving() as it:
        async with crowd(it, 200, b"GET /again HTTP/1.1\r\nHost: x\r\n\r\n" * 100):
            for at in range(5):
                assert (await it.get(f"/{at}")).endswith(b"/%d\n" % at)
        assert len(it.asked) < 200 * 100 / 2
        await it.are_left(0)
