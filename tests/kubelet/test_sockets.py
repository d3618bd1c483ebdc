from __future__ import annotations

from pathlib import Path

import pytest

from genericdp.errors import UsageError
from genericdp.kubelet import folder as sockets


def test_names_are_short_and_never_repeat(short_folder: Path) -> None:
    """K8: whatever the resource is called."""
    names, others = (sockets.KubeletFolder(short_folder) for _ in range(2))
    made = [names.next_name("d" * 244 + "/" + "n" * 63) for _ in range(100)]
    made += [others.next_name("d" * 244 + "/" + "n" * 63) for _ in range(100)]
    assert len(set(made)) == 200
    assert all(len(name) <= 75 for name in made)


def test_a_folder_that_leaves_no_room_for_a_name_is_refused() -> None:
    sockets.KubeletFolder(Path("/var/lib/kubelet/device-plugins"))
    with pytest.raises(UsageError, match=r"\.sock has 126 bytes, but the path of a unix socket"):
        sockets.KubeletFolder(Path("/" + "f" * 80))
