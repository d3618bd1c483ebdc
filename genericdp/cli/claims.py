"""``genericdp claims``: the claims that are prepared on this node, by their records.

The records are files of the daemon, so this also works where no daemon runs. One that cannot be
read is shown with the reason: it keeps other claims from the devices that it may hold.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from genericdp.cli.options import add_kubelet_root, add_output, driver_of
from genericdp.cli.output import print_result, table
from genericdp.dra.claims import listed_records, record_folders
from genericdp.errors import GenericdpError, reason_of
from genericdp.host.workers import run_in_time
from genericdp.logs import timestamp
from genericdp.printing import shortened

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from genericdp.dra.claims import ListedRecord

EXAMPLE = (
    "  genericdp claims\n"
    "  kubectl -n genericdp exec POD -- genericdp claims -o json\n"
    "  genericdp claims release --help"
)
_SECONDS = 10.0
_MAX_CHARACTERS = 500
"""Of a text in a record."""
_END_OF_TIME = 253_402_300_800
"""The year 10,000: later times cannot be shown."""
_TITLES = ("CLAIM", "DEVICES", "AGE", "DRIVER", "UID", "STATE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_places(parser)
    add_output(parser)


def add_places(parser: argparse.ArgumentParser) -> None:
    """Declare where records are: ``--kubelet-root`` and ``--dra-driver``."""
    add_kubelet_root(parser, "the kubelet's --root-dir, with plugins/")
    parser.add_argument(
        "--dra-driver",
        metavar="NAME",
        type=driver_of,
        help="only the claims of this DRA driver (default: all that have records here)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Print the records of prepared claims."""
    records = read_records(arguments)
    lines = table([_TITLES, *map(_row, records)])
    if not records:
        folder = arguments.kubelet_root / "plugins"
        missing = "" if folder.is_dir() else ", which does not exist (see --kubelet-root)"
        lines = [f"No claim is prepared: there is no record below {folder}{missing}"]
    print_result({"claims": [*map(_as_json, records)]}, lines, arguments.output)
    return 0


def read_records(arguments: argparse.Namespace) -> list[ListedRecord]:
    """Return all records of the drivers that the command line names; raise GenericdpError."""
    root: Path = arguments.kubelet_root
    try:
        return run_in_time(partial(_read_all, root, arguments.dra_driver), _SECONDS)
    except TimeoutError:
        raise GenericdpError(f"reading {root} does not end within {_SECONDS:g} s") from None
    except OSError as error:
        raise GenericdpError(f"{error.filename or root}: {reason_of(error).lower()}") from error


def _read_all(root: Path, driver: str | None) -> list[ListedRecord]:
    folders = record_folders(root) if driver is None else [root / "plugins" / driver / "claims"]
    records: list[ListedRecord] = []
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            records += listed_records(folder)
    return records


def _row(record: ListedRecord) -> tuple[str, ...]:
    state = f"unreadable: {_short(record.unreadable)}" if record.unreadable else "prepared"
    return (
        claim_of(record),
        devices_of(record),
        age_of(record),
        _short(record.driver),
        record.uid,
        f"{state}, release requested" if record.is_releasing else state,
    )


def claim_of(record: ListedRecord) -> str:
    """Return the claim's namespace and name, or an empty string if they are unknown."""
    return f"{_short(record.namespace)}/{_short(record.name)}" if record.name else ""


def devices_of(record: ListedRecord) -> str:
    """Return the devices that a claim holds, in words."""
    return ", ".join(map(_short, record.devices))


def age_of(record: ListedRecord) -> str:
    """Return for how long a claim has been prepared, or an empty string if that is unknown."""
    # Needs an HTTP client, which not every command pays for.
    from genericdp.cli.status import span

    now = timestamp(time.time())  # noqa: TID251  # to be shown
    prepared_at = _prepared_at(record)
    return "" if prepared_at is None else span(prepared_at, now)


def _prepared_at(record: ListedRecord) -> str | None:
    is_known = 0 < record.prepared_at < _END_OF_TIME
    return timestamp(record.prepared_at) if is_known else None


def _short(text: str) -> str:
    return shortened(text, _MAX_CHARACTERS)


def _as_json(record: ListedRecord) -> dict[str, Any]:
    shares = (device.partition(" ") for device in record.devices)
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "name": record.name,
        "driver": record.driver,
        "devices": [{"resource": resource, "share": share} for resource, _, share in shares],
        "preparedAt": _prepared_at(record),
        "file": str(record.path),
        "unreadable": record.unreadable,
        "releaseRequested": record.is_releasing,
    }
