"""A container with a device that is found by what sysfs tells of it."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import IMAGE
from tests.e2e.cluster import loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
_SET_FILE = 0x4C00  # LOOP_SET_FD of linux/loop.h
_CLEAR_FILE = 0x4C01
NUMBER = 50


@contextmanager
def backed_by(number: int, file: Path) -> Iterator[None]:
    """Put a file behind a loop device that is there; the kernel tells so by a change event."""
    file.write_bytes(b"what is in the image".ljust(8192))
    device = os.open(loop.node_of(number), os.O_RDWR)
    try:
        with file.open("r+b") as image:
            fcntl.ioctl(device, _SET_FILE, image.fileno())
        yield
    finally:
        fcntl.ioctl(device, _CLEAR_FILE)
        os.close(device)


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
    bench.await_listed(IMAGE)
    with backed_by(plugged, tmp_path / "for-others"):
        bench.await_listed(IMAGE)
    with backed_by(plugged, tmp_path / "for-pods-1"):
        bench.await_listed(IMAGE, name, seconds=5)
        given = bench.pod("given", {IMAGE: 1}).container().saw()
        print(f"\n--- a container with 1 {IMAGE}\n{given.text}", flush=True)
        assert given.nodes["/dev/image"] == "b 7 32"
        assert given.reads["/dev/image"] == "ok"
        assert given.env["IMAGE_FILE"] == str(tmp_path / "for-pods-1")
        refusal = bench.pod("second", {IMAGE: 1}).refusal()
        assert IMAGE in refusal
    bench.await_listed(IMAGE, seconds=5)
