"""Several pods on one device, through ``replicas``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import config_in
from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import NEWEST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(*NEWEST)]

SHARED = "example.com/shared"
_RESOURCES = """\
  - name: example.com/shared
    match:
      - path: /dev/loop78
    replicas: 2
    inject:
      devices:
        - path: $(device.path)
          containerPath: /dev/shared
      env:
        SHARED_ID: $(device.id)
"""
REFUSAL = (
    "UnexpectedAdmissionError: Pod was rejected: Allocate failed due to"
    f" requested number of devices unavailable for {SHARED}. Requested: 1, Available: 0,"
    " which is unexpected"
)


@pytest.fixture
def config(tmp_path: Path) -> str:
    return config_in(tmp_path) + _RESOURCES


def test_two_pods_share_a_device_and_a_third_is_refused(bench: Bench) -> None:
    """ALL-5: the kubelet counts shares."""
    loop.add(78)
    bench.await_listed(SHARED, "loop78", "loop78::1")
    first, second = (bench.pod(name, {SHARED: 1}) for name in ("first", "second"))
    for pod in (first, second):
        sight = pod.container().saw()
        assert sight.nodes["/dev/shared"] == "b 7 4e"
        assert sight.reads["/dev/shared"] == "ok"
        assert sight.env["SHARED_ID"] == "loop78"
    held = [bench.resources.held(pod.name)[SHARED] for pod in (first, second)]
    print(f"\n--- what two pods hold of one device\n{held}", flush=True)
    assert sorted(map(sorted, held)) == [["loop78"], ["loop78::1"]]

    refusal = bench.pod("third", {SHARED: 1}).refusal()
    print(f"\n--- a third pod\n{refusal}", flush=True)
    assert refusal == REFUSAL


def test_two_shares_in_one_container_are_one_device(bench: Bench) -> None:
    """Its node and its env are there once; unplugged, both shares are gone."""
    loop.add(78)
    bench.await_listed(SHARED, "loop78", "loop78::1")
    spec = bench.pod("both", {SHARED: 2}).container().spec()
    shared = [node for node in spec["linux"]["devices"] if node["path"] == "/dev/shared"]
    assert [(node["major"], node["minor"]) for node in shared] == [(7, 78)]
    assert [e for e in spec["process"]["env"] if e.startswith("SHARED_ID=")] == ["SHARED_ID=loop78"]
    loop.remove(78)
    bench.await_listed(SHARED)
