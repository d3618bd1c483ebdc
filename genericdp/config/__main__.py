"""``python -m genericdp.config [--policy FILE] PATH…``: loads a config within limits."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
_VERSION_2 = ("memory.max", "memory.current", "")
"""Of cgroups: limit, use, and the prefix of what is in memory.stat."""


def main() -> None:
    """Load; what a hostile config can cost is limited, also if the daemon is gone."""
    left = memory_left()
    most = MAX_MEMORY if left is None else min(MAX_MEMORY, left - SPARED_MEMORY)
    most = _limit(resource.RLIMIT_DATA, max(MIN_MEMORY, most))
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
    # Imported within the limits.
    from genericdp.config.load import encode, read_all

    given, policy = [Path(path) for path in arguments], None
    if arguments[:1] == ["--policy"]:
        policy, given = given[1], given[2:]
    return encode(*read_all(given, policy=policy))


def _limit(what: int, most: int) -> int:
    """Set a limit and return it: whoever started us may have set a lower one."""
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, limit))
    return limit


def memory_left(root: Path = Path("/")) -> int | None:
    """Return how many bytes our cgroups, those of the container, leave; None: it is not known."""
    found = (_left_in(folder, files) for folder, files in _cgroups(root))
    return min((left for left in found if left is not None), default=None)


def _cgroups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the folders of our cgroup and of all above it, as far as they can be seen."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root / "sys/fs/cgroup", _VERSION_2
        elif "memory" in controllers.split(","):
            top, files = root / "sys/fs/cgroup/memory", _VERSION_1
        else:
            continue
        # In a container the path may be that of the node, of which its top is ours.
        folder = top / path.lstrip("/")
        yield from ((one, files) for one in (folder, *folder.parents) if one.is_relative_to(top))


def _left_in(folder: Path, files: tuple[str, str, str]) -> int | None:
    limit, used, prefix = files
    try:
        most = int((folder / limit).read_text())
        taken = int((folder / used).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no such folder here, or "max"
        return None
    counts = dict(line.split(" ", 1) for line in lines if " " in line)
    # What the kernel gives back before anybody lacks memory counts as left.
    cache = sum(int(counts.get(prefix + name, "0")) for name in ("inactive_file", "active_file"))
    return most - taken + cache


if __name__ == "__main__":
    main()
