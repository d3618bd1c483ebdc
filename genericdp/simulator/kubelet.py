"""The stand-in for a kubelet: start it, stop it, kill it, ask what it knows."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from genericdp.simulator.admission import Admitter
from genericdp.simulator.change import Change
from genericdp.simulator.folder import SOCKET_NAME, clean
from genericdp.simulator.manager import DeviceManager
from genericdp.simulator.node import Node
from genericdp.simulator.record import Record
from genericdp.simulator.run import Run
from genericdp.simulator.settings import Cleanup, Faults, Generation, Timing, Topology

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from genericdp.simulator.client import PluginClient
    from genericdp.simulator.manager import Amounts
    from genericdp.simulator.pods import Admission, Container, Pod, Start


class Kubelet:
    """A kubelet that may be started and ended any number of times; pods and node stay."""

    def __init__(
        self,
        folder: Path,
        *,
        generation: Generation = Generation.B,
        timing: Timing | None = None,
        topology: Topology | None = None,
        faults: Faults | None = None,
        cleanup: Cleanup = Cleanup.SOCKETS,
        seed: int | None = None,
        pod_resources: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.socket = folder / SOCKET_NAME
        self.generation = generation
        self.timing = timing or Timing()
        self.topology = topology or Topology()
        self.faults = faults or Faults()
        self.observed = Record()
        self._cleanup = cleanup
        self._pod_resources = pod_resources
        self._now = now
        self._change = Change()
        self._node = Node()
        self._awake = asyncio.Event()
        self._awake.set()
        self._admitter = Admitter(
            # Order at random, as Go's maps give it; nothing secret hangs on it.
            random.Random(seed),  # noqa: S311
            prestart_seconds=self.timing.prestart_seconds,
        )
        self._run: Run | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def sources_ready(self) -> bool:
        """Whether the kubelet has heard of all its pods; until then it spares what runs (KST-6)."""
        return self._admitter.sources_ready

    @sources_ready.setter
    def sources_ready(self, ready: bool) -> None:
        self._admitter.sources_ready = ready

    @property
    def is_running(self) -> bool:
        """Whether ``kubelet.sock`` is served."""
        return self._run is not None

    async def start(self) -> None:
        """Read the checkpoint, clean the folder, serve the socket (KST-1)."""
        if self._run is not None:
            raise RuntimeError("the kubelet is running already")
        manager = DeviceManager(
            self.folder,
            generation=self.generation,
            timing=self.timing,
            topology=self.topology,
            observed=self.observed,
            announce=self._change.announce,
            now=self._now,
        )
        if not manager.recover():
            self._node.reset()
        clean(self.folder, self._cleanup)
        await asyncio.sleep(self.faults.listen_delay_seconds)
        run = Run(
            manager,
            self._admitter,
            faults=self.faults,
            awake=self._awake,
            pod_resources=self._pod_resources,
        )
        await run.serve()
        self._run = run
        self._admitter.attach(manager)
        self.refresh_node()
        run.tasks.start(self._keep_node_fresh(), name="node status")
        self._change.announce()

    async def stop(self) -> None:
        """End in good order: plugins are disconnected, the socket's file is removed."""
        if (run := self._gone()) is not None:
            await run.stop()
            self._change.announce()

    async def crash(self) -> None:
        """Die: connections drop, the socket's file stays and refuses connections (KST-3)."""
        if (run := self._gone()) is not None:
            await run.crash()
            self._change.announce()

    async def restart(self) -> None:
        """Stop and start again."""
        await self.stop()
        await self.start()

    def freeze(self) -> None:
        """Do nothing more, as under SIGSTOP; only the sockets still accept connections."""
        self._awake.clear()

    def thaw(self) -> None:
        """Go on."""
        self._awake.set()

    def break_streams(self, resource: str) -> None:
        """Reset the resource's ListAndWatch streams; then the kubelet does what it always does."""
        for client in self._connections(resource):
            client.reset_streams()

    async def drop_connections(self, resource: str) -> None:
        """Close the connections to the resource's plugins, streams and all."""
        for client in self._connections(resource):
            await client.close()

    async def changed(self) -> None:
        """Wait until anything here changes."""
        await self._change.wait()

    async def wait_for(
        self, predicate: Callable[[], object], timeout_seconds: float = 30.0
    ) -> None:
        """Wait until something holds; a TimeoutError tells how things stand instead."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not predicate():
                    await self.changed()
        except TimeoutError:
            raise TimeoutError(f"not in {timeout_seconds} s; {self.describe()}") from None

    def describe(self) -> str:
        """Tell the state in one line."""
        amounts = self._run.manager.amounts() if self._run is not None else {}
        streams = {resource: self.streams(resource) for resource in amounts}
        return (
            f"running: {self.is_running}, capacity and allocatable: {amounts},"
            f" streams: {streams}, registrations: {dict(self.observed.registrations)},"
            f" lists: {dict(self.observed.lists)}"
        )

    def devices(self, resource: str) -> dict[str, str]:
        """Give each id of the resource with its health, ``Healthy`` or ``Unhealthy``."""
        return self._run.manager.devices.health(resource) if self._run is not None else {}

    def capacity(self, resource: str) -> int:
        """Give how many devices the kubelet knows now; the node shows it a little later."""
        return self._amounts(resource)[0]

    def allocatable(self, resource: str) -> int:
        """Give how many of them are healthy."""
        return self._amounts(resource)[1]

    def streams(self, resource: str) -> int:
        """Give how many ListAndWatch are open for a resource."""
        return sum(client.streams for client in self._connections(resource))

    def paths(self, resource: str) -> tuple[str, ...]:
        """Give the sockets of all connections for a resource, oldest first.

        One whose stream has ended is missing as soon as the kubelet has drawn its conclusions.
        """
        return tuple(client.path for client in self._connections(resource))

    def node(self) -> Amounts:
        """Give capacity and allocatable of each resource as the Node object shows them."""
        return dict(self._node.shown)

    def refresh_node(self) -> None:
        """Bring the Node object up to date now instead of at the next tick (LAW-9)."""
        if self._run is not None and self._node.refresh(self._run.manager):
            self._change.announce()

    async def admit(self, pod: Pod) -> Admission:
        """Admit a pod: allocate for each of its containers, or refuse it for good (ALL-1)."""
        admission = await self._admitter.admit(pod)
        self._change.announce()
        return admission

    async def start_container(self, pod: Pod, container: Container) -> Start:
        """Start, or restart, a container of an admitted pod (PRE-1, ALL-7)."""
        start = await self._admitter.start(pod, container)
        self._change.announce()
        return start

    def remove(self, pod: Pod) -> None:
        """Let a pod go; its devices are free when the next pod asks for some (ALL-3)."""
        self._admitter.remove(pod)

    def held(self, pod: Pod) -> dict[str, dict[str, frozenset[str]]]:
        """Give the ids that each container of a pod holds, by resource."""
        return self._admitter.held(pod)

    def health_status(self, pod: Pod) -> dict[str, dict[str, dict[str, str]]]:
        """Give the health of held ids by container and resource, as the pod's status has it."""
        return self._admitter.health_status(pod)

    def _gone(self) -> Run | None:
        run, self._run = self._run, None
        self._admitter.detach()
        return run

    def _connections(self, resource: str) -> tuple[PluginClient, ...]:
        return self._run.registration.connections(resource) if self._run is not None else ()

    def _amounts(self, resource: str) -> tuple[int, int]:
        amounts = self._run.manager.amounts() if self._run is not None else {}
        return amounts.get(resource, (0, 0))

    async def _keep_node_fresh(self) -> None:
        while True:
            # Up to 4 % longer, as the kubelet waits.
            jitter = random.uniform(1.0, 1.04)  # noqa: S311
            await asyncio.sleep(self.timing.node_refresh_seconds * jitter)
            await self._awake.wait()
            self.refresh_node()
