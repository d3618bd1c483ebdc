"""Waiting for what sends no event: another process, /proc, a kubelet, a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_BETWEEN_SECONDS = 0.01

T = TypeVar("T")


async def others_run() -> None:
    """Let other tasks run once; no time passes."""
    await asyncio.sleep(0)  # noqa: TID251 -- no time passes


async def poll_until(reached: Callable[[], object], *, seconds: float = 60) -> None:
    """Wait until a condition holds; raises TimeoutError after these seconds."""

    async def ask() -> object:
        return reached()

    await ask_until(ask, bool, seconds=seconds)


async def ask_until(
    ask: Callable[[], Awaitable[T]], is_enough: Callable[[T], object], *, seconds: float = 60
) -> T:
    """Ask until the answer is enough and return it; raises TimeoutError with the last answer."""
    answer: list[T] = []
    try:
        async with asyncio.timeout(seconds):
            while not (answer and is_enough(answer[-1])):
                if answer:
                    await asyncio.sleep(_BETWEEN_SECONDS)  # noqa: TID251 -- polls what has no event
                answer = [await ask()]
    except TimeoutError:
        raise TimeoutError(f"not as wanted after {seconds} s: {answer}") from None
    return answer[-1]
