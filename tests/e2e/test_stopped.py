"""A kubelet that is held up in the middle of what it was sent (REG-2, REG-3, REG-9c)."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import FUSE, LOOP

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
SECONDS = {"1.37.0": 60, "1.36.3": 20, "1.34.4": 20, "1.30.14": 20}
"""Longer than the 10 s of its own that a kubelet has for a call; a minute for one of them."""
NEW = tuple(f"example.com/new-{number}" for number in range(40))
"""More than register at once: some are in the middle of it, others wait for their turn."""
_BEGUN = re.compile("Got registration request.*example.com/new-")
_AGAIN = re.compile(
    "(example.com/new-.*): the kubelet (?:did not (?:take the registration: failed to dial|open)"
    "|has ended)"
)
"""In whatever it was stopped, its time is over when it continues: it refuses what it was dialling,
has not called what it had answered, or ends the stream that it had just opened."""
_RESOURCE = """\
  - name: NAME
    match:
      - path: /dev/loop79
"""


def unexplained(bench: Bench) -> dict[str, int]:
    """Give how many registrations there are of each for which the log has no reason."""
    again = Counter(_AGAIN.findall(bench.daemon.log()))
    registrations = bench.node.registrations()
    return {name: registrations[name] - again[name] for name in NEW}


def test_a_stopped_kubelet_goes_on_with_one_registration_of_each_and_a_true_list(
    bench: Bench,
) -> None:
    """REG-2, REG-9c: a call that is given up is completed later, as a ghost."""
    already = len(bench.node.log("kubelet"))

    def listed() -> list[str]:
        log = bench.node.log("kubelet")[already:]
        return [entry for entry in NEW if f'for resource" resourceName="{entry}"' in log]

    loop.add(60)
    loop.add(79)
    bench.await_listed(LOOP, "loop60")
    before = bench.node.registrations()
    added = "".join(_RESOURCE.replace("NAME", name) for name in NEW)
    bench.daemon.reload(bench.daemon.config + added)
    eventually(
        lambda: _BEGUN.search(bench.node.log("kubelet")[already:]),
        what="the kubelet is in the middle of the first registrations",
    )
    with bench.node.stopped_kubelet():
        loop.add(61)  # a list that it does not read
        loop.remove(60)
        time.sleep(SECONDS[bench.node.version])  # noqa: TID251 -- the time itself is tried
        loop.add(62)
        bench.daemon.check_alive()

    bench.await_listed(LOOP, "loop61", "loop62")
    eventually(lambda: len(listed()) == len(NEW), what="all are listed")
    bench.await_listed(NEW[0], "loop79")
    eventually(
        lambda: unexplained(bench),
        dict.fromkeys(NEW, 1).__eq__,
        what="each has registered once, and once more for each reason that the log gives",
    )
    registrations = bench.node.registrations()
    assert {name: registrations[name] for name in before} == before
    bench.pod("next", {NEW[0]: 1, FUSE: 1, LOOP: 2}).container()
