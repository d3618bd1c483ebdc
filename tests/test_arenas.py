"""The daemon's threads share one arena of the C library's allocator."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from tests.test_daemon import GOOD, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_ARENA = 64 << 20


def _starts(pid: int) -> Iterator[int]:
    """Where further arenas begin: glibc reserves 64 MiB for each, at a multiple of that."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    maps = [line.split() for line in lines]
    for one, following in pairwise(maps):
        start, end = (int(part, 16) for part in one[0].split("-"))
        rest_start, rest_end = (int(part, 16) for part in following[0].split("-"))
        is_reserved = one[1] == "rw-p" and following[1] == "---p" and rest_start == end
        if is_reserved and start % _LARGEST_ARENA == 0 and rest_end - start == _LARGEST_ARENA:
            yield start


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc, no arenas")
async def test_its_threads_share_one_arena(short_folder: Path) -> None:
    """Else it grows by 4 MB in 13,000 registrations, and by a new one now and then."""
    place = Place(short_folder)
    place.config.write_text(GOOD)
    async with Kubelet(place.kubelet_folder) as kubelet, place.daemon() as daemon:
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/serial") == 1, 30)
        assert len(list(Path(f"/proc/{daemon.process.pid}/task").iterdir())) > 1
        assert list(_starts(daemon.process.pid)) == []
