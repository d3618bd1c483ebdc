"""A node with resources that DRA serves: a host, the daemon, a kubelet, and an API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from genericdp.devices.resourcenames import label
from genericdp.kubelet.api import dra_pb2 as api
from genericdp.kubelet.api.dra_pb2 import Claim as ClaimRef
from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.settings import DraSettings

from tests.apiserver.server import ApiServer
from tests.dra.kubelet import DraKubelet
from tests.polling import ask_until
from tests.world import PATIENCE_SECONDS, Daemon, World, resource

DRIVER = "genericdp.io"
NODE = "node-1"
NAME = "example.com/serial"
POOL = f"{NODE}/{NAME}"
OTHER = "example.com/modem"
USB0, USB1, USB2 = (label(f"ttyUSB{number}") for number in range(3))
_AT_ONCE = PodResourcesTiming(pods_known=0.0, period=0.1)


def by_dra(name: str = NAME, glob: str = "/dev/ttyUSB*", **keys: object) -> dict[str, object]:
    """Return a resource that DRA serves."""
    return resource(name, glob, servedBy="dra", **keys)


def by_plugin(name: str = NAME, glob: str = "/dev/ttyUSB*", **keys: object) -> dict[str, object]:
    """Return the same resource, as the device plugin serves it."""
    return resource(name, glob, **keys)


def refused(why: str) -> Callable[[dict[str, Any]], bool]:
    """Return whether ``/status`` reports something that is not offered for a reason."""
    return lambda found: any(why in entry["reason"] for entry in found["notOffered"])


def result(**keys: object) -> dict[str, object]:
    """Return a result of the scheduler."""
    return {"request": "device", "driver": DRIVER, "pool": POOL, "device": USB0, **keys}


class DraNode:
    """A node for tests of resources that DRA serves."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "kubelet"
        self.world = World(directory, pod_resources=self.root / "pod-resources/kubelet.sock")
        self.host = self.world.host
        self.host.plug("ttyUSB0")
        self.directory = directory
        self.cdi_directory = directory / "cdi"
        self.cdi_directory.mkdir()
        self.server = ApiServer()
        self.kubelet = DraKubelet(self.root, wipe=self._wipe)
        self._daemons = 0
        self.settings = DraSettings(
            driver=DRIVER,
            kubelet_root=self.root,
            kubeconfig=directory / "kubeconfig",
            retry=0.2,
            standby=0.05,
        )

    def _wipe(self, driver: str) -> None:
        self.server.wipe(NODE, driver=driver)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all but the daemon."""
        async with self.server, self.kubelet, self.world.kubelet:
            self.server.add_node(NODE)
            assert self.settings.kubeconfig is not None
            self.server.kubeconfig(self.settings.kubeconfig)
            yield

    @asynccontextmanager
    async def serving(
        self, *resources: Mapping[str, object], **settings: Any
    ) -> AsyncIterator[Daemon]:
        """Run the daemon; at the end of the last one the kubelet knows of no driver any more."""
        chosen = {"dra": self.settings, "pod_resources_timing": _AT_ONCE, **settings}
        self._daemons += 1
        async with self.world.serving(*resources, **chosen) as daemon:
            yield daemon
        self._daemons -= 1
        if not self._daemons:
            await self.kubelet.wait_for_end(DRIVER)

    @property
    def state_directory(self) -> Path:
        """The directory where the driver keeps what it has to remember."""
        return self.settings.directory

    def hook(self, name: str, script: str = "") -> dict[str, object]:
        """Return a hook that notes its name and the device, and then does what a script says."""
        program = self.directory / name
        note = f'echo {name} "$GENERICDP_DEVICE_ID" >> {self.directory}/log'
        program.write_text(f"#!/bin/sh\n{note}\n{script}\n")
        program.chmod(0o755)
        return {"exec": {"command": [str(program)]}}

    def hooks(self) -> dict[str, object]:
        """Return hooks that note that they have run."""
        return {name: self.hook(name) for name in ("allocate", "release")}

    def ran(self) -> list[str]:
        """Return what hooks have noted since the last call."""
        log = self.directory / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def pools(self) -> dict[str, list[str]]:
        """Return the names of the devices on offer, without those that have a taint, by pool."""
        found: dict[str, list[str]] = {}
        for object_ in self.server.objects("resourceslices"):
            spec = object_["spec"]
            names = found.setdefault(spec["pool"]["name"], [])
            names += [
                device["name"] for device in spec.get("devices", ()) if not device.get("taints")
            ]
        return found

    async def offers(self, pool: str = POOL, *names: str) -> None:
        """Wait until the devices of a pool are exactly these."""
        await self.until(lambda: sorted(self.pools().get(pool, ["none"])) == sorted(names))

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds, of which no one shows."""

        async def ask() -> bool:
            return bool(condition())

        await ask_until(ask, bool, seconds=PATIENCE_SECONDS)

    def allocate(
        self,
        *devices: str,
        name: str = "claim",
        pool: str = POOL,
        requests: Mapping[str, tuple[str, ...]] | None = None,
        admin: bool = False,
        annotations: Mapping[str, str] | None = None,
        config: Sequence[Mapping[str, object]] = (),
        consumed: Mapping[str, object] | None = None,
        pods: tuple[str, ...] = ("reader",),
    ) -> ClaimRef:
        """Allocate devices to a claim, as the scheduler does; it may have been allocated before.

        ``consumed`` is what each request gets of a device that is shared by capacity.
        """
        asked = requests or {"device": devices}
        results = [
            result(
                request=request,
                pool=pool,
                device=device,
                **({"adminAccess": True} if admin else {}),
                **({"shareID": str(uuid4()), "consumedCapacity": consumed} if consumed else {}),
            )
            for request, names in asked.items()
            for device in names
        ]
        metadata = {"name": name, "namespace": "default", "annotations": dict(annotations or {})}
        self.server.put(
            "resourceclaims",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": metadata,
                "spec": {},
                "status": {
                    "allocation": {"devices": {"results": results, "config": list(config)}},
                    "reservedFor": [
                        {"resource": "pods", "name": name, "uid": name} for name in pods
                    ],
                },
            },
        )
        (found,) = (
            object_
            for object_ in self.server.objects("resourceclaims")
            if object_["metadata"]["name"] == name
        )
        return ClaimRef(namespace="default", name=name, uid=found["metadata"]["uid"])

    def change(self, name: str, **allocation: object) -> None:
        """Replace what a claim has been allocated."""
        (claim,) = (
            each
            for each in self.server.objects("resourceclaims")
            if each["metadata"]["name"] == name
        )
        status = {"allocation": {"devices": allocation}}
        self.server.put("resourceclaims", {**claim, "status": status})

    async def claim(self, *devices: str, **keys: Any) -> ClaimRef:
        """Wait until devices are on offer, and return a claim that is prepared with them."""
        chosen = devices or (USB0,)
        pool = keys.get("pool", POOL)
        await self.until(lambda: {*chosen} <= {*self.pools().get(pool, ())})
        claim = self.allocate(*chosen, **keys)
        await self.prepare(claim)
        return claim

    async def prepare(self, claim: ClaimRef) -> tuple[api.Device, ...]:
        """Return the devices of a claim that can be prepared."""
        await self.kubelet.wait_for(DRIVER)
        answer = (await self.kubelet.prepare(DRIVER, claim))[claim.uid]
        assert not isinstance(answer, str), answer
        return answer

    async def refusal(self, claim: ClaimRef) -> str:
        """Return why a claim is not prepared."""
        await self.kubelet.wait_for(DRIVER)
        answer = (await self.kubelet.prepare(DRIVER, claim))[claim.uid]
        assert isinstance(answer, str), answer
        return answer

    async def is_held(self, device: str, by: str = "claim") -> None:
        """Check that another claim does not get a device."""
        why = await self.refusal(self.allocate(device, name="another"))
        assert f"is prepared for claim default/{by}" in why

    async def refuses(self, claim: ClaimRef, why: str) -> None:
        """Wait until a claim is not prepared for this reason: a config may not be in effect yet."""

        async def ask() -> str:
            return await self.refusal(claim)

        await ask_until(ask, lambda said: why in said, seconds=PATIENCE_SECONDS)

    async def unprepare(self, claim: ClaimRef) -> str:
        """Return why a claim is not unprepared; empty: it is."""
        await self.kubelet.wait_for(DRIVER)
        return (await self.kubelet.unprepare(DRIVER, claim))[claim.uid]

    def given(self, claim: ClaimRef) -> dict[str, Any]:
        """Return what containers get, by the full names of CDI devices of a claim's spec."""
        try:
            content = (
                self.cdi_directory / f"genericdp-claim_{DRIVER}_{claim.uid}.json"
            ).read_text()
        except FileNotFoundError:
            return {}
        spec = json.loads(content)
        return {
            f"{spec['kind']}={device['name']}": device["containerEdits"]
            for device in spec["devices"]
        }

    def host_paths(self, claim: ClaimRef) -> list[str]:
        """Return the nodes of the host that a claim's spec has."""
        return [
            node.get("hostPath", node["path"])
            for edits in self.given(claim).values()
            for node in edits.get("deviceNodes", ())
        ]

    def record_file(self, claim: ClaimRef) -> Path:
        """Return where the record of a claim is."""
        return self.state_directory / f"claims/{claim.uid}.json"

    def record(self, claim: ClaimRef) -> dict[str, Any] | None:
        """Return what is recorded of a claim."""
        try:
            return dict(json.loads(self.record_file(claim).read_text()))
        except FileNotFoundError:
            return None

    def edit_record(self, claim: ClaimRef, **keys: object) -> None:
        """Change the record of a claim, while no daemon runs."""
        self.record_file(claim).write_text(json.dumps({**(self.record(claim) or {}), **keys}))
