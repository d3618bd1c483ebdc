"""Claims through replugs, config edits, reboots and kills: one piece of hardware, one holder."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from genericdp.devices.device import device_id_of
from genericdp.dra.claims import release_marker
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.budget import examples
from tests.dra.claims import (
    HOOKS,
    NAME,
    Machine,
    Process,
    plug_stick,
    spec_name,
    unplug_stick,
)
from tests.world import resource

pytestmark = pytest.mark.slow

UIDS = st.sampled_from(["a", "b", "c", "d", "e"])
PORTS = st.sampled_from([1, 2])
ADMIN = st.sampled_from([False] * 4 + [True])
SERIALS = st.sampled_from(["A", "B", "C", ""])
CONFIGS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([NAME, "example.com/modem"]),
        "id": st.sampled_from(["", "$(usb.port)", "x$(usb.port)", "s$(usb.serial:-none)", "one"]),
        "exclude": st.sampled_from([0, 0, 0, 1, 2]),
        "replicas": st.sampled_from([1, 2]),
        "servedBy": st.sampled_from(["dra"] * 5 + ["devicePlugin"]),
    }
)


@dataclass(frozen=True)
class Use:
    """Hardware that the container of a claim has: sticks, each with the name it came by."""

    sticks: dict[tuple[str, str], str]
    is_admin: bool
    shared: bool
    """Whether what was on offer was shared when it was prepared.

    After an edit that may not be what the config says: what is held stays listed as it was, and the
    claim that held it may end within the call.
    """


class Claims(RuleBasedStateMachine):
    """A scheduler, a kubelet, hands that move USB sticks, an editor of the config, and daemons.

    Sticks with a serial number are known by it, those without by their port.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.runner = asyncio.Runner()
        self.machine = Machine(self.directory)
        self.ports: dict[int, tuple[int, str]] = {}
        """The number of the tty and the stick, by port."""
        self.uses: dict[str, Use] = {}
        """What containers have, by UID."""
        self.boots = self.plugs = 0
        self.replicas = 1
        self.process = Process(self.machine, self.directory, boot="boot-0")
        for port, serial in ((1, "A"), (2, "")):
            self.plug(port, serial)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def look(self) -> None:
        """Do what the daemon does when something has changed."""
        self.machine.look(self.run(self.process.preparer.holders.holds()))
        self.process.look()
        self.run(self.process.preparer.update_specs())

    def stick_at(self, path: str) -> str:
        """Return which stick a node of the host is of; empty: of none."""
        number = int(path.removeprefix("/dev/ttyUSB"))
        return next((stick for tty, stick in self.ports.values() if tty == number), "")

    def spec_sticks(self, uid: str) -> list[str]:
        file = self.directory / "cdi" / spec_name(uid)
        spec = json.loads(file.read_text()) if file.exists() else {"devices": []}
        return [
            self.stick_at(node.get("hostPath", node["path"]))
            for device in spec["devices"]
            for node in device["containerEdits"].get("deviceNodes", ())
        ]

    def results(self, uid: str) -> list[tuple[str, str]]:
        claim = self.machine.claims.get(uid, {"status": {}})
        allocation = claim["status"].get("allocation", {"devices": {"results": []}})
        return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]

    def _plug(self, port: int, serial: str) -> None:
        for other, (_, stick) in tuple(self.ports.items()):
            if serial and stick == serial:  # there is only one of it
                self._unplug(other)
        self._unplug(port)
        self.plugs += 1
        number = self.plugs % 7
        while number in {tty for tty, _ in self.ports.values()}:
            number += 1
        product = "6001" if serial else "6015"
        plug_stick(
            self.machine.host,
            port,
            number=number,
            serial=serial,
            product=product,
            address=self.plugs,
        )
        self.ports[port] = (number, serial or f"port {port}")

    def _unplug(self, port: int) -> None:
        unplug_stick(self.machine.host, port)
        self.ports.pop(port, None)

    @rule(port=PORTS, serial=SERIALS)
    def plug(self, port: int, serial: str) -> None:
        self._plug(port, serial)
        self.look()

    @rule(port=PORTS)
    def unplug(self, port: int) -> None:
        self._unplug(port)
        self.look()

    @rule(config=CONFIGS)
    def edit(self, config: dict[str, Any]) -> None:
        keys: dict[str, Any] = {"servedBy": config["servedBy"], "replicas": config["replicas"]}
        if config["servedBy"] == "dra":
            keys["hooks"] = HOOKS
        if config["id"]:
            keys["id"] = config["id"]
        if config["exclude"]:
            port = f"1-{config['exclude']}"
            keys["exclude"] = [{"udev": {"subsystem": "tty"}, "hardware": {"usb": {"port": port}}}]
        self.replicas = config["replicas"]
        self.machine.configure(resource(config["name"], "/dev/ttyUSB*", **keys))
        self.look()

    @rule(
        pods=st.lists(st.tuples(UIDS, st.integers(0, 3), ADMIN), min_size=2, max_size=5),
        force=st.booleans(),
    )
    def schedule(self, pods: list[tuple[str, int, bool]], *, force: bool) -> None:
        """Start pods; with ``force``, claims of others are deleted while their containers run."""
        if force:
            for uid in self.uses:
                self.machine.claims.pop(uid, None)
        for pod in pods:
            # No other claim ever has the UID of one that a container still uses.
            if pod[0] not in self.machine.claims and pod[0] not in self.uses:
                self._allocate(*pod)
            self._prepare(pod[0])
        self.look()

    def _allocate(self, uid: str, choice: int, admin: bool) -> None:
        """Allocate what is free by the API."""
        taken = {
            result
            for other in self.machine.claims
            for result in self.results(other)
            if not self.machine.is_admin(other)
        }
        free = [place for place in self.process.offered() if admin or place not in taken]
        if free:
            pool, name = free[choice % len(free)]
            self.machine.allocate(uid, [name], pool=pool, admin=admin)

    @rule(uid=UIDS)
    def ask(self, uid: str) -> None:
        """The API server is asked about a claim."""
        claim = self.process.preparer.records.claims.get(uid)
        if claim is not None:
            self.run(self.process.preparer.check(claim))
            self.look()

    def _prepare(self, uid: str) -> None:
        if uid not in self.machine.claims:
            return
        if uid in self.uses and set(self.uses[uid].sticks) != set(self.results(uid)):
            del self.uses[uid]  # it was made again: the kubelet has ended what it was
        if not self.run(self.process.prepare(uid)):
            given = self.spec_sticks(uid)
            assert len(given) == len(self.results(uid))
            assert all(given), "a node of nothing"
            sticks = dict(zip(self.results(uid), given, strict=True))
            if uid in self.uses:
                assert sticks == self.uses[uid].sticks
            else:
                admin = self.machine.is_admin(uid)
                self.uses[uid] = Use(sticks, admin, shared=self._is_shared(uid))

    def _is_shared(self, uid: str) -> bool:
        for pool, name in self.results(uid):
            served = self.process.pools.by_name.get(pool)
            if served is not None and name in served.shares:
                listed = served.gate.devices.devices[device_id_of(served.shares[name])]
                return listed.device.replicas > 1
        return self.replicas > 1

    @rule(uid=UIDS)
    def unprepare(self, uid: str) -> None:
        self.uses.pop(uid, None)
        assert not self.run(self.process.unprepare(uid))
        self.look()

    @rule(uid=UIDS)
    def release(self, uid: str) -> None:
        """An administrator knows that the container is over."""
        self.uses.pop(uid, None)
        release_marker(self.directory / "claims", uid).touch()
        assert self.run(self.process.preparer.honor_markers())
        self.look()

    @rule()
    def kill(self) -> None:
        self.process = Process(self.machine, self.directory, boot=f"boot-{self.boots}")
        self.look()

    @rule()
    def reboot(self) -> None:
        self.boots += 1
        self.uses.clear()
        shutil.rmtree(self.directory / "cdi")
        sticks = {port: stick for port, (_, stick) in self.ports.items()}
        for port in sticks:
            self._unplug(port)
        for port, stick in reversed(sticks.items()):
            self._plug(port, "" if stick.startswith("port") else stick)
        self.kill()

    @invariant()
    def hardware_has_one_holder(self) -> None:
        holders = [(uid, use) for uid, use in self.uses.items() if not use.is_admin]
        for number, (_, mine) in enumerate(holders):
            for _, holder in holders[:number]:
                common = set(mine.sticks.values()) & set(holder.sticks.values())
                assert not common or (mine.shared and holder.shared), common

    @invariant()
    def a_spec_has_all_that_a_container_was_given_and_nothing_else(self) -> None:
        for uid, use in self.uses.items():
            given = self.spec_sticks(uid)
            assert given in ([], [*use.sticks.values()]), (uid, given, use)

    @invariant()
    def no_record_is_lost(self) -> None:
        for uid, use in self.uses.items():
            record = json.loads((self.directory / f"claims/{uid}.json").read_text())
            assert bool(record["holds"]) is not use.is_admin
            assert uid in self.process.preparer.records.claims

    def teardown(self) -> None:
        for uid in ("a", "b", "c", "d", "e"):
            assert not self.run(self.process.unprepare(uid))
        assert self.process.files() == []
        self.machine.claims.clear()
        self.uses.clear()
        self.edit(
            {"name": NAME, "id": "t$(device.name)", "exclude": 0, "replicas": 1, "servedBy": "dra"}
        )
        names = [f"{number}" for number, _ in self.ports.values()]
        for uid in names:
            shares = {share: name for name, share in self.machine.shares.items()}
            self.machine.allocate(uid, [shares[f"tttyUSB{uid}"]])
            assert not self.run(self.process.prepare(uid))
        self.runner.close()
        shutil.rmtree(self.directory)


TestClaims = Claims.TestCase
TestClaims.settings = settings(
    max_examples=examples(20),
    stateful_step_count=40,
    deadline=None,
    phases=(Phase.reuse, Phase.generate),
)


async def test_of_two_drivers_that_prepare_one_device_at_once_at_most_one_has_it(
    tmp_path: Path,
) -> None:
    """Each writes its own record, then reads those of the others."""
    machine = Machine(tmp_path, "ttyUSB0")
    (name,) = machine.shares
    processes = {}
    for driver in ("a.example", "b.example"):
        directory = tmp_path / "plugins" / driver
        (directory / "claims").mkdir(parents=True)
        processes[driver] = Process(machine, directory, driver=driver)
        machine.allocate(driver, [name], driver=driver)
    answers = await asyncio.gather(*(own.prepare(uid) for uid, own in processes.items()))
    assert sum(not why for why in answers) <= 1, answers
    for (driver, own), why in zip(processes.items(), answers, strict=True):
        assert not (why and own.hooks()), "the hardware is another driver's"
        await own.unprepare(driver)
    assert await processes["b.example"].prepare("b.example") == ""
    assert "by the DRA driver b.example" in await processes["a.example"].prepare("a.example")
