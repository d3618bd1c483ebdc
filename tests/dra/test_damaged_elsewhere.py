"""Records of drivers with other names that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from genericdp.devices.resourcenames import label

from tests.dra.node import NAME, NODE, OTHER, POOL, USB0, USB1, DraNode, by_dra, by_plugin

MODEM = {"pool": f"{NODE}/{OTHER}", "name": "modem"}


def damaged_record(node: DraNode, *, served: str | None) -> Path:
    """Leave a record that cannot be read, as a driver of another name does."""
    directory = node.root / "plugins/former.io"
    (directory / "claims").mkdir(parents=True)
    if served is not None:
        (directory / "served.json").write_text(served)
    record = directory / "claims/lost.json"
    record.write_text("damaged")
    return record


async def test_a_damaged_record_of_another_driver_holds_the_resources_that_it_served(
    node: DraNode,
) -> None:
    node.host.plug("ttyUSB1")
    node.host.plug("ttyACM0", major=166)
    modem = by_dra(OTHER, "/dev/ttyACM*")
    async with node.serving(by_dra(), modem) as daemon:
        before = await node.claim()
        record = damaged_record(node, served=json.dumps({"resources": [NAME]}))
        why = (
            f"the record {record} does not say which hardware its claim has (it is damaged:"
            f" it is not JSON at line 1): no new claim is prepared for {NAME} until"
            " `genericdp claims release lost`, or until the file is removed"
        )
        claim = node.allocate(USB1, name="serial")
        assert await node.refusal(claim) == why
        await node.prepare(before)
        await node.claim(label("ttyACM0"), **MODEM)
        await daemon.takes(by_dra(), modem, by_dra("example.com/new", "/dev/none"))
        await daemon.shows(NAME, lambda found: found["reason"] == why)
        await daemon.registered(OTHER)
        assert await node.unprepare(before) == ""
        await daemon.takes(by_plugin(), modem)
        await daemon.shows(NAME, lambda found: why in found["contested"])
        record.unlink()
        await node.world.listed(NAME, "ttyUSB0", "ttyUSB1")


@pytest.mark.parametrize("served", ["{", '{"resources": 1}'])
async def test_it_holds_any_resource_if_the_list_of_these_is_damaged_as_well(
    node: DraNode, served: str
) -> None:
    record = damaged_record(node, served=served)
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        assert "no new claim is prepared until `genericdp" in await node.refusal(claim)
        record.unlink()
        await node.prepare(claim)
        assert Path(record.parent.with_name("served.json")).read_text() == served


async def test_a_file_of_a_program_that_is_not_genericdp_holds_nothing(node: DraNode) -> None:
    damaged_record(node, served=None)
    async with node.serving(by_dra()):
        await node.claim()
