"""Reading the host without the folders and files of it that hang."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from genericdp.errors import GenericdpError
from genericdp.host.cache import HostCache
from genericdp.printing import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.host.root import Root

T = TypeVar("T")

LOOK_SECONDS = 5.0
"""How long one look at the host may take before what it is about is left alone."""
MOST_HANGING = 10


def patiently(
    root: Root, work: Callable[[HostCache], T], *, look_seconds: float = LOOK_SECONDS
) -> T:
    """Run ``work`` with the host to ask; what does not answer is left out.

    ``work`` begins anew each time something hangs, and then does not ask for that any more.
    Raises GenericdpError if there is no end of that, and what ``work`` raises.
    """
    hanging: set[str] = set()
    for _ in range(MOST_HANGING + 1):
        host, done = HostCache(root, hanging=hanging), threading.Event()
        results: list[T] = []
        errors: list[BaseException] = []

        def run(
            host: HostCache = host,
            done: threading.Event = done,
            results: list[T] = results,
            errors: list[BaseException] = errors,
        ) -> None:
            try:
                results.append(work(host))
            except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
                errors.append(error)
            done.set()

        # A daemon thread: one that never comes back does not hold up the exit.
        threading.Thread(target=run, name="looking", daemon=True).start()
        stuck = ""
        while not done.wait(look_seconds / 4) and not (stuck := host.stuck(look_seconds)):
            pass
        if errors:
            raise errors[0]
        if results:
            return results[0]
        print_lines([f"looking at {stuck!r} does not end: going on without it"], file=sys.stderr)
        hanging.add(stuck)
    raise GenericdpError("too much of this host does not answer")
