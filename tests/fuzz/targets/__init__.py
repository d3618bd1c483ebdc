"""What is fuzzed: each target is a module with what ``Target`` names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    Run = Callable[[bytes], None]

NAMES = (
    "config",
    "templates",
    "patterns",
    "host",
    "udev",
    "kmsg",
    "wire",
    "calls",
    "http2",
    "http",
    "register",
    "podresources",
)


class Target(Protocol):
    """Something of ours that reads what others have written."""

    SECONDS: float
    """One input may take so long; far more than it does, since the machine may be busy."""
    WORDS: tuple[bytes, ...]
    """What the inputs are made of: a driver inserts them."""

    def seeds(self) -> Iterable[bytes]:
        """Give inputs to begin with."""

    def opened(self) -> AbstractContextManager[Run]:
        """Give what takes one input; it raises whatever must not be raised."""


def target(name: str) -> Target:
    """Give a target by its name; imported late, so that a driver can instrument what it uses."""
    return cast("Target", import_module(f"tests.fuzz.targets.{name}"))
