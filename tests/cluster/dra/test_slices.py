"""Writes to ResourceSlices, as the API server's audit log counts them."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.control_plane import AUDIT_LOG
from tests.cluster.dra.account import USER
from tests.cluster.dra.configs import MANY, NODES
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

AT_REST_SECONDS = float(os.environ.get("AT_REST_SECONDS", "5"))
"""How long nothing may be written: see docs/development/e2e.md."""
COUNT = 200
"""In four slices: fewer show as much as more."""
_MAJOR = 240
"""The first of those for local use, which no driver here has."""


class Audit:
    """Writes of the daemon to ResourceSlices from now on."""

    def __init__(self, bench: Bench) -> None:
        self._file = bench.cluster.directory / AUDIT_LOG
        self._start = self._file.stat().st_size

    def await_updates(self, count: int) -> None:
        """Wait until there are this many, which went well, and nothing else."""
        eventually(self._writes, (["update 200"] * count).__eq__, what=f"{count} updates")

    def _writes(self) -> list[str]:
        with self._file.open() as log:
            log.seek(self._start)
            requests = [json.loads(line) for line in log if line.endswith("\n")]
        return [
            f"{request['verb']} {request['responseStatus']['code']}"
            for request in requests
            if request["user"]["username"] == USER
            and request["objectRef"]["resource"] == "resourceslices"
            and request["verb"] not in {"get", "list", "watch"}
            and "dryRun=" not in request["requestURI"]
        ]


def node_of(number: int) -> Path:
    return NODES / f"d{number:03}"


def make_node(number: int) -> None:
    os.mknod(node_of(number), stat.S_IFCHR | 0o600, os.makedev(_MAJOR, number))


@pytest.fixture
def many(bench: Bench) -> Iterator[Bench]:
    """Make the nodes, and have the daemon serve them."""
    NODES.mkdir()
    try:
        for number in range(COUNT):
            make_node(number)
        # They are found in parts: the slice that changes last is not always written last.
        bench.await_pool(MANY, COUNT)
        yield bench
    finally:
        shutil.rmtree(NODES)
    bench.await_count(MANY, 0)


def test_a_change_of_one_of_many_devices_is_one_update_and_at_rest_nothing_is_written(
    many: Bench,
) -> None:
    """Whatever the API server makes of what it stores."""
    slices = many.slices(MANY)
    assert [len(slice_["spec"]["devices"]) for slice_ in slices] == [64, 64, 64, 8]
    audit = Audit(many)
    node_of(100).unlink()
    many.await_count(MANY, COUNT - 1)
    audit.await_updates(1)
    make_node(100)
    many.await_count(MANY, COUNT)
    audit.await_updates(2)
    before, after = (
        {entry["metadata"]["uid"]: entry["metadata"]["resourceVersion"] for entry in found}
        for found in (slices, many.slices(MANY))
    )
    assert after.keys() == before.keys()
    assert len(after.items() - before.items()) == 1, "it has kept its slice"
    time.sleep(AT_REST_SECONDS)  # noqa: TID251 -- measures what happens at rest
    audit.await_updates(2)
