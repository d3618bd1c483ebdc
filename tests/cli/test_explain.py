"""``genericdp explain``: what it says first, and hangs; all of its text is in tests/cases."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli.explain import answer as explain
from genericdp.cli.patience import run_skipping_hangs
from genericdp.config.load import load
from genericdp.explain.find import Unknown

from tests.fixtures.hanging import HangingRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.asking import Answer, Ask

    Testbed = Callable[[str], Path]
    Explain = Callable[..., Answer]

ANSWERS = [
    (name, entry)
    for entries in yaml.load(
        Path(__file__).with_name("explained.yaml").read_text(), yaml.CSafeLoader
    )
    for name, entry in entries.items()
    if "says" in entry
]
FTDI = (
    "name: example.com/serial,"
    ' match: [{udev: {subsystem: tty}, hardware: {usb: {vendor: "0403", product: "6001"}}}]'
)
INTERFACE = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1/1-1.1:1.0"
STICK = 'name: example.com/stick, match: [{usb: {vendor: "1a86"}}]'


@pytest.fixture
def explained(ask: Ask, testbed: Testbed) -> Explain:
    """Ask of a device of a testbed."""

    def explained(machine: str, device: str, *resources: str) -> Answer:
        if not Path(machine).exists():
            testbed(machine)
        ask.config(*resources)
        words = f"explain --config=config.yaml --root={machine} --node-name=n {device}"
        return ask(words, code=int("ttyUSB7" in device or device == "/dev/none"))

    return explained


@pytest.mark.parametrize(("name", "entry"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_the_first_line_names_the_cause(
    name: str, entry: dict[str, Any], explained: Explain
) -> None:
    """D1, D3, D5, D7, D8, D11, D12, D14: what users of others had to guess."""
    says = entry["says"]
    ((machine, keys),) = ((key, value) for key, value in entry.items() if key != "says")
    resources = [
        f"  - {json.dumps({'name': f'example.com/{key}', **value})}\n"
        for key, value in keys.items()
    ]
    assert explained(machine, says.split()[0], *resources).lines[0] == says


@pytest.mark.parametrize("asked", ["/dev/ttyUSB3", "1-1.4"])
def test_the_suggested_selector_does_what_it_promises(asked: str, explained: Explain) -> None:
    """D14. The mistake is back if ``_match`` leaves out ``hardware`` or names ``usb`` alone."""
    _, _, hint = explained("serial-adapters", asked, STICK).out.partition("  hint: ")
    selector = hint.splitlines()[0].partition("match ")[2]
    mended = f"name: example.com/mended, match: [{selector}]"
    said = explained("serial-adapters", "/dev/ttyUSB3", mended).lines[0]
    assert said == "/dev/ttyUSB3 is offered: it is 1-1.4:1.0-tty of example.com/mended"


@pytest.fixture
def hanging(testbed: Testbed) -> Iterator[HangingRoot]:
    """A root whose files can be made to never answer."""
    root = HangingRoot(testbed("serial-adapters"))
    yield root
    root.answer()
    for thread in threading.enumerate():
        if thread.name == "looking":
            thread.join()


def test_what_does_not_answer_is_the_reason_and_holds_up_nothing_else(
    hanging: HangingRoot, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = load([ask.config(FTDI)]).resources

    def headline(device: str) -> str:
        said = run_skipping_hangs(
            hanging, lambda host: explain(device, resources, host, "n"), look_seconds=0.2
        )
        return said.tried[0] if isinstance(said, Unknown) else said[0].headline

    vendor = f"{INTERFACE.rpartition('/')[0]}/idVendor"
    expected = "/dev/ttyUSB0 is not offered: example.com/serial expected hardware.usb.vendor 0403"
    for file, why in (
        (vendor, f"{expected}, but {vendor} cannot be read: reading it timed out"),
        ("/dev/ttyUSB0", "reading /dev/ttyUSB0 timed out"),
    ):
        hanging.hanging = {file}
        assert headline("/dev/ttyUSB0") == why
        line = f"reading '{file}' timed out; continuing without it\n"
        assert capsys.readouterr().err == line
        assert headline("/dev/ttyUSB1").startswith("/dev/ttyUSB1 is offered")
        capsys.readouterr()
