"""A path that does not answer is left out, and named once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.discover import look
from genericdp.cli.patience import MAX_HANGING, run_skipping_hangs
from genericdp.config.load import load
from genericdp.devices.inventory import Inventory
from genericdp.errors import GenericdpError
from genericdp.explain.catalog import catalogue
from genericdp.host.calls import watched
from genericdp.host.root import Root

from tests.fixtures.hanging import HangingRoot
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from genericdp.host.cache import HostCache
    from genericdp.host.pathwalk import Walk


TTY = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0/ttyUSB0/tty/ttyUSB0"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[HangingRoot]:
    loading.build(loading.path_of("serial-adapters"), tmp_path)
    root = HangingRoot(tmp_path)
    yield root
    root.answer()


def found(host: HostCache) -> set[str]:
    groups = catalogue(Inventory(host))
    runs = [run for group in groups for run in (group.itself, *group.members) if run]
    return {entry.path for run in runs for entry in run.entries}


@pytest.mark.parametrize(
    "path", [f"{TTY}/uevent", "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/devnum"]
)
def test_a_file_that_hangs_concerns_its_device_alone(
    path: str, root: HangingRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mistake is back if ``guarded`` does not refuse what is known to hang."""
    root.hanging = {path}
    assert run_skipping_hangs(root, found, look_seconds=1.0) >= {"/dev/ttyUSB1", "/dev/ttyUSB2"}
    said = capsys.readouterr().err.splitlines()
    name = path.rpartition("/")[2]
    assert said  # for each of the paths that lead to it
    assert all(line.endswith(f"/{name}' timed out; continuing without it") for line in said)


def test_discover_shows_what_it_could_not_look_at(root: HangingRoot, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
        "  - {name: example.com/serial, match: [{path: /dev/ttyUSB*}]}\n"
        "  - {name: example.com/usb, match: [{path: /dev/bus/usb/*/*}]}\n"
    )
    resources = load([config]).resources
    root.hanging = {"/dev/ttyUSB1"}
    _, found = run_skipping_hangs(
        root, lambda host: look(resources, host, "n", root), look_seconds=0.3
    )
    hanging = {"path": "/dev/ttyUSB*", "code": "hanging", "reason": "reading it timed out"}
    assert [match["notOffered"] for match in found] == [[hanging], [hanging]]


def test_there_is_an_end_of_leaving_out(root: HangingRoot) -> None:
    root.hanging = {f"{TTY}/attribute{number}" for number in range(MAX_HANGING + 1)}

    def read_all(host: HostCache) -> None:
        for number in range(MAX_HANGING + 1):
            host.text(f"{TTY}/attribute{number}")

    with pytest.raises(GenericdpError, match="too much of this host does not answer"):
        run_skipping_hangs(root, read_all, look_seconds=0.05)


def pause(_: str) -> None:
    time.sleep(0.01)  # noqa: TID251 -- slow, not hanging


class SlowRoot(Root):
    """Each look takes a moment, as on a node that is short of processors."""

    def walk(self, path: str, *, past_missing: bool = False) -> Walk:
        watched(pause)(path)
        return super().walk(path, past_missing=past_missing)


def test_a_scan_that_goes_on_takes_as_long_as_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev").mkdir()
    for number in range(100):
        (tmp_path / f"dev/ttyUSB{number}").touch()
    root = SlowRoot(tmp_path)
    assert (
        len(run_skipping_hangs(root, lambda host: host.paths("/dev/ttyUSB*"), look_seconds=0.5))
        == 100
    )
    assert capsys.readouterr().err == ""


def test_what_the_work_raises_is_raised(root: HangingRoot) -> None:
    def work(_: HostCache) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_skipping_hangs(root, work)
