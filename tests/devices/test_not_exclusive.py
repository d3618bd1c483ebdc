"""``exclusive: false``: several resources have the same hardware, each under an ID of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    refusals,
    resource,
    selector,
    unhealthy,
)

CARD, RENDER = node("/dev/card0", (226, 0)), node("/dev/renderD128", (226, 128))
OTHER = node("/dev/renderD129", (226, 129))
FILES = [CARD, RENDER, OTHER]
ENCODE = resource(
    "encode", "/dev/renderD*", id="encode-$(device.name)", replicas=4, exclusive=False
)
COMPUTE = resource(
    "compute", "/dev/renderD*", id="compute-$(device.name)", replicas=2, exclusive=False
)
WHOLE = resource("whole", "/dev/renderD*")
IN_BOTH_ORDERS = pytest.mark.parametrize("order", [1, -1])


@IN_BOTH_ORDERS
def test_resources_that_are_not_exclusive_have_the_same_hardware(order: int) -> None:
    offers = decide([ENCODE, COMPUTE][::order], FILES)
    assert healthy(offers, "encode") == ["encode-renderD128", "encode-renderD129"]
    assert healthy(offers, "compute") == ["compute-renderD128", "compute-renderD129"]
    offers = decide([ENCODE, COMPUTE], [CARD, OTHER], offers, now=1.0)
    assert unhealthy(offers, "encode") == {"encode-renderD128": "/dev/renderD128 does not exist"}
    assert unhealthy(offers, "compute") == {"compute-renderD128": "/dev/renderD128 does not exist"}


def test_what_an_exclusive_resource_has_no_other_gets() -> None:
    offers = decide([WHOLE, ENCODE, COMPUTE], FILES)
    assert healthy(offers, "whole") == ["renderD128", "renderD129"]
    reason = (
        "belongs to resource example.com/whole, which comes first in the config"
        " (both can have it only with exclusive: false there, too)"
    )
    for name in ("encode", "compute"):
        assert refusals(offers, name) == {"/dev/renderD128": reason, "/dev/renderD129": reason}


def test_an_exclusive_resource_gets_nothing_that_others_share() -> None:
    offers = decide([ENCODE, WHOLE, COMPUTE], FILES)
    assert (len(healthy(offers, "encode")), len(healthy(offers, "compute"))) == (2, 2)
    reason = (
        "belongs to resource example.com/encode, which comes first in the config"
        " (both can have it only with exclusive: false here, too)"
    )
    assert refusals(offers, "whole") == {"/dev/renderD128": reason, "/dev/renderD129": reason}


@IN_BOTH_ORDERS
def test_nodes_that_inject_brings_along_are_shared_as_well(order: int) -> None:
    """Of different members: one lane matches the render node, the other the card."""
    brought = nodes("/dev/card[0]$(property.P:-)")
    encode = replace(ENCODE, match=(selector("/dev/renderD128"),))
    encode = replace(encode, inject=inject(nodes("$(device.path)"), brought))
    compute = replace(COMPUTE, match=(selector("/dev/card0"),))
    offers = decide([encode, compute][::order], FILES)
    assert healthy(offers, "encode") == ["encode-renderD128"]
    assert healthy(offers, "compute") == ["compute-card0"]
    whole = resource("compute", "/dev/card0")
    offers = decide([encode, whole], FILES)
    assert healthy(offers, "encode") == []
    assert refusals(offers, "encode") == {
        "/dev/renderD128": "its node /dev/card0 belongs to device card0 of example.com/compute"
        " (exclude one of the two, or give each its own nodes)"
    }


def test_within_one_resource_a_node_still_belongs_to_one_device() -> None:
    brought = inject(nodes("$(device.path)"), nodes("/dev/card[0]$(property.P:-)"))
    offers = decide([replace(ENCODE, inject=brought), COMPUTE], FILES)
    assert healthy(offers, "encode") == ["encode-renderD128"]
    assert refusals(offers, "encode") == {
        "/dev/renderD129": "its node /dev/card0 belongs to device encode-renderD128 of"
        " example.com/encode (exclude one of the two, or make one device of them with groupBy)"
    }
    assert len(healthy(offers, "compute")) == 2


def test_no_two_of_them_have_one_id() -> None:
    """The templates differ, the texts that they give do not."""
    lane = resource("lane", "/dev/renderD*", id="lane-$(device.minor)", replicas=2, exclusive=False)
    same = resource("same", "/dev/renderD128", id="lane-128", replicas=2, exclusive=False)
    offers = decide([lane, same], FILES)
    assert healthy(offers, "lane") == ["lane-128", "lane-129"]
    assert refusals(offers, "same") == {
        "/dev/renderD128": "its id 'lane-128' is that of /dev/renderD128 of example.com/lane"
        " (of resources with exclusive: false, each needs an id of its own form)"
    }


def test_an_undecided_resource_keeps_nothing_from_those_that_share_with_it() -> None:
    offers = decide([ENCODE, COMPUTE, WHOLE], FILES, hanging=["/dev/renderD*"])
    assert [len(healthy(offers, name)) for name in ("encode", "compute", "whole")] == [0, 0, 0]
    offers = decide([ENCODE, COMPUTE, WHOLE], FILES, offers, now=1.0)
    assert [len(healthy(offers, name)) for name in ("encode", "compute", "whole")] == [2, 2, 0]
