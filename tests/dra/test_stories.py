"""Stories of claims, as ``stories.yaml`` has them: what containers get, and who holds a device.

======================== =======================================================================
``end: CLAIM``           the kubelet unprepares a claim
``allocated: {CLAIM: …}`` the API server has another allocation, or claim, of that name
``gone: CLAIM``          it no longer has a claim
``resources: [...]``     an edit of the config
``plug: {PORT: SERIAL}`` a stick is plugged in, as ttyUSB<PORT> unless ``as`` is another number
``unplug: PORT``         it is unplugged
``write: {NODE: TEXT}``  its serial number changes, which is not noticed
``record: {CLAIM: ...}`` keys of the record of a claim change, or all of it; null removes it
``restart: daemon|node`` the daemon or the whole node starts again
``ran: [...]``           the hooks that have run since the last time
``specs: {CLAIM: [...]`` the nodes of the host that containers get if they start again
``offers: [...]``        the devices that the scheduler can allocate
======================== =======================================================================
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from genericdp.devices.resourcenames import label

from tests.dra.claims import (
    DRIVER,
    NAME,
    Machine,
    Process,
    files_of,
    plug_stick,
    spec_name,
    unplug_stick,
)

Json = dict[str, Any]
DEVICES = ("ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyACM9")
HEAD = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
STORIES = yaml.safe_load(Path(__file__).with_name("stories.yaml").read_text())


def allocated(name: str, claim: Mapping[str, Any]) -> Json:
    """Return the ResourceClaim of a step."""
    results = claim.get("others", [])
    for request, devices in claim.get("requests", {}).items():
        for device in devices:
            *resource, share = device.split()
            pool = f"node-1/{resource[0] if resource else NAME}"
            result = {"request": request, "driver": DRIVER, "pool": pool, "device": label(share)}
            results = [*results, result | claim.get("part", {})]
    config = []
    for given in claim.get("parameters", ()):
        content = HEAD | given.get("head", {}) | {"parameters": given.get("values")}
        opaque = {"driver": given.get("driver", DRIVER), "parameters": given.get("opaque", content)}
        source = given.get("source", "FromClaim")
        config.append({"source": source, "requests": given.get("for", []), "opaque": opaque})
    metadata = {"namespace": "default", "name": name, "uid": claim.get("uid", name)}
    return {
        "metadata": {**metadata, "annotations": claim.get("annotations", {})},
        "status": {"allocation": {"devices": {"results": results, "config": config}}},
    }


class Story:
    """A node, and what happens on it."""

    def __init__(self, directory: Path, sticks: Mapping[int, str]) -> None:
        self.directory = directory
        self.machine = Machine(directory, *(() if sticks else DEVICES))
        self.boots = self.plugs = self.hooks = 0
        for port, serial in sticks.items():
            self.plug({port: serial})
        self.process = Process(self.machine, directory, boot="boot-0")

    async def take(self, step: Json) -> None:
        """Take a step that is not a claim, and have the daemon notice what has changed."""
        ((verb, given), *_) = step.items()
        work = getattr(self, verb)(given)
        if work is not None:
            await work
        if verb != "write":
            await self.look()

    async def look(self) -> None:
        for _ in range(2):  # members of a group are waited for
            self.machine.now += 1.0
            self.machine.look(await self.process.preparer.holders.holds())
        self.process.look()
        await self.process.preparer.honor_markers()
        await self.process.preparer.update_specs()

    def resources(self, resources: list[Json]) -> None:
        self.machine.configure(*({**resource, "servedBy": "dra"} for resource in resources))

    def plug(self, sticks: Mapping[Any, Any]) -> None:
        (port, stick), *more = sticks.items()
        serial, product = [*stick.split(), "6001"][:2]
        self.plugs += 1
        number = dict(more).get("as", port)
        keys = {"number": number, "serial": serial, "product": product, "address": self.plugs}
        plug_stick(self.machine.host, port, **keys)

    def unplug(self, port: int) -> None:
        unplug_stick(self.machine.host, port)

    def write(self, serials: Json) -> None:
        for node, serial in serials.items():
            (tty,) = self.machine.host.directory.glob(f"sys/devices/*/*/*/*/*/{Path(node).name}")
            (tty.parents[1] / "serial").write_text(f"{serial}\n")

    def allocated(self, claims: Mapping[str, Json]) -> None:
        for name, claim in claims.items():
            self.machine.claims[name] = allocated(name, claim)

    def gone(self, name: str) -> None:
        del self.machine.claims[name]

    async def end(self, name: str) -> None:
        assert await self.process.unprepare(name) == ""

    async def restart(self, what: str) -> None:
        if what == "node":
            self.boots += 1
            shutil.rmtree(self.process.cdi_directory)
        self.machine.forget()
        await self.look()
        self.process = Process(self.machine, self.directory, boot=f"boot-{self.boots}")

    def record(self, records: Mapping[str, Json | str | None]) -> None:
        for name, content in records.items():
            file = self.directory / f"claims/{name}.json"
            if content is None:
                file.unlink()
            elif isinstance(content, str):
                file.write_text(content)
            else:
                changed = json.loads(file.read_text()) | content
                kept = {key: value for key, value in changed.items() if value is not None}
                file.write_text(json.dumps(kept))

    def ran(self, hooks: list[str]) -> None:
        before, self.hooks = self.hooks, len(self.process.hooks())
        assert self.process.hooks()[before:] == hooks

    def specs(self, claims: Mapping[str, list[str]]) -> None:
        for name, paths in claims.items():
            nodes = [node for edits in self.edits(name) for node in edits.get("deviceNodes", ())]
            assert [node.get("hostPath", node["path"]) for node in nodes] == paths

    def offers(self, ids: list[str]) -> None:
        assert sorted(self.process.offered().values()) == ids

    def edits(self, name: str) -> list[Json]:
        """Return the edits of each request in the spec of a claim."""
        file = self.process.cdi_directory / spec_name(name)
        spec = json.loads(file.read_text()) if file.exists() else {"devices": []}
        return [device["containerEdits"] for device in spec["devices"]]

    async def claim(self, step: Json) -> None:
        name = step.get("claim", "claim")
        if step.keys() & {"requests", "others"}:
            self.machine.claims[name] = allocated(name, step)
        why = await self.process.prepare(name)
        if "refused" in step:
            assert step["refused"] in why
        else:
            assert why == ""
            assert self.given(name) == step["gives"]
        if "claim" not in step:
            await self.end(name)
            assert files_of(name).isdisjoint(self.process.files())

    def given(self, name: str) -> dict[str, list[str]]:
        """Return what containers of each request get: paths in them, and variables."""
        record = json.loads((self.directory / f"claims/{name}.json").read_text())
        found = {}
        for request, edits in zip(record["requests"], self.edits(name), strict=True):
            nodes = [node["path"] for node in edits.get("deviceNodes", ())]
            mounts = [mount["containerPath"] for mount in edits.get("mounts", ())]
            found[request["name"]] = [*nodes, *mounts, *sorted(edits.get("env", ()))]
        return found


@pytest.mark.parametrize("case", STORIES, ids=[case["why"] for case in STORIES])
async def test_story_of_claims(tmp_path: Path, case: Json) -> None:
    story = Story(tmp_path, case.get("sticks", {}))
    for step in ({"resources": case["resources"]}, *case["steps"]):
        if step.keys() & {"gives", "refused"}:
            await story.claim(step)
            await story.look()
        else:
            await story.take(step)
