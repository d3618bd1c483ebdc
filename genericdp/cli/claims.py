"""``genericdp claims``: the claims that are prepared on this node, according to their records.

The records are files of the daemon, so this works even if no daemon runs. A record that cannot be
read is shown with the reason: until it is removed, no other claim gets the devices that it may
hold.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from genericdp.cli.options import driver_of
from genericdp.cli.output import print_result, table
from genericdp.cli.parser import argument
from genericdp.dra.claims import read_records as records_in
from genericdp.dra.claims import record_directories
from genericdp.errors import GenericdpError, reason_of
from genericdp.host.workers import run_in_time
from genericdp.logs import timestamp
from genericdp.printing import shortened

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from genericdp.dra.claims import Record

EXAMPLE = (
    "  genericdp claims\n"
    "  kubectl -n genericdp exec POD -- genericdp claims -o json\n"
    "  genericdp claims release UID      # ends one that the kubelet will not unprepare"
)
_SECONDS = 10.0
_MAX_CHARACTERS = 500
"""The maximum length of a string in a record."""
_END_OF_TIME = 253_402_300_800
"""The year 10,000: later times cannot be shown."""
_TITLES = ("CLAIM", "DEVICES", "AGE", "DRIVER", "UID", "STATE")
DRIVER = argument(
    "only the claims of this DRA driver (default: all that have records here)",
    metavar="NAME",
    type=driver_of,
)
ARGUMENTS = {"--dra-driver": DRIVER}


def execute(arguments: argparse.Namespace) -> int:
    """Print the records of prepared claims."""
    records = read_records(arguments)
    lines = table([_TITLES, *map(_row, records)])
    if not records:
        directory = arguments.kubelet_root / "plugins"
        missing = "" if directory.is_dir() else ", which does not exist (see --kubelet-root)"
        lines = [f"No claim is prepared: there is no record below {directory}{missing}"]
    print_result({"claims": [*map(_as_json, records)]}, lines, arguments.output)
    return 0


def read_records(arguments: argparse.Namespace) -> list[Record]:
    """Return all records of the drivers that the command line names; raise GenericdpError."""
    root: Path = arguments.kubelet_root
    try:
        return run_in_time(partial(_read_all, root, arguments.dra_driver), _SECONDS)
    except TimeoutError:
        raise GenericdpError(f"reading {root} timed out after {_SECONDS:g} s") from None
    except OSError as error:
        raise GenericdpError(f"{error.filename or root}: {reason_of(error).lower()}") from error


def _read_all(root: Path, driver: str | None) -> list[Record]:
    with suppress(FileNotFoundError):
        (root / "plugins").stat()  # raises NotADirectoryError
    directories = (
        record_directories(root) if driver is None else [root / "plugins" / driver / "claims"]
    )
    records: list[Record] = []
    for directory in directories:
        with suppress(FileNotFoundError, NotADirectoryError):
            records += records_in(directory)
    return records


def _row(record: Record) -> tuple[str, ...]:
    state = f"unreadable: {_short(record.why)}" if record.why else "prepared"
    return (
        claim_of(record),
        devices_of(record),
        age_of(record),
        _short(record.driver),
        record.uid,
        f"{state}, release requested" if record.is_releasing else state,
    )


def claim_of(record: Record) -> str:
    """Return the claim's namespace and name, or an empty string if they are unknown."""
    claim = record.claim
    return f"{_short(claim.namespace)}/{_short(claim.name)}" if claim and claim.name else ""


def devices_of(record: Record) -> str:
    """Return the devices that a claim holds, in words."""
    return ", ".join(_short(f"{resource} {share}") for resource, share in _shares(record))


def _shares(record: Record) -> list[tuple[str, str]]:
    holds = record.claim.holds if record.claim else ()
    return [(hold.resource, share) for hold in holds for share in hold.shares]


def age_of(record: Record) -> str:
    """Return how long a claim has been prepared, or an empty string if that is unknown."""
    # This imports an HTTP client, which other commands need not load.
    from genericdp.cli.status import span

    now = timestamp(time.time())  # noqa: TID251  # to be shown
    prepared_at = _prepared_at(record)
    return "" if prepared_at is None else span(prepared_at, now)


def _prepared_at(record: Record) -> str | None:
    prepared_at = record.claim.prepared_at if record.claim else 0.0
    return timestamp(prepared_at) if 0 < prepared_at < _END_OF_TIME else None


def _short(text: str) -> str:
    return shortened(text, _MAX_CHARACTERS)


def _as_json(record: Record) -> dict[str, Any]:
    return {
        "uid": record.uid,
        "namespace": record.claim.namespace if record.claim else "",
        "name": record.claim.name if record.claim else "",
        "driver": record.driver,
        "devices": [{"resource": resource, "share": share} for resource, share in _shares(record)],
        "preparedAt": _prepared_at(record),
        "file": str(record.path),
        "unreadable": record.why,
        "releaseRequested": record.is_releasing,
    }
