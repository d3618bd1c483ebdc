"""``genericdp snapshot``: what matching reads of a machine, as a file for somewhere else."""

from __future__ import annotations

import io
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from genericdp import __version__
from genericdp.cli.options import add_output, add_root, path_of, root_of
from genericdp.cli.patience import patiently
from genericdp.cli.progress import Progress
from genericdp.cli.writing import refuse_existing, write_new
from genericdp.errors import GenericdpError, UsageError
from genericdp.printing import print_json, print_lines, printable
from genericdp.snapshot.anonymize import SHORTEST, Disguise, collect
from genericdp.snapshot.archive import ArchiveError, write
from genericdp.snapshot.copy import copied

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root
    from genericdp.snapshot.archive import Entry
    from genericdp.snapshot.copy import Copy

SUMMARY = "write what configs see of this machine into a file, to try configs on elsewhere"
EXAMPLE = (
    "  genericdp snapshot node.tar.gz                   # on the node; as any user\n"
    "  genericdp snapshot - > node.tar.gz               # by kubectl exec, for instance\n"
    "  genericdp snapshot node.tar.gz --anonymize       # with other serial numbers\n"
    "  genericdp discover --root node.tar.gz --all      # anywhere"
)
STDOUT = Path("-")
_MOST_TOLD = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "file",
        metavar="FILE.tar.gz",
        type=path_of,
        help="the file to write, or - for stdout; one that is there already is never overwritten."
        " It holds names and numbers of /dev, the devices of /sys with their small attributes,"
        " and /run/udev/data: nothing of /proc, no content of a device or file, nothing that is not"
        " readable for everybody",
    )
    parser.add_argument(
        "--anonymize",
        action="store_true",
        help="replace serial numbers, hardware addresses, UUIDs, labels of disks and the host's"
        " name by others of the same form, each everywhere alike: in names, links and contents."
        f" Those of fewer than {SHORTEST} letters and digits stay",
    )
    add_root(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Copy, disguise if that is wanted, and write."""
    root, began = root_of(arguments), time.monotonic()
    _refuse(arguments.file)
    progress = Progress("reading")

    def tell(count: int, path: str) -> None:
        progress.tell(count, f"/{printable(path)}")

    def work(host: HostCache) -> Copy:
        return copied(root, guard=host.guarded, tell=tell)

    try:
        copy = patiently(root, work)
        entries, short = _disguised(copy.in_order(), root, arguments)
        packed = io.BytesIO()
        about = {"genericdp": __version__, "anonymized": arguments.anonymize}
        count, _ = write(packed, about, entries)
    except ArchiveError as error:
        raise GenericdpError(f"no snapshot can be made of this machine: {error}") from error
    size = len(packed.getvalue())
    said = _Said(arguments.file, copy, short, count, size, time.monotonic() - began)
    if arguments.file == STDOUT:
        sys.stdout.buffer.write(packed.getvalue())
        sys.stdout.buffer.flush()
    else:
        write_new(arguments.file, packed.getvalue())
    out = sys.stderr if arguments.file == STDOUT else sys.stdout
    if arguments.output == "json":
        print_json(said.as_json(), file=out)
    else:
        print_lines(said.as_text(arguments), file=out)
    return 0


def _refuse(file: Path) -> None:
    if file != STDOUT:
        refuse_existing(file)
    elif sys.stdout.isatty():
        raise UsageError("a snapshot is not for a terminal: name a file, or redirect the output")


def _disguised(
    entries: list[Entry], root: Root, arguments: argparse.Namespace
) -> tuple[list[Entry], tuple[str, ...]]:
    if not arguments.anonymize:
        return entries, ()
    found = collect(entries, socket.gethostname() if root.is_machine else "")
    disguise = Disguise(frozenset(found.texts))
    return sorted(map(disguise.entry, entries), key=_path), tuple(sorted(found.too_short))


def _path(entry: Entry) -> str:
    return entry.path


class _Said(NamedTuple):
    """What to say of a snapshot that was made."""

    file: Path
    copy: Copy
    short: tuple[str, ...]
    entries: int
    size: int
    seconds: float

    def as_text(self, arguments: argparse.Namespace) -> Iterator[str]:
        kib = -(-self.size // 1024)
        yield f"{self.file}: {self.entries:,} entries, {kib:,} KiB, {self.seconds:.1f} s"
        for reason, count in self.copy.unreadable.counts.most_common(_MOST_TOLD):
            example = printable(self.copy.unreadable.examples[reason])
            yield f"  left out, {reason}: {count:,}, such as {example}"
        if self.short:
            few = ", ".join(map(printable, self.short[:_MOST_TOLD]))
            yield f"  too short to be replaced, so still there: {len(self.short)} serials ({few})"
        if not arguments.anonymize:
            yield "It holds serial numbers and hardware addresses; --anonymize replaces them."
        name = "FILE" if self.file == STDOUT else self.file.name
        yield f"Elsewhere: genericdp discover --root {name} --all"

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.file),
            "entries": self.entries,
            "bytes": self.size,
            "leftOut": dict(sorted(self.copy.unreadable.counts.items())),
            "notReplaced": list(map(printable, self.short)),
        }
