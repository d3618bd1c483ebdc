"""Devices that pods hold, from the kubelet's PodResources API: no other source (PRS-1)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import grpc

from genericdp.errors import KubeletError
from genericdp.host.workers import in_worker
from genericdp.kubelet.directory import find_socket
from genericdp.kubelet.server import call
from genericdp.observed import Observed, until
from genericdp.repeat import Latch, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Any, Never

    from genericdp.kubelet.directory import KubeletDirectory, SocketIdentity

log = logging.getLogger(__name__)

_MAX_STRINGS = 150_000
"""Limit of the strings in an answer: names of pods, claims and resources, and IDs of devices.
That is enough for 70,000 devices, or some 35 MB, twice while a new answer is read; the shipped
pod may use 160.
"""
_MAX_FIELDS = 1_000_000
"""Limit of the fields in an answer: reading this many takes a second or two. A device has four,
each read twice.
"""
_MAX_STRING_BYTES = 64 * 1024
_MAX_VARINT_BITS = 64
_SIZED = 2
"""The wire type of messages and strings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodResourcesTiming:
    """The interval of asking the kubelet which devices pods hold, in seconds."""

    period: float = 10.0
    """Interval of requests while something waits for an answer: all clients share the kubelet's
    rate limit (PRS-1).
    """
    refresh: float = 60.0
    """Interval of requests otherwise, so that the status shows which pods have a device."""
    timeout: float = 5.0
    pods_known: float = 60.0
    """Time after its start, or after an admission, in which a kubelet may not list all of its
    pods.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class PodHolders:
    """An answer of the kubelet: the pods of the node, and what they hold."""

    asked_at: float
    """On the monotonic clock, in seconds."""
    kubelet: SocketIdentity | None = None
    """The number of the kubelet that was asked, which changes with each start."""
    holders: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """The pods that hold a share, as ``pod namespace/name``, by resource and share."""
    pods: frozenset[str] = frozenset()
    """All pods that the kubelet lists."""

    def holders_of(self, resource: str) -> set[str]:
        """Return the pods that hold any device of a resource."""
        return {pod for pods in self.holders.get(resource, {}).values() for pod in pods}


class PodResourcesPoller:
    """Asks the kubelet which devices pods hold."""

    def __init__(
        self,
        socket: Path,
        *,
        kubelet: KubeletDirectory,
        take: Callable[[PodHolders], None],
        timing: PodResourcesTiming,
    ) -> None:
        """``take`` is called with each answer of the kubelet."""
        self.failure = Observed("the kubelet has not been asked yet")
        """Why it is unknown which devices pods hold; empty if it is known."""
        self._socket = socket
        self._kubelet = kubelet
        self._take = take
        self.timing = timing
        self._last_asked = -inf
        self._failing = Latch(log)
        self._knows_pods_at = inf
        """When the kubelet certainly knows its pods, on the loop's clock."""

    async def run(self, due: Callable[[float], float], *changing: Observed[Any]) -> Never:
        """Ask when it is time, forever.

        ``due`` returns when that is, given the time of the last request; a change of one of
        ``changing`` may change it.
        """
        now = asyncio.get_running_loop().time

        def moment() -> float:
            return max(due(self._last_asked), self._knows_pods_at)

        def note_kubelet() -> None:
            """Record that there is a new kubelet, or the first one."""
            self._knows_pods_at = now() + self.timing.pods_known

        with self._kubelet.socket.calling(note_kubelet):
            while True:
                seconds = moment() - now()
                if seconds > 0:
                    await until(
                        lambda: moment() <= now(),
                        *changing,
                        self._kubelet.socket,
                        timeout_seconds=None if seconds == inf else seconds,
                    )
                    continue
                await self.ask()

    @property
    def is_believed(self) -> bool:
        """Return whether the kubelet has been running long enough to know its pods."""
        is_there = self._kubelet.socket.value is not None
        return is_there and self._kubelet.kubelet_age >= self.timing.pods_known

    async def ask(self) -> None:
        """Ask once; store a failure, and log it when it begins and ends."""
        asked_at = self._last_asked = asyncio.get_running_loop().time()
        try:
            answer = await list_pods(self._socket, timeout_seconds=self.timing.timeout)
            kubelet = self._kubelet.socket.value
            found = await in_worker(partial(pod_holders, answer, asked_at, kubelet))
        except KubeletError as error:
            failure = explained(error, self._socket)
            self._failing.update(
                "failing",  # even if the failure has changed
                "the kubelet does not say which devices pods hold: %s; until it does, held"
                " hardware stays listed as it is",
                failure,
            )
            self.failure.value = failure
            return
        self._failing.update("", ended="the kubelet says again which devices pods hold")
        self.failure.value = ""
        self._take(found)


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
                why = find_socket(socket)[1] or f"no answer at {socket}"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                why = f"no answer within {timeout_seconds:g} s"
            case code:
                why = f"{code.name}: {error.details()}"
        raise KubeletError(why) from error


