"""``genericdp snapshot``: what configs can see of a machine, as a file for use elsewhere."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli.apply import patiently
from genericdp.cli.command_line import path_of
from genericdp.cli.options import add_output, add_root, root_of, write_new
from genericdp.cli.output import print_bytes, print_result
from genericdp.errors import GenericdpError, UsageError
from genericdp.snapshot.archive import ArchiveError, write
from genericdp.snapshot.copy import copied

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from genericdp.snapshot.copy import Copy

EXAMPLE = (
    "  genericdp snapshot node.tar.gz                   # on the node; as any user\n"
    "  genericdp snapshot - > node.tar.gz               # by kubectl exec, for instance\n"
    "  genericdp discover --root node.tar.gz --all      # anywhere"
)
STDOUT = Path("-")
_MAX_TOLD = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        metavar="FILE.tar.gz",
        type=path_of,
        help="the file to write, or - for stdout; one that is there already is never overwritten."
        " It holds names and numbers of /dev, the devices of /sys with their small attributes,"
        " and /run/udev/data: nothing of /proc, no content of a device or file, nothing that is not"
        " readable for everybody",
    )
    add_root(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Copy and write."""
    if arguments.file == STDOUT and sys.stdout.isatty():
        raise UsageError("a snapshot is not for a terminal: name a file, or redirect the output")
    root, began = root_of(arguments), time.monotonic()
    copy = patiently(root, lambda host: copied(root, guard=host.guarded))
    packed = io.BytesIO()
    try:
        count = write(packed, {"genericdp": __version__}, copy.in_order())
    except ArchiveError as error:
        raise GenericdpError(f"no snapshot can be made of this machine: {error}") from error
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


def _as_text(title: str, file: Path, copy: Copy) -> Iterator[str]:
    yield title
    for reason, count in copy.left_out.most_common(_MAX_TOLD):
        yield f"  left out, {reason}: {count:,}, such as {copy.examples[reason]}"
    yield "It holds serial numbers and hardware addresses."
    yield f"Elsewhere: genericdp discover --root {'FILE' if file == STDOUT else file.name} --all"
