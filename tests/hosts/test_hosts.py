"""Each example on a host: what is offered, what containers get, and that it is what peers give."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.hosts import (
    DIRECTORY,
    EXAMPLES,
    NAMES,
    Host,
    View,
    all_hosts,
    allocated,
    discovered,
    edited,
    printed_by,
    views,
)
from tests.printed import resources_in, shares_of

pytestmark = pytest.mark.slow

HOSTS = all_hosts()
_NOTHING: dict[str, Any] = {"devices": [], "mounts": [], "env": {}, "cdi": []}


@pytest.fixture(scope="module", params=HOSTS, ids=str)
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.param
    return found


@pytest.fixture(scope="module")
def root(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tree, which no test changes."""
    return host.build(tmp_path_factory.mktemp("host"))


def test_every_example_has_a_host_and_every_host_its_example() -> None:
    examples = {file.stem for file in EXAMPLES.iterdir()}
    directories = {path.name for path in DIRECTORY.iterdir() if path.is_dir()} - {"__pycache__"}
    assert set(NAMES) == directories
    assert examples == set(NAMES)


def test_discover_and_allocate_tell_the_same_in_any_order_of_directory_entries(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both print what is recorded."""
    assert host.requests()
    dice, listdir = random.Random(str(host)), os.listdir

    def shuffled(path: str) -> list[str]:
        names = listdir(path)
        dice.shuffle(names)
        return names

    monkeypatch.setattr(os, "listdir", shuffled)
    assert discovered(host, root) == host.file("discover", ".txt").read_text()
    assert allocated(host, root) == host.file("allocate", ".txt").read_text()


def test_a_pod_sees_what_the_peer_documents(host: Host, root: Path, tmp_path: Path) -> None:
    found = views(host)
    assert found
    for view in found:
        config = edited(host, view, tmp_path)
        seen = _seen(view, config, root)
        wanted = {
            "ids": set(view.ids),
            "devices": {_triple(device, "rw") for device in view.devices},
            "mounts": {_triple(mount, "ro") for mount in view.mounts},
            "env": view.env,
            "cdi": set(view.cdi),
            "numa": view.numa,
            "offered against the view": set(),
            "ids that can change at boot": [],
        }
        assert seen == wanted, view.request


def _seen(view: View, config: Path, root: Path) -> dict[str, object]:
    resource = view.request.partition("=")[0]
    found = resources_in(printed_by("discover", "-o", "json", config=config, root=root))
    of_resource = found[resource]["devices"]
    ids = {share for device in of_resource for share in shares_of(device)}
    everything = [
        text
        for of_one in found.values()
        for device in of_one["devices"]
        for text in (*shares_of(device), *device["nodes"])
    ]
    answer = _answer(view, config, root) if ids else _NOTHING
    return {
        "ids": ids,
        "devices": {
            (each_device["hostPath"], each_device["containerPath"], each_device["permissions"])
            for each_device in answer["devices"]
        },
        "mounts": {
            (mount["hostPath"], mount["containerPath"], "ro" if mount["readOnly"] else "rw")
            for mount in answer["mounts"]
        },
        "env": answer["env"],
        "cdi": set(answer["cdi"]),
        "numa": {
            entry["id"]: entry["numaNodes"] for entry in of_resource if entry["id"] in view.numa
        },
        "offered against the view": set(view.notOffered) & set(everything),
        "ids that can change at boot": [
            weak for of_one in found.values() for weak in of_one["weakIds"]
        ],
    }


def _answer(view: View, config: Path, root: Path) -> dict[str, Any]:
    choice = [text for entry in view.choose for text in ("--id", entry)]
    printed = printed_by("allocate", view.request, *choice, "-o", "json", config=config, root=root)
    document = printed[printed.index("{\n") :]  # after warnings
    answer: dict[str, Any] = json.loads(document)[view.request.partition("=")[0]]
    return answer


def _triple(text: str, default: str) -> tuple[str, str, str]:
    """Take a mount or device of a view apart; the container's path is the host's if not said."""
    path, _, how = text.partition("::")
    host, _, container = path.partition(":/")
    container, _, later = container.partition(":")
    return (host, f"/{container}" if container else host, how or later or default)


def test_facts_name_their_sources_or_begin_by_saying_that_they_are_unproven() -> None:
    """At least eight examples rest on public facts: the page of each in the docs says whether."""
    bodies = {}
    for name in NAMES:
        title, _, body = (DIRECTORY / name / "facts.md").read_text().partition("\n\n")
        assert title.startswith("# "), name
        bodies[name] = body
    proven = {name for name, body in bodies.items() if not body.startswith("Unproven")}
    assert {name for name in proven if "Source:" not in bodies[name]} == set()
    assert len(proven) >= 8
