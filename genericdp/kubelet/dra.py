"""The gRPC servers of a DRA driver: registration in plugins_registry, and calls about claims."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

import grpc

from genericdp.errors import KubeletError
from genericdp.kubelet.api import dra_pb2 as api
from genericdp.kubelet.api import drahealth_pb2 as health_api
from genericdp.kubelet.api import pluginregistration_pb2 as registration_api
from genericdp.kubelet.directory import check_length, find_socket
from genericdp.kubelet.lifecycle import RegistrationState
from genericdp.kubelet.server import answering, serving
from genericdp.kubelet.servicer import parsed
from genericdp.observed import Observed, Signal, any_change, until
from genericdp.repeat import Latch, explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Never

    from genericdp.kubelet.directory import SocketIdentity

log = logging.getLogger(__name__)

SERVICE = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_VERSIONS = ("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""What the driver serves; kubelets ignore what they do not know."""
_HEALTH_SERVICES = _VERSIONS[1:]
_HEALTH_PAUSE = 0.1
"""The least time between two reports, each of which is about all claims."""
_HEALTH_SECONDS = 10.0
"""How often health is reported again: a kubelet forgets it after 30 s."""
REGISTRATION_SERVICE = "pluginregistration.Registration"

_MAX_BYTES = 1024 * 1024
"""Maximum size of a request, which names the claims of one pod."""
_MAX_TEXT = 1024
"""Maximum length of a reason: as much as an event can have."""
_UID = re.compile(r"[0-9A-Za-z-]{1,63}")
"""The UID of a claim: it becomes part of a file name, so nothing else is accepted."""


class ClaimRef(NamedTuple):
    """A claim as the kubelet identifies it."""

    namespace: str
    name: str
    uid: str


class PreparedDevice(TypedDict):
    """A device of a prepared claim, with the fields of the message ``Device``."""

    request_names: Sequence[str]
    pool_name: str
    device_name: str
    cdi_device_ids: Sequence[str]
    share_id: str | None


class DeviceHealth(TypedDict):
    """The health of a device, named as in its ResourceSlice."""

    pool_name: str
    device_name: str
    is_healthy: bool | None
    """None if it is not known yet."""
    reason: str
    """Why it is not healthy."""


