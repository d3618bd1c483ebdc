"""A thousand devices, as the API server's audit log counts what is written."""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.dra.account import USER
from tests.cluster.dra.configs import DISK, MANY, NODES
from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.dra.bench import Bench

pytestmark = pytest.mark.cluster

AT_REST_SECONDS = float(os.environ.get("AT_REST_SECONDS", "5"))
"""How long nothing may be written: see docs/development/e2e.md."""
COUNT = 1000
_MAJOR = 240
"""The first of those for local use, which no driver here has."""


def node_of(number: int) -> Path:
    return NODES / f"d{number:03}"


def make_node(number: int) -> None:
    numbers = os.makedev(_MAJOR + number // 256, number % 256)
    os.mknod(node_of(number), stat.S_IFCHR | 0o600, numbers)


@pytest.fixture
def many(bench: Bench) -> Iterator[None]:
    """Make the nodes, and have the daemon serve them."""
    NODES.mkdir()
    try:
        for number in range(COUNT):
            make_node(number)
        await_count(bench, COUNT)
        yield
    finally:
        shutil.rmtree(NODES)
    await_count(bench, 0)


def await_count(bench: Bench, count: int) -> None:
    """Wait until this many are offered and no slice is left to write."""
    bench.await_count(MANY, count)
    # They are found in parts: the slice that changes last is not always written last.
    eventually(lambda: bench.slices(MANY), is_complete, what="the pool is complete")


def is_complete(slices: list[dict[str, Any]]) -> bool:
    pools = [slice_["spec"]["pool"] for slice_ in slices]
    return all(pool == {**pools[0], "resourceSliceCount": len(pools)} for pool in pools)


def versions_of(bench: Bench) -> dict[str, str]:
    """Give the version of each slice, by its UID."""
    objects = (slice_["metadata"] for slice_ in bench.slices(MANY))
    return {object_["uid"]: object_["resourceVersion"] for object_ in objects}


def test_a_thousand_devices_are_16_slices_and_each_change_of_one_is_one_update(
    bench: Bench, many: None
) -> None:
    slices = bench.slices(MANY)
    assert [len(slice_["spec"]["devices"]) for slice_ in slices] == [64] * 15 + [40]
    assert {each_slice["spec"]["pool"]["resourceSliceCount"] for each_slice in slices} == {16}
    before = versions_of(bench)
    audit = bench.audit()
    node_of(500).unlink()
    bench.await_count(MANY, COUNT - 1)
    audit.await_updates(USER, 1)
    make_node(500)
    bench.await_count(MANY, COUNT)
    audit.await_updates(USER, 2)
    after = versions_of(bench)
    assert after.keys() == before.keys()
    assert len(after.items() - before.items()) == 1, "it has kept its slice"
    audit = bench.audit()
    time.sleep(AT_REST_SECONDS)  # noqa: TID251 -- measures what happens at rest
    assert audit.writes(USER) == []


def test_an_attribute_that_changes_is_one_update(bench: Bench, tmp_path: Path) -> None:
    loop.add(61)
    bench.await_devices(DISK, "loop61")
    image = tmp_path / "image"
    image.write_bytes(bytes(4096))
    audit = bench.audit()
    with loop.backed_by(61, image):
        eventually(lambda: file_of_61(bench), bool, what="the attribute says what is in it")
        audit.await_updates(USER, 1)
    eventually(lambda: file_of_61(bench), "".__eq__, what="it is empty again")
    audit.await_updates(USER, 2)
    loop.remove(61)


def file_of_61(bench: Bench) -> str:
    return str(bench.devices(DISK)["loop61"]["file"]["string"])
