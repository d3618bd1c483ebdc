"""What containers get for claims, and why some claims are refused, as ``given.yaml`` has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from genericdp.devices.resourcenames import label

from tests.dra.claims import DRIVER, NAME, Machine, Process, spec_name

Json = dict[str, Any]
DEVICES = ("ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyACM9")
HEAD = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
STORIES = yaml.safe_load(Path(__file__).with_name("given.yaml").read_text())


def allocated(claim: Mapping[str, Any]) -> Json:
    """Return the ResourceClaim of an entry."""
    results = []
    for request, devices in claim.get("requests", {}).items():
        for device in devices:
            *resource, share = device.split()
            pool = f"node-1/{resource[0] if resource else NAME}"
            result = {"request": request, "driver": DRIVER, "pool": pool, "device": label(share)}
            results.append(result | claim.get("part", {}))
    allocation = {"results": results or claim["others"], "config": []}
    if results:
        allocation["results"] = results + claim.get("others", [])
    for given in claim.get("parameters", ()):
        content = HEAD | given.get("head", {}) | {"parameters": given.get("values")}
        opaque = {"driver": given.get("driver", DRIVER), "parameters": given.get("opaque", content)}
        entry = {"source": "FromClaim", "requests": given.get("for", []), "opaque": opaque}
        allocation["config"].append(entry | {key: given[key] for key in given.keys() & {"source"}})
    return {
        "metadata": {
            "namespace": "default",
            "name": "claim",
            "uid": "claim",
            "annotations": claim.get("annotations", {}),
        },
        "status": {"allocation": {"devices": allocation}},
    }


def given(process: Process) -> dict[str, list[str]]:
    """Return what containers of each request get: paths in them, and variables."""
    record = json.loads((process.directory / "claims/claim.json").read_text())
    spec = json.loads((process.cdi_directory / spec_name("claim")).read_text())
    found = {}
    for request, device in zip(record["requests"], spec["devices"], strict=True):
        edits = device["containerEdits"]
        nodes = [node["path"] for node in edits.get("deviceNodes", ())]
        mounts = [mount["containerPath"] for mount in edits.get("mounts", ())]
        found[request["name"]] = [*nodes, *mounts, *sorted(edits.get("env", ()))]
    return found


@pytest.mark.parametrize("story", STORIES, ids=[story["why"] for story in STORIES])
async def test_containers_of_claims(tmp_path: Path, story: Json) -> None:
    machine = Machine(tmp_path, *DEVICES)
    machine.configure(*({**resource, "servedBy": "dra"} for resource in story["resources"]))
    machine.look()
    process = Process(machine, tmp_path)
    for claim in story["claims"]:
        machine.claims["claim"] = allocated(claim)
        why = await process.prepare("claim")
        if "refused" in claim:
            assert claim["refused"] in why
            assert process.files() == []
        else:
            assert why == ""
            assert given(process) == claim["gives"]
            assert await process.unprepare("claim") == ""
