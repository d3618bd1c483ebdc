"""``genericdp claims``: the claims that are prepared on this node, by their records.

The records are files of the daemon. This command reads them itself, so it also works where no
daemon runs, and it believes nothing that is in them: a record that cannot be read is shown with
the reason, since it keeps other claims from the devices that it may hold.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from genericdp.cli.options import add_kubelet_root, add_output, driver_of
from genericdp.cli.output import print_result, table
from genericdp.errors import GenericdpError, reason_of
from genericdp.host.workers import run_in_time
from genericdp.logs import timestamp
from genericdp.printing import shortened

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLE = (
    "  genericdp claims\n"
    "  kubectl -n genericdp exec POD -- genericdp claims -o json\n"
    "  genericdp claims release --help"
)
RELEASE_SUFFIX = ".release"
_SUFFIX = ".json"
_SECONDS = 10.0
_MAX_BYTES = 4 * 1024 * 1024
"""Of a record: more than any daemon writes."""
_MAX_CHARACTERS = 500
"""Of a text in a record."""
_END_OF_TIME = 253_402_300_800
"""The year 10,000: later times cannot be shown."""
_TITLES = ("CLAIM", "DEVICES", "AGE", "DRIVER", "UID", "STATE")
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The record of a prepared claim, as far as it can be read."""

    file: Path
    driver: str
    uid: str
    namespace: str = ""
    name: str = ""
    devices: tuple[tuple[str, str], ...] = ()
    """Resource and share of each device that the claim holds."""
    prepared_at: float | None = None
    """In seconds since 1970, or None if it is unknown."""
    unreadable: str = ""
    """Why it cannot be read, or an empty string."""
    is_release_requested: bool = False

    @property
    def claim(self) -> str:
        """The claim's namespace and name, or an empty string."""
        return f"{self.namespace}/{self.name}" if self.name else ""

    @property
    def state(self) -> str:
        """What to know of it, in words."""
        state = f"unreadable: {self.unreadable}" if self.unreadable else "prepared"
        return f"{state}, release requested" if self.is_release_requested else state


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
    records, now = read_records(arguments), time.time()  # noqa: TID251  # to be shown
    lines = table([_TITLES, *(_row(record, now) for record in records)])
    if not records:
        folder = plugins_folder(arguments)
        missing = "" if folder.is_dir() else ", which does not exist (see --kubelet-root)"
        lines = [f"No claim is prepared: there is no record below {folder}{missing}"]
    print_result({"claims": [*map(_as_json, records)]}, lines, arguments.output)
    return 0


def plugins_folder(arguments: argparse.Namespace) -> Path:
    """Return the directory that has a directory for each DRA driver of the node."""
    root: Path = arguments.kubelet_root
    return root / "plugins"


def read_records(arguments: argparse.Namespace) -> list[Record]:
    """Return all records of the drivers that the command line names; raise GenericdpError."""
    folder = plugins_folder(arguments)
    work = partial(_read_all, folder, arguments.dra_driver)
    try:
        return run_in_time(work, _SECONDS)
    except TimeoutError:
        raise GenericdpError(f"reading {folder} does not end within {_SECONDS:g} s") from None
    except OSError as error:
        place = error.filename or folder
        raise GenericdpError(f"{place}: {reason_of(error).lower()}") from error


def _read_all(folder: Path, driver: str | None) -> list[Record]:
    try:
        drivers = sorted(os.listdir(folder)) if driver is None else [driver]  # noqa: PTH208
    except FileNotFoundError:
        return []
    return [record for name in drivers for record in _read_driver(folder / name / "claims", name)]


def _read_driver(folder: Path, driver: str) -> Iterator[Record]:
    try:
        names = {*os.listdir(folder)}  # noqa: PTH208  # strings are what is wanted
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        uid = name.removesuffix(_SUFFIX)
        if name.endswith(_SUFFIX) and not name.startswith("."):
            is_release_requested = f"{uid}{RELEASE_SUFFIX}" in names
            record = _read_record(
                folder / name, driver, uid, is_release_requested=is_release_requested
            )
            if record is not None:
                yield record


def _read_record(file: Path, driver: str, uid: str, *, is_release_requested: bool) -> Record | None:
    """Return a record, or None if the daemon has just removed it."""
    content, unreadable, modified = b"", "", None
    facts: dict[str, Any] = {}
    try:
        content, modified = _read_file(file)
        facts = _parse(content, uid)
    except FileNotFoundError:
        return None
    except OSError as error:
        unreadable = reason_of(error).lower()
    except RecursionError:
        unreadable = "its JSON is nested too deeply"
    except _DAMAGE as error:
        unreadable = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    if facts.get("prepared_at") is None:
        facts["prepared_at"] = modified
    return Record(
        file=file,
        driver=driver,
        uid=uid,
        unreadable=shortened(unreadable, _MAX_CHARACTERS),
        is_release_requested=is_release_requested,
        **facts,
    )


def _read_file(file: Path) -> tuple[bytes, float]:
    """Return what a regular file holds, and when it was written.

    Raise OSError, and ValueError for anything else: opening a FIFO can hang, and a device may act.
    """
    if not stat.S_ISREG(file.lstat().st_mode):
        raise ValueError("it is not a regular file")
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        facts = os.fstat(opened.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is not a regular file")
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is longer than {_MAX_BYTES:,} bytes")
    return content, facts.st_mtime


def _parse(content: bytes, uid: str) -> dict[str, Any]:
    """Return the facts of a record; raise one of _DAMAGE.

    Whatever its version is: in each, the UID and what the claim holds have the same form. Only
    records of version 1 call that ``devices``.
    """
    record = json.loads(content)
    if not isinstance(record, dict):
        raise TypeError("it is not a JSON object")
    if record["uid"] != uid:
        raise ValueError(f"it is about the UID {record['uid']!r}")
    holds = record["holds"] if "holds" in record else record["devices"]
    return {
        "namespace": _text(record["namespace"]),
        "name": _text(record["name"]),
        "devices": tuple(
            (_text(hold["resource"]), _text(hold.get("share") or hold.get("id") or ""))
            for hold in holds
        ),
        "prepared_at": _time(record.get("preparedAt")),
    }


def _time(value: object) -> float | None:
    if isinstance(value, int | float) and 0 <= value < _END_OF_TIME:
        return float(value)
    return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shortened(repr(value))} is not a string")
    return shortened(value, _MAX_CHARACTERS)


def _row(record: Record, now: float) -> tuple[str, ...]:
    return (
        record.claim,
        devices_of(record),
        age_of(record, now),
        record.driver,
        record.uid,
        record.state,
    )


def devices_of(record: Record) -> str:
    """Return the devices that a claim holds, in words."""
    return ", ".join(f"{resource} {share}" for resource, share in record.devices)


def age_of(record: Record, now: float) -> str:
    """Return for how long a claim has been prepared, or an empty string."""
    # Needs an HTTP client, which not every command pays for.
    from genericdp.cli.status import span

    return "" if record.prepared_at is None else span(timestamp(record.prepared_at), timestamp(now))


def _as_json(record: Record) -> dict[str, Any]:
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "name": record.name,
        "driver": record.driver,
        "devices": [{"resource": name, "share": share} for name, share in record.devices],
        "preparedAt": None if record.prepared_at is None else timestamp(record.prepared_at),
        "file": str(record.file),
        "unreadable": record.unreadable,
        "releaseRequested": record.is_release_requested,
    }
