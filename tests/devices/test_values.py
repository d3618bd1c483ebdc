from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.inventory import Candidate, Inventory
from genericdp.devices.lookup import Names
from genericdp.model import ValueKind, ValueSource
from genericdp.template import UnusableValueError, parse
from tests.devices.known import ROOT, Known
from tests.devices.making import node, resource

GPU = f"{ROOT}/0000:0a:00.0"
INFORMATION = "Model:  \t Some GPU\nBus Location: 0000:0a:00.0\nDevice Minor: \t 17\n"


@pytest.fixture
def known() -> Known:
    known = Known()
    texts = {"star": "*", "up": "..", "below": "a/b", "away": "/sys/devices/pci0000:80"}
    known.add("0000:0a:00.0", "pci", attributes={"model": "Some GPU", "empty": "", **texts})
    known.texts["/proc/driver/gpus/0000:0a:00.0/information"] = INFORMATION
    known.texts[f"{ROOT}/slot"] = "7"
    known.links |= {
        f"{GPU}/physfn/net/ens1f0": "ens1f0",
        f"{GPU}/twice/a": "a",
        f"{GPU}/twice/b": "b",
        f"{GPU}/odd": "can\udcff",
    }
    return known


def computed(known: Known, kind: str, source: str, regex: str | None = None) -> str | None:
    others = {"other": "slot-7", "bridge": ROOT, "away": "$(attribute.away)"}
    values = {
        name: ValueSource(kind=ValueKind.TEXT, source=parse(text)) for name, text in others.items()
    }
    values["mine"] = ValueSource(kind=ValueKind(kind), source=parse(source), regex=regex)
    inventory = Inventory(known)
    candidate = Candidate(file=node("/dev/gpu0", (195, 0), syspath=GPU), device=known.devices[GPU])
    names = Names(candidate, resource=replace(resource("x"), values=values), inventory=inventory)
    return names.get_text("value", "mine")


@pytest.mark.parametrize(
    ("kind", "source", "regex", "expected"),
    [
        pytest.param("text", "$(pci.address)", None, "0000:0a:00.0", id="a-text"),
        pytest.param("text", "$(pci.address)", r"(.*)\.\d", "0000:0a:00", id="group-1-of-it"),
        pytest.param("text", "$(pci.address)", r"\d+$", "0", id="the-hit-without-a-group"),
        pytest.param("text", "$(value.other)", r"slot-(\d)", "7", id="of-another-value"),
        pytest.param("text", "$(usb.serial:-none)", None, "none", id="a-default"),
        pytest.param(
            "file",
            "/proc/driver/gpus/$(pci.address)/information",
            r"Device Minor:\s+(\d+)",
            "17",
            id="a-line-of-a-file",
        ),
        pytest.param("file", "$(device.syspath)/model", None, "Some GPU", id="a-file"),
        pytest.param("file", "$(device.syspath)/empty", None, "", id="an-empty-file"),
        pytest.param("file", "$(value.bridge)/slot", None, "7", id="a-file-above-the-device"),
        pytest.param("link", "$(value.bridge)/*/physfn/net/*", None, "ens1f0", id="link-above"),
        pytest.param("link", "$(device.syspath)/physfn/net/*", None, "ens1f0", id="a-link"),
        pytest.param("link", "$(device.syspath)/physfn/net/*", r"^ens\d", "ens1", id="and-regex"),
    ],
)
def test_values_come_from_a_text_a_file_or_a_link(
    known: Known, kind: str, source: str, regex: str | None, expected: str | None
) -> None:
    assert computed(known, kind, source, regex) == expected


@pytest.mark.parametrize(
    ("kind", "source", "regex", "reason"),
    [
        ("text", "$(usb.serial)", None, "it has no '$(usb.serial)'"),
        ("text", "$(pci.address)", "x", "the value 'mine': 'x' is not found in '0000:0a:00.0'"),
        (
            "text",
            "$(pci.address)",
            "(x)?0000",
            "the value 'mine': '(x)?0000' is not found in '0000:0a:00.0'",
        ),
        ("file", "/etc/none", None, "the value 'mine': /etc/none: it does not exist"),
        ("file", "/etc/secret", None, "the value 'mine': /etc/secret: Permission denied"),
        (
            "link",
            "$(device.syspath)/none/*",
            None,
            f"the value 'mine': {GPU}/none/* finds nothing, wanted one",
        ),
        (
            "link",
            "$(device.syspath)/twice/*",
            None,
            f"the value 'mine': {GPU}/twice/* finds 2 paths, wanted one",
        ),
        # Found by fuzzing: a network interface may be called anything, which ended the pass.
        (
            "link",
            "$(device.syspath)/odd",
            "(.*)",
            r"the value 'mine': 'can\udcff' is not valid UTF-8",
        ),
        # What hardware says is never a pattern, nor a way out of a folder.
        (
            "link",
            "$(device.syspath)/twice/$(attribute.star)",
            None,
            f"the value 'mine': {GPU}/twice/* finds nothing, wanted one",
        ),
        (
            "file",
            "/etc/$(attribute.up)/passwd",
            None,
            "'/etc/$(attribute.up)/passwd' gives '/etc/../passwd', which holds '..'",
        ),
        (
            "file",
            "/etc/$(attribute.below)",
            None,
            "'$(attribute.below)' is 'a/b', which cannot be part of a path",
        ),
        (
            "file",
            "$(value.away)/slot",
            None,
            "'$(value.away)' is '/sys/devices/pci0000:80', which cannot be part of a path",
        ),
        (
            "link",
            "$(value.other)/*",
            None,
            "'$(value.other)/*' gives 'slot-7/*', which is not an absolute path",
        ),
    ],
)
def test_what_a_candidate_lacks_is_said(
    known: Known, kind: str, source: str, regex: str | None, reason: str
) -> None:
    known.unreadable["/etc/secret"] = "Permission denied"
    with pytest.raises(UnusableValueError) as caught:
        computed(known, kind, source, regex)
    assert str(caught.value) == reason


def test_of_a_long_text_only_the_start_is_shown(known: Known) -> None:
    known.texts["/log"] = "x" * 1000
    with pytest.raises(UnusableValueError, match=f"'{'x' * 60}…'$"):
        computed(known, "file", "/log", "y")
