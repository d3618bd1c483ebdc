"""Claims of a node: what containers get for them, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.resourcenames import label
from genericdp.dra.claims import read_records
from tests.dra.node import DRIVER, NAME, POOL, DraNode, by_dra
from tests.memory import little_memory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from genericdp.kubelet.api import dra_pb2 as api

USB0, USB1, USB2 = (label(f"ttyUSB{number}") for number in range(3))


def paths(node: DraNode, devices: tuple[api.Device, ...]) -> dict[str, list[str]]:
    """Return the device nodes of prepared devices in a container, by request."""
    specs = [json.loads(one.read_text()) for one in node.cdi_folder.iterdir()]
    given = {
        f"{spec['kind']}={one['name']}": one["containerEdits"].get("deviceNodes", [])
        for spec in specs
        for one in spec["devices"]
    }
    found: dict[str, list[str]] = {}
    for device in devices:
        for name in device.cdi_device_ids:
            (request,) = device.request_names
            found.setdefault(request, []).extend(one["path"] for one in given[name])
    return found


async def test_a_claim_gives_the_node_of_its_device_until_it_is_over(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0, USB1)
        await daemon.registered(NAME)
        claim = node.allocate(USB1)
        (device,) = await node.prepare(claim)
        assert (device.pool_name, device.device_name) == (POOL, USB1)
        assert paths(node, (device,)) == {"device": ["/dev/ttyUSB1"]}
        assert node.record(claim) is not None
        assert await node.unprepare(claim) == ""
        assert (node.given(claim), node.record(claim)) == ({}, None)
        assert await node.unprepare(claim) == ""  # as often as the kubelet asks


async def test_the_same_claim_gets_the_same_answer_and_its_spec_again(node: DraNode) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        first = await node.prepare(claim)
        given = node.given(claim)
        for one in node.cdi_folder.iterdir():
            one.unlink()
        assert await node.prepare(claim) == first
        assert node.given(claim) == given


INDEXED = {"devices": [{"path": "$(device.path)", "containerPath": "/dev/s$(allocation.index)"}]}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"a": ["/dev/s0", "/dev/s2"], "b": ["/dev/s1"]}, id="a claim"),
        pytest.param(
            {"resource.kubernetes.io/extended-resource-claim": "true"},
            {"a": ["/dev/s0", "/dev/s1"], "b": ["/dev/s0"]},
            id="plain limits",
        ),
    ],
)
async def test_devices_are_counted_in_a_claim_and_for_plain_limits_in_each_request(
    node: DraNode, annotations: Mapping[str, str], expected: dict[str, list[str]]
) -> None:
    node.host.plug("ttyUSB1")
    node.host.plug("ttyUSB2")
    async with node.serving(by_dra(inject=INDEXED)):
        await node.offers(POOL, USB0, USB1, USB2)
        requests = {"a": (USB2, USB0), "b": (USB1,)}
        claim = node.allocate(requests=requests, annotations=annotations)
        assert paths(node, await node.prepare(claim)) == expected


async def test_an_alternative_of_a_request_is_told_as_the_request(node: DraNode) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        (device,) = await node.prepare(node.allocate(requests={"any/serial": (USB0,)}))
        assert list(device.request_names) == ["any"]


async def test_several_devices_of_a_request_join_their_variables(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra(inject={"env": {"PORTS": "$(device.path)"}})):
        await node.offers(POOL, USB0, USB1)
        claim = node.allocate(USB0, USB1)
        await node.prepare(claim)
        (given,) = node.given(claim).values()
        assert given["env"] == ["PORTS=/dev/ttyUSB0,/dev/ttyUSB1"]


async def test_a_claim_has_the_numbers_of_its_shares(node: DraNode) -> None:
    given = {"env": {"CORE": "$(device.share)"}}
    async with node.serving(by_dra(replicas=3, inject=given)):
        shares = [USB0, label("ttyUSB0::1"), label("ttyUSB0::2")]
        await node.offers(POOL, *shares)
        claims = [node.allocate(shares[2], name="a"), node.allocate(*shares[:2], name="b")]
        for claim, core in zip(claims, ("2", "0,1"), strict=True):
            await node.prepare(claim)
            (edits,) = node.given(claim).values()
            assert edits["env"] == [f"CORE={core}"]


async def test_a_device_is_prepared_for_one_claim_only_but_with_admin_access(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0)
        first, second = node.allocate(USB0, name="first"), node.allocate(USB0, name="second")
        await node.prepare(first)
        why = f"device {USB0} of {POOL} is prepared for claim default/first"
        assert await node.refusal(second) == why
        refused = f"allocations_total{{{NAME},unusable}}"
        await daemon.counts_so(lambda found: found[refused] == 1)
        gone = node.allocate("gone", name="third")
        assert (
            await node.refusal(gone) == f"there is no device gone in {POOL} on this node any more"
        )
        await daemon.counts_so(lambda found: found[refused] == 2)
        await node.prepare(node.allocate(USB0, name="admin", admin=True))
        await node.unprepare(first)
        await node.prepare(second)


@pytest.mark.parametrize("becomes", ["gone", "another", "reallocated", "deallocated"])
async def test_a_claim_that_ends_without_unprepare_keeps_its_device_until_then(
    node: DraNode, becomes: str
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0, USB1)
        first = node.allocate(USB0, name="first")
        await node.prepare(first)
        given = node.given(first)
        if becomes in ("gone", "another"):
            node.server.remove("resourceclaims", "first", "default")
        if becomes == "another":
            node.allocate(USB0, name="first")
        elif becomes == "reallocated":
            node.allocate(USB1, name="first")
        elif becomes == "deallocated":  # as one that waits for its next pod
            node.allocate(name="first")
        second = node.allocate(USB0, name="second")
        # Not said while the spec of the first one is looked at.
        why = "is prepared for claim default/first, which the API server no longer"
        await node.refuses(second, why)
        assert "waiting for the kubelet to unprepare it" in await node.refusal(second)
        await node.offers(POOL, USB1)
        await daemon.counts_so(
            lambda found: (found["claims{prepared}"], found["claims{gone}"]) == (0, 1)
        )
        assert node.given(first) == given
        assert await node.unprepare(first) == ""
        await node.offers(POOL, USB0, USB1)
        await node.prepare(second)
        await daemon.counts_so(
            lambda found: (found["claims{prepared}"], found["claims{gone}"]) == (1, 0)
        )


async def test_a_claim_that_was_allocated_anew_gets_what_it_has_now(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0, USB1)
        claim = node.allocate(USB0)
        await node.prepare(claim)
        assert node.allocate(USB1) == claim
        assert paths(node, await node.prepare(claim)) == {"device": ["/dev/ttyUSB1"]}


async def test_what_cannot_be_prepared_is_refused_with_the_reason(node: DraNode) -> None:
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0)
        gone = node.allocate("ttyusb7", name="gone")
        assert f"no device ttyusb7 in {POOL} on this node" in await node.refusal(gone)
        elsewhere = node.allocate(USB0, name="elsewhere", pool="node-2/example.com/serial")
        assert f"no device {USB0} in node-2" in await node.refusal(elsewhere)
        node.host.unplug("ttyUSB0")
        await daemon.offers(NAME, ttyUSB0="/dev/ttyUSB0 does not exist")
        assert "ttyUSB0 is Unhealthy" in await node.refusal(node.allocate(USB0, name="unplugged"))
        node.server.remove("resourceclaims", "gone", "default")
        assert await node.refusal(gone) == "there is no such claim any more"
        again = node.allocate(USB0, name="gone")
        assert await node.refusal(gone) == f"it has been created again: its UID is {again.uid} now"
        for status in (500, 404):  # nor is a claim gone because its API is
            with node.server.failing(status=status, reason="Disabled", verbs={"get"}):
                assert str(status) in await node.refusal(again)


async def test_a_device_that_returns_as_another_node_is_in_the_spec_at_once(
    node: DraNode, short_folder: Path
) -> None:
    async with node.serving(by_dra(glob="/dev/ttyUSB0")) as daemon:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        await node.prepare(claim)
        node.host.unplug("ttyUSB0")
        await node.until(lambda: node.given(claim) == {})
        node.host.plug("ttyUSB0", minor=9)
        await daemon.offers(NAME, ttyUSB0="")
        await node.until(lambda: node.given(claim) != {})


async def test_a_slow_release_hook_does_not_hold_up_the_specs_of_other_claims(
    node: DraNode, short_folder: Path
) -> None:
    node.host.plug("ttyUSB1")
    log, end = short_folder / "log", short_folder / "end"
    slow = hook(short_folder / "release", log, "release")
    with (short_folder / "release").open("a") as program:
        program.write(f"until [ -e {end} ]; do sleep 0.01; done\n")
    async with node.serving(by_dra(hooks={"release": slow})), asyncio.TaskGroup() as tasks:
        await node.offers(POOL, USB0, USB1)
        first, second = node.allocate(USB0, name="first"), node.allocate(USB1, name="second")
        await node.prepare(first)
        await node.prepare(second)
        ending = tasks.create_task(node.unprepare(first))
        await node.until(log.exists)
        node.host.unplug("ttyUSB1")
        await node.until(lambda: node.given(second) == {})
        assert node.record(first) is not None
        end.touch()
        assert await ending == ""


async def test_a_folder_of_records_that_cannot_be_read_withholds_until_it_can(
    node: DraNode,
) -> None:
    in_the_way = node.state_folder / "claims"
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.touch()
    async with node.serving(by_dra()) as daemon:
        why = f"{in_the_way.parent} cannot be read: not a directory"
        await daemon.shows(NAME, lambda found: found["reason"] == why)
        assert not (await daemon.resource(NAME))["registered"]
        await daemon.log.says(f"{in_the_way}: file exists")
        in_the_way.unlink()
        await node.prepare(node.allocate(USB0))
        assert "Traceback" not in "".join(daemon.log.lines)


def hook(program: Path, log: Path, text: str, **keys: object) -> dict[str, object]:
    program.write_text(f'#!/bin/sh\necho {text} "$GENERICDP_DEVICE_ID" >> {log}\n')
    program.chmod(0o755)
    return {"exec": {"command": [str(program)]}, **keys}


async def test_hooks_run_once_for_a_claim_and_the_release_hook_after_the_last(
    node: DraNode, short_folder: Path
) -> None:
    log = short_folder / "log"
    hooks = {name: hook(short_folder / name, log, name) for name in ("allocate", "release")}
    async with node.serving(by_dra(hooks=hooks, replicas=2)):
        await node.offers(POOL, USB0, label("ttyUSB0::1"))
        first = node.allocate(USB0, name="first")
        second = node.allocate(label("ttyUSB0::1"), name="second")
        await node.prepare(first)
        await node.prepare(first)
        await node.prepare(second)
        assert log.read_text().splitlines() == ["allocate ttyUSB0"] * 2
        await node.unprepare(first)
        assert log.read_text().splitlines() == ["allocate ttyUSB0"] * 2
        await node.unprepare(second)
        assert log.read_text().splitlines()[2:] == ["release ttyUSB0"]


async def test_a_release_hook_that_fails_keeps_the_claim(node: DraNode, short_folder: Path) -> None:
    program = short_folder / "release"
    release = hook(program, short_folder / "log", "released")
    program.write_text("#!/bin/sh\nexit 3\n")
    async with node.serving(by_dra(hooks={"release": release})):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        await node.prepare(claim)
        assert "exited with 3" in await node.unprepare(claim)
        assert node.record(claim) is not None
        hook(program, short_folder / "log", "released")
        assert await node.unprepare(claim) == ""


async def test_a_restarted_daemon_knows_its_claims_and_hooks_run_again_only_after_a_boot(
    node: DraNode, short_folder: Path
) -> None:
    log = short_folder / "log"
    by = by_dra(hooks={"allocate": hook(short_folder / "allocate", log, "allocate")})
    claim = node.allocate(USB0)
    async with node.serving(by):
        await node.offers(POOL, USB0)
        await node.prepare(claim)
    async with node.serving(by):
        await node.prepare(claim)
        assert log.read_text().count("allocate") == 1
        assert await node.refusal(node.allocate(USB0, name="other"))
    file = node.state_folder / f"claims/{claim.uid}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "bootID": "another"}))
    for one in node.cdi_folder.iterdir():
        one.unlink()
    async with node.serving(by):
        await node.prepare(claim)
        assert log.read_text().count("allocate") == 2
        assert node.given(claim)


async def test_a_restarted_daemon_takes_no_slice_away(node: DraNode) -> None:
    for number in range(1, 200):
        node.host.plug(f"ttyUSB{number}")
    async with node.serving(by_dra()):
        await node.until(lambda: len(node.pools().get(POOL, ())) == 200)
    node.server.requests.clear()
    claim = node.allocate(USB0)
    async with node.serving(by_dra()) as daemon:
        await node.prepare(claim)
        await daemon.registered(NAME)
    assert {one.verb for one in node.server.requests} <= {"get", "list", "watch"}


@pytest.mark.parametrize("call", ["allocate", "release"])
async def test_a_call_that_the_kubelet_gives_up_ends_its_hook_and_can_be_repeated(
    node: DraNode, short_folder: Path, call: str
) -> None:
    log, hooks = short_folder / "log", {}
    for name in ("allocate", "release"):
        hooks[name] = hook(short_folder / name, log, name)
    with (short_folder / call).open("a") as program:
        program.write(f"[ -e {log}.go ] || exec sleep 1000\n")
    async with node.serving(by_dra(hooks=hooks)), asyncio.TaskGroup() as tasks:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        if call == "release":
            await node.prepare(claim)
        work = node.prepare(claim) if call == "allocate" else node.unprepare(claim)
        given_up = tasks.create_task(work)
        await node.until(lambda: log.exists() and call in log.read_text())
        given_up.cancel()
        other = node.allocate(USB0, name="other")
        assert "prepared for claim default/claim" in await node.refusal(other)
        log.with_name("log.go").touch()
        await node.prepare(claim)
        ran = [one.split()[0] for one in log.read_text().splitlines()]
        assert (
            ran
            == {"allocate": ["allocate"] * 2, "release": ["allocate", "release", "allocate"]}[call]
        )
        assert node.given(claim)
        assert await node.unprepare(claim) == ""
        await node.prepare(other)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"version": 2}', '{"version": 1, "uid": 3}', "directory", "pipe", "too big"],
)
async def test_a_record_without_readable_holds_blocks_new_claims_until_it_is_removed(
    node: DraNode, content: str
) -> None:
    claim = node.allocate(USB0)
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        await node.prepare(claim)
    file = node.state_folder / f"claims/{claim.uid}.json"
    file.unlink()
    if content == "directory":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(content if content != "too big" else "[" + " " * 4 * 1024 * 1024)
    async with node.serving(by_dra()) as daemon:
        await daemon.shows(NAME, lambda found: str(file) in found["reason"])
        other = node.allocate(USB0, name="other")
        refusal = await node.refusal(other)
        assert f"{file} does not say which hardware its claim has" in refusal
        assert f"genericdp claims release {claim.uid}" in refusal
        assert node.given(claim), "its container may be started again"
        if content in ("[]", "pipe"):
            file.unlink()
            await daemon.registered(NAME)
        else:
            assert await node.unprepare(claim) == ""
            assert node.given(claim) == {}
        await node.prepare(other)


def test_a_record_of_tiny_values_does_not_become_large_in_memory(tmp_path: Path) -> None:
    (tmp_path / "uid.json").write_bytes(b"[" + b"{}," * 1_300_000 + b"{}]")
    with little_memory():
        (record,) = read_records(tmp_path)
    assert record.why == "it is damaged: ValueError: it has more than 300,000 values"


async def test_a_claim_whose_record_cannot_be_written_has_nothing(node: DraNode) -> None:
    async with node.serving(by_dra()) as daemon:
        await node.offers(POOL, USB0)
        folder = node.state_folder / "claims"
        folder.rmdir()
        folder.touch()
        for name in ("first", "second"):
            assert f"{folder}" in await node.refusal(node.allocate(USB0, name=name))
        await daemon.counts_so(
            lambda found: (
                (found["claims{prepared}"], found[f"allocations_total{{{NAME},error}}"]) == (0, 2)
            )
        )


async def test_a_spec_that_cannot_be_written_is_told_and_a_later_call_succeeds(
    node: DraNode,
) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        node.cdi_folder.rmdir()
        (node.state_folder / "claims").rmdir()  # which is its own, and made again
        assert "no such file or directory" in await node.refusal(claim)
        node.cdi_folder.mkdir()
        await node.prepare(claim)
        assert node.given(claim)
        assert node.record(claim)


async def test_a_claim_ends_without_the_api_server(node: DraNode) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        await node.prepare(claim)
        await node.server.stop()
        assert "the API server" in await node.refusal(node.allocate(USB0, name="other"))
        assert await node.unprepare(claim) == ""


async def test_one_instance_is_in_charge_and_the_next_takes_over(node: DraNode) -> None:
    async with node.serving(by_dra()) as first:
        await first.registered(NAME)
        claim = node.allocate(USB0)
        await node.prepare(claim)
        async with node.serving(by_dra()) as second:
            await second.log.says("another instance serves the DRA driver")
            assert (await second.get("/readyz"))[0] == 200
            first.config.write_text("")
    async with node.serving(by_dra()) as third:
        await third.registered(NAME)
        assert await node.unprepare(claim) == ""
    assert DRIVER in node.state_folder.name
