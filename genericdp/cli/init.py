"""``genericdp init``: a commented config for what is recognised on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.cli.applying import discover_once
from genericdp.cli.loading import load_in_time
from genericdp.cli.options import add_output, add_root, path_of, root_of, root_words
from genericdp.cli.patience import patiently
from genericdp.cli.recognising import RECOGNISERS
from genericdp.cli.starting import config_of, found_by, ids_of, others, taken_by, text_of
from genericdp.cli.writing import refuse_existing, write_new
from genericdp.config.loaded import STDIN
from genericdp.devices.inventory import Inventory
from genericdp.errors import GenericdpError
from genericdp.explain.catalog import catalogue
from genericdp.explain.hwdata import names as names_in_lists
from genericdp.printing import print_document, print_json, print_lines, shell_words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from genericdp.cli.recogniser import Recogniser
    from genericdp.cli.starting import Found, Names
    from genericdp.devices.devicelist import DeviceList
    from genericdp.explain.catalog import Group
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

SUMMARY = "print a config to start from, for the hardware that is recognised on this machine"
EXAMPLE = (
    "  genericdp init                          # look at it first\n"
    "  genericdp init config.yaml              # then write it\n"
    "  genericdp init --root node.tar.gz       # of another machine, by its snapshot"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=path_of,
        default=None,
        help="the file to write; one that is there already is never overwritten (default: print)",
    )
    add_root(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Look, choose rows, and print or write what they make."""
    root = root_of(arguments)
    if arguments.file is not None:
        refuse_existing(arguments.file)
    started = patiently(root, lambda host: _start(host, RECOGNISERS))
    machine = "this machine" if root.is_machine else f"the machine in {arguments.root.name!r}"
    words = root_words(arguments)
    text = text_of(started.found, started.others, machine, shell_words(words))
    _checked(text.encode())
    if arguments.file is not None:
        write_new(arguments.file, text.encode())
    if arguments.output == "json":
        print_json(_as_json(started, text))
    elif arguments.file is None:
        print_document(text)
    else:
        count = sum(not one.row.warning for one in started.found)
        print_lines([f"{arguments.file}: {count} resource{'' if count == 1 else 's'}"])
        command = ["genericdp", "discover", "--config", str(arguments.file), *words]
        print_lines([f"Next: {shell_words(command)}"])
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Started:
    found: tuple[Found, ...]
    others: tuple[str, ...]


def _start(host: HostCache, rows: Sequence[Recogniser]) -> _Started:
    """Apply all rows to learn which find something, then those alone: that is the config."""
    all_offers = _offers(rows, host)
    groups = catalogue(Inventory(host))
    names = _names(groups, host)
    useful = [row for row in rows if _is_any_well(all_offers[row.name])]
    plain = [row for row in useful if not row.warning]
    offers = {**all_offers, **(_offers(plain, host) if plain else {})}
    found = [found_by(row, offers[row.name], host, names) for row in useful]
    taken = taken_by(offers[row.name] for row in useful)
    return _Started(
        found=tuple(one for one in found if one.devices),
        others=tuple(others(groups, taken, host, names)),
    )


def _offers(rows: Sequence[Recogniser], host: HostCache) -> dict[str, DeviceList]:
    resources = _checked(config_of(rows))
    return dict(discover_once(resources, host, "").lists)


def _is_any_well(offer: DeviceList) -> bool:
    return any(not one.unhealthy for one in offer.devices.values())


def _checked(text: bytes) -> tuple[Resource, ...]:
    """Load a config of ours; raises GenericdpError if it is none, which would be our mistake."""
    loaded = load_in_time([STDIN], text)
    if loaded.problems:
        raise GenericdpError(
            f"this config would not be valid, please report it: {loaded.problems[0]}"
        )
    return loaded.resources


def _names(groups: Iterable[Group], host: HostCache) -> Names:
    """Look up what the lists of this system call the hardware of that machine."""
    places = {group.hardware.syspath for group in groups if group.hardware is not None}
    ids = {(one[0], one[1], one[2]) for place in places if (one := ids_of(place, host)) is not None}
    return {
        (bus, *pair): name
        for bus in ("usb", "pci")
        for pair, name in names_in_lists(bus, {one[1:] for one in ids if one[0] == bus}).items()
    }


def _as_json(started: _Started, text: str) -> dict[str, object]:
    return {
        "config": text,
        "resources": [
            {
                "name": one.row.name,
                "devices": [device_id for device_id, _, _ in one.devices],
                "shares": one.shares,
                "leftOut": one.row.warning,
            }
            for one in started.found
        ],
    }
