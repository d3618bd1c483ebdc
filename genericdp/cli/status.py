"""``genericdp status``: the state of the running daemon."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from datetime import datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from genericdp import __version__
from genericdp.cli.output import DATA, WITH_WIDE, print_data, print_document, table
from genericdp.cli.parser import argument, choice
from genericdp.errors import DAMAGE, GenericdpError, reason_of, why_damaged
from genericdp.host.workers import run_in_time
from genericdp.model import Expectation
from genericdp.printing import first_few, plural, printable, quoted, shortened
from genericdp.settings import parse_server_address
from genericdp.status import view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.settings import Address

    StatusDocument = dict[str, Any]
    """The answer of ``/status``, or a part of it: docs/reference/output.md."""
    ColoredLine = tuple[str, str]
    """A string and its color."""
    Rows = list[tuple[str, tuple[str, ...]]]
    """The color and the cells of each row."""

# Colors accompany words, and never replace them.
PLAIN, GOOD, BAD, ODD, TITLE, FAINT = "", "32", "1;31", "33", "1", "2"
EXAMPLE = (
    "  genericdp status                # of a daemon that was run with --listen=:9733\n"
    "  kubectl exec ds/genericdp -- genericdp status -o json"
)
ADDRESS = "127.0.0.1:9733"
MAX_BYTES = 64 * 1024 * 1024
"""The status of 100,000 devices has about 25 MB."""
SECONDS = 10.0
"""Time limit for everything together: resolving the host's name, connecting, and the response."""
MAX_CHARACTERS = 2000
"""The limit of a string, so that its author cannot fill the screen."""
_MAX_QUOTED = 200
_MAX_EVENTS = 20
_MAX_HOLDERS = 3
"""Limit of the holders shown for one device: a shared one can have hundreds."""
_LEVELS = {"error": BAD, "warning": ODD}


def daemon_at(text: str) -> Address:
    """Parse ``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT``, which is this machine."""
    try:
        return parse_server_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is not of the form HOST:PORT, as in {ADDRESS} or [::1]:9733"
        ) from error


