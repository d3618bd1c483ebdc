"""``genericdp cdi list``: the CDI devices that specs of genericdp define on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from genericdp.cdi import STATIC_DIRECTORY, SpecFile, spec_files
from genericdp.cli.output import print_result, table
from genericdp.errors import DAMAGE, GenericdpError, reason_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EXAMPLE = "  genericdp cdi list"
_TITLES = ("DEVICE", "NODES", "SPEC", "FILE")


def execute(arguments: argparse.Namespace) -> int:
    """Print the devices in the specs, and whether a process keeps the specs up to date."""
    directories = dict.fromkeys((arguments.cdi_dir, STATIC_DIRECTORY))
    try:
        found = [_described(file) for directory in directories for file in spec_files(directory)]
    except OSError as error:
        raise GenericdpError(f"{error.filename}: {reason_of(error).lower()}") from error
    lines = table([_TITLES, *(row for spec in found for row in _rows(spec))])
    if not found:
        places = " or ".join(
            f"{directory}{'' if directory.is_dir() else ' (not there)'}"
            for directory in directories
        )
        lines = [f"genericdp has written no CDI spec to {places}"]
    print_result(found, lines, arguments.output)
    return 0


def _described(file: SpecFile) -> dict[str, Any]:
    try:
        spec = json.loads(file.content) if file.is_ours else {"devices": ()}
        devices = []
        for device in spec["devices"]:
            nodes = device["containerEdits"].get("deviceNodes", ())
            name = f"{spec['kind']}={device['name']}"
            devices.append({"name": name, "nodes": [str(node["path"]) for node in nodes]})
    except DAMAGE:
        devices = []  # another program has changed it
    return {"file": str(file.path), "spec": _state(file), "devices": devices}


def _state(spec: SpecFile) -> str:
    """Return whether a process maintains a spec, in a word or two."""
    if not spec.is_ours:
        return "not of genericdp"
    if spec.is_maintained:
        return "maintained"
    return "static" if spec.path.parent == STATIC_DIRECTORY else "not maintained"


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    if not document["devices"]:
        yield ("", "", document["spec"], document["file"])
    for device in document["devices"]:
        yield (device["name"], " ".join(device["nodes"]), document["spec"], document["file"])
