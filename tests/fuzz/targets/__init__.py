"""Readers of foreign bytes: each target is a module with the parts that ``Target`` names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

NAMES = (
    "config",
    "host",
    "udev",
    "calls",
    "http",
    "register",
    "podresources",
    "apiserver",
    "kubeconfig",
)


class Target(Protocol):
    """Something of ours that reads what others have written."""

    WORDS: tuple[bytes, ...]
    """What inputs are made of."""

    def seeds(self) -> Iterable[bytes]:
        """Yield inputs to begin with."""

    def opened(self) -> AbstractContextManager[Callable[[bytes], None]]:
        """Yield what takes one input; it raises whatever must not be raised."""


def target(name: str) -> Target:
    """Return a target by its name."""
    return cast("Target", import_module(f"tests.fuzz.targets.{name}"))
