"""A prepared claim holds hardware: no edit, replug, reboot or answer of the API moves it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from genericdp.devices.resourcenames import label
from genericdp.dra.claims import read_records, release_marker
from genericdp.settings import ClaimTiming

from tests.dra.claims import plug_stick
from tests.dra.node import (
    DRIVER,
    NAME,
    OTHER,
    POOL,
    USB0,
    USB1,
    DraNode,
    by_dra,
    by_plugin,
    refused,
    result,
)
from tests.world import Daemon, resource

MODEM = resource("example.com/acm", "/dev/ttyACM*")


def often(node: DraNode) -> dict[str, Any]:
    """Return settings with which the API server is asked about claims all the time."""
    return {"dra": replace(node.settings, claim_timing=ClaimTiming(period=0.1, warn=0.2))}


async def takes(node: DraNode, daemon: Daemon, *resources: dict[str, object]) -> None:
    """Replace the config, and wait until it is in effect."""
    node.host.plug("ttyACM0", major=166)
    await daemon.takes(*resources, MODEM)
    await node.world.listed("example.com/acm", "ttyACM0")


async def test_a_claim_whose_record_could_not_be_read_again_is_refused(node: DraNode) -> None:
    for number in range(1, 32):
        node.host.plug(f"ttyUSB{number}")
    names = [label(f"ttyUSB{number}") for number in range(32)]
    long = {f"LONG{number}": f"$(device.name){'x' * 50_000}" for number in range(3)}
    async with node.serving(by_dra(inject={"env": long})):
        await node.offers(POOL, *names)
        claim = node.allocate(requests={f"r-{name}": (name,) for name in names})
        assert "its record would have" in await node.refusal(claim)
        assert node.record(claim) is None
        await node.prepare(node.allocate(USB0, name="other"))


async def test_of_several_claims_that_end_at_once_the_last_runs_the_release_hook(
    node: DraNode,
) -> None:
    async with node.serving(by_dra(hooks={"release": node.hook("release")}, replicas=3)):
        shares = [USB0, label("ttyUSB0::1"), label("ttyUSB0::2")]
        claims = [await node.claim(share, name=share) for share in shares]
        assert await asyncio.gather(*map(node.unprepare, claims)) == [""] * 3
        assert node.ran() == ["release ttyUSB0"]


@pytest.mark.parametrize("becomes", ["removed", "without hooks", "with another hook"])
async def test_the_release_hook_of_the_record_runs_where_the_config_has_none(
    node: DraNode, becomes: str
) -> None:
    async with node.serving(by_dra(hooks={"release": node.hook("old")})) as daemon:
        claim = await node.claim()
        config = {
            "removed": [],
            "without hooks": [by_dra()],
            "with another hook": [by_dra(hooks={"release": node.hook("new")})],
        }
        await takes(node, daemon, *config[becomes])
        assert await node.unprepare(claim) == ""
        name = "new" if becomes == "with another hook" else "old"
        assert node.ran() == [f"{name} ttyUSB0"]


async def test_the_policy_of_now_bounds_the_release_hook_of_a_record(node: DraNode) -> None:
    release = node.hook("release")
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
    head += "devices: {paths: [/dev/ttyUSB*]}\ncommands: "
    allowing, refusing = (
        f"{head}[{{path: {path}}}]\n" for path in (node.directory / "release", "/bin/true")
    )
    async with node.serving(by_dra(hooks={"release": release}), policy=allowing) as daemon:
        claim = await node.claim()
        await daemon.takes(by_dra(OTHER), policy=refusing)
        await daemon.shows(OTHER, refused("claim default/claim has it"))
        assert "is not among the commands that are allowed" in await node.unprepare(claim)
        assert node.record(claim)
        assert node.ran() == []
        await daemon.takes(by_dra(OTHER), policy=allowing)
        assert await node.unprepare(claim) == ""
        assert node.ran() == ["release ttyUSB0"]


async def test_requests_that_hide_or_contradict_each_other_are_logged(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    inject = {
        "devices": [{"path": "$(device.path)", "containerPath": "/dev/s$(allocation.index)"}],
        "env": {"PORT": "$(device.path)"},
    }
    async with node.serving(by_dra(inject=inject)) as daemon:
        await node.offers(POOL, USB0, USB1)
        claims = [node.allocate(USB0, name="first"), node.allocate(USB1, name="second")]
        await node.kubelet.wait_for(DRIVER)
        await node.kubelet.prepare(DRIVER, *claims)
        line = await daemon.log.says(
            "request device of claim default/first and request device of claim default/second"
            " both give /dev/s0"
        )
        assert "put $(claim.name) and $(claim.request) into containerPath" in line
        for claim in claims:
            await node.unprepare(claim)
        await node.prepare(node.allocate(requests={"a": (USB0,), "b": (USB1,)}))
        await daemon.log.says("its requests give PORT different values")


async def test_the_holds_of_a_record_have_the_form_that_each_version_reads(node: DraNode) -> None:
    async with node.serving(by_dra()):
        claim = await node.claim()
    record = node.record(claim)
    assert record is not None
    assert record["uid"] == claim.uid
    (hold,) = record["holds"]
    (identity,) = hold.pop("identities")
    assert hold == {
        "resource": NAME,
        "id": "ttyUSB0",
        "shares": ["ttyUSB0"],
        "replicas": 1,
        "exclusive": True,
    }
    assert identity["unique"] == {}
    assert identity.keys() == {
        *("location", "part", "unique", "model", "unreadable", "kernelName", "ambiguous")
    }
    for version in (2, 99):
        node.edit_record(claim, version=version, results="in another form", devices=None)
        content = node.record_file(claim).read_bytes()
        release = node.hook("release", "exit 3")
        async with node.serving(by_dra(hooks={"release": release})):
            await node.is_held(USB0)
            assert "exited with 3" in await node.unprepare(claim)
            assert node.record_file(claim).read_bytes() == content
            if version == 99:
                node.hook("release")
                assert await node.unprepare(claim) == ""
                await node.prepare(node.allocate(USB0, name="other"))


@pytest.mark.parametrize(
    ("keys", "damaged"),
    [
        (("requests", 0, "edits"), "7"),
        (("devices", 0, "places", 0, "instance", "inode"), "1e999"),
        (("holds", 0, "identities", 0), "[]"),
    ],
)
async def test_a_damaged_record_is_no_reason_to_end_and_its_device_is_held(
    node: DraNode, keys: tuple[str | int, ...], damaged: str
) -> None:
    async with node.serving(by_dra()):
        claim = await node.claim()
    file = node.record_file(claim)
    at = record = json.loads(file.read_text())
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = "DAMAGED"
    file.write_text(json.dumps(record).replace('"DAMAGED"', damaged))
    async with node.serving(by_plugin()) as daemon:
        await daemon.shows(NAME, lambda found: found["contested"] or found["reason"])
    async with node.serving(by_dra()):
        refusal = await node.refusal(node.allocate(USB0, name="other"))
        assert "is prepared for claim default/claim" in refusal or file.name in refusal


async def test_a_device_whose_claim_is_gone_in_the_api_is_withheld_until_unprepare(
    node: DraNode,
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra(), **often(node)) as daemon:
        claim = await node.claim()
        missing = {"status": 404, "message": "the server could not find the requested resource"}
        with node.server.failing(verbs={"get"}, target="resourceclaims", **missing):
            assert "has no such API" in await node.refusal(node.allocate(USB1, name="another"))
            node.server.remove("resourceclaims", "claim", "default")
            asked = len(node.server.requests)
            await node.until(lambda: len(node.server.requests) > asked + 2)
            assert node.pools() == {POOL: [USB0, USB1]}
        await node.offers(POOL, USB1)
        await daemon.counts_so(
            lambda found: (found["claims{prepared}"], found["claims{gone}"]) == (0, 1)
        )
        await daemon.log.says(f"genericdp claims release {claim.uid}")
        assert node.given(claim)
        assert await node.unprepare(claim) == ""
        await node.offers(POOL, USB0, USB1)


async def test_a_claim_is_withheld_once_it_has_no_status_but_not_if_that_is_malformed(
    node: DraNode,
) -> None:
    async with node.serving(by_dra(), **often(node)):
        claim = await node.claim()
        node.change("claim", results=[result(device=[])])
        asked = len(node.server.requests)
        await node.until(lambda: len(node.server.requests) > asked + 2)
        assert node.pools() == {POOL: [USB0]}
        metadata = {"name": "claim", "namespace": "default", "uid": claim.uid}
        node.server.put("resourceclaims", {"metadata": metadata, "spec": {}})
        await node.offers(POOL)
        assert "nothing of genericdp.io is allocated" in await node.refusal(claim)
        assert node.kubelet.registrations.value == 1, "the driver has ended meanwhile"


async def test_what_a_reboot_and_the_api_have_ended_is_free(node: DraNode) -> None:
    by = by_dra(hooks={"release": node.hook("release")})
    node.host.plug("ttyUSB1")
    async with node.serving(by):
        gone, kept = await node.claim(name="gone"), await node.claim(USB1, name="kept")
    node.server.remove("resourceclaims", "gone", "default")
    for claim in (gone, kept):
        node.edit_record(claim, bootID="another")
    async with node.serving(by, **often(node)):
        await node.until(lambda: node.record(gone) is None)
        assert node.ran() == ["release ttyUSB0"]
        assert node.record(kept)
        await node.prepare(node.allocate(USB0, name="next"))
        await node.is_held(USB1, by="kept")


async def test_a_claim_whose_hook_has_failed_does_not_get_what_replaced_its_device(
    sticks: DraNode,
) -> None:
    node = sticks
    by = by_dra(groupBy="$(usb.product)", hooks=node.hooks())
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
        assert "it is other hardware now" in await node.refusal(claim)
        assert node.ran() == [], "the hook would run for other hardware"


async def test_an_administrator_releases_a_claim(node: DraNode) -> None:
    records = node.state_directory / "claims"
    async with node.serving(by_dra(hooks={"release": node.hook("release", "exit 3")})) as daemon:
        claim = await node.claim()
        (shown,) = read_records(records)
        assert shown.claim is not None
        assert (shown.uid, shown.claim.name) == (claim.uid, "claim")
        assert [(hold.resource, hold.shares) for hold in shown.claim.holds] == [
            (NAME, ("ttyUSB0",))
        ]
        release_marker(records, claim.uid).touch()
        await daemon.log.says("claim default/claim cannot be released: ")
        assert node.record(claim)
        node.hook("release")
        await node.until(lambda: node.record(claim) is None)
        assert {*node.ran()} == {"release ttyUSB0"}
        assert node.given(claim) == {}
        await node.until(lambda: list(records.iterdir()) == [])
        claim = await node.claim()
    node.record_file(claim).write_text("damaged")
    release_marker(records, claim.uid).touch()
    async with node.serving(by_dra()) as daemon:
        await daemon.registered(NAME)
        await node.prepare(node.allocate(USB0, name="other"))
        assert [found.claim and found.claim.name for found in read_records(records)] == ["other"]


async def test_a_claim_of_a_driver_with_another_name_holds_until_a_reboot_and_the_api_end_it(
    node: DraNode,
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()):
        claim = await node.claim(name="former")
    node.edit_record(claim, driver="former.io")
    former = node.root / "plugins/former.io/claims"
    former.parent.mkdir()
    node.record_file(claim).parent.rename(former)
    (former / "unknown.json").write_text("of another vendor")
    async with node.serving(by_dra()) as daemon:
        await node.is_held(USB0, by="former by the DRA driver former.io")
        await node.prepare(node.allocate(USB1, name="other"))
        await daemon.takes(by_dra(OTHER))
        await daemon.shows(OTHER, refused(f"claim default/former has it as ttyUSB0 of {NAME}"))
    record = former / f"{claim.uid}.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"bootID": "another"}))
    async with node.serving(by_dra()):
        await node.is_held(USB0, by="former by the DRA driver former.io")
        node.server.remove("resourceclaims", "former", "default")
        await node.prepare(node.allocate(USB0, name="next"))
