"""Libraries without what they import along and nothing here uses: it is memory on each node.

Something stands in for it while they are imported; who imports it later gets the real one.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def standing_in(stand_ins: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Have these modules be imported where the real ones have not been; None: there is none."""
    modules: dict[str, Any] = sys.modules
    put = {name: one for name, one in stand_ins.items() if name not in modules}
    modules.update(put)
    try:
        yield
    finally:
        for name, one in put.items():
            if name in modules and modules[name] is one:
                del modules[name]


def import_asyncio() -> None:
    """Import it without OpenSSL, four megabytes; call it before anything else imports it.

    It copes, as where Python is built without.
    """
    if "asyncio" not in sys.modules:
        with standing_in({"ssl": None}):
            import asyncio  # noqa: F401


def import_grpc() -> None:
    """Import it without ``typing_extensions``: 0.6 MB for the names of two annotations."""
    with standing_in({"typing_extensions": _Annotations("typing_extensions")}):
        import grpc.aio  # noqa: F401


class _Annotations(ModuleType):
    """What gRPC takes; for more of it, as another version might want, the real one comes."""

    Self = Self

    @staticmethod
    def override(method: object) -> object:
        """Mark a method, for those who read; Python has it itself from 3.12 on."""
        return method

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