ARGUMENTS = {
    "--address": argument(
        "where the daemon listens", metavar="HOST:PORT", type=daemon_at, default=daemon_at(ADDRESS)
    ),
    "--output": choice(
        "how to print; wide adds path, model, serial number and driver of each device, and its pool"
        " and name in ResourceSlices",
        WITH_WIDE,
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Ask once and print the answer; succeeds even if the daemon says that it is not ready."""
    address: Address = arguments.address
    try:
        status = json.loads(fetch(address, "/status"))
        version = visible(status["version"])
    except DAMAGE as error:
        raise GenericdpError(
            f"what answers on port {address.port} of {address.host} is not genericdp:"
            f" {visible(why_damaged(error), _MAX_QUOTED)}"
        ) from error
    if arguments.output in DATA:
        print_data(status, arguments.output)
        return 0
    try:
        text = "\n".join(
            lines(status, colors=_colors_are_wanted(), wide=arguments.output == "wide")
        )
    except DAMAGE as error:
        by = (
            f" by this one, {__version__}" if version != __version__ else ", which is a fault of it"
        )
        raise GenericdpError(
            f"what genericdp {version} says at {address} cannot be shown{by}:"
            f" {visible(why_damaged(error), _MAX_QUOTED)} (-o json prints it)"
        ) from error
    print_document(text)
    return 0


def fetch(
    address: Address, path: str, *, seconds: float = SECONDS, max_bytes: int = MAX_BYTES
) -> bytes:
    """Return the content of ``http://HOST:PORT/path``, without a proxy.

    Raises GenericdpError with the reason.
    """
    # In a thread, which may be abandoned: nothing else limits the time for a name server, or a
    # server that sends a byte now and then.
    try:
        status, body = run_in_time(partial(_get, address, path, seconds, max_bytes), seconds)
    except TimeoutError:
        raise GenericdpError(f"{address} does not answer") from None
    except ConnectionRefusedError:
        why = f"nothing listens at {address}: is the daemon run with --listen?"
        raise GenericdpError(why) from None
    except HTTPException as error:
        why = visible(str(error).strip(), _MAX_QUOTED) or type(error).__name__
        raise GenericdpError(f"what answers at {address} does not speak HTTP: {why}") from error
    except (OSError, ValueError) as error:
        raise GenericdpError(f"{address} cannot be asked: {reason_of(error).lower()}") from error
    if status == HTTPStatus.OK:
        return body
    said = visible(body[:_MAX_QUOTED].decode(errors="replace").strip(), _MAX_QUOTED)
    if status == HTTPStatus.NOT_FOUND and "--no-status" in said:
        raise GenericdpError(
            f"the daemon at {address} does not show its state: it is run with --no-status"
        )
    quoted = f" (it says: {said})" if said else ""
    raise GenericdpError(f"{address} answers {status}: is that a genericdp?{quoted}")


def _get(address: Address, path: str, seconds: float, max_bytes: int) -> tuple[int, bytes]:
    # A host may have several addresses: the first ones must not use up all of the time.
    with closing(HTTPConnection(address.host, address.port, timeout=seconds / 4)) as connection:
        connection.connect()
        connection.sock.settimeout(seconds)
        connection.request("GET", path)
        # In an answer with "Connection: close", the answer owns the socket.
        with connection.getresponse() as answer:
            body = answer.read(max_bytes)
            if answer.length or answer.read(1):
                is_long = len(body) == max_bytes
                what = f"is longer than {max_bytes} bytes" if is_long else "ends too early"
                raise GenericdpError(f"the answer of {address} {what}")
            return answer.status, body


def _colors_are_wanted() -> bool:
    """Return whether stdout is a terminal that may be colored (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def lines(status: StatusDocument, *, colors: bool, wide: bool = False) -> Iterator[str]:
    """Yield the status as lines, Unhealthy devices first; lines contain only printable text.

    Raises KeyError, TypeError, ValueError or AttributeError if the data is not a status of a
    daemon; fields that an older daemon lacks are left out.
    """
    for line, color in _lines(status, wide=wide):
        yield f"\033[{color}m{line}\033[0m" if colors and line and color else line


def _lines(status: StatusDocument, *, wide: bool) -> Iterator[ColoredLine]:
    state, color = ("ready", GOOD) if status["ready"] else ("NOT READY", BAD)
    resources, config = status["resources"], status["config"]
    yield f"{visible(status['node'])}: {state}", color
    yield _summary(status), PLAIN
    yield from _listed("Not ready", status["notReady"], BAD)
    yield from _listed("Not as expected", view.not_as_expected(resources), BAD)
    since = config["differsSince"]
    if since is not None or config["problems"]:
        when = f" since {absolute(since)}" if since is not None else ""
        problems = config["problems"] or ["it could not be read"]
        yield from _listed(f"The config on disk has been REFUSED{when}", problems, BAD)
    yield "", PLAIN
    yield from _daemon(status)
    yield from _listed("Warnings of the config", config["warnings"], ODD)
    yield from _listed("Never reloaded", config["pinned"], ODD)
    yield from _titled("Resources", _resource_rows(status))
    yield from _titled("Devices", _device_rows(status, view.HARDWARE_COLUMNS if wide else ()))
    yield from _listed("Without devices", view.without_devices(resources))
    yield from _listed("Matched, but not offered", view.not_offered(resources))
    yield from _titled("Last events (UTC)", _event_rows(status["events"][-_MAX_EVENTS:]))


def _listed(title: str, texts: Sequence[str], color: str = TITLE) -> Iterator[ColoredLine]:
    if texts:
        yield "", PLAIN
        yield f"{title}:", color
        for text in texts:
            yield f"  {visible(text)}", PLAIN


def _daemon(status: StatusDocument) -> Iterator[ColoredLine]:
    config, kubelet, supply = status["config"], status["kubelet"], status["descriptors"]
    running = span(status["started"], status["time"])
    yield f"Daemon:   genericdp {visible(status['version'])}, for {running}", PLAIN
    files = ", ".join(map(visible, config["files"]))
    if config["active"]:
        since = f", since {absolute(config['since'])}" if config["since"] is not None else ""
        of_old = ", the last good one of the state directory" if config["fromStateDir"] else ""
        digest = visible(config["digest"][:12])
        yield f"Config:   active{since}{of_old} ({digest}; {files})", PLAIN
        bounds = "none (configs are not restricted)"
        if policy := config.get("policy"):
            bounds = f"{visible(policy)} ({visible(config['policyDigest'][:12])})"
        yield f"Policy:   {bounds}", PLAIN
    else:
        yield f"Config:   none is active{files and f' ({files})'}", BAD
    if kubelet["present"]:
        yield f"Kubelet:  kubelet.sock is there ({visible(kubelet['directory'])})", PLAIN
    else:
        yield f"Kubelet:  MISSING: {visible(kubelet.get('reason', ''))}", BAD
    yield from _claims(status)
    if (reason := status.get("holders", {}).get("reason")) is not None:
        yield from _holders(reason)
    if supply is not None:
        short = ": THEY RUN SHORT" if supply["short"] else ""
        color = BAD if short else PLAIN
        most = plural(supply["most"], "descriptor")
        yield f"Open:     {supply['used']:d} of {most}{short}", color


def _claims(status: StatusDocument) -> Iterator[ColoredLine]:
    """Yield lines about DRA, if it serves any resource."""
    if (claims := status.get("claims")) is not None:
        by = {visible(dra["driver"]) for each in status["resources"] if (dra := each.get("dra"))}
        yield " by the DRA driver ".join([f"Claims:   {claims:d} prepared", *by]), PLAIN
    if lacks := status.get("apiServerLacks"):
        yield f"Lacking:  {visible(lacks)}", BAD


def _holders(unknown: str) -> Iterator[ColoredLine]:
    """Yield a line if it is unknown which pods hold devices."""
    if unknown:
        yield f"Holders:  unknown ({visible(unknown)})", PLAIN


def _titled(title: str, rows: Rows) -> Iterator[ColoredLine]:
    """Yield a table, if it has any rows besides the heading."""
    if len(rows) > 1:
        yield "", PLAIN
        yield f"{title}:", TITLE
        texts = table(tuple(map(visible, cells)) for _, cells in rows)
        yield from zip(texts, (color for color, _ in rows), strict=True)


def _resource_rows(status: StatusDocument) -> Rows:
    # What no resource has, and what an older daemon does not say, has no column.
    expected = ["EXPECTED"] if any(map(_expected, status["resources"])) else []
    used = ["IN USE"] if any(_used(resource) for resource in status["resources"]) else []
    first, more = ("RESOURCE", "REGISTERED", "FOR", "HEALTHY"), ("ALLOCATABLE", "CAPACITY")
    rows: Rows = [(FAINT, (*first, *expected, *more, *used, "WHY"))]
    for resource in status["resources"]:
        registered, devices = resource["registered"], resource["devices"]
        is_off = bool((resource.get("expected") or {}).get("code"))
        cells = (
            resource["name"],
            ("yes" if registered else "NO")
            + (", DRA" if resource.get("servedBy") == "dra" else ""),
            _for(resource, status),
            f"{len(devices) - _unhealthy(resource)} of {len(devices)}",
            *([_expected(resource)] if expected else []),
            f"{resource['allocatable']:d}",
            f"{resource['capacity']:d}",
            *([_used(resource)] if used else []),
            "; ".join(
                filter(None, ("" if registered else resource["reason"], resource["contested"]))
            ),
        )
        is_odd = resource["contested"] or is_off or (devices and not resource["allocatable"])
        rows.append((BAD if not registered else ODD if is_odd else PLAIN, cells))
    return rows


def _expected(resource: StatusDocument) -> str:
    """Return how many Healthy devices are expected; empty without ``expect``."""
    if (expected := resource.get("expected")) is None:
        return ""
    return str(Expectation(min=expected["min"], max=expected["max"]))


def _used(resource: StatusDocument) -> str:
    """Return how many devices are held; empty if that is not known."""
    allocated = resource.get("allocated")
    return "" if allocated is None else f"{allocated:d}"


def _device_rows(status: StatusDocument, more: Sequence[str]) -> Rows:
    devices = [
        (resource["name"], each) for resource in status["resources"] for each in resource["devices"]
    ]
    holders = ["HELD BY"] if any(each.get("holders") for _, each in devices) else []
    names = ["POOL", "DEVICE"] if more and any(each.get("dra") for _, each in devices) else []
    columns = ("RESOURCE", "ID", "STATE", "FOR", "NODES", "NUMA", *more, *names, *holders, "WHY")
    pools = {each["name"]: (each.get("dra") or {}).get("pool", "") for each in status["resources"]}
    rows: Rows = [(FAINT, columns)]
    for name, device in sorted(devices, key=lambda pair: _is_healthy(pair[1])):
        own = {"FOR": _for(device, status), "HELD BY": _held_by(device, status)}
        own |= {"POOL": pools[name], "DEVICE": _name_in_slices(device)} if names else {}
        color = PLAIN if _is_healthy(device) else BAD
        rows.append((color, view.row(name, device, columns, **own)))
    return rows


def _is_healthy(device: StatusDocument) -> bool:
    return bool(device["state"] == view.DeviceState.HEALTHY)


def _name_in_slices(device: StatusDocument) -> str:
    """Return the names of a device's shares in ResourceSlices."""
    return first_few((device.get("dra") or {}).get("devices", ()), _MAX_HOLDERS)


def _held_by(device: StatusDocument, status: StatusDocument) -> str:
    """Return the holders of a device; for a shared device, those of its first shares."""
    named = []
    for hold in device.get("holders", ()):
        share = hold["share"] if device["shares"] > 1 else ""
        since = _for(hold, status) if "since" in hold else ""
        details = ", ".join(filter(None, (share, since)))
        holder = f"{hold['holder']}"
        if pods := hold.get("pods"):
            holder += f" of pod {first_few(pods, _MAX_HOLDERS)}"
        named.append(f"{holder} ({details})" if details else holder)
    return first_few(named, _MAX_HOLDERS)


def _for(hold: StatusDocument, status: StatusDocument) -> str:
    return "" if hold["since"] is None else span(hold["since"], status["time"])


def _event_rows(events: Sequence[StatusDocument]) -> Rows:
    rows: Rows = [(FAINT, ("TIME", "LEVEL", "ABOUT", "WHAT"))]
    for event in events:
        about = " ".join(filter(None, (event["resource"], event["device"])))
        when = absolute(event["time"]).removesuffix(" UTC")
        color = _LEVELS.get(event["level"], PLAIN)
        rows.append((color, (when, event["level"], about, event["message"])))
    return rows


def _unhealthy(resource: StatusDocument) -> int:
    return sum(not _is_healthy(device) for device in resource["devices"])


def _summary(status: StatusDocument) -> str:
    resources = status["resources"]
    if not status["config"]["active"]:
        return "No config is active: nothing is served."
    if not resources:
        return "The config has no resource for this node."
    registered = sum(bool(resource["registered"]) for resource in resources)
    devices = sum(len(resource["devices"]) for resource in resources)
    healthy = devices - sum(map(_unhealthy, resources))
    return (
        f"{_all_or(registered, len(resources), 'resource')} registered,"
        f" {_all_or(healthy, devices, 'device')} Healthy."
    )


def _all_or(count: int, of: int, singular: str) -> str:
    return plural(of, singular) if count == of else f"{count:,} of {plural(of, singular)}"


def visible(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return one line of about ``most`` characters, without control characters that hide or reorder
    text.
    """
    return printable(shortened(text, most))


def absolute(time: str) -> str:
    """Return a time of the status as ``2026-11-21 19:00:00 UTC``."""
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M:%S} UTC"


def span(begin: str, end: str) -> str:
    """Return the time between two times of the status with its one or two largest units.

    As in ``42 s``, ``3 h 5 min``, ``2 d 4 h``.
    """
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    # A clock may have been set back meanwhile.
    seconds = max(0, round(passed.total_seconds()))
    for large, unit, small, small_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if seconds >= large:
            rest = seconds % large // small
            return f"{seconds // large:,} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
