"""``genericdp snapshot``: writes the parts of a machine that configs can see to a file, for use
elsewhere.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli.output import print_bytes, print_result, progress, write_new
from genericdp.cli.parser import argument, path_of
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import root_of
from genericdp.errors import GenericdpError, UsageError
from genericdp.snapshot.archive import ArchiveError, write
from genericdp.snapshot.copy import Copy, copied

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root

EXAMPLE = (
    "  genericdp snapshot node.tar.gz                   # on the node; as any user\n"
    "  genericdp snapshot - > node.tar.gz               # by kubectl exec, for instance\n"
    "  genericdp hardware --root node.tar.gz            # anywhere"
)
STDOUT = Path("-")
_MAX_TOLD = 5
_MAX_SECONDS = 300.0
"""Machines with thousands of devices take some seconds."""
_HINT = "copy what you need of dev/, sys/ and run/udev/data into a directory, and give --root that"
ARGUMENTS = {
    "FILE.tar.gz": argument(
        "the file to write, or - for stdout; an existing file is never overwritten. It"
        " holds names and numbers of /dev, the devices of /sys with their small attributes, and"
        " /run/udev/data: nothing of /proc, no content of a device or file, nothing that is not"
        " readable for everybody",
        dest="file",
        type=path_of,
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Copy and write."""
    if arguments.file == STDOUT and sys.stdout.isatty():
        raise UsageError("a snapshot is not for a terminal: name a file, or redirect the output")
    root, began = root_of(arguments), time.monotonic()
    copy = copy_of(root)
    packed = io.BytesIO()
    try:
        with progress(lambda: f"packing {len(copy.entries):,} entries"):
            count = write(packed, {"genericdp": __version__}, copy.in_order())
    except ArchiveError as error:
        raise GenericdpError(
            f"no snapshot can be made of this machine: {error} ({_HINT})"
        ) from error
    size, seconds = len(packed.getvalue()), time.monotonic() - began
    if arguments.file == STDOUT:
        print_bytes(packed.getvalue())
    else:
        write_new(arguments.file, packed.getvalue())
    out = sys.stderr if arguments.file == STDOUT else sys.stdout
    left_out = dict(sorted(copy.left_out.items()))
    said = {"file": str(arguments.file), "entries": count, "bytes": size, "leftOut": left_out}
    title = f"{arguments.file}: {count:,} entries, {-(-size // 1024):,} KiB, {seconds:.1f} s"
    lines = _as_text(title, arguments.file, copy)
    print_result(said, lines, arguments.output, file=out)
    return 0


def copy_of(root: Root, *, max_seconds: float = _MAX_SECONDS) -> Copy:
    """Copy a machine, printing the progress to stderr; raise GenericdpError if that takes too
    long.
    """
    copy, began = Copy(), time.monotonic()

    def work(host: HostCache) -> Copy:
        nonlocal copy
        copy = Copy()  # something hung: the copy starts over

        def guarded(path: str, read: Callable[[], bytes]) -> bytes:
            if time.monotonic() - began > max_seconds:
                raise GenericdpError(
                    f"reading this machine takes more than {max_seconds:g} s:"
                    f" {len(copy.entries):,} entries so far, now {path} ({_HINT})"
                )
            return host.guarded(path, read)

        return copied(root, copy, guard=guarded)

    with progress(lambda: f"reading: {len(copy.entries):,} entries so far"):
        return run_skipping_hangs(root, work)


def _as_text(title: str, file: Path, copy: Copy) -> Iterator[str]:
    yield title
    for reason, count in copy.left_out.most_common(_MAX_TOLD):
        yield f"  left out, {reason}: {count:,}, such as {copy.examples[reason]}"
    yield "It holds serial numbers and hardware addresses."
    yield f"Elsewhere: genericdp hardware --root {'FILE' if file == STDOUT else file.name}"
