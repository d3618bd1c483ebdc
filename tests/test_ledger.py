"""The ledger: when a name is proven to be free, and what it knows after a restart."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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


LATE = [(65.0, FREE), (75.0, FREE)]


@pytest.mark.parametrize(
    ("answers", "is_free"),
    [
        pytest.param(LATE[:1], False, id="one answer"),
        pytest.param(LATE, True, id="two answers"),
        pytest.param([(64.9, FREE), LATE[1]], False, id="the first one too early"),
        pytest.param([(65.0, FREE), (74.9, FREE)], False, id="too close together"),
        pytest.param([LATE[0], (75.0, HELD), (85.0, FREE)], False, id="held in between"),
        pytest.param([(65.0, FREE), (75.0, holding("ttyUSB0::3"))], False, id="a share is held"),
        pytest.param([(at, holding("ttyUSB1")) for at, _ in LATE], True, id="another is held"),
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
    for now, holders, count in ((1.0, None, 2), (20.0, holding("all"), 2), (100.0, FREE, 1)):
        if holders is not None:  # before the first answer, a pod may have it
            daemon.answer(now, holders)
        daemon.look(TTY0, now=now)
        daemon.look(TTY0, now=now + 10)
        (held,) = daemon.ledger.held(now + 10)
        assert len(held.identities) == count


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
    assert daemon.holders(1.0).keys() == {"ttyUSB0", "ttyUSB1"}


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


def _damaged(old: str, new: str) -> bytes:
    text = json.dumps(GOOD)
    assert old in text
    return text.replace(old, new).encode()


def test_a_file_of_a_later_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(json.dumps(GOOD | {"version": 2, "more": []}))
    daemon = Daemon(directory=tmp_path)
    (held,) = daemon.ledger.held(0.0)
    assert (held.name.resource, held.name.device_id, held.is_known) == (NAME, "ttyUSB0", False)
    assert held.identities[0].unique == (("usb serial", "A1"),)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff" * 1_000_000, b"null", b"{}", b"[" * 100_000),
        b" " * (16 * 1024 * 1024 + 1),
        _damaged('"version": 1', '"version": 0'),
        _damaged('"replicas": 1', '"replicas": 1e999'),
        _damaged('"id": "ttyUSB0", ', ""),
        _damaged('"location": "usb 0000:00:14.0/2-1"', '"location": ""'),
        _damaged('"usb serial": "A1"', '"usb serial": 1'),
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


def test_a_small_file_does_not_become_large_in_memory(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("[" + "{}," * 5_000_000 + "{}]")
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


ODD = "\n\0\u2028 ü \U0001f600\udcff"


@pytest.mark.parametrize(("unique", "flag"), [((), True), (((ODD, ODD), ("z", "")), False)])
def test_what_hardware_says_of_itself_is_read_back(
    unique: tuple[tuple[str, str], ...], flag: bool, tmp_path: Path
) -> None:
    identity = HardwareIdentity(
        location=ODD, part=ODD, unique=unique, model=ODD,
        is_unreadable=flag, kernel_name=ODD, is_ambiguous=not flag,
    )  # fmt: skip
    devices = [GOOD["devices"][0] | {"identities": as_record([identity])}]
    (tmp_path / "ledger.json").write_text(json.dumps(GOOD | {"devices": devices}))
    daemon = Daemon(directory=tmp_path)
    daemon.look(TTY1, now=0.0)
    daemon.restart(now=1.0)
    found = {held.name.device_id: held.identities for held in daemon.ledger.held(1.0)}
    assert found["ttyUSB0"] == (identity,)


def test_a_pod_that_has_another_device_now_has_lost_nothing() -> None:
    """As after a restart of its container by a kubelet that knows its devices."""
    daemon = Daemon()
    daemon.look(TTY0, TTY1, now=0.0)
    daemon.answer(1.0, HELD)
    daemon.answer(100.0, holding("ttyUSB1"), kubelet=SECOND_KUBELET)
    assert daemon.holders(100.0) == {"ttyUSB0": {}, "ttyUSB1": {"ttyUSB1": (POD,)}}


def test_what_a_kubelet_has_lost_is_held_until_the_pod_ends() -> None:
    daemon = Daemon()
    daemon.look(TTY0, now=0.0)
    daemon.answer(1.0, HELD)
    for asked_at, pods, holders in ((100.0, [POD], HELD[NAME]), (110.0, [], {})):
        for later in (0.0, 1.0):
            daemon.answer(asked_at + later, pods=pods, kubelet=SECOND_KUBELET)
            assert daemon.holders(asked_at) == {"ttyUSB0": holders}


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


class Share(NamedTuple):
    """A share of some hardware, which a pod has or can get."""

    resource: str
    share: str
    path: str


class Node:
    """A daemon, and a kubelet with pods."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.plugged = set(TTYS)
        self.pods: dict[str, Share] = {}
        self.admitted_at: dict[str, float] = {}
        self.kubelet, self.kubelet_since = 1, 0.0
        self.daemon = Daemon(directory=directory)
        self.look()

    def look(self) -> None:
        """Check that what a pod has may be held, and is offered under no other name."""
        self.daemon.look(*sorted(self.plugged, key=TTYS.index), now=self.now)
        held, offers = self.held(), self.offers()
        for pod in self.pods.values():
            assert pod[:2] in held
            assert [offer for offer in offers if offer.path == pod.path and offer != pod] == []

    def held(self) -> set[tuple[str, str]]:
        return {held.name[:2] for held in self.daemon.ledger.held(self.now)}

    def offers(self) -> list[Share]:
        return [
            Share(name, share, listed.device.path)
            for name, offered in self.daemon.lists.items()
            for listed in offered.devices.values()
            for share in offered_shares(listed)
        ]

    def time_passes(self) -> None:
        self.now += self.random.choice(PAUSES)

    def the_kubelet_answers(self) -> None:
        """Once it surely knows its pods, though perhaps not those that have just been admitted."""
        self.now += self.random.choice(PAUSES[:-1])
        if self.now - self.kubelet_since < TIMING.pods_known:
            return
        hidden_since = self.now - TIMING.pods_known * (self.random.random() < 0.7)
        holders: dict[str, dict[str, tuple[str, ...]]] = {}
        for name, pod in self.pods.items():
            if self.admitted_at[name] <= hidden_since:
                holders.setdefault(pod.resource, {})[pod.share] = (name,)
        self.daemon.answer(self.now, holders, kubelet=(1, 1, self.kubelet))

    def a_device_comes_or_goes(self) -> None:
        self.plugged ^= {self.random.choice(TTYS)}

    def the_config_is_edited(self) -> None:
        self.daemon.resources = self.random.choice(CONFIGS)

    def a_pod_starts(self) -> None:
        taken = {pod[:2] for pod in self.pods.values()}
        free = [offer for offer in self.offers() if offer[:2] not in taken]
        if free:
            name = f"pod default/p{len(self.admitted_at)}"
            self.pods[name] = self.random.choice(free)
            self.admitted_at[name] = self.now

    def a_pod_ends(self) -> None:
        if self.pods:
            del self.pods[self.random.choice([*self.pods])]

    def the_kubelet_restarts(self) -> None:
        self.kubelet += 1
        self.kubelet_since = self.now

    def the_daemon_restarts(self) -> None:
        self.now += self.random.choice(PAUSES)
        self.daemon.restart(self.now)

    def all_pods_end(self) -> None:
        """Check that everything comes to be offered under its present name."""
        self.pods.clear()
        self.kubelet_since = self.now - TIMING.pods_known
        for seconds in (10, 60, 10, 300, 60, 10, 60, 10):
            self.now += seconds
            self.daemon.answer(self.now, kubelet=(1, 1, self.kubelet))
            self.look()
        started = Daemon(resources=self.daemon.resources)
        started.look(*sorted(self.plugged, key=TTYS.index), now=self.now)
        names = {(name, own) for name, offered in started.lists.items() for own in offered.devices}
        assert {offer[:2] for offer in self.offers()} == self.held() == names


WEIGHTS = {
    Node.time_passes: 1, Node.the_kubelet_answers: 8, Node.a_device_comes_or_goes: 3,
    Node.the_config_is_edited: 3, Node.a_pod_starts: 5, Node.a_pod_ends: 2,
    Node.the_kubelet_restarts: 1, Node.the_daemon_restarts: 1,
}  # fmt: skip


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(30), deadline=None)
def test_what_a_pod_has_is_held_until_it_ends_and_then_free(seed: int) -> None:
    """A kubelet may not list a pod for a minute after it has admitted that pod."""
    with TemporaryDirectory() as directory:
        node = Node(Path(directory), random := Random(seed))
        for happen in random.choices([*WEIGHTS], [*WEIGHTS.values()], k=STEPS):
            happen(node)
            node.look()
        node.all_pods_end()
