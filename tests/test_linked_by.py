"""The value ``linkedBy``: what it costs, and links that others can turn; else cases of values."""

from __future__ import annotations

from cProfile import Profile
from pathlib import Path

from genericdp.devices.decide import DeviceLists, decide
from genericdp.host.cache import HostCache

from tests.cases.machine import Machine
from tests.config.loading import HEAD, loaded


def receivers(directory: Path, count: int) -> Machine:
    """Return a host of this many receivers in slots."""
    tree = Machine(directory)
    for i in range(count):
        tree.node(f"gps{i}", f"10:{i}")
        tree.link(f"sys/devices/virtual/misc/gps{i}/card", "../../../../class/slots")
        tree.link(f"sys/class/slots/slot{i}", f"../../devices/virtual/misc/gps{i}")
    return tree


def lists_of(host: HostCache, keys: str) -> DeviceLists:
    config = loaded(f"{HEAD}  - {{name: a/gps, {keys}}}\n")
    return decide(config.resources, host, node_name="n", previous={}, now=0.0).lists


def test_the_cost_grows_as_the_number_of_devices_does(tmp_path: Path) -> None:
    """Else 5,000 devices would have 25,000,000 links. A value may be needed in four places."""
    match = "match: [{path: '/dev/gps*', values: {v: slot*}}], groupBy: $(value.v), id: $(value.v)"
    links = ("/sys/class/slots/slot*", "$(device.syspath)/card/s*")
    calls = {}
    for count in (25, 100):
        root = receivers(tmp_path / str(count), count).root
        profile = Profile()
        for link in links:
            values = f"values: {{v: {{linkedBy: '{link}'}}}}"
            found = profile.runcall(lists_of, HostCache(root), f"{match}, {values}")
            assert sorted(found["a/gps"].devices) == sorted(f"slot{i}" for i in range(count))
        calls[count] = sum(entry.callcount for entry in profile.getstats())
    assert calls[100] < 5 * calls[25]


def test_a_link_that_a_user_can_turn_is_not_believed(tmp_path: Path) -> None:
    """Turned away from a device, it would undo what the config excludes."""
    tree = receivers(tmp_path, 1)
    tree.link("run/slots/s1", "/sys/devices/virtual/misc/gps0").parent.chmod(0o777)
    exclude = "exclude: [{path: /dev/gps*, values: {v: s9}}]"
    values = "values: {v: {linkedBy: /run/slots/s*}}"
    found = lists_of(HostCache(tree.root), f"match: [{{path: /dev/gps*}}], {values}, {exclude}")
    said = "may be excluded, but the value 'v': /run/slots/s1 must not be read: the link /run/slots"
    (refusal,) = found["a/gps"].not_offered
    assert refusal.text.startswith(said)
