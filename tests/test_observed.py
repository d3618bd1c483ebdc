from __future__ import annotations

import asyncio

from genericdp.observed import Observed, Signal, until

from tests.polling import others_run


async def test_every_waiter_sees_a_change() -> None:
    value = Observed(0)
    async with asyncio.TaskGroup() as tasks:
        waiters = [tasks.create_task(until(lambda: value.value == 2, value)) for _ in range(3)]
        await others_run()
        value.value = 1
        await others_run()
        assert not any(waiter.done() for waiter in waiters)
        value.value = 2
    assert all(waiter.result() for waiter in waiters)


async def test_what_already_holds_is_not_waited_for_and_a_time_out_is_told() -> None:
    value = Observed("there")
    assert await until(lambda: value.value == "there", value, timeout_seconds=0)
    assert not await until(lambda: value.value == "gone", value, timeout_seconds=0.01)


async def test_any_of_several_values_wakes() -> None:
    first, other = Observed(0), Observed(0)
    async with asyncio.TaskGroup() as tasks:
        waiter = tasks.create_task(until(lambda: other.value == 1, first, other))
        await others_run()
        other.value = 1
    assert waiter.result()


async def test_an_equal_value_is_no_change() -> None:
    value = Observed(())
    asked: list[int] = []

    def second_time() -> bool:
        asked.append(1)
        return len(asked) > 1

    async with asyncio.TaskGroup() as tasks:
        waiter = tasks.create_task(until(second_time, value))
        await others_run()
        value.value = ()
        await others_run()
        assert not waiter.done()
        waiter.cancel()
    assert len(asked) == 1


async def test_a_signal_shows_whether_it_was_sent_since_it_was_watched() -> None:
    signal = Signal()
    before = signal.watch()
    assert not await until(before, signal, timeout_seconds=0.01)
    signal.send()
    after = signal.watch()
    assert await until(before, signal, timeout_seconds=0)
    async with asyncio.TaskGroup() as tasks:
        waiter = tasks.create_task(until(after, signal))
        await others_run()
        assert not waiter.done()
        signal.send()
    assert waiter.result()
    assert before()
