"""Devices that pods hold, from the kubelet's PodResources API: nothing else tells (PRS-1)."""

from __future__ import annotations

import asyncio
import logging
import stat
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from genericdp.devices.device import device_id_of
from genericdp.devices.devicelist import AllocatedDevices
from genericdp.errors import KubeletError
from genericdp.host.workers import in_worker
from genericdp.kubelet.lifecycle import PluginTiming
from genericdp.kubelet.registration import channel
from genericdp.kubelet.v1 import podresources_pb2 as api
from genericdp.observed import Observed, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.kubelet.folder import KubeletFolder

log = logging.getLogger(__name__)

_MOST_BYTES = 64 * 1024 * 1024
"""A node's pods with tens of thousands of devices pass the 4 MiB that gRPC takes by default."""


class PodResourcesPoller:
    """Asks which vanished devices pods hold, but only when one is about to be forgotten."""

    def __init__(
        self,
        socket: Path,
        *,
        kubelet: KubeletFolder,
        look_again: Callable[[], None],
        timing: PluginTiming | None = None,
    ) -> None:
        self.allocated = AllocatedDevices()
        """The last answer."""
        self._socket = socket
        self._kubelet = kubelet
        self._look_again = look_again
        self._timing = timing or PluginTiming()
        self._last_asked = -inf
        self._knows_pods_at = inf
        """When the kubelet surely knows its pods, on the loop's clock."""
        self._failed = False

    async def run(
        self,
        lists: Observed[DeviceLists],
        forget_after_seconds: Callable[[], Mapping[str, float]],
        config: Observed[Any],
    ) -> None:
        """Ask when it is time, forever; a new ``config`` may change that time."""
        now = asyncio.get_running_loop().time

        def due() -> float | None:
            question = next_question(
                lists.value,
                forget_after_seconds(),
                self._last_asked,
                pace_seconds=self._timing.pod_resources_period,
            )
            return None if question is None else max(question, self._knows_pods_at)

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
                await self._ask(asked_at=now())
                if are_news(self.allocated, lists.value, forget_after_seconds()):
                    self._look_again()

    async def _ask(self, *, asked_at: float) -> None:
        self._last_asked, knows_pods_at = asked_at, self._knows_pods_at
        try:
            answer = await list_pods(self._socket, timeout_seconds=self._timing.pod_resources)
            shares = await in_worker(partial(held_shares, answer))
        except KubeletError as error:
            if not self._failed:  # in a row: the first failure and the end are logged
                log.warning(
                    "the kubelet does not say which devices pods hold: %s;"
                    " until it does, vanished ones stay listed",
                    error,
                )
            self._failed = True
            return
        if self._failed:
            log.info("the kubelet says again which devices pods hold")
        self._failed = False
        if self._knows_pods_at == knows_pods_at:  # there is no other kubelet meanwhile
            self.allocated = allocated_devices(shares, asked_at=asked_at)


async def list_pods(socket: Path, *, timeout_seconds: float) -> bytes:
    """Return the serialized answer to List, about all pods; raise KubeletError.

    A kubelet answers 100 calls in a second, of all clients together, and refuses more.
    """
    _check_socket(socket)
    async with channel(socket, max_receive_message_length=_MOST_BYTES) as connection:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = connection.unary_unary(
            "/v1.PodResourcesLister/List"
        )
        try:
            return await call(b"", timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            raise KubeletError(_reason(error, timeout_seconds)) from error


def _check_socket(socket: Path) -> None:
    """Raise KubeletError where gRPC would only say that it could not connect."""
    try:
        mode = socket.stat().st_mode
    except FileNotFoundError as error:
        raise KubeletError(f"there is no {socket}") from error
    except OSError as error:
        raise KubeletError(f"{socket}: {(error.strerror or '').lower()}") from error
    if not stat.S_ISSOCK(mode):
        raise KubeletError(f"{socket} is no socket")


def _reason(error: grpc.aio.AioRpcError, timeout_seconds: float) -> str:
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return "nobody answers there"  # gRPC's own text is long and contains times
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {timeout_seconds:g} s"
        case code:
            return f"{code.name}: {error.details()}"


def held_shares(answer: bytes) -> dict[str, set[str]]:
    """Return the IDs that the containers of all pods hold, by resource; raise KubeletError.

    Init containers that have ended are not among them: no kubelet lists these.
    """
    try:
        listed = api.ListPodResourcesResponse.FromString(answer)
    except DecodeError as error:
        raise KubeletError("the answer is no ListPodResourcesResponse") from error
    held: dict[str, set[str]] = {}
    for pod in listed.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                held.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return held


def allocated_devices(shares: Mapping[str, Iterable[str]], *, asked_at: float) -> AllocatedDevices:
    """Return what is held, from the shares that all containers have of each resource."""
    devices = {name: frozenset(map(device_id_of, held)) for name, held in shares.items()}
    return AllocatedDevices(asked_at=asked_at, devices=devices)


def next_question(
    lists: Mapping[str, DeviceList],
    forget_after_seconds: Mapping[str, float],
    last_asked: float,
    *,
    pace_seconds: float,
) -> float | None:
    """Return when to ask who holds what: once a device is to be forgotten, then at that pace.

    None as long as none has vanished.
    """
    dues = (due for _, _, due in _vanished(lists, forget_after_seconds))
    first = min(dues, default=None)
    return None if first is None else max(first, last_asked + pace_seconds)


def are_news(
    allocated: AllocatedDevices,
    lists: Mapping[str, DeviceList],
    forget_after_seconds: Mapping[str, float],
) -> bool:
    """Return whether a device can be forgotten now that is still listed."""
    return any(allocated.have_let_go(*one) for one in _vanished(lists, forget_after_seconds))


def _vanished(
    lists: Mapping[str, DeviceList], forget_after_seconds: Mapping[str, float]
) -> Iterator[tuple[str, str, float]]:
    """Return resource and id of each vanished device, and when it is to be forgotten."""
    for name, devices in lists.items():
        if name not in forget_after_seconds:
            continue  # it is leaving, with all its devices
        for device_id, one in devices.devices.items():
            if one.gone_since is not None:
                yield name, device_id, one.gone_since + forget_after_seconds[name]
