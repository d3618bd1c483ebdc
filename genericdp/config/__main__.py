"""``python -m genericdp.config [--policy FILE] PATH…``: loads a config, writes it out as JSON."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from genericdp.config.check import resources_of
from genericdp.config.load import places_of, read_all
from genericdp.config.wire import encode

MAX_MEMORY = 1024 * 1024 * 1024
MAX_CPU_SECONDS = 30


def main() -> None:
    """Read and check; what a hostile config can cost is bounded, also if the daemon is gone."""
    _limit(resource.RLIMIT_AS, MAX_MEMORY)
    _limit(resource.RLIMIT_CPU, MAX_CPU_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    given, policy = [Path(path) for path in sys.argv[1:]], None
    if sys.argv[1:2] == ["--policy"]:
        policy, given = given[1], given[2:]
    loaded, documents = read_all(given, policy=policy)
    listed = [] if loaded.problems else [(resources_of(one), places_of(one)) for one in documents]
    sys.stdout.buffer.write(encode(loaded, listed))


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, limit))


main()
