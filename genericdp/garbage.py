"""Keeps Python's collector from stopping all threads while a pass makes very many objects."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 50_000
"""To walk through so many objects takes about 10 ms, and nothing else runs meanwhile."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect nothing meanwhile; what was made is not walked through later if it is very much.

    What a pass makes holds no cycles: it is freed when it is no longer used, collected or not. On
    most machines a pass makes few objects, and this does nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > MANY:
            gc.freeze()
        if was_enabled:
            gc.enable()
