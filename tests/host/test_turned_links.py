"""Links that someone without rights could let lead elsewhere hand nothing out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from genericdp.host.devicefiles import DeviceFiles, is_same

from tests.world import Host

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.plug("ttyUSB0")
    (tmp_path / "opt").mkdir()
    return host


def _refusal(host: Host, path: str) -> str:
    file = DeviceFiles(host.root).examine(path)
    assert file is not None
    return file.refusal


@pytest.mark.parametrize("way", ["dev/mine", "opt/mine"])
@pytest.mark.parametrize(
    ("mode", "directories_owner", "links_owner", "expected"),
    [
        pytest.param(0o755, 0, 0, "", id="root-alone"),
        pytest.param(0o775, 0, 0, "", id="a-group-of-the-administrator"),
        pytest.param(0o755, 0, NOBODY, "", id="the-directory-decides"),
        pytest.param(0o777, 0, 0, "lies in a directory that every user can write to", id="open"),
        pytest.param(0o1777, 0, 0, "", id="sticky"),
        pytest.param(0o1777, 0, NOBODY, "can be turned by a user", id="sticky-not-roots"),
        pytest.param(0o1777, NOBODY, 0, "can be turned by a user", id="sticky-of-a-user"),
        pytest.param(0o755, NOBODY, 0, "can be turned by a user", id="of-a-user"),
    ],
)
def test_a_link_counts_by_who_can_turn_it(
    host: Host, way: str, mode: int, directories_owner: int, links_owner: int, expected: str
) -> None:
    """D13: /dev may be one filesystem with a /dev/shm in it, as in some clusters.

    For nodes as for directories.
    """
    if os.getuid():
        pytest.skip("needs root to give files away")
    directory = host.directory / way
    directory.mkdir()
    link = directory / "link"
    link.symlink_to("../../dev/ttyUSB0" if way.startswith("dev") else "../../opt")
    os.chown(link, links_owner, 0, follow_symlinks=False)
    os.chown(directory, directories_owner, 0)
    directory.chmod(mode)
    refusal = _refusal(host, f"/{way}/link")
    assert expected in refusal if expected else refusal == ""


def test_a_link_on_the_way_counts_as_well(host: Host) -> None:
    shm = host.directory / "dev/shm"
    shm.mkdir()
    shm.chmod(0o777)
    (shm / "directory").symlink_to("..")
    assert "every user can write to" in _refusal(host, "/dev/shm/directory/ttyUSB0")
    assert _refusal(host, "/dev/ttyUSB0") == ""


def test_a_link_whose_directory_was_opened_since_is_refused_at_an_allocation(host: Host) -> None:
    directory = host.directory / "dev/serial"
    directory.mkdir()
    (directory / "one").symlink_to("../ttyUSB0")
    file = DeviceFiles(host.root).examine("/dev/serial/one")
    assert file is not None
    assert is_same(host.root, file.path, file.identity) is True
    directory.chmod(0o777)
    assert is_same(host.root, file.path, file.identity) is False
