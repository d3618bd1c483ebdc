"""Parameters that claims and DeviceClasses give: what containers and hooks get of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from genericdp.devices.resourcenames import label
from genericdp.kubelet.api.dra_pb2 import Claim as ClaimRef

from tests.dra.node import DRIVER, NAME, OTHER, POOL, USB0, USB1, DraNode, by_dra

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


@pytest.mark.parametrize(
    ("requests", "config", "expected"),
    [
        pytest.param({"a": (USB0,)}, [], [["115200", "none", "false"]], id="defaults"),
        pytest.param({"a": (USB0,)}, [given(baud=9600, raw=True, parity="odd")],
                     [["9600", "odd", "true"]], id="for all requests"),
        pytest.param({"a": (USB0,)}, [given(baud=2400), given("b", baud=1), given("a", raw=True)],
                     [["2400", "none", "true"]], id="for other requests"),
        pytest.param({"a": (USB0,), "b": (USB1,)}, [given("a", baud=9600), given("b", baud=2400)],
                     [["9600", "none", "false"], ["2400", "none", "false"]], id="two requests"),
        pytest.param({"a": (USB0,)},
                     [given(baud=2400), given(source="FromClass", baud=1200, parity="even")],
                     [["2400", "even", "false"]], id="the claim counts more than its class"),
        pytest.param({"a": (USB0,)}, [given(baud=2400), given(baud=4800)],
                     [["4800", "none", "false"]], id="the last one counts"),
        pytest.param({"a/fast": (USB0,)},
                     [given("a", baud=2400), given("a/slow", baud=1), given("a/fast", raw=True)],
                     [["2400", "none", "true"]], id="an alternative"),
        pytest.param({"a": (USB0,)}, [given()], [["115200", "none", "false"]], id="nothing given"),
    ],
)  # fmt: skip
async def test_containers_get_what_the_claim_or_its_class_or_else_the_config_says(
    node: DraNode,
    requests: Mapping[str, tuple[str, ...]],
    config: list[dict[str, Any]],
    expected: list[list[str]],
) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(speeds()):
        await node.offers(POOL, USB0, USB1)
        claim = node.allocate(requests=requests, config=config)
        await node.prepare(claim)
        assert env_of(node, claim) == [
            [f"BAUD={baud}", f"PARITY={parity}", f"RAW={raw}"] for baud, parity, raw in expected
        ]


NAMED: Any = {"a\n" * 90: 1}
DEEP: Any = 5
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (given(baud=300), "baud: 300 is not a whole number from 1200 to 4000000"),
        (given(baud=10**30), f"baud: {10**30} is not a whole number from 1200 to 4000000"),
        (given(baud="9600"), "baud: '9600' is not a whole number from 1200 to 4000000"),
        (given(baud=9600.0), "baud: 9600.0 is not a whole number from 1200 to 4000000"),
        (given(baud=True), "baud: true is not a whole number from 1200 to 4000000"),
        (given(baud=None), "baud: null is not a whole number from 1200 to 4000000"),
        (given(baud=DEEP), "baud: a list is not a whole number from 1200 to 4000000"),
        (given(raw=1), "raw: 1 is not true or false"),
        (given(raw="true"), "raw: 'true' is not true or false"),
        (given(parity="Odd"), "parity: 'Odd' is not a string of printable characters that"),
        (given(parity="odd\n"), "parity: 'odd\\n' is not a string of printable characters"),
        (given(parity="odd\0"), "parity: 'odd\\x00' is not a string of printable characters"),
        (given(parity={"a": 1}), "parity: a mapping is not a string of printable characters"),
        (given("device", boud=1), "unknown parameter 'boud' (did you mean 'baud'?)"),
        (given(**NAMED), "unknown parameter 'a\\na\\n"),
        (given(source="FromClass", baud=300), "serial in its DeviceClass: parameter baud: 300"),
        (given(parity="o" * 11000), "the values have 11,0"),
        (given(head={**HEAD, "apiVersion": "genericdp.io/v2"}), "apiVersion is 'genericdp.io/v2',"),
        (given(head={**HEAD, "kind": "Other"}), "kind is 'Other', not DeviceParameters"),
        (given(head={}), "apiVersion is null, not genericdp.io/v1alpha1"),
        (given(head={**HEAD, "baud": 5}), "unknown key 'baud' (values"),
        ({"opaque": {"driver": DRIVER, "parameters": {**HEAD, "parameters": [5]}}},
         "the values are a list, not a mapping"),
        ({"opaque": {"driver": DRIVER, "parameters": 5}}, "the parameters are 5, not a mapping"),
        ({"opaque": {"driver": DRIVER}}, "the parameters are null, not a mapping"),
        ({"opaque": 5}, "no proper ResourceClaim"),
        ({"opaque": {"driver": DRIVER}, "requests": 5}, "no proper ResourceClaim"),
    ],
)  # fmt: skip
async def test_wrong_parameters_are_an_error_of_that_claim_and_say_what_is_allowed(
    node: DraNode, entry: dict[str, Any], why: str
) -> None:
    async with node.serving(speeds(hooks=node.hooks())):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0, name="wrong", config=[entry])
        said = await node.refusal(claim)
        assert why in said
        assert said.startswith(f"request device of {NAME}") or "no proper" in said
        assert (node.record(claim), node.ran()) == (None, [])
        await node.prepare(node.allocate(USB0))


async def test_a_parameter_without_a_default_must_be_given(node: DraNode) -> None:
    async with node.serving(speeds(parameters={**SPEEDS, "raw": {"bool": {}}})):
        await node.offers(POOL, USB0)
        why = f"request device of {NAME}: parameter raw has no default: give it true or false"
        assert await node.refusal(node.allocate(USB0)) == why
        claim = node.allocate(USB0, config=[given(source="FromClass", raw=True)])
        await node.prepare(claim)
        assert "RAW=true" in env_of(node, claim)[0]


async def test_each_resource_takes_the_parameters_that_it_declares(node: DraNode) -> None:
    node.host.plug("ttyACM0", minor=9)
    mode = {"mode": {"text": {"pattern": "[a-z]*", "default": ""}}, "baud": BAUD}
    env = {"MODE": "$(claim.parameters.mode)", "RATE": "$(claim.parameters.baud)"}
    other = by_dra(OTHER, "/dev/ttyACM*", parameters=mode, inject={"env": env})
    async with node.serving(speeds(), other):
        await node.offers(POOL, USB0)
        await node.offers(f"node-1/{OTHER}", acm := label("ttyACM0"))
        claim = node.allocate(USB0)
        (found,) = node.server.objects("resourceclaims")
        results = [
            {"request": request, "driver": DRIVER, "pool": pool, "device": device}
            for request, pool, device in (("a", POOL, USB0), ("b", f"node-1/{OTHER}", acm))
        ]
        both = given(baud=9600, mode="ppp", parity="odd")

        def allocated(*config: dict[str, Any]) -> None:
            devices = {"results": results, "config": list(config)}
            node.server.put(
                "resourceclaims", {**found, "status": {"allocation": {"devices": devices}}}
            )

        allocated(both, given("b", parity="even"))
        assert f"request b of {OTHER}: unknown parameter 'parity'" in await node.refusal(claim)
        allocated(both)
        await node.prepare(claim)
        assert env_of(node, claim) == [
            ["BAUD=9600", "PARITY=odd", "RAW=false"],
            ["MODE=ppp", "RATE=9600"],
        ]


async def test_paths_in_the_container_hold_parameters_but_no_directories_of_them(
    node: DraNode,
) -> None:
    parameters = {"name": {"text": {"pattern": ".*"}}}
    inside = "/dev/$(claim.parameters.name)"
    inject = {"devices": [{"path": "$(device.path)", "containerPath": inside}],
              "mounts": [{"hostPath": "/opt", "containerPath": f"/opt{inside}"}]}  # fmt: skip
    async with node.serving(by_dra(parameters=parameters, inject=inject)):
        await node.offers(POOL, USB0)
        for name in ("a/b", "..", ""):
            said = await node.refusal(node.allocate(USB0, config=[given(name=name)]))
            assert "$(claim.parameters.name)" in said
        claim = node.allocate(USB0, config=[given(name="modem")])
        await node.prepare(claim)
        (edits,) = node.given(claim).values()
        assert edits["deviceNodes"][0]["path"] == "/dev/modem"
        assert edits["mounts"][0]["containerPath"] == "/opt/dev/modem"


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


async def test_of_two_claims_of_a_device_the_hook_has_the_parameters_of_each_in_turn(
    node: DraNode,
) -> None:
    async with node.serving(speeds(hooks=noting(node, "allocate", "release"), replicas=2)):
        shares = (USB0, label("ttyUSB0::1"))
        await node.offers(POOL, *shares)
        claims = [
            node.allocate(share, name=name, config=[given(parity=name)])
            for share, name in zip(shares, ("even", "odd"), strict=True)
        ]
        for claim in claims:
            await node.prepare(claim)
        assert node.ran()[1::2] == ["even 115200", "odd 115200"]
        for claim in claims:
            await node.unprepare(claim)
        assert node.ran()[1::2] == ["odd 115200"]
        watching = node.allocate(USB0, name="watching", admin=True, config=[given(parity="odd")])
        await node.prepare(watching)
        assert "PARITY=odd" in env_of(node, watching)[0]
        await node.unprepare(watching)
        assert node.ran() == []
