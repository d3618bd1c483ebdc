"""How many registrations are under way at once."""

from __future__ import annotations

import asyncio

from genericdp.kubelet.turns import Turns


async def test_no_more_than_so_many_are_in_at_once() -> None:
    turns = Turns(at_once=3)
    inside = most = done = 0

    async def visit() -> None:
        nonlocal inside, most, done
        async with turns.turn():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
        done += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(visit())
    assert (most, done) == (3, 20)


async def test_one_that_hangs_does_not_keep_the_others_waiting() -> None:
    """K6: fails when ``Turns.turn`` calls ``leave`` only at its end."""
    turns = Turns(at_once=1, patience_seconds=0.01)
    release = asyncio.Event()
    order = []

    async def hang() -> None:
        async with turns.turn():
            await release.wait()
            order.append("hanging")

    async def visit() -> None:
        async with turns.turn():
            order.append("quick")
        release.set()

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(hang())
        await asyncio.sleep(0)
        tasks.create_task(visit())
    assert order == ["quick", "hanging"]


async def test_a_turn_that_took_too_long_is_given_back_only_once() -> None:
    turns = Turns(at_once=1, patience_seconds=0.01)
    other = asyncio.Event()

    async def second() -> None:
        async with turns.turn():
            other.set()
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks, turns.turn():
        tasks.create_task(second())
        await other.wait()
    inside = 0

    async def visit() -> None:
        nonlocal inside
        async with turns.turn():
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(visit())


async def test_a_cancelled_visitor_gives_its_turn_back() -> None:
    turns = Turns(at_once=1, patience_seconds=60)

    async def stay() -> None:
        async with turns.turn():
            await asyncio.Event().wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        staying = tasks.create_task(stay())
        await asyncio.sleep(0)
        staying.cancel()
        async with turns.turn():
            assert staying.done()
