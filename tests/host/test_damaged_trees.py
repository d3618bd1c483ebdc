"""Whatever is left of a broken host, or of a broken copy of one, is read without a failure."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from genericdp.host.root import Root
from genericdp.host.sysfs import SysDevices
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.cases.machine import Machine
from tests.testbeds import loading
from tests.testbeds.damaging import DAMAGES, damage, paths_of, remove
from tests.testbeds.telling import told_by_genericdp

CAN = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0/net/can0"


class _Failing(Root):
    """A host where one path is lost, or may not be read, from some look on."""

    def __init__(self, directory: Path, *, lost: str, after: int, forbidden: bool) -> None:
        super().__init__(directory)
        self._lost = lost
        self._left = after
        self._forbidden = forbidden

    def real(self, path: str) -> str:
        self._left -= 1
        if self._left < 0 and self._forbidden and path.startswith(self._lost):
            raise PermissionError(13, "Permission denied", path)
        if self._left == 0 and not self._forbidden:
            remove(Path(super().real(self._lost)))
        return super().real(path)

    def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
        self.real(path)
        return super().read_bytes(path, limit=limit, follow_symlinks=follow_symlinks)


PATHS = paths_of("can")
SOME_PATH = st.sampled_from(PATHS)


@given(
    damages=st.lists(st.tuples(SOME_PATH, st.sampled_from(sorted(DAMAGES))), max_size=6),
    lost=SOME_PATH,
    after=st.integers(1, 400),
    forbidden=st.booleans(),
)
@settings(max_examples=examples(20))
def test_whatever_is_damaged_or_vanishes_nothing_raises(
    damages: list[tuple[str, str]], lost: str, after: int, forbidden: bool
) -> None:
    with TemporaryDirectory() as directory:
        loading.build(loading.path_of("can"), Path(directory))
        for path, kind in damages:
            damage(Path(directory), path, kind)
        root = _Failing(Path(directory), lost=lost, after=after, forbidden=forbidden)
        reported = told_by_genericdp(root)
    # Nor is anything of this machine taken for something of the copy.
    assert reported.keys() <= {path for path in PATHS if path.startswith("/sys/devices/")}


def test_a_link_in_a_copy_does_not_lead_out_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET=1\n")
    tree = Machine(tmp_path / "copy")
    tree.node("null", "1:3", at="virtual/mem")
    tree.link("sys/devices/virtual/mem/null/uevent", str(secret))
    assert SysDevices(tree.root).get("/sys/devices/virtual/mem/null") is None
    tree.link("sys/devices/virtual/out", str(tmp_path))
    (tmp_path / "uevent").write_text("SECRET=1\n")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/uevent").write_text("SECRET=1\n")
    for name in ("out", "out/directory"):
        assert SysDevices(tree.root).get(f"/sys/devices/virtual/{name}") is None


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    for directory in ("sys/devices/virtual/mem/null", "elsewhere"):
        (tmp_path / directory).mkdir(parents=True)
        os.mkfifo(tmp_path / directory / "uevent")
    tree.link("sys/devices/virtual/mem/zero", "/elsewhere")
    for name in ("null", "zero"):
        device = SysDevices(tree.root).get(f"/sys/devices/virtual/mem/{name}")
        assert device is not None
        assert device.properties == {"DEVPATH": f"/devices/virtual/mem/{name}"}


def test_an_unreadable_uevent_hides_properties_not_the_device(tmp_path: Path) -> None:
    loading.build(loading.path_of("can"), tmp_path)
    root = _Failing(tmp_path, lost=f"{CAN}/uevent", after=0, forbidden=True)
    device = SysDevices(root).get(CAN)
    assert device is not None
    assert (device.subsystem, device.properties["DEVPATH"]) == ("net", CAN.removeprefix("/sys"))
    assert "IFINDEX" not in device.properties
