"""Values that cannot be had, for reasons that no case shows."""

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


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        ("file", "/etc/secret", "the value 'mine': /etc/secret: Permission denied"),
        # Found by fuzzing: a network interface may be called anything, which ended the pass.
        (
            "link",
            "$(device.syspath)/odd",
            r"the value 'mine': 'can\udcff' is not valid UTF-8",
        ),
    ],
)
def test_what_a_candidate_lacks_is_said(kind: str, source: str, reason: str) -> None:
    known = Known()
    device = known.add("0000:0a:00.0", "pci")
    known.links[f"{GPU}/odd"] = "can\udcff"
    known.unreadable["/etc/secret"] = "Permission denied"
    mine = ValueSource(kind=ValueKind(kind), source=parse(source), regex="(.*)")
    candidate = Candidate(file=node("/dev/gpu0", (195, 0), syspath=GPU), device=device)
    names = Names(
        candidate,
        resource=replace(resource("x"), values={"mine": mine}),
        inventory=Inventory(known),
    )
    with pytest.raises(UnusableValueError) as caught:
        names.get_text("value", "mine")
    assert str(caught.value) == reason
