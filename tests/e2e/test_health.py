"""Probes and hooks under a real kubelet: what it lists, starts and refuses."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import NEWEST
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

PROBED = "example.com/probed"
WARMED = "example.com/warmed"
WIPED = "example.com/wiped"
_RESOURCES = """\
  - name: example.com/probed
    match:
      - path: /dev/loop7[01]
    health:
      - exec: {command: [DIRECTORY/probe, $(device.name)]}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
  - name: example.com/warmed
    match:
      - path: /dev/loop72
    hooks:
      preStart: {exec: {command: [DIRECTORY/warm-up]}, timeoutSeconds: 20}
  - name: example.com/wiped
    match:
      - path: /dev/loop73
    hooks:
      allocate: {exec: {command: [DIRECTORY/wipe, $(device.id)]}}
"""
_SCRIPTS = {
    "probe": """\
        #!/bin/sh
        if [ -e DIRECTORY/broken-$1 ]; then echo "the fan of $1 stands still"; exit 3; fi
    """,
    "warm-up": """\
        #!/bin/sh
        echo "$GENERICDP_DEVICE_ID" >>DIRECTORY/warm-ups
        if mkdir DIRECTORY/warm; then echo "begins to warm up"; echo "is still cold" >&2; exit 4; fi
        until [ -e DIRECTORY/go-on ]; do sleep 0.1; done
    """,
    "wipe": """\
        #!/bin/sh
        echo "wipes $GENERICDP_DEVICE_PATHS" | tee -a DIRECTORY/wipes
        if [ -e DIRECTORY/locked ]; then echo "$1 is locked by its firmware"; exit 5; fi
    """,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Add resources with a probe and hooks, whose scripts lie in the test's directory."""
    for name, text in _SCRIPTS.items():
        (tmp_path / name).write_text(dedent(text).replace("DIRECTORY", str(tmp_path)))
        (tmp_path / name).chmod(0o700)
    return START + _RESOURCES.replace("DIRECTORY", str(tmp_path))


@pytest.mark.kubelets(*NEWEST)  # others do not show a pod of its devices' health
def test_a_probe_takes_a_device_off_the_list_and_puts_it_back(bench: Bench) -> None:
    """D6: Unhealthy forever after one error. LAW-10: who holds it runs on, and is reported."""
    loop.add(70)
    loop.add(71)
    bench.await_listed(PROBED, "loop70", "loop71")
    pod = bench.pod("holder", {PROBED: 2})
    container = pod.container()
    process_id = container.process_id()
    before = bench.node.registrations()

    broken = bench.directory / "broken-loop70"
    broken.touch()
    bench.await_listed(PROBED, "loop71")
    reason = f"exec {bench.directory}/probe: exited with 3: the fan of loop70 stands still"
    said = f"device loop70 is Unhealthy: {reason}\n"
    eventually(lambda: said in bench.daemon.log(), what=f"log: {said}")
    reported = {"loop70": "Unhealthy", "loop71": "Healthy"}
    eventually(pod.health, reported.__eq__, what="the pod's status reports its device")
    assert container.process_id() == process_id

    broken.unlink()
    bench.await_listed(PROBED, "loop70", "loop71")
    reported["loop70"] = "Healthy"
    eventually(pod.health, reported.__eq__, what="the pod's status shows that it is well again")
    assert bench.node.registrations() == before, "a change of health is not a new registration"


def test_a_container_starts_when_its_hook_succeeds_at_the_second_try(bench: Bench) -> None:
    """PRE-1: a hook that fails makes the container wait, not the pod fail."""
    loop.add(72)
    bench.await_listed(WARMED, "loop72")
    pod = bench.pod("warmed", {WARMED: 1})
    message = pod.waits("CreateContainerConfigError")

    assert "device loop72: its preStart hook" in message
    assert message.endswith("exited with 4: is still cold")
    (bench.directory / "go-on").touch()
    assert pod.container().saw().reads["/dev/loop72"] == "ok"
    warm_ups = (bench.directory / "warm-ups").read_text().splitlines()
    assert warm_ups == ["loop72", "loop72"], "once for each try"


def test_a_pod_fails_with_the_words_of_its_allocate_hook(bench: Bench) -> None:
    """ALL-5: its message shows why, and the device is free for the next pod."""
    loop.add(73)
    bench.await_listed(WIPED, "loop73")
    locked = bench.directory / "locked"
    locked.touch()
    refusal = bench.pod("unlucky", {WIPED: 1}).refusal()

    assert refusal.startswith("UnexpectedAdmissionError: ")
    assert "desc = example.com/wiped: device loop73: its allocate hook" in refusal
    assert "exited with 5: loop73 is locked by its firmware" in refusal
    locked.unlink()
    assert bench.pod("lucky", {WIPED: 1}).container().saw().reads["/dev/loop73"] == "ok"
    assert (bench.directory / "wipes").read_text() == "wipes /dev/loop73\n" * 2
