"""After any events, a daemon that has run all along offers what a freshly started one offers.

Both run whole, each with a kubelet of its own, over one host. The entry of a missing device
is the only thing that depends on history: it is Unhealthy, and its ID, which the same hardware
has again if it comes back under another link.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.polling import ask_until
from tests.world import World, resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.world import Daemon

Event = tuple[Any, ...]
"""What happens, and to what."""
Offered = dict[str, dict[str, str]]
"""By resource and ID of a Healthy device, but for links just a number: what Allocate answers."""

LINKED = "example.com/linked"
PORT = "example.com/port"
PAIR = "example.com/pair"
MORE = "example.com/more"


def resources(*, replicas: int, more: bool) -> list[dict[str, object]]:
    """Return what a config requests: links before the ports they lead to, and groups."""
    exclude = [{"path": "/dev/reserved/*"}]
    state = {"path": "$(device.syspath)/state", "equals": "good"}
    found = [
        resource(LINKED, "/dev/by-id/*", exclude=exclude),
        resource(
            PORT,
            "/dev/ttyUSB*",
            exclude=exclude,
            values={"speed": {"file": "$(device.syspath)/speed"}},
            health=[{"file": state, "periodSeconds": 1, "failureThreshold": 1}],
            inject={
                "devices": [
                    {"path": "$(device.path)"},
                    {"path": "/dev/extra*", "shared": True, "optional": True},
                ],
                "env": {"SPEED": "$(value.speed:-unknown)"},
            },
            replicas=replicas,
        ),
        resource(
            PAIR,
            "/dev/half*",
            values={"number": {"text": "$(device.name)", "regex": "([0-9])"}},
            groupBy="$(value.number)",
        ),
    ]
    if more:
        found.append(resource(MORE, "/dev/other*"))
    # What has disappeared keeps its ID and its nodes for this long: the one thing that is history.
    return [{**match, "forgetAfterSeconds": 1} for match in found]


class Run:
    """The daemon that runs all along, its kubelet, and the host they share with fresh ones."""

    def __init__(self, world: World, daemon: Daemon) -> None:
        self.world = world
        self.daemon = daemon
        self.wanted = resources(replicas=1, more=False)
        for directory in ("by-id", "reserved"):
            (world.host.directory / "dev" / directory).mkdir()

    async def plug(self, port: int) -> None:
        self.world.host.plug(f"ttyUSB{port}")
        self._set(port, "state", "good")

    async def speed(self, port: int, speed: str) -> None:
        # No kernel reports a copied tree: what is plugged again is read again.
        if (node := self._dev(f"ttyUSB{port}")).exists():
            node.unlink()
            self._set(port, "speed", speed)
            await self.plug(port)

    async def state(self, port: int, state: str) -> None:
        if self._dev(f"ttyUSB{port}").exists():
            self._set(port, "state", state)

    async def turn(self, link: str, port: int) -> None:
        await self.remove(link)
        self._dev(link).symlink_to(f"../ttyUSB{port}")

    async def add(self, name: str, minor: int) -> None:
        self.world.host.plug(name, minor=minor)

    async def remove(self, name: str) -> None:
        self._dev(name).unlink(missing_ok=True)

    async def configure(self, replicas: int, more: bool) -> None:
        self.wanted = resources(replicas=replicas, more=more)
        await self.daemon.takes(*self.wanted)

    async def restart(self) -> None:
        await self.world.kubelet.restart()

    def _dev(self, name: str) -> Path:
        return self.world.host.directory / "dev" / name

    def _set(self, port: int, attribute: str, text: str) -> None:
        self.world.host.write(f"sys/devices/virtual/tty/ttyUSB{port}/{attribute}", text)


port = st.integers(0, 3)
link = st.sampled_from(["by-id/a", "by-id/b", "reserved/r"])
added = {"half1a": 21, "half1b": 22, "half2a": 23, "extra1": 31, "other1": 41}
events = st.one_of(
    st.tuples(st.just("plug"), port),
    st.tuples(st.just("speed"), port, st.sampled_from(["9600", "115200"])),
    st.tuples(st.just("state"), port, st.sampled_from(["good", "bad"])),
    st.tuples(st.just("turn"), link, port),
    st.sampled_from([("add", *name_and_minor) for name_and_minor in added.items()]),
    st.tuples(st.just("remove"), port.map("ttyUSB{}".format)),
    st.tuples(st.just("remove"), link | st.sampled_from([*added])),
    st.tuples(st.just("configure"), st.sampled_from([1, 2]), st.booleans()),
    st.tuples(st.just("restart")),
)


async def offered(world: World) -> Offered:
    """Return what a kubelet has and would be given; raises while that changes."""
    found: Offered = {}
    for name in (LINKED, PORT, PAIR, MORE):
        listed = world.kubelet.devices(name)
        healthy = sorted(entry for entry, health in listed.items() if health == "Healthy")
        answers = [str(await world.allocated(name, [device])) for device in healthy]
        keys = map(str, range(len(healthy))) if name == LINKED else healthy
        found[name] = dict(zip(keys, sorted(answers) if name == LINKED else answers, strict=True))
    return found


async def offered_or_none(world: World) -> Offered | None:
    try:
        return await offered(world)
    except (grpc.aio.AioRpcError, ValueError):  # it is being served again
        return None


async def compare(run: Run, directory: Path) -> None:
    """Start the daemon again next to the other one, and wait until both offer the same."""
    directory.mkdir()
    fresh = World(directory)
    async with fresh.kubelet, fresh.serving(*run.wanted, root=run.world.host.directory):
        for wanted in run.wanted:
            await fresh.listed_once(str(wanted["name"]))

        async def are_equal() -> bool:
            found = await offered_or_none(run.world)
            return found is not None and found == await offered_or_none(fresh)

        await ask_until(are_equal, bool)


async def go_through(batches: Sequence[Sequence[Event]], directory: Path) -> None:
    world = World(directory)
    async with world.kubelet, world.serving(*resources(replicas=1, more=False)) as daemon:
        run = Run(world, daemon)
        for number, batch in enumerate(batches):
            for kind, *about in batch:
                await getattr(run, kind)(*about)
            await compare(run, directory / f"fresh-{number}")


# What fails is not made smaller: each attempt would wait for what never comes.
@settings(max_examples=examples(6), deadline=None, phases=(Phase.reuse, Phase.generate))
@given(batches=st.lists(st.lists(events, min_size=3, max_size=8), min_size=2, max_size=4))
def test_a_daemon_offers_what_a_freshly_started_one_offers(batches: list[list[Event]]) -> None:
    with tempfile.TemporaryDirectory(prefix="g") as directory:
        asyncio.run(go_through(batches, Path(directory)))
