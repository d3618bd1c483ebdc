"""A container with a device that is found by what sysfs tells of it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import IMAGE
from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(*NEWEST)]
NUMBER = 50


@pytest.fixture
def plugged(loops: None) -> Iterator[int]:
    """A loop device without a file, which is removed at the end."""
    try:
        loop.add(NUMBER)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    yield NUMBER
    loop.remove(NUMBER)


def test_a_device_is_given_as_soon_as_an_attribute_fits(
    plugged: int, bench: Bench, tmp_path: Path
) -> None:
    name = f"loop{plugged}"
    for file in ("for-others", "for-pods-1"):
        (tmp_path / file).write_bytes(b"what is in the image".ljust(8192))
    bench.await_listed(IMAGE)
    with loop.backed_by(plugged, tmp_path / "for-others"):
        bench.await_listed(IMAGE)
    with loop.backed_by(plugged, tmp_path / "for-pods-1"):
        bench.await_listed(IMAGE, name)
        given = bench.pod("given", {IMAGE: 1}).container().saw()
        print(f"\n--- a container with 1 {IMAGE}\n{given.text}", flush=True)
        assert given.nodes["/dev/image"] == "b 7 32"
        assert given.reads["/dev/image"] == "ok"
        assert given.env["IMAGE_FILE"] == str(tmp_path / "for-pods-1")
        refusal = bench.pod("second", {IMAGE: 1}).refusal()
        assert IMAGE in refusal
    bench.await_listed(IMAGE)
