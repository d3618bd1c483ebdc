"""``genericdp claims release``: end the record of a claim that the kubelet will not unprepare.

The daemon runs the release hooks and removes the record: this command only requests that, with a
file next to the record, so that it works even while no daemon runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.cli.claims import DRIVER, age_of, claim_of, devices_of, read_records
from genericdp.cli.output import print_lines
from genericdp.cli.parser import argument, flag
from genericdp.dra.claims import release_marker
from genericdp.durable import lock
from genericdp.errors import GenericdpError, KubeletError, UsageError, reason_of
from genericdp.printing import meant_or_listed, shortened

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from genericdp.dra.claims import Record

EXAMPLE = (
    "  genericdp claims release 2f0c9b7e-1b1c-4c5c-9f4e-0f3d0a5f7a11\n"
    "  kubectl -n genericdp exec -it POD -- genericdp claims release UID"
)
WAIT_SECONDS = 15.0
_POLL_SECONDS = 0.2
_KUBELET_SECONDS = 5.0
_QUESTION = "Release it? Only if no container uses its devices [y/N] "
ARGUMENTS = {
    "UID": argument("the UID of the claim, as genericdp claims prints it"),
    "--yes": flag("release it without a question; required where there is no terminal"),
    "--dra-driver": DRIVER,
}


def execute(arguments: argparse.Namespace) -> int:
    """Show the claim, ask the user, request its release from the daemon, and wait for it."""
    record = _find(read_records(arguments), arguments.uid)
    print_lines(_about(record, arguments.kubelet_root / "pod-resources/kubelet.sock"))
    if not arguments.yes and not _is_confirmed():
        print_lines(["Not released."])
        return 1
    _request_release(record)
    if not _has_daemon(record.path.parent.with_name("lock")):
        print_lines(
            [f"No daemon serves {record.driver}: it will be released when the daemon starts."]
        )
        return 1
    print_lines([f"Waiting up to {WAIT_SECONDS:g} s for the daemon to release it ..."])
    if not _is_removed_in_time(record.path):
        print_lines(["Not released yet: the log of the daemon says why. The request stays."])
        return 1
    print_lines(["Released."])
    return 0


def _find(records: list[Record], uid: str) -> Record:
    found = [record for record in records if record.uid == uid]
    if not found:
        listed = meant_or_listed(uid, [record.uid for record in records], "there are")
        raise GenericdpError(f"there is no record of a claim {shortened(uid)!r}{listed}")
    if len(found) > 1:
        drivers = " and ".join(record.driver for record in found)
        raise UsageError(f"{drivers} have records of this claim: choose one with --dra-driver")
    return found[0]


def _about(record: Record, socket: Path) -> list[str]:
    """Return lines about the claim that the user should read before its release."""
    age = age_of(record)
    facts = {
        "Claim": claim_of(record) or "unknown",
        "Devices": devices_of(record) or ("unknown" if record.why else "none"),
        "Pods": _pods(record, socket),
        "Prepared": f"{age} ago" if age else "unknown",
        "Driver": record.driver,
        "Record": str(record.path),
    }
    if record.why:
        facts["Record"] += f" is unreadable: {record.why}"
    return [f"{name + ':':<9} {text}" for name, text in facts.items()]


def _pods(record: Record, socket: Path) -> str:
    """Return the pods that use the claim, as far as the kubelet reports them."""
    if record.claim is None or not record.claim.name:
        return "unknown"
    # Importing gRPC is slow.
    from genericdp.kubelet.podresources import list_pods, pods_of_claim

    try:
        answer = asyncio.run(list_pods(socket, timeout_seconds=_KUBELET_SECONDS))
        pods = pods_of_claim(answer, record.claim.namespace, record.claim.name)
    except KubeletError as error:
        return f"unknown: {error}"
    # The kubelet forgets such a pod before its containers have ended.
    none = "none that the kubelet lists; a pod that was deleted by force may still run"
    return ", ".join(pods) or none


def _is_confirmed() -> bool:
    """Ask the user at the terminal; raise UsageError without a terminal."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to ask at: add --yes if no container uses its devices"
            " (in a pod, kubectl exec -it has a terminal)"
        )
    try:
        return input(_QUESTION).strip().lower() in {"y", "yes"}
    except EOFError:
        print_lines([""])  # the answer did not end the line
        return False


def _request_release(record: Record) -> None:
    """Ask the daemon to release a claim; raise GenericdpError."""
    file = release_marker(record.path.parent, record.uid)
    try:
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise GenericdpError(f"{file}: {reason_of(error).lower()}") from error


def _has_daemon(file: Path) -> bool:
    """Return whether a daemon serves the driver: it holds a lock while it does."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not lock(descriptor, exclusive=False)
    finally:
        os.close(descriptor)


def _is_removed_in_time(file: Path) -> bool:
    """Wait until the daemon has removed a record; return whether it has."""
    end = time.monotonic() + WAIT_SECONDS
    while os.path.lexists(file):
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_SECONDS)
    return True
