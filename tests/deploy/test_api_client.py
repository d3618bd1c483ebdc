"""The client, and the simulated kubelet that its other tests use, against a real API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.apiserver import SLICES, ApiClient, node_path, of_kubeconfig
from genericdp.errors import ApiError

from tests.apiserver.scenarios import SELECTOR, device, precondition, renewed, slice_of
from tests.apiserver.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from pathlib import Path

    from tests.deploy.apiserver import ApiServer as RealServer

    Json = dict[str, Any]

pytestmark = pytest.mark.deploy
SECONDS = 60.0


@pytest.fixture
def real(api: RealServer) -> Path:
    """Give the kubeconfig of a real server."""
    return api.kubeconfig


class Scenario:
    """Sends the same to any server; ``seen`` has what it said, without what is random."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.seen: list[tuple[str, object]] = []

    async def refused(self, what: str, call: Awaitable[Any]) -> None:
        try:
            await call
        except ApiError as error:
            self.seen.append((what, (error.status, error.reason)))
        else:
            self.seen.append((what, "granted"))

    async def create(self, what: str, body: Json) -> None:
        await self.refused(what, self._client.create(SLICES, body))

    async def writes(self) -> None:
        api, seen = self._client, self.seen
        created = await api.create(SLICES, slice_of(device("a")))
        metadata = created["metadata"]
        path = f"{SLICES}/{metadata['name']}"
        seen.append(("created", (created["kind"], created["apiVersion"], metadata["generation"])))
        seen.append(("suffix", len(metadata["name"]) - len(metadata["generateName"])))
        same = await api.update(path, created)
        seen.append(("nothing changed", same["metadata"]["resourceVersion"] == _version(created)))
        updated = await api.update(path, renewed(created, device("b")))
        seen.append(("updated", (updated["metadata"]["generation"], updated["spec"])))
        await self.refused("outdated", api.update(path, renewed(created, device("c"))))
        await self.refused("elsewhere", api.update(f"{SLICES}/other", updated))
        gone = {**updated, "metadata": {**updated["metadata"], "name": "other"}}
        await self.refused("not there", api.update(f"{SLICES}/other", gone))
        other = {**updated, "metadata": {**updated["metadata"], "uid": "x"}}
        await self.refused("another uid", api.update(path, other))
        for field in ("nodeName", "driver"):
            spec = {**updated["spec"], field: "other.example"}
            await self.refused(f"immutable {field}", api.update(path, {**updated, "spec": spec}))
        metadata = {"name": metadata["name"]}
        forced = await api.update(path, {**slice_of(device("d")), "metadata": metadata})
        seen.append(("forced", forced["spec"]["devices"]))
        await self.refused("same name", api.create(SLICES, {**slice_of(), "metadata": metadata}))
        last = precondition(forced)
        for key in last:
            wrong = {**last, key: "1"}
            await self.refused(f"delete with another {key}", api.delete(path, **wrong))
        await self.refused("delete", api.delete(path, **last))
        await self.refused("get what is deleted", api.get(path))
        await self.refused("get nothing", api.get("/apis/resource.k8s.io/v0/resourceslices"))
        await self.refused("node", api.get(node_path("not-there")))

    async def rules(self) -> None:
        nameless = {**slice_of(), "metadata": {}}
        await self.create("no name", nameless)
        await self.create("a version", {**slice_of(), "metadata": {"name": "x", **VERSION}})
        await self.create("another kind", {**slice_of(), "kind": "Other"})
        await self.create("another group", {**slice_of(), "apiVersion": "v1"})
        for what, item in RULES:
            await self.create(what, item)

    async def lists(self) -> None:
        api, seen = self._client, self.seen
        for number in range(120):
            await api.create(SLICES, slice_of(node="node-9", pool=f"p{number}"))
        items, _ = await api.list(SLICES, "spec.nodeName=node-9")
        seen.append(("all pages", len({item["metadata"]["name"] for item in items})))
        some, _ = await api.list(SLICES, "spec.driver=genericdp.io,spec.nodeName=elsewhere")
        seen.append(("none", some))
        await self.refused("unknown field", api.list(SLICES, "spec.other=x"))

    async def watches(self) -> None:
        api, seen = self._client, self.seen
        _, version = await api.list(SLICES, SELECTOR)
        await api.create(SLICES, slice_of(node="node-8"))
        created = await api.create(SLICES, slice_of())
        path = f"{SLICES}/{created['metadata']['name']}"
        updated = await api.update(path, renewed(created, device("other")))
        await api.delete(path, **precondition(updated))
        expected = [("ADDED", created), ("MODIFIED", updated)]
        async with api.watch(SLICES, resource_version=version, field_selector=SELECTOR) as events:
            async with asyncio.timeout(SECONDS):
                values = [await anext(events) for _ in range(3)]
        seen.append(("watched", values[:2] == expected))
        kind, item = values[2]
        seen.append(("end", (kind, item["spec"] == updated["spec"])))
        seen.append(("the end is a change", _version(item) != _version(updated)))


