"""A device on offer of which nobody can know any longer whether it is excluded."""

from __future__ import annotations

import pytest

from tests.world import World, resource

SERIAL = "example.com/serial"
CLAIMED = {
    "values": {"claim": {"link": "/run/claims/$(device.name)/*"}},
    "exclude": [{"path": "/dev/ttyUSB*", "values": {"claim": "*"}}],
}
WHY = (
    "/dev/ttyUSB0: may be excluded, but the value 'claim': /run/claims/ttyUSB0/* finds 2 paths,"
    " wanted one"
)


async def test_it_is_unhealthy_with_the_reason_until_it_is_known(world: World) -> None:
    world.host.plug("ttyUSB0")
    later = resource("example.com/later", "/dev/ttyUSB*")
    async with world.serving(resource(SERIAL, "/dev/ttyUSB*", **CLAIMED), later) as daemon:
        await daemon.offers(SERIAL, ttyUSB0="")
        claims = [world.host.write(f"/run/claims/ttyUSB0/{name}", "") for name in ("a", "b")]
        world.host.plug("ttyUSB1")
        await daemon.offers(SERIAL, ttyUSB0=WHY, ttyUSB1="")
        await world.listed(SERIAL, "ttyUSB1")
        await daemon.offers("example.com/later")
        for claim in claims:
            claim.unlink()
        world.host.plug("ttyUSB2")
        await daemon.offers(SERIAL, ttyUSB0="", ttyUSB1="", ttyUSB2="")


@pytest.mark.parametrize("needs", [{}, {"groupNeeds": 2}])
async def test_a_group_says_it_of_its_member(world: World, needs: dict[str, int]) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    grouped = resource(SERIAL, "/dev/ttyUSB*", **CLAIMED, groupBy="all", **needs)
    async with world.serving(grouped) as daemon:
        await daemon.offers(SERIAL, all="")
        for name in ("a", "b"):
            world.host.write(f"/run/claims/ttyUSB0/{name}", "")
        world.host.plug("null", major=1, minor=3)
        rest = "; its group 'all' has 1 of 2 members: 1 missing (groupNeeds)" if needs else ""
        await daemon.offers(SERIAL, all=f"{WHY}{rest}")
