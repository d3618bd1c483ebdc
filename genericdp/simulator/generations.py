"""What the two generations of kubelets do differently: which plugins they remember, by which key.

Both keep two books that can disagree, as the kubelet's registration server and its device manager
do: the *clients* that are connected, and the *endpoints* that Allocate and the node status use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from genericdp.simulator.goerrors import KubeletError
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
    from genericdp.simulator.client import PluginClient


@dataclass(kw_only=True, slots=True)
class Endpoint:
    """Where the calls for one resource go."""

    resource: str
    client: PluginClient | None = None
    """None for a resource that is only known from the checkpoint."""
    options: pb.DevicePluginOptions | None = None
    """Read once, at registration (REG-7); unknown after a restart of the kubelet."""
    stopped_at: float | None = None

    @property
    def path(self) -> str:
        """The plugin's socket."""
        return self.client.path if self.client is not None else ""

    def live_client(self) -> PluginClient:
        """Give the connection to call; fail when the plugin is known to be gone."""
        if self.client is None or self.stopped_at is not None:
            raise KubeletError(f"endpoint {self.resource} has been stopped")
        return self.client

    def is_expired(self, *, now: float, grace_seconds: float) -> bool:
        """Say whether the plugin has been away for too long (KST-7)."""
        return self.stopped_at is not None and now - self.stopped_at > grace_seconds


class Clients(Protocol):
    """The registration server's book."""

    def add(self, client: PluginClient) -> None:
        """Remember a connection before it is made."""

    def remove(self, resource: str, path: str) -> None:
        """Forget what is under this key, which need not be the client that the caller means."""

    def get(self, resource: str, path: str) -> PluginClient | None:
        """Look a connection up."""

    def everyone(self) -> tuple[PluginClient, ...]:
        """Give all that are remembered."""


class Endpoints(Protocol):
    """The device manager's book; ``current`` has one endpoint for each resource."""

    current: dict[str, Endpoint]

    def connect(self, endpoint: Endpoint) -> None:
        """Take a new plugin in, or refuse it."""

    def disconnect(self, resource: str, path: str, *, now: float) -> bool:
        """Stop an endpoint; say whether the resource's devices are unhealthy from now on."""


class ClientsByName:
    """Generation A: a second plugin of a resource replaces the first one's entry (REG-9)."""

    def __init__(self) -> None:
        self._clients: dict[str, PluginClient] = {}

    def add(self, client: PluginClient) -> None:
        """Replace the entry; the connection that it named stays open, unnoticed."""
        self._clients[client.resource] = client

    def remove(self, resource: str, path: str) -> None:  # noqa: ARG002  # the key is the name alone
        """Forget the resource's entry, whoever it is now (REG-9c)."""
        self._clients.pop(resource, None)

    def get(self, resource: str, path: str) -> PluginClient | None:  # noqa: ARG002  # as above
        """Give the resource's latest client, whoever asks (REG-9b)."""
        return self._clients.get(resource)

    def everyone(self) -> tuple[PluginClient, ...]:
        """Give the latest client of each resource."""
        return tuple(self._clients.values())


class ClientsByPath:
    """Generation B: the socket's path tells the plugins of one resource apart (REG-10)."""

    def __init__(self) -> None:
        self._clients: list[PluginClient] = []

    def add(self, client: PluginClient) -> None:
        """Add a client, even to the same path."""
        self._clients.append(client)

    def remove(self, resource: str, path: str) -> None:
        """Forget every client of that path: a refused duplicate takes the live one with it."""
        self._clients = [
            client for client in self._clients if (client.resource, client.path) != (resource, path)
        ]

    def get(self, resource: str, path: str) -> PluginClient | None:
        """Give the first client of that path."""
        key = (resource, path)
        return next((c for c in self._clients if (c.resource, c.path) == key), None)

    def everyone(self) -> tuple[PluginClient, ...]:
        """Give all clients in the order of their registration."""
        return tuple(self._clients)


class EndpointsByName:
    """Generation A: one endpoint for each resource, the last that registered."""

    def __init__(self) -> None:
        self.current: dict[str, Endpoint] = {}

    def connect(self, endpoint: Endpoint) -> None:
        """Replace the resource's endpoint."""
        self.current[endpoint.resource] = endpoint

    def disconnect(self, resource: str, path: str, *, now: float) -> bool:  # noqa: ARG002
        """Stop the resource's endpoint, whoever it is now (REG-9b)."""
        endpoint = self.current.get(resource)
        if endpoint is None:
            return False
        endpoint.stopped_at = now
        return True


class EndpointsByPath:
    """Generation B: the newest endpoint counts; another takes over when it goes (REG-10)."""

    def __init__(self) -> None:
        self.current: dict[str, Endpoint] = {}
        self._all: dict[str, dict[str, Endpoint]] = {}

    def connect(self, endpoint: Endpoint) -> None:
        """Add an endpoint; refuse a path that is still thought to be connected."""
        paths = self._all.setdefault(endpoint.resource, {})
        if endpoint.path in paths:
            raise KubeletError(f"device plugin already connected: {endpoint.path}")
        paths[endpoint.path] = endpoint
        self.current[endpoint.resource] = endpoint

    def disconnect(self, resource: str, path: str, *, now: float) -> bool:
        """Stop the endpoint of that path; promote one of those that remain."""
        paths = self._all.get(resource, {})
        endpoint = paths.get(path)
        if endpoint is None:
            return False
        endpoint.stopped_at = now
        del paths[path]
        if not paths:
            del self._all[resource]
            return True
        self.current[resource] = next(iter(paths.values()))
        return False


def books_of(generation: Generation) -> tuple[Clients, Endpoints]:
    """Give the two books that a kubelet of this generation keeps."""
    match generation:
        case Generation.A:
            return ClientsByName(), EndpointsByName()
        case Generation.B:
            return ClientsByPath(), EndpointsByPath()
