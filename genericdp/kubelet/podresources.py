"""Devices that pods hold, from the kubelet's PodResources API: nothing else tells (PRS-1)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from genericdp.devices.device import device_id_of
from genericdp.devices.devicelist import AllocatedDevices
from genericdp.errors import KubeletError, explained
from genericdp.host.workers import in_worker
from genericdp.kubelet.folder import find_socket
from genericdp.kubelet.registration import call
from genericdp.kubelet.v1 import podresources_pb2 as api
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.model import Resource

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodResourcesTiming:
    """When the kubelet is asked which devices pods hold, in seconds."""

    period: float = 10.0
    """Between two requests: all clients share the kubelet's rate limit (PRS-1)."""
    timeout: float = 5.0
    pods_known: float = 60.0
    """A kubelet that has just started may not know its pods yet, and would name none."""


class PodResourcesPoller:
    """Asks which vanished devices pods hold, but only when one is about to be forgotten."""

    def __init__(
        self,
        socket: Path,
        *,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        timing: PodResourcesTiming | None = None,
    ) -> None:
        self.allocated = AllocatedDevices()
        """The last answer."""
        self._socket = socket
        self._kubelet = kubelet
        self._look_again = look_again
        self._timing = timing or PodResourcesTiming()
        self._last_asked = -inf
        self._knows_pods_at = inf
        """When the kubelet surely knows its pods, on the loop's clock."""
        self._failed = False

    async def run(
        self,
        lists: Observed[DeviceLists],
        config: Observed[Any],
        wanted: Callable[[], Mapping[str, Resource]],
    ) -> None:
        """Ask when it is time, forever; a new ``config`` may change what is ``wanted``."""
        now = asyncio.get_running_loop().time

        def due() -> float | None:
            earliest = max(self._last_asked + self._timing.period, self._knows_pods_at)
            return next_question(lists.value, wanted(), earliest)

        def note_kubelet() -> None:
            """Note that there is another kubelet, or the first one."""
            self._knows_pods_at = now() + self._timing.pods_known

        with self._kubelet.socket.calling(note_kubelet):
            while True:
                moment = due()
                if moment is None or moment > now():
                    await until(
                        lambda moment=moment: due() != moment,  # type: ignore[misc]
                        lists,
                        config,
                        self._kubelet.socket,
                        timeout_seconds=None if moment is None else moment - now(),
                    )
                    continue
                await self._ask()
                if any(self.allocated.have_let_go(*one) for one in vanished(lists.value, wanted())):
                    self._look_again()

    async def _ask(self) -> None:
        self._last_asked = asked_at = asyncio.get_running_loop().time()
        knows_pods_at = self._knows_pods_at
        try:
            answer = await list_pods(self._socket, timeout_seconds=self._timing.timeout)
            devices = await in_worker(partial(held_devices, answer))
        except Exception as error:  # noqa: BLE001
            # A mistake of ours here must not take the devices along: it counts as no answer.
            if not self._failed:  # in a row: the first failure and the end are logged
                log.warning(
                    "the kubelet does not say which devices pods hold: %s;"
                    " until it does, vanished ones stay listed",
                    explained(error, self._socket),
                )
            self._failed = True
            return
        if self._failed:
            log.info("the kubelet says again which devices pods hold")
        self._failed = False
        if self._knows_pods_at == knows_pods_at:  # there is no other kubelet meanwhile
            self.allocated = AllocatedDevices(asked_at=asked_at, devices=devices)


async def list_pods(socket: Path, *, timeout_seconds: float) -> bytes:
    """Return the serialized answer to List, about all pods; raise KubeletError.

    A kubelet answers 100 calls in a second, of all clients together, and refuses more.
    """
    method = "/v1.PodResourcesLister/List"
    try:
        return await call(socket, method, b"", timeout_seconds=timeout_seconds)
    except grpc.aio.AioRpcError as error:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:  # gRPC's own text is long and contains times
                why = find_socket(socket)[1] or f"nobody answers at {socket}"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                why = f"no answer within {timeout_seconds:g} s"
            case code:
                why = f"{code.name}: {error.details()}"
        raise KubeletError(why) from error


def held_devices(answer: bytes) -> dict[str, frozenset[str]]:
    """Return the IDs of what the containers of all pods hold at least a share of, by resource.

    Raise KubeletError. Init containers that have ended are not among them: no kubelet lists these.
    """
    held: dict[str, set[str]] = {}
    for container in _containers(answer):
        for devices in container.devices:
            ids = map(device_id_of, devices.device_ids)
            held.setdefault(devices.resource_name, set()).update(ids)
    return {name: frozenset(ids) for name, ids in held.items()}


def held_claims(answer: bytes) -> set[tuple[str, str]]:
    """Return namespace and name of the ResourceClaims of all pods; raise KubeletError."""
    return {
        (one.claim_namespace, one.claim_name)
        for container in _containers(answer)
        for one in container.dynamic_resources
    }


def _containers(answer: bytes) -> Iterator[api.ContainerResources]:
    try:
        listed = api.ListPodResourcesResponse.FromString(answer)
    except DecodeError as error:
        raise KubeletError("the answer is no ListPodResourcesResponse") from error
    for pod in listed.pod_resources:
        yield from pod.containers


def next_question(
    lists: Mapping[str, DeviceList], wanted: Mapping[str, Resource], earliest: float
) -> float | None:
    """Return when to ask who holds what: once a device is to be forgotten, at the ``earliest``.

    None as long as none has vanished.
    """
    first = min((due for _, _, due in vanished(lists, wanted)), default=None)
    return None if first is None else max(first, earliest)


def vanished(
    lists: Mapping[str, DeviceList], wanted: Mapping[str, Resource]
) -> Iterator[tuple[str, str, float]]:
    """Yield resource and ID of each vanished device, and when it is to be forgotten."""
    for name, devices in lists.items():
        if name not in wanted:
            continue  # it is leaving, with all its devices
        for device_id, one in devices.devices.items():
            if one.gone_since is not None:
                yield name, device_id, one.gone_since + wanted[name].forget_after_seconds
