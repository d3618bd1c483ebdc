"""Work with a host, leaving out files that do not answer."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, TypeVar

from genericdp.cli.output import print_lines
from genericdp.errors import GenericdpError
from genericdp.host.cache import HostCache
from genericdp.host.calls import HangsError, give_up
from genericdp.host.workers import HANGING_SECONDS
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.host.root import Root

T = TypeVar("T")

MAX_HANGING = 10


def run_skipping_hangs(
    root: Root, work: Callable[[HostCache], T], *, look_seconds: float = HANGING_SECONDS
) -> T:
    """Run ``work`` on the host, skipping paths whose reads hang.

    ``work`` starts over each time something hangs, with a host that lists it in ``hanging``. Raises
    GenericdpError if too many paths hang, and any error of ``work``.
    """
    for _ in range(MAX_HANGING + 1):
        working = asyncio.run(HostCache(root).run(work, look_seconds))
        if working.done():
            try:
                return working.result()
            except HangsError as error:
                raise GenericdpError(f"reading {error} timed out") from None
        what = f"reading '{printable(working.what)}' timed out"
        print_lines([f"{what}; continuing without it"], file=sys.stderr)
        give_up(working)
    raise GenericdpError("too much of this host does not answer")
