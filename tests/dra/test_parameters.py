"""Parameters that claims and DeviceClasses give: what containers and hooks get of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genericdp.kubelet.api.dra_pb2 import Claim as ClaimRef

from tests.dra.node import DRIVER, POOL, USB0, DraNode, by_dra

HEAD = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
BAUD = {"int": {"min": 1200, "max": 4000000, "default": 115200}}
SPEEDS = {"baud": BAUD, "raw": {"bool": {"default": False}},
          "parity": {"text": {"pattern": "none|even|odd", "default": "none"}}}  # fmt: skip
ENV = {name.upper(): f"$(claim.parameters.{name})" for name in SPEEDS}
NOTE = 'echo "$@" $BAUD >> {}/log'


def given(
    *requests: str, source: str = "FromClaim", head: Mapping[str, object] = HEAD, **values: object
) -> dict[str, Any]:
    """Return an entry of an allocation's ``config``."""
    opaque = {"driver": DRIVER, "parameters": {**head, "parameters": values}}
    return {"source": source, "requests": list(requests), "opaque": opaque}


def speeds(**keys: Any) -> dict[str, object]:
    """Return a resource whose containers see its parameters."""
    return by_dra(**{"parameters": SPEEDS, "inject": {"env": ENV}, **keys})


def noting(node: DraNode, *names: str) -> dict[str, object]:
    """Return hooks that note the parameters: one as an argument, one in the environment."""
    env = {"BAUD": "$(claim.parameters.baud)"}
    hooks: dict[str, object] = {}
    for name in names:
        node.hook(name, NOTE.format(node.directory))
        command = [str(node.directory / name), "$(claim.parameters.parity)"]
        hooks[name] = {"exec": {"command": command, "env": env}}
    return hooks


def env_of(node: DraNode, claim: ClaimRef) -> list[list[str]]:
    """Return the variables of each request."""
    return [sorted(edits.get("env", ())) for edits in node.given(claim).values()]


async def test_hooks_get_parameters_after_a_boot_too_and_the_last_one_from_the_record(
    node: DraNode,
) -> None:
    hooks = noting(node, "allocate", "release")
    config = [given(baud=9600, parity="odd")]
    async with node.serving(speeds(hooks=hooks)):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0, config=config)
        await node.prepare(claim)
        assert node.ran() == ["allocate ttyUSB0", "odd 9600"]
        await node.prepare(claim)
        assert node.ran() == []
    node.edit_record(claim, bootID="another")
    async with node.serving(speeds(hooks=hooks)):
        await node.prepare(claim)
        assert node.ran() == ["allocate ttyUSB0", "odd 9600"]
    # The claim keeps its parameters, whatever the config says of them now.
    strict = {**SPEEDS, "baud": {"int": {"max": 1200, "default": 300}}}
    async with node.serving(speeds(hooks=hooks, parameters=strict)):
        assert env_of(node, claim)
        another = node.allocate(USB0, name="another")
        await node.refuses(another, "is prepared for claim default/claim")
    async with node.serving(by_dra("example.com/renamed", hooks=noting(node, "allocate"),
                                   parameters=SPEEDS)):  # fmt: skip
        assert await node.unprepare(claim) == ""
        assert node.ran() == ["release ttyUSB0", "odd 9600"]


async def test_the_release_hook_of_the_config_runs_unless_it_needs_what_the_claim_lacks(
    node: DraNode,
) -> None:
    config = [given(baud=9600, parity="odd")]
    async with node.serving(speeds(hooks=noting(node, "release"))):
        await node.offers(POOL, USB0)
        first = node.allocate(USB0, config=config)
        await node.prepare(first)
    hook = {"exec": {"command": [str(node.directory / "release"), "$(claim.parameters.parity)",
                                 "$(claim.parameters.new)"]}}  # fmt: skip
    for parameter, expected in (({"default": 5}, "odd 5"), ({}, "odd 9600")):
        new = {**SPEEDS, "new": {"int": parameter}}
        async with node.serving(speeds(hooks={"release": hook}, parameters=new)):
            await node.offers(POOL, USB0)
            assert await node.unprepare(first) == ""
            assert node.ran() == ["release ttyUSB0", expected]
        async with node.serving(speeds(hooks=noting(node, "release"))):
            await node.prepare(first)
    async with node.serving(speeds(hooks=noting(node, "release"))):
        assert await node.unprepare(first) == ""
