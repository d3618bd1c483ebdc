"""``genericdp snapshot``: what matching reads of a machine, as a file for somewhere else."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli.options import add_output, add_root, path_of, root_of
from genericdp.cli.patience import patiently
from genericdp.cli.writing import refuse_existing, write_new
from genericdp.devices.inventory import printable
from genericdp.errors import GenericdpError
from genericdp.host.archive import ArchiveError, write
from genericdp.host.copying import copied
from genericdp.host.disguise import SHORTEST, Disguise, collect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from genericdp.cli.patience import Looking
    from genericdp.host.archive import Entry
    from genericdp.host.copying import Copy
    from genericdp.host.facts import HostFacts
    from genericdp.host.root import Root

SUMMARY = "write what configs see of this machine into a file, to try configs on elsewhere"
EXAMPLE = (
    "  genericdp snapshot node.tar.gz                   # on the node; as any user\n"
    "  genericdp snapshot node.tar.gz --anonymize       # with other serial numbers\n"
    "  genericdp discover --root node.tar.gz --all      # anywhere"
)
_QUIET_SECONDS = 2.0
_MOST_TOLD = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "file",
        metavar="FILE.tar.gz",
        type=path_of,
        help="the file to write; one that is there already is never overwritten. It holds names"
        " and numbers of /dev, the devices of /sys with their small text attributes, and"
        " /run/udev/data: nothing of /proc, no content of a device or file, nothing that is not"
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
    refuse_existing(arguments.file)
    progress = _Progress(began)

    def work(_look: Looking, facts: HostFacts) -> Copy:
        return copied(root, guard=facts.guard, tell=progress.tell)

    try:
        copy = patiently(root, work)
        entries, short = _disguised(copy.in_order(), root, arguments)
        packed = io.BytesIO()
        about = {"genericdp": __version__, "anonymized": arguments.anonymize}
        count, _ = write(packed, about, entries)
    except ArchiveError as error:
        raise GenericdpError(f"no snapshot can be made of this machine: {error}") from error
    write_new(arguments.file, packed.getvalue())
    size, seconds = len(packed.getvalue()), time.monotonic() - began
    if arguments.output == "json":
        print(json.dumps(_as_json(arguments.file, copy, short, count, size), indent=2))
    else:
        print(f"{arguments.file}: {count:,} entries, {-(-size // 1024):,} KiB, {seconds:.1f} s")
        print("\n".join(_told(arguments.file, copy, short, arguments)))
    return 0


class _Progress:
    """Says how far it is, once it takes longer than somebody waits without asking."""

    def __init__(self, began: float) -> None:
        self._next = began + _QUIET_SECONDS

    def tell(self, count: int, path: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _QUIET_SECONDS
            print(f"{count:,} entries, now /{printable(path)}", file=sys.stderr)


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


def _told(
    file: Path, copy: Copy, short: tuple[str, ...], arguments: argparse.Namespace
) -> Iterator[str]:
    for reason, count in copy.unreadable.counts.most_common(_MOST_TOLD):
        example = printable(copy.unreadable.examples[reason])
        yield f"  left out, {reason}: {count:,}, such as {example}"
    if short:
        yield f"  {len(short)} serial numbers are too short to be replaced: {', '.join(short[:5])}"
    if not arguments.anonymize:
        yield "It holds serial numbers and hardware addresses; --anonymize replaces them."
    yield f"Elsewhere: genericdp discover --root {file.name} --all"


def _as_json(
    file: Path, copy: Copy, short: tuple[str, ...], count: int, size: int
) -> dict[str, object]:
    return {
        "file": str(file),
        "entries": count,
        "bytes": size,
        "leftOut": dict(sorted(copy.unreadable.counts.items())),
        "notReplaced": list(map(printable, short)),
    }
