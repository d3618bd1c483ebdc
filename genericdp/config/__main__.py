"""``python -m genericdp.config [--policy FILE] PATH…``: loads a config, writes it out as JSON."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.room import memory_left

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1024 * 1024
MAX_MEMORY = 256 * MIB
"""Four times what the largest file takes."""
MIN_MEMORY = 32 * MIB
"""Twice what any config takes."""
SPARED_MEMORY = 8 * MIB
"""What the others in our cgroup may take meanwhile: where it is used up, all may be killed."""
MAX_ADDRESSES = 1024 * MIB
MAX_CPU_SECONDS = 30
MAX_FILES = 1024


def main() -> None:
    """Read and check; what a hostile config can cost is bounded, also if the daemon is gone."""
    left = memory_left()
    most = MAX_MEMORY if left is None else min(MAX_MEMORY, left - SPARED_MEMORY)
    most = max(MIN_MEMORY, most)
    most = _limit(resource.RLIMIT_DATA, most)
    _limit(resource.RLIMIT_AS, MAX_ADDRESSES)
    _limit(resource.RLIMIT_NOFILE, MAX_FILES)
    _limit(resource.RLIMIT_CPU, MAX_CPU_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    answer = b""
    # Not to be said within: the error keeps all that was built, and there is no memory to speak.
    # SystemError: C code that forgot to say that there was no memory.
    with suppress(MemoryError, SystemError):
        answer = _answer(sys.argv[1:])
    if not answer:
        sys.exit(f"it takes more than the {most // MIB} MiB of memory that it may have")
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
    os._exit(0)  # to take everything apart takes a seventh of all the time


def _answer(arguments: Sequence[str]) -> bytes:
    # Imported within the bounds.
    from genericdp.config.load import encode, read_all

    given, policy = [Path(path) for path in arguments], None
    if arguments[:1] == ["--policy"]:
        policy, given = given[1], given[2:]
    return encode(*read_all(given, policy=policy))


def _limit(what: int, most: int) -> int:
    """Set a limit, and give what it is: whoever started us may have set a lower one."""
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, limit))
    return limit


main()