def pod_holders(
    answer: bytes, asked_at: float = 0.0, kubelet: SocketIdentity | None = None
) -> PodHolders:
    """Return the pods and the devices of their containers; raise KubeletError.

    Init containers that have ended are not included: no kubelet lists them.
    """
    holders: dict[str, dict[str, tuple[str, ...]]] = {}
    several: dict[tuple[str, str], dict[str, None]] = {}
    """The pods that hold a share, by resource and share, if there is more than one."""
    listed = set()
    for pod in pods_in(answer):
        name = f"pod {pod.namespace}/{pod.name}"
        listed.add(name)
        only = (name,)
        for resource, share in pod.devices:
            known = holders.setdefault(resource, {}).setdefault(share, only)
            if known is not only:
                several.setdefault((resource, share), dict.fromkeys(known))[name] = None
    for (resource, share), names in several.items():
        holders[resource][share] = tuple(names)
    return PodHolders(asked_at=asked_at, kubelet=kubelet, holders=holders, pods=frozenset(listed))


def pods_of_claim(answer: bytes, namespace: str, name: str) -> list[str]:
    """Return namespace and name of the pods that use a ResourceClaim; raise KubeletError."""
    claim = (namespace, name)
    return [f"{pod.namespace}/{pod.name}" for pod in pods_in(answer) if claim in pod.claims]


class Pod(NamedTuple):
    """A pod that the kubelet lists."""

    namespace: str
    name: str
    devices: list[tuple[str, str]]
    """The resource and ID of each device, or share, of its containers."""
    claims: list[tuple[str, str]]
    """Namespace and name of the ResourceClaims of its containers."""


def pods_in(answer: bytes) -> Iterator[Pod]:
    """Yield the pods of an answer to List; raise KubeletError."""
    read = _WireReader()
    try:
        for content in read.messages(memoryview(answer), 1):
            pod = Pod(read.string(content, 2), read.string(content, 1), [], [])
            for container in read.messages(content, 3):
                for devices in read.messages(container, 2):
                    resource = read.string(devices, 1)
                    pod.devices.extend((resource, share) for share in read.strings(devices, 2))
                for claim in read.messages(container, 5):
                    pod.claims.append((read.string(claim, 3), read.string(claim, 2)))
            yield pod
    except ValueError as error:
        raise KubeletError(f"the answer is not a ListPodResourcesResponse: {error}") from error


class _WireReader:
    """Reads messages of Protocol Buffers from their bytes, field by field.

    Protobuf's own parser first makes an object of every message: 8 MiB of empty ones become 250 MB.
    Here a message takes no memory until it is read, and the number of fields is limited. Each
    method raises ValueError if an answer is malformed.
    """

    def __init__(self) -> None:
        self._fields = self._strings = 0

    def messages(self, message: memoryview, number: int) -> Iterator[memoryview]:
        """Yield the messages, or strings, of a field."""
        at, wanted = 0, number << 3 | _SIZED
        while at < len(message):
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise ValueError(f"it has more than {_MAX_FIELDS:,} fields")
            key, at = _varint(message, at)
            begin, at = _content(message, at, key & 7)
            if key == wanted:
                yield message[begin:at]

    def strings(self, message: memoryview, number: int) -> Iterator[str]:
        """Yield the strings of a field."""
        for content in self.messages(message, number):
            self._strings += 1
            if self._strings > _MAX_STRINGS:
                raise ValueError(f"it has more than {_MAX_STRINGS:,} strings")
            if len(content) > _MAX_STRING_BYTES:
                raise ValueError(f"a string has more than {_MAX_STRING_BYTES >> 10} KiB")
            yield str(content, "utf-8")

    def string(self, message: memoryview, number: int) -> str:
        """Return the string of a field, or an empty string."""
        value = ""
        for value in self.strings(message, number):  # noqa: B007 -- the last one counts
            pass
        return value


def _content(message: memoryview, at: int, wire_type: int) -> tuple[int, int]:
    """Return the start and end of a field's content; raise ValueError."""
    match wire_type:
        case 0:  # a number
            begin, end = at, _varint(message, at)[1]
        case 1:
            begin, end = at, at + 8
        case 2:  # _SIZED
            size, begin = _varint(message, at)
            end = begin + size
        case 5:
            begin, end = at, at + 4
        case _:  # groups are obsolete
            raise ValueError(f"a field has the wire type {wire_type}")
    if end > len(message):
        raise ValueError("a field is cut off")
    return begin, end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number at an index, and the index after it; raise ValueError."""
    value = shift = 0
    try:
        while (byte := message[at]) > 127:
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if shift >= _MAX_VARINT_BITS:
                raise ValueError("a number is too long")
    except IndexError:
        raise ValueError("a number is cut off") from None
    return value | byte << shift, at + 1
