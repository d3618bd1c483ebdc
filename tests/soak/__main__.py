"""``python -m tests.soak``: the daemon for minutes under everything that happens to a node."""

from __future__ import annotations

import os

# Read by gRPC when it is imported, which the imports below lead to.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import Book


def main() -> int:
    """Run it; 0: all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, help="the same steps again (default: a new one)")
    parser.add_argument(
        "--kubelets",
        choices=("all", "simulated", "real"),
        default="all",
        help="which; real ones need root and those of make e2e (default: all, as far as they are)",
    )
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    # In memory if that can be had: the disk is not what is tested. Its path has to be short.
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="soak", dir=where) as directory:
        book = Book(directory=Path(directory), seed=seed, seconds=arguments.seconds)
        begun = time.monotonic()
        try:
            broken = asyncio.run(book.run(arguments.kubelets))
        except KeyboardInterrupt:
            print(f"interrupted; the seed was {seed}", file=sys.stderr)
            return 130
        print(book.report(time.monotonic() - begun), flush=True)
        if broken:
            print(book.account(broken), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
