"""Another config under a real kubelet: what is unchanged is left alone (C7)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, IMAGE, LOOP
from tests.e2e.cluster import loop
from tests.e2e.cluster.listing import lists
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
ADDED = "example.com/added"
_RESOURCE = """\
  - name: example.com/added
    match:
      - path: /dev/loop79
"""
_BY_MODEL = """\
  - name: example.com/$(value.model)
    names: [example.com/loop6, example.com/loop7]
    values:
      model: {text: $(device.name), regex: "loop[0-9]"}
    match:
      - path: /dev/loop[67][0-9]
    forgetAfterSeconds: 2
"""


def sockets() -> set[str]:
    """Give the names of the daemon's."""
    return {path.name for path in DEVICE_PLUGINS.glob("genericdp-*.sock")}


def lists_with_one(bench: Bench, resource: str) -> list[tuple[int, int]]:
    """Give the lists of a resource once the last has one device, which the kubelet logs late."""

    def found() -> list[tuple[int, int]]:
        return lists(bench.node.log("kubelet"), resource)

    return eventually(found, lambda seen: seen[-1:] == [(1, 1)], what=f"a list of {resource}")


def without(config: str, resource: str) -> str:
    """Leave it out of the config."""
    head, *resources = config.split("  - name: ")
    return "  - name: ".join([head, *(one for one in resources if not one.startswith(resource))])


def test_a_reload_leaves_alone_what_is_unchanged_and_updates_what_changed(bench: Bench) -> None:
    """C7, KST-11, LAW-7: no Register or list for an untouched resource; a removed one goes to 0."""
    loop.add(60)
    loop.add(79)
    bench.await_listed(LOOP, "loop60")
    bench.await_listed(IMAGE)
    registrations, of_loop, before = (
        bench.node.registrations(),
        lists_with_one(bench, LOOP),
        sockets(),
    )
    config = bench.daemon.config

    changed = without(config, IMAGE).replace("replicas: 3", "replicas: 2") + _RESOURCE
    bench.daemon.reload(changed)
    bench.await_listed(FUSE, "fuse", "fuse::1")
    bench.await_listed(ADDED, "loop79")
    eventually(lambda: len(sockets()), (3).__eq__, what="the removed resource's socket has gone")
    now = bench.node.registrations()
    assert now == {**registrations, ADDED: 1}
    assert lists(bench.node.log("kubelet"), LOOP) == of_loop
    assert len(sockets() & before) == 2, "those of fuse and loop"

    since = time.monotonic()
    bench.daemon.reload(without(changed, LOOP))
    bench.await_listed(LOOP)
    print(
        f"\n--- kubelet {bench.node.version}: a removed resource has no devices after"
        f" {time.monotonic() - since:.2f} s",
        flush=True,
    )
    bench.daemon.reload(config)
    bench.await_listed(LOOP, "loop60")
    bench.await_listed(ADDED)
    bench.await_registrations({**now, LOOP: now[LOOP] + 1, IMAGE: now[IMAGE] + 1})


def test_a_new_model_registers_and_the_last_of_one_drains_and_leaves_others_alone(
    bench: Bench,
) -> None:
    """Resources whose names result from values, plugged, unplugged and reloaded."""
    six, seven = "example.com/loop6", "example.com/loop7"
    loop.add(60)
    bench.await_listed(LOOP, "loop60")
    config = without(bench.daemon.config, LOOP)
    bench.daemon.reload(config + _BY_MODEL)
    bench.await_listed(six, "loop60")
    eventually(lambda: len(sockets()), (3).__eq__, what="those of fuse, image and loop6 are left")
    registrations = bench.node.registrations()
    of_six, its_sockets = lists_with_one(bench, six), sockets()
    assert registrations[six] == 1
    assert seven not in registrations

    loop.add(70)
    bench.await_listed(seven, "loop70")
    pod = bench.pod("of-a-model", {seven: 1})
    pod.container()
    pod.withdraw()
    loop.remove(70)
    eventually(sockets, its_sockets.__eq__, what="the socket of the model that left has gone")
    bench.await_listed(seven)
    loop.add(70)
    bench.await_listed(seven, "loop70")
    assert bench.node.registrations() == {**registrations, seven: 2}

    bench.daemon.reload(config + _BY_MODEL.replace(f", {seven}", ""))
    bench.await_listed(seven)
    eventually(sockets, its_sockets.__eq__, what="the socket of what is not allowed has gone")
    assert bench.node.registrations() == {**registrations, seven: 2}
    assert lists(bench.node.log("kubelet"), six) == of_six
