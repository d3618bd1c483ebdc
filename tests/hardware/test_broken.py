"""Broken, silent and incomplete hosts: what is left of them is offered."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from genericdp.cli import main
from genericdp.devices.allocation import edits
from genericdp.host.root import Root
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.decisions import Discoverer
from tests.devices.making import healthy, inject, nodes, resource
from tests.fixtures.hanging import HangingRoot
from tests.hardware.adapters import CASES, IDS, NAMES, PORT, PORTS, SERIAL, built
from tests.testbeds import loading
from tests.testbeds.damaging import DAMAGES, damage, mend, paths_of

pytestmark = pytest.mark.slow

PATHS = paths_of("can")
CONFIG = CASES / "can/config.yaml"
CAN_USB = "/devices/pci0000:00/0000:00:14.0/usb1/1-3"
REPOSITORY = Path(__file__).parents[2]
WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")


@given(
    damages=st.lists(
        st.tuples(st.sampled_from(PATHS), st.sampled_from(sorted(DAMAGES))), min_size=1, max_size=6
    ),
    asked=st.sampled_from(["can0", "1-3", "0000:00:14.0", "/dev/bus/usb/001/009", *PATHS]),
)
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_damaged_every_command_answers(
    damages: list[tuple[str, str]], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback would be raised here: ``main`` catches only what a user can cause."""
    with TemporaryDirectory() as directory:
        loading.build(loading.path_of("can"), Path(directory))
        for path, kind in damages:
            damage(Path(directory), path, kind)
        where = ("--root", directory, "--node-name", "n")
        config = ("--config", str(CONFIG))
        for command in (
            ("discover", *config, *where),
            ("hardware", *where),
            ("explain", asked, *config, *where),
        ):
            code = main(command)
            printed = capsys.readouterr()
            # Without dev and sys it is not a host: a mistake of the user's.
            assert printed.err if code == 2 else printed.out
        mend(Path(directory))


FORBIDDEN = (
    *("/sys", "/sys/bus", "/sys/bus/usb/devices", "/sys/class/net", "/sys/dev/char"),
    *(
        f"/sys{CAN_USB}",
        f"/sys{CAN_USB}/idVendor",
        f"/sys{CAN_USB}/uevent",
        f"/sys{CAN_USB}/1-3:1.0/net",
    ),
    *("/run", "/run/udev/data", "/run/udev/data/n7", "/dev", "/dev/bus/usb/001"),
)
EVERY_COMMAND = """
import contextlib, io, sys
from genericdp.cli import main
config = ("--config", sys.argv[1])
for root in sys.argv[2:]:
    for command in (
        ("discover", *config), ("hardware"), ("explain", "can0", *config),
        ("explain", "1-3", *config), ("explain", "/dev/bus/usb/001/009", *config),
    ):
        with contextlib.redirect_stdout(said := io.StringIO()), contextlib.redirect_stderr(said):
            main([*command, "--root", root, "--node-name", "n"])
        assert said.getvalue(), (root, command)
        print(said.getvalue())
"""


def test_whatever_is_forbidden_every_command_answers_with_the_reason(tmp_path: Path) -> None:
    """Root may read everything because of its capabilities, so this drops them."""
    roots = [tmp_path / str(number) for number in range(len(FORBIDDEN))]
    for root, forbidden in zip(roots, FORBIDDEN, strict=True):
        root.mkdir()
        loading.build(loading.path_of("can"), root)
        assert (root / forbidden[1:]).exists()
        damage(root, forbidden, "forbidden")
    run = subprocess.run(
        [
            *(WITHOUT_PRIVILEGES if os.geteuid() == 0 else ()),
            *(sys.executable, "-c", EVERY_COMMAND, str(CONFIG), *map(str, roots)),
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    for root in roots:
        mend(root)
    assert (run.returncode, run.stderr) == (0, "")
    assert f"/sys{CAN_USB}/idVendor cannot be read: Permission denied" in run.stdout


async def test_lost_events_have_everything_read_again(tmp_path: Path) -> None:
    machine, again = built("serial-adapters", tmp_path), asyncio.Event()
    discoverer = Discoverer(Root(tmp_path), look_again=again.set)
    lists = (await discoverer.discover([SERIAL], {})).lists
    machine.pull_out(NAMES[1])
    (tmp_path / f"sys{PORTS[0]}/idVendor").write_text("ffff\n")
    for tell in (discoverer.mark_event, discoverer.mark_record):
        again.clear()
        tell(None)
        assert again.is_set()
        lists = (await discoverer.discover([SERIAL], lists, full=False)).lists
        assert healthy(lists, "serial") == IDS[2:]


STICK = f"/sys{PORTS[2]}"


@pytest.mark.parametrize(
    ("file", "stays", "new"),
    [("serial", "none", "1-1.3-none"), ("1-1.3:1.0/uevent", "", ""), ("idVendor", "", "")],
)
async def test_a_file_that_does_not_answer_concerns_its_device_alone(
    file: str, stays: str, new: str, tmp_path: Path
) -> None:
    """The device keeps its ID if it ``stays``, as which value; else it would be called ``new``."""
    again, root = asyncio.Event(), HangingRoot(built("serial-adapters", tmp_path).directory)
    given = inject(nodes("$(device.path)"), env={"SERIAL": "$(usb.serial:-none)"})
    named = resource("serial", PORT, id="$(usb.port)-$(usb.serial:-none)", given=given)
    discoverer = Discoverer(root, look_again=again.set, look_seconds=0.1)
    first = (await discoverer.discover([named], {})).lists
    name = "1-1.3-DN05FSZ9"
    assert name in healthy(first, "serial")
    root.hanging = {f"{STICK}/{file}"}
    async with asyncio.timeout(60):
        second = (await discoverer.discover([named], first)).lists
    others = set(healthy(first, "serial")) - {name}
    assert set(healthy(second, "serial")) == others | ({name} if stays else set())
    if stays:
        device = second[named.name].devices[name].device
        assert edits([device]).env == {"SERIAL": stays}
    fresh = (await discoverer.discover([named], {}, full=False)).lists
    assert set(healthy(fresh, "serial")) == others | ({new} if new else set())
    root.answer()
    async with asyncio.timeout(60):
        await again.wait()
    third = (await discoverer.discover([named], second, full=False)).lists
    assert name in healthy(third, "serial"), "it is asked again when it has answered"
    assert edits([third[named.name].devices[name].device]).env == {"SERIAL": "DN05FSZ9"}