class ClaimHandler(Protocol):
    """Prepares and unprepares claims; a call is canceled if the kubelet gives up."""

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, Sequence[PreparedDevice] | str]:
        """Return the devices of each claim, or why it cannot be prepared, by UID."""
        ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Return why each claim cannot be unprepared, by UID; empty if it was."""
        ...

    def health(self) -> Iterable[DeviceHealth]:
        """Return the health of the devices that claims have: pods show that of no other."""
        ...


class DraPlugin:
    """Keeps a DRA driver registered with the kubelet. Cancel ``run`` to end it.

    The caller ensures that no other process on the node runs it for the same driver.
    """

    def __init__(
        self,
        driver: str,
        *,
        kubelet_root: Path,
        handler: ClaimHandler,
        devices: Observed[Any],
        look_seconds: float = 3.0,
        retry_seconds: float = 1.0,
    ) -> None:
        """Raise UsageError if the path of a socket would be too long.

        Health is reported whenever ``devices`` changes.
        ``look_seconds`` is the time between two checks that the sockets still exist,
        ``retry_seconds`` that before they are created again.
        """
        self.registration = RegistrationState()
        self._driver = driver
        self._root = kubelet_root.absolute()  # the kubelet gets the path of the driver's socket
        self._handler = handler
        self._look_seconds, self._retry_seconds = look_seconds, retry_seconds
        self._devices, self._handled = devices, Signal()
        self._calls = Observed(0)
        """How many calls are in progress."""
        self._unregistered = Latch(log)
        self._socket = self._root / "plugins" / driver / "dra.sock"
        self._registration_socket = self._root / "plugins_registry" / f"{driver}-reg.sock"
        for path in (self._socket, self._registration_socket):
            check_length(path, "give a shorter --kubelet-root or --dra-driver")

    async def run(self) -> Never:
        """Serve and register, forever; when this ends, no call is in progress."""
        try:
            while True:
                try:
                    await self._serve()
                except (KubeletError, OSError) as error:
                    self._not_registered(explained(error, self._root))
                await asyncio.sleep(self._retry_seconds)
        finally:
            self.registration.not_registered("it has been stopped")
            # The server has canceled the calls, but they may not have ended yet.
            await until(lambda: not self._calls.value, self._calls)

    def _not_registered(self, reason: str) -> None:
        """Record and log why it is not registered."""
        message = "the DRA driver %s is not registered: %s"
        self._unregistered.update(reason, message, self._driver, reason)
        self.registration.not_registered(reason)

    async def _serve(self) -> Never:
        """Serve both sockets; raise KubeletError or OSError once that is impossible."""
        self._prepare_directories()
        claims = {
            "NodePrepareResources": answering(self._prepare, self._calls, max_bytes=_MAX_BYTES),
            "NodeUnprepareResources": answering(self._unprepare, self._calls, max_bytes=_MAX_BYTES),
        }
        health: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "NodeWatchResources": grpc.unary_stream_rpc_method_handler(self._watch_health)
        }
        registration = {
            "GetInfo": answering(self._get_info, self._calls, max_bytes=_MAX_BYTES),
            "NotifyRegistrationStatus": answering(self._notify, self._calls, max_bytes=_MAX_BYTES),
        }
        self.registration.not_registered(
            "the kubelet has not called the driver yet: it is down, or has another --root-dir"
        )
        async with (
            serving(self._socket, {SERVICE: claims, **dict.fromkeys(_HEALTH_SERVICES, health)}),
            serving(self._registration_socket, {REGISTRATION_SERVICE: registration}),
        ):
            bound = self._find_sockets()
            while True:
                await asyncio.sleep(self._look_seconds)
                if None in bound or self._find_sockets() != bound:
                    raise KubeletError("its sockets have been removed or replaced")

    def _prepare_directories(self) -> None:
        """Create the driver's directory; raise KubeletError or OSError if no socket fits."""
        own, registry = self._socket.parent, self._registration_socket.parent
        _check_directory(self._root)
        _check_directory(registry)
        own.parent.mkdir(mode=0o750, exist_ok=True)  # as the kubelet creates it
        own.mkdir(mode=0o700, exist_ok=True)
        own.chmod(0o700)
        _check_unserved(self._socket)
        _check_unserved(self._registration_socket)

    def _find_sockets(self) -> list[SocketIdentity | None]:
        return [find_socket(path)[0] for path in (self._socket, self._registration_socket)]

    async def _get_info(self, _request: bytes) -> bytes:
        # The kubelet asks before it registers the driver, so an earlier registration no longer
        # counts.
        self.registration.not_registered("the kubelet has asked, but has not taken the driver yet")
        return registration_api.PluginInfo(
            type="DRAPlugin",
            name=self._driver,
            endpoint=str(self._socket),
            supported_versions=_VERSIONS,
        ).SerializeToString()

    async def _notify(self, request: bytes) -> bytes:
        status = parsed(registration_api.RegistrationStatus, request)
        if status.plugin_registered:
            log.info("the DRA driver %s is registered", self._driver)
            self._unregistered.update("")
            self.registration.registered()
        else:
            self._not_registered(f"the kubelet refuses the driver: {status.error[:_MAX_TEXT]}")
        return b""

    async def _prepare(self, request: bytes) -> bytes:
        claims = parsed(api.NodePrepareResourcesRequest, request).claims
        results = await self._handler.prepare(_with_valid_uid(claims))
        answer = api.NodePrepareResourcesResponse()
        for claim in claims:
            result = results.get(claim.uid, "this is not a UID")
            try:
                devices = (
                    () if isinstance(result, str) else [api.Device(**device) for device in result]
                )
            except UnicodeError:  # half of a surrogate pair, which JSON can contain
                result, devices = "the name of a request is not valid UTF-8", ()
            if isinstance(result, str):
                answer.claims[claim.uid].error = _error_text(result)
            answer.claims[claim.uid].devices.extend(devices)
        self._handled.send()
        return answer.SerializeToString()

    async def _unprepare(self, request: bytes) -> bytes:
        claims = parsed(api.NodeUnprepareResourcesRequest, request).claims
        results = await self._handler.unprepare(_with_valid_uid(claims))
        answer = api.NodeUnprepareResourcesResponse()
        for claim in claims:
            # A claim with an invalid UID cannot have been prepared.
            answer.claims[claim.uid].error = _error_text(results.get(claim.uid, ""))
        return answer.SerializeToString()

    async def _watch_health(self, _request: bytes, _context: object) -> AsyncIterator[bytes]:
        """Yield the health of devices, at each change and now and then."""
        values = (self._devices, self._handled)
        while True:
            has_news = any_change(*values)
            devices = map(_health_message, self._handler.health())
            yield health_api.NodeWatchResourcesResponse(devices=devices).SerializeToString()
            await asyncio.sleep(_HEALTH_PAUSE)
            await until(has_news, *values, timeout_seconds=_HEALTH_SECONDS)


def _health_message(health: DeviceHealth) -> health_api.DeviceHealth:
    status = {None: health_api.UNKNOWN, True: health_api.HEALTHY, False: health_api.UNHEALTHY}
    return health_api.DeviceHealth(
        device=health_api.DeviceIdentifier(
            pool_name=health["pool_name"], device_name=health["device_name"]
        ),
        health=status[health["is_healthy"]],
        last_updated_time=int(time.time()),  # noqa: TID251  # to be shown
        message=_error_text(health["reason"]),
    )


def _check_directory(directory: Path) -> None:
    """Raise KubeletError or OSError if no socket can be created in a directory."""
    try:
        status = directory.stat()
    except FileNotFoundError as error:
        raise KubeletError(f"there is no directory {directory}: is the kubelet running?") from error
    if status.st_nlink == 0:
        raise KubeletError(
            f"{directory} was deleted below its mount and cannot come back: restarting helps"
        )


def _check_unserved(path: Path) -> None:
    """Raise KubeletError if a path is in use; gRPC replaces a socket that is not served (TRN-3)."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0)
        try:
            client.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                return
            why = f"{path} is in the way: it is not a socket; remove it"
            raise KubeletError(why) from None
        except BlockingIOError:
            pass  # a busy process serves it
    raise KubeletError(
        f"another process serves {path}: let only one have this driver's name (--dra-driver)"
    )


def _with_valid_uid(claims: Iterable[api.Claim]) -> list[ClaimRef]:
    return [
        ClaimRef(claim.namespace, claim.name, claim.uid)
        for claim in claims
        if _UID.fullmatch(claim.uid)
    ]


def _error_text(reason: str) -> str:
    """Return a reason as valid UTF-8, which a path in it may not be, and not too long."""
    return reason[:_MAX_TEXT].encode(errors="replace").decode()
