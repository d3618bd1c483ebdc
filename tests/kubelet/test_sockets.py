from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.errors import UsageError
from genericdp.kubelet import folder as sockets

if TYPE_CHECKING:
    from collections.abc import Callable


def test_names_are_short_and_never_repeat() -> None:
    """K8: whatever the resource is called."""
    names, others = sockets.SocketNames(), sockets.SocketNames()
    made = [names.next_name("d" * 244 + "/" + "n" * 63) for _ in range(100)]
    made += [others.next_name("d" * 244 + "/" + "n" * 63) for _ in range(100)]
    assert len(set(made)) == 200
    assert all(len(name) <= 75 for name in made)


def test_a_folder_that_leaves_no_room_for_a_name_is_refused() -> None:
    sockets.check_length(Path("/var/lib/kubelet/device-plugins"))
    with pytest.raises(UsageError, match=r"has 81 bytes, but at most \d+ leave room"):
        sockets.check_length(Path("/" + "f" * 80))


def bound(path: Path, *, listening: bool) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    if listening:
        server.listen()
    return server


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    real = time.time  # noqa: TID251

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return shift


def test_only_old_dead_sockets_of_ours_are_removed(
    short_folder: Path, later: Callable[[float], None]
) -> None:
    """K9: what crashed runs left is removed; what lives, is new, or is another's stays."""
    dead, live = short_folder / "genericdp-a.sock", short_folder / "genericdp-b.sock"
    other, plain = short_folder / "nvidia.sock", short_folder / "genericdp-c.sock"
    mine = short_folder / "genericdp-d-mine-1.sock"
    bound(mine, listening=False).close()
    plain.write_text("no socket")
    bound(dead, listening=False).close()
    bound(other, listening=False).close()
    with bound(live, listening=True):
        sockets.remove_leftovers(short_folder, instance="mine")
        assert dead.exists(), "younger than a minute: it may be about to listen"
        later(61)
        sockets.remove_leftovers(short_folder, instance="mine")
        assert {path.name for path in short_folder.iterdir()} == {
            "genericdp-b.sock",
            "genericdp-c.sock",
            "genericdp-d-mine-1.sock",
            "nvidia.sock",
        }


def test_a_folder_that_is_missing_has_no_leftovers(tmp_path: Path) -> None:
    sockets.remove_leftovers(tmp_path / "missing", instance="mine")
    assert os.listdir(tmp_path) == []