def _version(item: Json) -> str:
    version: str = item["metadata"]["resourceVersion"]
    return version


def _devices(count: int, **more: Any) -> Json:
    return slice_of(*({**device(f"d{number}"), **more} for number in range(count)))


def _with_value(**value: Any) -> Json:
    return slice_of(device("d", value=value))


def _with(**spec: Any) -> Json:
    item = slice_of()
    return {**item, "spec": {**item["spec"], **spec}}


def _with_pool(**pool: Any) -> Json:
    return _with(pool={**slice_of()["spec"]["pool"], **pool})


VERSION = {"resourceVersion": "1"}
TAINT = {"key": "example.com/x", "effect": "NoSchedule"}
WIDE = {f"a{number}": {"int": number} for number in range(33)}
RULES: Sequence[tuple[str, Json]] = [
    ("no devices", _with(devices=[])),
    ("128 devices", _devices(128)),
    ("129 devices", _devices(129)),
    ("64 devices with taints", _devices(64, taints=[TAINT])),
    ("65 devices with taints", _devices(65, taints=[TAINT])),
    ("one name twice", slice_of(device("a"), device("a"))),
    ("a name of 63", slice_of(device("a" * 63))),
    ("a name of 64", slice_of(device("a" * 64))),
    ("an upper case name", slice_of(device("ttyUSB0"))),
    ("a dotted name", slice_of(device("a.b"))),
    ("32 attributes", slice_of(device("d", **dict(list(WIDE.items())[:32])))),
    ("33 attributes", slice_of(device("d", **WIDE))),
    (
        "a standard attribute",
        slice_of(device("d", **{"resource.kubernetes.io/numaNode": {"int": 0}})),
    ),
    ("a key of 32", slice_of(device("d", **{"a" * 32: {"int": 1}}))),
    ("a key of 33", slice_of(device("d", **{"a" * 33: {"int": 1}}))),
    ("a key with a dash", slice_of(device("d", **{"a-b": {"int": 1}}))),
    ("a domain of 64", slice_of(device("d", **{f"{'a' * 64}/b": {"int": 1}}))),
    ("no domain", slice_of(device("d", **{"/b": {"int": 1}}))),
    ("64 bytes", _with_value(string="ü" * 32)),
    ("65 bytes", _with_value(string="ü" * 32 + "a")),
    ("an empty string", _with_value(string="")),
    ("a control character", _with_value(string="\n\x00")),
    ("a version", _with_value(version="1.2.3-rc.1+b")),
    ("half a version", _with_value(version="1.2")),
    ("a version with a zero", _with_value(version="01.2.3")),
    ("false", _with_value(bool=False)),
    ("2⁶³ - 1", _with_value(int=(1 << 63) - 1)),
    ("2⁶³", _with_value(int=1 << 63)),
    ("a number as text", _with_value(int="1")),
    ("two values", _with_value(int=1, string="a")),
    ("no value", _with_value()),
    ("a field that is not known", _with(other=1)),
    ("no driver", _with(driver="")),
    ("a driver of 64", _with(driver="a" * 64)),
    ("no node", _with(nodeName="")),
    ("a node and all", _with(allNodes=True)),
    ("no slices in the pool", _with_pool(resourceSliceCount=0)),
    ("generation -1", _with_pool(generation=-1)),
    ("a pool of 253", _with_pool(name="a" * 253)),
    ("a pool of 254", _with_pool(name="a" * 254)),
    ("a pool in parts", _with_pool(name="node-1/example.com/serial")),
    ("a pool with an empty part", _with_pool(name="node-1//serial")),
    ("a pool with upper case", _with_pool(name="node-1/example.com/Serial")),
]


@pytest.mark.parametrize("part", ["writes", "rules", "lists", "watches"])
async def test_the_stand_in_answers_as_a_real_server(real: Path, tmp_path: Path, part: str) -> None:
    async with ApiServer() as server:
        server.compact()
        file = server.kubeconfig(tmp_path / "kubeconfig")
        async with ApiClient(partial(of_kubeconfig, file)) as client:
            scenario = Scenario(client)
            await getattr(scenario, part)()
    async with ApiClient(partial(of_kubeconfig, real)) as client:
        true = Scenario(client)
        await getattr(true, part)()
    assert scenario.seen == true.seen


async def test_the_certificates_of_a_real_server_are_verified(real: Path) -> None:
    made = real.parent / "certificates" / "apiserver.crt"  # with the CA that it made for itself
    access = replace(of_kubeconfig(real), verify=True)
    async with ApiClient(lambda: replace(access, ca=made.read_bytes())) as client:
        await client.list(SLICES, SELECTOR)
    async with ApiClient(lambda: access) as client:
        with pytest.raises(ApiError, match="has a certificate that is not accepted"):
            await client.list(SLICES, SELECTOR)
