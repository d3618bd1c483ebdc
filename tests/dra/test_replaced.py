"""Other hardware under the ID of a claim's device, where no hold hides it.

A group is listed if one of its members is held under its name, and admin access holds nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from genericdp.devices.resourcenames import label

from tests.dra.claims import plug_stick
from tests.dra.node import NAME, POOL, DraNode, by_dra
from tests.world import Daemon

OTHER_HARDWARE = "it is other hardware now"
GROUP = {"groupBy": "$(usb.product)"}
PORT = {"id": "$(usb.port)"}


async def lists(daemon: Daemon, state: str) -> None:
    """Wait until the only device is in this state."""
    await daemon.shows(NAME, lambda found: [each["state"] for each in found["devices"]] == [state])


@pytest.mark.parametrize(
    ("device", "keys", "admin"),
    [("6001", GROUP, False), (label("1-2"), PORT, True)],
    ids=["a group", "admin access"],
)
async def test_after_a_reboot_a_device_of_which_hardware_was_replaced_is_refused(
    sticks: DraNode, device: str, keys: dict[str, Any], *, admin: bool
) -> None:
    node, by = sticks, by_dra(**keys)
    async with node.serving(by):
        claim = await node.claim(device, admin=admin)
    node.edit_record(claim, bootID="another")
    plug_stick(node.host, 2, number=1, serial="C")
    async with node.serving(by):
        await node.until(lambda: device in node.pools().get(POOL, ()))
        assert OTHER_HARDWARE in await node.refusal(claim)
        assert node.given(claim) == {}


async def test_a_claim_whose_hook_has_failed_does_not_get_what_replaced_its_device(
    sticks: DraNode,
) -> None:
    node = sticks
    by = by_dra(**GROUP, hooks=node.hooks())
    node.hook("allocate", "exit 3")
    async with node.serving(by):
        await node.offers(POOL, "6001")
        claim = node.allocate("6001")
        assert "exited with 3" in await node.refusal(claim)
    node.hook("allocate")
    node.ran()
    plug_stick(node.host, 2, number=1, serial="C")
    async with node.serving(by):
        await node.offers(POOL, "6001")
        assert OTHER_HARDWARE in await node.refusal(claim)
        assert node.ran() == [], "the hook would run for other hardware"


async def test_what_a_claim_keeps_when_it_gets_less_is_the_same_hardware(sticks: DraNode) -> None:
    node = sticks
    plug_stick(node.host, 3, number=2, serial="D", product="6015")
    async with node.serving(by_dra(**GROUP)):
        claim = await node.claim("6001", "6015")
    plug_stick(node.host, 2, number=1, serial="C")
    async with node.serving(by_dra(**GROUP)):
        await node.offers(POOL, "6001", "6015")
        assert node.allocate("6001") == claim
        assert OTHER_HARDWARE in await node.refusal(claim)
        assert node.given(claim) == {}


@pytest.mark.parametrize("boot", ["this", "another"])
async def test_admin_access_stays_with_its_hardware_when_an_edit_gives_its_id_to_other(
    node: DraNode, boot: str
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra(glob="/dev/ttyUSB0", id="x")):
        claim = await node.claim("x", admin=True)
    probes: list[object] = []
    if boot == "another":
        node.edit_record(claim, bootID="another")
    else:  # a container that runs does not depend on the health of what it does not have
        probes = [{"exec": {"command": ["/bin/false"]}, "failureThreshold": 1}]
    async with node.serving(by_dra(glob="/dev/ttyUSB1", id="x", health=probes)) as daemon:
        await lists(daemon, "Healthy" if not probes else "Unhealthy")
        await node.prepare(claim)
        assert node.host_paths(claim) == ["/dev/ttyUSB0"]
