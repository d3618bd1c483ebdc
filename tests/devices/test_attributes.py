"""Attributes for DRA: what a string becomes in the type that the config gives it."""

from __future__ import annotations

import pytest
from genericdp.model import Attribute, AttributeType, ServedBy, ValueKind, ValueSource
from genericdp.template import parse

from tests.devices.making import decide, node, resource

STRING, INT, BOOL, VERSION = AttributeType
MAX = 2**63 - 1
NO_INT, NO_BOOL = "' is not a whole number of 64 bits", "' is neither true nor false"
NO_VERSION = "' is not a version such as 1.2.3"


@pytest.mark.parametrize(
    ("kind", "text", "value", "note"),
    [
        (STRING, "two words ", "two words ", ""),
        (STRING, "a" + "é" * 32, "a" + "é" * 31, "cut: it has 65 bytes, at most 64 are possible"),
        *((INT, text, 17, "") for text in (" 017 ", "+17", "0x11")),
        *((INT, str(number), number, "") for number in (-5, MAX, -MAX - 1)),
        *((INT, text, 0, NO_INT) for text in ("", "1_000", "٣", "0x", str(MAX + 1), "9" * 5000)),
        *((BOOL, text, True, "") for text in ("True", " YES", "on", "1")),
        *((BOOL, text, False, "") for text in ("false", "No", "0")),
        *((BOOL, text, False, NO_BOOL) for text in ("", "2", "enabled")),
        (VERSION, "v535.54.03", "535.54.3", ""),
        (VERSION, "7", "7.0.0", ""),
        (VERSION, "6.1.0-18-amd64", "6.1.0-18-amd64", ""),
        (VERSION, "1.2-rc.1+b.007", "1.2.0-rc.1+b.007", ""),
        *((VERSION, text, "0.0.0", NO_VERSION) for text in ("", "1.", "1.2.3.4", "1.0.0-01")),
        *((VERSION, text, "0.0.0", NO_VERSION) for text in (f"1.{'9' * 20}", f"1.2.3+{'b' * 60}")),
    ],
)
def test_a_text_is_read_as_the_type_says_and_what_is_nothing_of_the_kind_is_noted(
    kind: AttributeType, text: str, value: object, note: str
) -> None:
    served = resource(
        "serial",
        "/dev/serial",
        served_by=ServedBy.DRA,
        values={"text": ValueSource(kind=ValueKind.TEXT, source=parse(text))},
        attributes={"mine": Attribute(type=kind, value=parse("$(value.text)"))},
    )
    listed = decide([served], [node("/dev/serial", (188, 0))])["example.com/serial"]
    found = listed.devices["serial"].device.attributes["mine"]
    assert found[:2] == (kind, value)
    assert found.note.endswith(note) if note else found.note == ""
    assert len(found.note) < 250
