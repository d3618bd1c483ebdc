"""Observable values: waiters see the latest value, not every change."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


class Observed(Generic[T]):
    """Holds the latest value; any number of tasks of one loop can wait for a change."""

    def __init__(self, value: T) -> None:
        self._value = value
        self.waiters: set[asyncio.Future[None]] = set()
        """The futures of the tasks that wait for a change."""
        self._callbacks: list[Callable[[], None]] = []

    @property
    def value(self) -> T:
        """The latest value."""
        return self._value

    @value.setter
    def value(self, value: T) -> None:
        if value == self._value:
            return
        self._value = value
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in tuple(self._callbacks):
            callback()

    def watch(self) -> Callable[[], bool]:
        """Return a condition for ``until``: true once the value differs from the current one."""
        seen = self._value
        return lambda: self._value != seen

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call back now and at each change, for as long as the context lasts."""
        self._callbacks.append(callback)
        try:
            callback()
            yield
        finally:
            self._callbacks.remove(callback)


class Signal(Observed[int]):
    """An event that occurs repeatedly; each occurrence counts as a change."""

    def __init__(self) -> None:
        super().__init__(0)

    def send(self) -> None:
        """Wake the waiting tasks."""
        self.value += 1


def any_change(*values: Observed[Any]) -> Callable[[], bool]:
    """Return a condition for ``until``: true once a value differs from its current one."""
    changes = [value.watch() for value in values]
    return lambda: any(change() for change in changes)


async def until(
    condition: Callable[[], bool],
    *values: Observed[Any],
    timeout_seconds: float | None = None,
) -> bool:
    """Wait until the condition holds, which is checked after each change of one of the values.

    Return False if it does not hold in time.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            while not condition():
                await next_change(*values)
    except TimeoutError:
        return condition()
    return True


async def next_change(*values: Observed[Any]) -> None:
    """Wait for the next change of a value; none after the caller's last ``await`` is missed."""
    waiter = asyncio.get_running_loop().create_future()
    for value in values:
        value.waiters.add(waiter)
    try:
        await waiter
    finally:
        for value in values:
            value.waiters.discard(waiter)
