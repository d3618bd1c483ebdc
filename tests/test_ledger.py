"""The ledger: when a name is proven to be free, and what it knows after a restart."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from genericdp.devices.decide import DeviceLists
from genericdp.devices.held import Held
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import FoundFile
from genericdp.jsonvalues import as_record
from genericdp.kubelet.podresources import PodHolders, PodResourcesTiming
from genericdp.ledger import Ledger
from genericdp.model import Resource
from genericdp.template import parse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.devices.making import decision, healthy, node, resource, unhealthy
from tests.devices.offering import offered_shares
from tests.memory import little_memory

TTY0, TTY1 = (node(f"/dev/ttyUSB{number}", (188, number)) for number in range(2))
SERIAL = resource("x", "/dev/ttyUSB*", forget_after_seconds=300)
RENAMED = resource("x", "/dev/ttyUSB*", id="new-$(device.name)", forget_after_seconds=300)
NAME = SERIAL.name
TIMING = PodResourcesTiming(period=10.0, refresh=60.0, pods_known=60.0)
POD = "pod default/listen"
FIRST_KUBELET, SECOND_KUBELET = (1, 1, 1), (1, 2, 2)


def holding(*shares: str, name: str = NAME, pod: str = POD) -> dict[str, dict[str, tuple[str]]]:
    """A pod that holds shares of a resource."""
    return {name: dict.fromkeys(shares, (pod,))}


@dataclass
class Daemon:
    """Decides and keeps the ledger as the daemon does, on a clock of the test."""

    directory: Path | None = None
    timing: PodResourcesTiming | None = TIMING
    resources: Sequence[Resource] = (SERIAL,)
    lists: DeviceLists = field(default_factory=dict)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.restart(now=0.0)

    def restart(self, now: float) -> None:
        """Start it again: it knows no more than the file says."""
        self.lists = {}
        self.ledger = Ledger(self.directory, self.timing)
        with suppress(OSError):
            self.ledger.load(now)

    def look(self, *files: FoundFile, now: float) -> None:
        """Decide, and write down what is about to be listed."""
        held = Held(self.ledger.held(now), former_ids=self.ledger.former_ids)
        found = decision(self.resources, files, self.lists, now=now, held=held)
        by_name = {wanted.name: wanted for wanted in self.resources}
        self.ledger.note(found.lists, by_name, found.awaited, now)
        if self.ledger.has_changed:
            self.ledger.save()
        self.lists = found.lists

    def answer(
        self,
        asked_at: float,
        holders: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
        *,
        pods: Iterable[str] = (),
        kubelet: tuple[int, int, int] = FIRST_KUBELET,
    ) -> bool:
        """Let the kubelet answer; ``pods`` are those that hold nothing of this."""
        holders = holders or {}
        having = {pod for shares in holders.values() for pods in shares.values() for pod in pods}
        return self.ledger.take(
            PodHolders(
                asked_at=asked_at,
                kubelet=kubelet,
                holders=holders,
                pods=frozenset({*pods, *having}),
            )
        )

    def holders(self, now: float) -> dict[str, Mapping[str, tuple[str, ...]]]:
        """Return the IDs that are held or may be, with their holders."""
        return {held.name.device_id: held.holders for held in self.ledger.held(now)}


FREE: dict[str, dict[str, tuple[str]]] = {}
HELD = holding("ttyUSB0")


@pytest.mark.parametrize(
    ("answers", "is_free"),
    [
        pytest.param([], False, id="no answer"),
        pytest.param([(65.0, FREE)], False, id="one answer"),
        pytest.param([(65.0, FREE), (75.0, FREE)], True, id="two answers"),
        pytest.param([(64.9, FREE), (75.0, FREE)], False, id="the first one too early"),
        pytest.param([(64.9, FREE), (65.0, FREE), (75.0, FREE)], True, id="the first one again"),
        pytest.param([(65.0, FREE), (74.9, FREE)], False, id="too close together"),
        pytest.param([(65.0, FREE), (74.9, FREE), (75.0, FREE)], True, id="in close succession"),
        pytest.param([(65.0, HELD), (75.0, FREE)], False, id="held at first"),
        pytest.param([(65.0, FREE), (75.0, HELD), (85.0, FREE)], False, id="held in between"),
        pytest.param([(65.0, HELD), (75.0, FREE), (85.0, FREE)], True, id="the pod has ended"),
        pytest.param([(65.0, FREE), (75.0, holding("ttyUSB0::3"))], False, id="a share is held"),
        pytest.param(
            [(at, holding("ttyUSB1") | holding("ttyUSB0", name="other/x")) for at in (65.0, 75.0)],
            True,
            id="others are held",
        ),
    ],
)
def test_two_late_answers_without_it_prove_that_a_device_is_free(
    answers: list[tuple[float, Mapping[str, Mapping[str, tuple[str, ...]]]]], is_free: bool
) -> None:
    """A pod that was admitted just before it became Unhealthy may not be listed at first."""
    daemon = Daemon()
    daemon.look(TTY0, now=0.0)
    daemon.look(now=5.0)
    for asked_at, holders in answers:
        daemon.answer(asked_at, holders)
        daemon.look(now=asked_at)
    daemon.look(now=304.9)
    assert unhealthy(daemon.lists, "x") == {"ttyUSB0": "/dev/ttyUSB0 does not exist"}
    daemon.look(now=305.0)
    assert bool(unhealthy(daemon.lists, "x")) is not is_free
    assert (daemon.holders(305.0) == {}) is is_free


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_no_answer_from_before_a_pod_is_known_lets_an_edit_share_what_it_has(
    before: int, after: int
) -> None:
    """The ledger knows when a device was given away, and the kubelet lists the pod later."""
    daemon = Daemon(resources=[replace(SERIAL, replicas=before)])
    daemon.look(TTY0, now=0.0)
    daemon.answer(100.0)
    daemon.ledger.gave(NAME, ["ttyUSB0"], 105.0)
    daemon.resources = [replace(SERIAL, replicas=after)]
    for now in (106.0, 110.0, 164.9):
        daemon.look(TTY0, now=now)
        listed = daemon.lists[NAME].devices["ttyUSB0"]
        assert offered_shares(listed) == ("ttyUSB0", "ttyUSB0::1")[:before], now
        daemon.answer(now)
    daemon.answer(165.0)
    daemon.look(TTY0, now=165.0)
    listed = daemon.lists[NAME].devices["ttyUSB0"]
    assert offered_shares(listed) == ("ttyUSB0", "ttyUSB0::1")[:after]


@pytest.mark.parametrize(
    ("answered_at", "now", "is_known"),
    [(None, 0.0, False), (0.0, 20.0, True), (0.0, 20.1, False), (90.0, 100.0, True)],
)
def test_an_old_answer_does_not_say_who_holds_a_device(
    answered_at: float | None, now: float, is_known: bool
) -> None:
    """A pod may have started since."""
    daemon = Daemon()
    daemon.look(TTY0, now=0.0)
    if answered_at is not None:
        daemon.answer(answered_at)
    (held,) = daemon.ledger.held(now)
    assert (held.is_known, held.may_be_held) == (is_known, not is_known)


def test_a_pod_keeps_a_member_that_its_group_has_lost_until_it_ends() -> None:
    daemon = Daemon(resources=[replace(SERIAL, group_by=parse("all"))])
    daemon.look(TTY0, TTY1, now=0.0)
    for now, holders, count in ((1.0, holding("all"), 2), (100.0, FREE, 1)):
        daemon.answer(now, holders)
        daemon.look(TTY0, now=now)
        daemon.look(TTY0, now=now + 10)
        (held,) = daemon.ledger.held(now + 10)
        assert len(held.identities) == count


def test_the_kubelet_is_asked_more_often_while_something_waits_for_its_answer() -> None:
    """PRS-1: all its clients share its rate limit."""
    daemon = Daemon()
    assert daemon.ledger.due(-inf) == -inf, "at once"
    assert Ledger(None, None).due(0.0) == inf, "without pod resources it is never asked"
    daemon.look(TTY0, now=0.0)
    assert daemon.ledger.due(100.0) == 160.0
    daemon.look(now=5.0)
    assert daemon.ledger.due(100.0) == 160.0, "it is to be forgotten later"
    daemon.look(now=305.0)
    assert daemon.ledger.due(310.0) == 320.0
    daemon.look(TTY0, now=311.0)
    assert daemon.ledger.due(310.0) == 370.0
    daemon.resources = [RENAMED]
    daemon.look(TTY0, now=312.0)
    assert daemon.ledger.due(310.0) == 320.0


def test_an_answer_is_news_only_if_something_waits_for_it() -> None:
    daemon = Daemon()
    daemon.look(TTY0, now=0.0)
    assert daemon.answer(1.0), "the first one shows who holds what"
    assert not daemon.answer(2.0)
    assert not daemon.answer(3.0, HELD)
    daemon.resources = [RENAMED]
    daemon.look(TTY0, now=4.0)
    assert daemon.answer(5.0, HELD)


def test_what_is_free_leaves_the_file_and_what_may_be_held_does_not(tmp_path: Path) -> None:
    daemon = Daemon(directory=tmp_path)
    daemon.look(TTY0, TTY1, now=0.0)
    daemon.look(now=5.0)
    for asked_at in (65.0, 75.0):
        daemon.answer(asked_at, HELD)
    daemon.look(now=305.0)
    assert [record["id"] for record in _records(tmp_path)] == ["ttyUSB0"]


def test_the_file_is_written_only_when_what_it_says_changes(tmp_path: Path) -> None:
    daemon = Daemon(directory=tmp_path)
    daemon.look(TTY0, now=0.0)
    inode = (tmp_path / "ledger.json").stat().st_ino
    daemon.answer(1.0, HELD)
    daemon.look(TTY0, now=2.0)
    daemon.look(now=3.0)
    assert (tmp_path / "ledger.json").stat().st_ino == inode
    daemon.look(TTY0, TTY1, now=4.0)
    assert [record["id"] for record in _records(tmp_path)] == ["ttyUSB0", "ttyUSB1"]
    assert (tmp_path / "ledger.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").touch()
    daemon = Daemon(directory=tmp_path / "state")
    daemon.look(TTY0, now=0.0)
    daemon.look(TTY0, TTY1, now=1.0)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in said if "cannot be written" in text]) == 1
    assert healthy(daemon.lists, "x") == ["ttyUSB0", "ttyUSB1"], "it is offered all the same"
    (tmp_path / "state").unlink()
    daemon.look(TTY0, TTY1, now=2.0)
    assert [record["id"] for record in _records(tmp_path / "state")] == ["ttyUSB0", "ttyUSB1"]


def test_a_file_that_cannot_be_read_is_not_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = tmp_path / "ledger.json"
    ledger.symlink_to("ledger.json")  # it leads in a circle
    daemon = Daemon(directory=tmp_path)
    daemon.look(TTY1, now=0.0)
    assert "cannot be read: too many levels of symbolic links" in caplog.text
    assert ledger.is_symlink()
    assert healthy(daemon.lists, "x") == ["ttyUSB1"], "it is offered all the same"
    ledger.unlink()
    ledger.write_text(json.dumps(GOOD))
    daemon.look(TTY1, now=1.0)
    assert {record["id"] for record in _records(tmp_path)} == {"ttyUSB0", "ttyUSB1"}
    assert [held.name.device_id for held in daemon.ledger.held(1.0) if held.name.resource == NAME][
        :1
    ] == ["ttyUSB0"]


def _records(directory: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((directory / "ledger.json").read_text())["devices"]
    return records


GOOD: dict[str, Any] = {
    "version": 1,
    "devices": [
        {
            "resource": NAME,
            "id": "ttyUSB0",
            "replicas": 1,
            "exclusive": True,
            "identities": [
                {
                    "location": "usb 0000:00:14.0/2-1",
                    "part": "1.0 tty",
                    "unique": {"usb serial": "A1"},
                    "model": "usb 0403:6001",
                    "unreadable": False,
                    "kernelName": "ttyUSB0",
                    "ambiguous": False,
                }
            ],
        }
    ],
}


def _damaged(keys: tuple[str | int, ...], value: Any) -> bytes:  # JSON
    document = json.loads(json.dumps(GOOD))
    at = document
    for key in keys[:-1]:
        at = at[key]
    if value is ...:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize("changes", [{}, {"version": 2, "more": []}], ids=["good", "of later"])
def test_a_file_is_read(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(json.dumps(GOOD | changes))
    daemon = Daemon(directory=tmp_path)
    (held,) = daemon.ledger.held(0.0)
    assert (held.name.resource, held.name.device_id, held.is_known) == (NAME, "ttyUSB0", False)
    assert held.identities[0].unique == (("usb serial", "A1"),)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff", b"null", b"[]", b"{}", b"[" * 100_000),
        b" " * (16 * 1024 * 1024 + 1),
        _damaged(("version",), 0),
        b"\xff" * 1_000_000,
        _damaged(("version",), ...),
        _damaged(("devices",), {"a": 1}),
        _damaged(("devices", 0), "ttyUSB0"),
        _damaged(("devices", 0, "id"), ...),
        _damaged(("devices", 0, "id"), 7),
        _damaged(("devices", 0, "replicas"), "many"),
        json.dumps(GOOD).replace('"replicas": 1', '"replicas": 1e999').encode(),
        _damaged(("devices", 0, "identities"), None),
        _damaged(("devices", 0, "identities", 0, "location"), ""),
        _damaged(("devices", 0, "identities", 0, "part"), None),
        _damaged(("devices", 0, "identities", 0, "unique"), []),
        _damaged(("devices", 0, "identities", 0, "unique", "usb serial"), 1),
        _damaged(("devices", 0, "identities", 0, "kernelName"), ...),
    ],
)
def test_a_damaged_file_is_kept_under_another_name(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ledger.json").write_bytes(content)
    daemon = Daemon(directory=tmp_path)
    assert daemon.holders(0.0) == {}
    assert (tmp_path / "ledger.json.bad").read_bytes() == content
    assert f"{tmp_path}/ledger.json is damaged" in caplog.text
    assert len(caplog.text) < 1000
    daemon.look(TTY0, now=1.0)
    assert [record["id"] for record in _records(tmp_path)] == ["ttyUSB0"]


def test_devices_of_others_in_an_answer_take_no_memory() -> None:
    shares = dict.fromkeys(map(str, range(300_000)), (POD,))
    answer = PodHolders(asked_at=1.0, holders={NAME: shares, "example.com/other": shares})
    ledger = Ledger(None, TIMING)
    with little_memory():
        ledger.take(answer)


@pytest.mark.parametrize(
    "content",
    ["[" + "{}," * 5_000_000 + "{}]", '["\U0001f600' + "a" * 16_000_000 + '"]'],
    ids=["tiny values", "wide characters"],
)
def test_a_small_file_does_not_become_large_in_memory(content: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(content)
    with little_memory():
        Daemon(directory=tmp_path)
    assert (tmp_path / "ledger.json.bad").exists()


def test_a_damaged_file_that_cannot_be_renamed_is_no_reason_to_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ledger.json").write_text("{")
    (tmp_path / "ledger.json.bad/in-the-way").mkdir(parents=True)
    daemon = Daemon(directory=tmp_path)
    assert f"{tmp_path}/ledger.json is damaged" in caplog.text
    daemon.look(TTY0, now=1.0)
    assert [record["id"] for record in _records(tmp_path)] == ["ttyUSB0"]


TEXTS = st.text(max_size=20)
IDENTITIES = st.builds(
    HardwareIdentity,
    location=st.text(min_size=1, max_size=20),
    part=TEXTS,
    unique=st.dictionaries(TEXTS, TEXTS, max_size=3).map(
        lambda numbers: tuple(sorted(numbers.items()))
    ),
    model=TEXTS,
    is_unreadable=st.booleans(),
    kernel_name=TEXTS,
    is_ambiguous=st.booleans(),
)


@given(identities=st.lists(IDENTITIES, min_size=1, max_size=4, unique=True))
@settings(max_examples=examples(50))
def test_whatever_hardware_says_of_itself_is_read_back(identities: list[HardwareIdentity]) -> None:
    records = as_record(identities)
    document = {"version": 1, "devices": [GOOD["devices"][0] | {"identities": records}]}
    with TemporaryDirectory() as directory:
        (Path(directory) / "ledger.json").write_text(json.dumps(document))
        daemon = Daemon(directory=Path(directory))
        (held,) = daemon.ledger.held(0.0)
        assert held.identities == tuple(identities)
        daemon.look(TTY1, now=0.0)
        daemon.restart(now=1.0)
        found = {held.name.device_id: held.identities for held in daemon.ledger.held(1.0)}
    assert found["ttyUSB0"] == tuple(identities)


def test_a_pod_that_has_another_device_now_has_lost_nothing() -> None:
    """As after a restart of its container by a kubelet that knows its devices."""
    daemon = Daemon()
    daemon.look(TTY0, TTY1, now=0.0)
    daemon.answer(1.0, HELD)
    daemon.answer(100.0, holding("ttyUSB1"), kubelet=SECOND_KUBELET)
    assert daemon.holders(100.0) == {"ttyUSB0": {}, "ttyUSB1": {"ttyUSB1": (POD,)}}


def test_ids_that_pods_held_before_there_was_a_ledger_are_former_ones(tmp_path: Path) -> None:
    daemon = Daemon(directory=tmp_path)
    is_new = [daemon.ledger.is_new]
    daemon.answer(0.0, holding("a-tty.1", "a-tty.1::2", "ttyUSB0"))
    assert [*is_new, daemon.ledger.is_new] == [True, False]
    assert daemon.ledger.former_ids == {NAME: {"a-tty.1", "ttyUSB0"}}
    daemon.look(TTY0, now=1.0)
    assert daemon.ledger.former_ids == {NAME: {"a-tty.1"}}
    daemon.restart(now=2.0)
    daemon.answer(3.0, holding("a-tty.1"))
    assert (daemon.ledger.is_new, daemon.ledger.former_ids) == (False, {})


TTYS = tuple(node(f"/dev/ttyUSB{number}", (188, number), inode=number + 1) for number in range(3))
OTHER = resource("y", "/dev/ttyUSB*", forget_after_seconds=300)
FIRST_ONLY = resource("y", "/dev/ttyUSB0", id="first", forget_after_seconds=300)
CONFIGS: Sequence[list[Resource]] = (
    *([SERIAL], [RENAMED], [OTHER], [OTHER, SERIAL], [FIRST_ONLY, RENAMED], []),
)
PAUSES = (1.0, 9.0, 10.0, 20.0, 61.0, 310.0)
STEPS = 150


class Pod(NamedTuple):
    """A pod and what it has."""

    name: str
    resource: str
    share: str
    path: str
    """Of the hardware."""
    admitted_at: float


class Offer(NamedTuple):
    """A share that the kubelet could give to a pod."""

    resource: str
    share: str
    path: str


class Node:
    """A daemon, and a kubelet with pods."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.plugged = dict.fromkeys(TTYS)
        self.pods: dict[str, Pod] = {}
        self.started = 0
        self.kubelet, self.kubelet_since = 1, 0.0
        self.daemon = Daemon(directory=directory)
        self.look()

    def look(self) -> None:
        self.daemon.look(*self.plugged, now=self.now)
        self.check()

    def step(self) -> None:
        """Let something happen."""
        events = {
            self.time_passes: 1,
            self.the_kubelet_answers: 8,
            self.a_device_comes_or_goes: 3,
            self.the_config_is_edited: 3,
            self.a_pod_starts: 5,
            self.a_pod_ends: 2,
            self.the_kubelet_restarts: 1,
            self.the_daemon_restarts: 1,
        }
        (event,) = self.random.choices(list(events), weights=list(events.values()))
        event()

    def time_passes(self) -> None:
        self.now += self.random.choice(PAUSES)
        self.look()

    def the_kubelet_answers(self) -> None:
        """Ask it, once it surely knows its pods."""
        self.now += self.random.choice(PAUSES[:-1])
        if self.now - self.kubelet_since < TIMING.pods_known:
            return
        hides_new_pods = self.random.random() < 0.7
        holders: dict[str, dict[str, tuple[str, ...]]] = {}
        for pod in self.pods.values():
            if not hides_new_pods or self.now - pod.admitted_at >= TIMING.pods_known:
                holders.setdefault(pod.resource, {})[pod.share] = (pod.name,)
        self.daemon.answer(self.now, holders, kubelet=(1, 1, self.kubelet))
        self.look()

    def a_device_comes_or_goes(self) -> None:
        file = self.random.choice(TTYS)
        if file in self.plugged:
            del self.plugged[file]
        else:
            self.plugged[file] = None
        self.look()

    def the_config_is_edited(self) -> None:
        self.daemon.resources = self.random.choice(CONFIGS)
        self.look()

    def a_pod_starts(self) -> None:
        taken = {(pod.resource, pod.share) for pod in self.pods.values()}
        free = [offer for offer in self.offers() if (offer.resource, offer.share) not in taken]
        if free:
            self.started += 1
            name = f"pod default/p{self.started}"
            self.pods[name] = Pod(name, *self.random.choice(free), admitted_at=self.now)

    def a_pod_ends(self) -> None:
        if self.pods:
            del self.pods[self.random.choice(sorted(self.pods))]

    def the_kubelet_restarts(self) -> None:
        self.kubelet += 1
        self.kubelet_since = self.now

    def the_daemon_restarts(self) -> None:
        self.now += self.random.choice(PAUSES)
        self.daemon.restart(self.now)
        self.look()

    def offers(self) -> Iterator[Offer]:
        for name, offered in self.daemon.lists.items():
            for listed in offered.devices.values():
                for share in offered_shares(listed):
                    yield Offer(name, share, listed.device.path)

    def check(self) -> None:
        """Check that what a pod has may be held, and is offered under no other name."""
        held = {held.name[:2] for held in self.daemon.ledger.held(self.now)}
        for pod in self.pods.values():
            assert (pod.resource, pod.share) in held, pod
            for offer in self.offers():
                is_its_own = (pod.resource, pod.share) == (offer.resource, offer.share)
                assert pod.path != offer.path or is_its_own, (pod, offer)

    def check_the_end(self) -> None:
        """Check that without pods everything comes to be offered under its present name."""
        self.pods.clear()
        self.kubelet_since = self.now - TIMING.pods_known
        for seconds in (10, 60, 10, 300, 60, 10, 60, 10):
            self.now += seconds
            self.daemon.answer(self.now, kubelet=(1, 1, self.kubelet))
            self.look()
        wanted = Daemon(resources=self.daemon.resources)
        wanted.look(*self.plugged, now=self.now)
        names = {
            (name, device_id)
            for name, offered in wanted.lists.items()
            for device_id in offered.devices
        }
        assert {(offer.resource, offer.share) for offer in self.offers()} == names
        held = {held.name[:2] for held in self.daemon.ledger.held(self.now)}
        assert held == names


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30), deadline=None)
def test_what_a_pod_has_is_held_until_it_ends_and_then_free(seed: int) -> None:
    """A kubelet may not list a pod for a minute after it has admitted that pod."""
    with TemporaryDirectory() as directory:
        life = Node(Path(directory), Random(seed))
        for _ in range(STEPS):
            life.step()
        life.check_the_end()
