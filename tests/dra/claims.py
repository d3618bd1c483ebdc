"""Claims of a node that are prepared in this process, without kubelet and API server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from genericdp.cdi.folder import SpecFolder
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.dra.claims import ClaimRecords
from genericdp.dra.prepare import ClaimPreparer, ServedPool
from genericdp.dra.slices import devices_of
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1.dra_pb2 import Claim as ClaimRef
from tests.world import Host, config, resource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import Device
    from genericdp.model import HookName

NAME = "example.com/serial"
POOL = f"node-1/{NAME}"
DRIVER = "genericdp.io"
_HOOK = {"exec": {"command": ["/bin/true"]}}


class Machine:
    """Devices, and what the API server has of claims: both outlive whoever prepares claims."""

    def __init__(self, folder: Path, *devices: str, replicas: int = 1) -> None:
        self.host = Host(folder / "host")
        for name in devices:
            self.host.plug(name)
        hooks = dict.fromkeys(("allocate", "release"), _HOOK)
        file = folder / "config.yaml"
        one = resource(NAME, "/dev/ttyUSB*", servedBy="dra", hooks=hooks, replicas=replicas)
        file.write_text(config(one))
        self._resources = load([file]).resources
        self._lists: DeviceLists = {}
        self.claims: dict[str, dict[str, Any]] = {}
        """By UID, which is also the name."""
        self.look()

    def look(self) -> None:
        """Take in which devices there are."""
        host = HostCache(Root(self.host.folder))
        self._lists = decide(
            self._resources, host, node_name="node-1", previous=self._lists, now=0.0
        ).lists

    @property
    def shares(self) -> Mapping[str, str]:
        """The ID of each share by its name in the ResourceSlice."""
        return devices_of(NAME, self._lists[NAME], extended_resource=False).shares

    def pools(self, servicer: Servicer) -> dict[str, ServedPool]:
        """Return what there is now for a preparer."""
        servicer.set_devices(self._lists[NAME])
        return {POOL: ServedPool(servicer=servicer, resource=NAME, shares=self.shares)}

    def allocate(self, uid: str, names: Collection[str]) -> ClaimRef:
        """Allocate devices, as they are called in the slice, to a claim."""
        results = [
            {"request": "r", "driver": DRIVER, "pool": POOL, "device": name} for name in names
        ]
        self.claims[uid] = {
            "metadata": {"namespace": "default", "name": uid, "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}} if names else {},
        }
        return ref(uid)


class Process:
    """What a daemon keeps of claims; another one on the same folder is the next daemon."""

    def __init__(self, machine: Machine, folder: Path, *, boot: str = "boot-1") -> None:
        self.machine = machine
        self.folder = folder
        self.log = folder / "log"
        """The hooks that have run."""
        self.cdi_folder = folder / "cdi"
        self.cdi_folder.mkdir(exist_ok=True)
        SpecFolder(self.cdi_folder).maintain({})  # as at the start of any daemon
        records = ClaimRecords(folder / "claims", removed=lambda: None)
        records.load()
        self._servicer = Servicer(
            NAME,
            root=Root(machine.host.folder),
            look_again=lambda: None,
            run_hooks=self._run_hooks,
        )
        self.preparer = ClaimPreparer(
            DRIVER,
            records=records,
            cdi_folder=self.cdi_folder,
            boot_id=boot,
            get_claim=self._get_claim,
            why_absent=lambda _pool: "",
        )
        self.preparer.remove_leftovers()
        self.look()

    def look(self) -> None:
        """Take in which devices there are."""
        self.preparer.pools = self.machine.pools(self._servicer)

    async def _get_claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        assert namespace == "default"
        return self.machine.claims.get(name)

    async def _run_hooks(
        self, name: HookName, resource: str, devices: Iterable[Device], _: dict[str, str]
    ) -> None:
        assert resource == NAME
        for device in devices:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, f"{name} {device.id}\n".encode())
            os.close(descriptor)

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
        folders = (self.cdi_folder, self.folder / "claims")
        return sorted(f"{one.name}/{name}" for one in folders for name in os.listdir(one))


def ref(uid: str) -> ClaimRef:
    """Return how the kubelet names a claim."""
    return ClaimRef(namespace="default", name=uid, uid=uid)


def files_of(uid: str) -> set[str]:
    """Return what there is of a prepared claim on disk."""
    return {f"cdi/genericdp-claim_{uid}.json", f"claims/{uid}.json"}
