"""Claims of a node that are prepared in this process, without kubelet and API server."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from genericdp.cdi import SpecDirectory
from genericdp.config.load import load
from genericdp.devices.decide import DeviceLists, decide
from genericdp.devices.device import Device
from genericdp.devices.held import Held, HeldDevice
from genericdp.dra.claims import ClaimRecords
from genericdp.dra.pools import Pools, ServedPool
from genericdp.dra.prepare import ClaimPreparer
from genericdp.dra.slices import devices_of, shares_of
from genericdp.gate import Gate
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.kubelet.dra import ClaimRef
from genericdp.model import HookName, ServedBy
from genericdp.settings import DraSettings

from tests.cases.description import entry_of
from tests.testbeds.loading import Entry, build_entries, remove_entry
from tests.world import Host, config, resource

NAME = "example.com/serial"
POOL = f"node-1/{NAME}"
DRIVER = "genericdp.io"
_HOOK = {"exec": {"command": ["/bin/true"]}}
HOOKS = dict.fromkeys(("allocate", "release"), _HOOK)
_CONTROLLER = "/devices/pci0000:00/0000:00:14.0"


def _stick(port: int, number: int, **facts: str) -> list[Entry]:
    """Return a USB serial adapter and what it is plugged in to, the controller first."""
    usb = {"subsystem": "usb"}
    devices = {
        "": {"subsystem": "pci", "PCI_SLOT_NAME": "0000:00:14.0"},
        "/usb1": {**usb, "DEVTYPE": "usb_device"},
        f"/usb1/1-{port}": {**usb, "DEVTYPE": "usb_device", **facts},
        f"/usb1/1-{port}/1-{port}:1.0": {**usb, "DEVTYPE": "usb_interface"},
        f"/usb1/1-{port}/1-{port}:1.0/ttyUSB{number}/tty/ttyUSB{number}": {
            "subsystem": "tty",
            "node": f"188:{number}",
        },
    }
    return [entry_of(f"{_CONTROLLER}{path}", keys) for path, keys in devices.items()]


def plug_stick(
    host: Host, port: int, *, number: int, serial: str = "", product: str = "6001", address: int = 1
) -> None:
    """Plug a USB serial adapter in: ``/dev/ttyUSB<number>`` on that port of the controller."""
    unplug_stick(host, port)
    facts = {"idVendor": "0403", "idProduct": product, "busnum": "1", "devnum": str(address)}
    stick = _stick(port, number, **facts, **({"serial": serial} if serial else {}))
    there = {entry.path for entry in stick if (host.directory / f"sys{entry.path}").exists()}
    (host.directory / f"sys/dev/char/188:{number}").unlink(missing_ok=True)
    build_entries([entry for entry in stick if entry.path not in there], host.directory)


def unplug_stick(host: Host, port: int) -> None:
    """Unplug what is on a port, if anything is."""
    usb = host.directory / f"sys{_CONTROLLER}/usb1/1-{port}"
    for tty in usb.glob("*/ttyUSB*"):
        _, _, *stick = _stick(port, int(tty.name.removeprefix("ttyUSB")))
        for entry in reversed(stick):
            remove_entry(entry, host.directory)


class Machine:
    """Devices, and what the API server has of claims: both outlive anyone who prepares claims."""

    def __init__(self, directory: Path, *devices: str, replicas: int = 1) -> None:
        self.host = Host(directory / "host")
        for name in devices:
            self.host.plug(name)
        self._file = directory / "config.yaml"
        self._lists: DeviceLists = {}
        self.now = 0.0
        """In seconds."""
        self.claims: dict[str, dict[str, Any]] = {}
        """By UID, which is also the name."""
        self.configure(
            resource(
                NAME,
                "/dev/ttyUSB*",
                servedBy="dra",
                hooks=HOOKS,
                replicas=replicas,
                metadata=True,
            )
        )
        self.look()

    def configure(self, *resources: Mapping[str, object]) -> None:
        """Write another config, which counts from the next look on."""
        self._file.write_text(config(*resources))
        self._resources = load([self._file]).resources

    def look(self, held: Collection[HeldDevice] = ()) -> None:
        """Take in which devices there are, while claims hold some."""
        host = HostCache(Root(self.host.directory))
        self._lists = decide(
            self._resources,
            host,
            node_name="node-1",
            previous=self._lists,
            now=self.now,
            held=Held(held),
        ).lists

    def forget(self) -> None:
        """Forget the last look, as a daemon that ends does."""
        self._lists = {}

    @property
    def lists(self) -> DeviceLists:
        """The device lists of all resources."""
        return self._lists

    @property
    def shares(self) -> Mapping[str, str]:
        """The ID of each share by its name in the ResourceSlice."""
        return shares_of(self._lists[NAME])

    def pools(self, gate_of: Callable[[str], Gate]) -> dict[str, ServedPool]:
        """Return what there is now for a preparer."""
        pools = {}
        for name in [
            each_resource.name
            for each_resource in self._resources
            if each_resource.served_by is ServedBy.DRA
        ]:
            listed, gate = self._lists[name], gate_of(name)
            gate.set_devices(listed)
            shares = shares_of(listed)
            pools[f"node-1/{name}"] = ServedPool(gate=gate, shares=shares)
        return pools

    def is_admin(self, uid: str) -> bool:
        """Return whether a claim has admin access to what is allocated to it."""
        allocation = self.claims[uid]["status"].get("allocation", {"devices": {"results": []}})
        return any(result.get("adminAccess") for result in allocation["devices"]["results"])

    def allocate(
        self,
        uid: str,
        names: Collection[str],
        *,
        pool: str = POOL,
        admin: bool = False,
        driver: str = DRIVER,
    ) -> ClaimRef:
        """Allocate devices, as they are called in the slice, to a claim."""
        access = {"adminAccess": True} if admin else {}
        results = [
            {"request": "r", "driver": driver, "pool": pool, "device": name, **access}
            for name in names
        ]
        self.claims[uid] = {
            "metadata": {"namespace": "default", "name": uid, "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}} if names else {},
        }
        return ref(uid)


class Process:
    """A daemon's state of claims; another one on the same directory is the next daemon."""

    def __init__(
        self,
        machine: Machine,
        directory: Path,
        *,
        boot: str = "boot-1",
        driver: str = DRIVER,
        disk: type[ClaimRecords] = ClaimRecords,
    ) -> None:
        self.machine = machine
        self.directory = directory
        self.log = directory / "log"
        """The hooks that have run."""
        self.cdi_directory = directory / "cdi"
        self.cdi_directory.mkdir(exist_ok=True)
        SpecDirectory(self.cdi_directory).maintain({})  # as at the start of any daemon
        records = disk(directory / "claims", removed=lambda: None)
        records.load()
        self._gates: dict[str, Gate] = {}
        self.pools = Pools(lambda _pool: "")
        self.preparer = ClaimPreparer(
            DraSettings(driver=driver, kubelet_root=directory),
            records=records,
            cdi_directory=self.cdi_directory,
            boot_id=boot,
            root=Root(machine.host.directory),
            pools=self.pools,
            get_claim=self._get_claim,
            run_hooks=self.run_hooks,
            policy=lambda: None,
            extended_resource=lambda: True,
            changed=lambda: None,
        )
        self.preparer.remove_leftovers()
        self.look()

    def look(self) -> None:
        """Take in which devices there are."""
        self.pools.by_name = self.machine.pools(self._gate)

    def _gate(self, resource: str) -> Gate:
        if resource not in self._gates:
            self._gates[resource] = Gate(
                resource,
                root=Root(self.machine.host.directory),
                look_again=lambda: None,
                run_hooks=self.run_hooks,
            )
        return self._gates[resource]

    async def _get_claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        assert namespace == "default"
        return self.machine.claims.get(name)

    async def run_hooks(
        self, name: HookName, _resource: str, devices: Iterable[Device], _: dict[str, str]
    ) -> None:
        for device in devices:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, f"{name} {device.id}\n".encode())
            os.close(descriptor)

    def offered(self) -> dict[tuple[str, str], str]:
        """Return the IDs of what the scheduler can allocate, by pool and name in the slice."""
        return {
            (pool, name): device["attributes"]["id"]["string"]
            for pool, served in self.pools.by_name.items()
            for name, device in devices_of(
                served.gate.resource,
                served.gate.devices,
                driver=DRIVER,
                extended_resource=False,
                lacking=["taints"],
            ).devices.items()
        }

    async def prepare(self, uid: str) -> str:
        """Return why a claim is not prepared; empty: it is."""
        answer = (await self.preparer.prepare([ref(uid)]))[uid]
        return answer if isinstance(answer, str) else ""

    async def unprepare(self, uid: str) -> str:
        """Return why a claim is not unprepared; empty: it is."""
        return (await self.preparer.unprepare([ref(uid)]))[uid]

    def hooks(self) -> list[str]:
        """Return which hooks have run: their names and the devices."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def files(self) -> list[str]:
        """Return what there is of claims on disk."""
        directories = (self.cdi_directory, self.directory / "claims", self.preparer.specs.metadata)
        return sorted(
            f"{directory.name}/{path.name}"
            for directory in directories
            for path in directory.glob("*")
        )


def ref(uid: str) -> ClaimRef:
    """Return how the kubelet names a claim."""
    return ClaimRef(namespace="default", name=uid, uid=uid)


def spec_name(uid: str) -> str:
    """Return the name of the CDI spec of a claim."""
    return f"genericdp-claim_{DRIVER}_{uid}.json"


def files_of(uid: str) -> set[str]:
    """Return what there is of a prepared claim on disk."""
    return {f"cdi/{spec_name(uid)}", f"claims/{uid}.json", f"metadata/{uid}_0.json"}
