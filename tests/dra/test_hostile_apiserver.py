"""An API server that answers what no API server should, for twenty minutes of virtual time.

Whatever it does, the driver says why its slices may not be as they should be, leaves alone what is
not its own, sends few requests, and heals once the server is right again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
from genericdp.apiserver import Access, ApiClient
from genericdp.devices.devicelist import DeviceList
from genericdp.dra.publisher import Publisher, StoredSlices
from genericdp.errors import ApiAccessError
from genericdp.observed import Observed
from genericdp.settings import DRIVER

from tests.apiserver.scenarios import NODE, slice_of
from tests.apiserver.server import ApiServer
from tests.budget import examples
from tests.devices.making import decide, node, resource
from tests.virtual_time import virtually

Json = dict[str, Any]
Fault = dict[str, Any]

pytestmark = pytest.mark.slow

SERIAL = resource("serial", "/dev/ttyUSB*")
NAME, POOL = "example.com/serial", f"{NODE}/example.com/serial"
HOUR = 3600.0
LONG = examples(1200)
"""In seconds: twice as long as a watch is open. An hour or more, with THOROUGH=1."""
FEW = 800 / HOUR
"""Requests in a second: a round of three, or four with a write, in 20 to 30 s each."""


def lists(count: int) -> Mapping[str, DeviceList]:
    return decide([SERIAL], [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(count)])


def foreign() -> list[Json]:
    """Slices of another driver, of another node, and of neither."""
    other_driver, other_node, neither = slice_of(), slice_of(node="node-2"), slice_of(node="node-3")
    other_driver["spec"]["driver"] = neither["spec"]["driver"] = "other.io"
    return [other_driver, other_node, neither]


def events(*reported: tuple[str, Json]) -> bytes:
    return b"".join(
        json.dumps({"type": kind, "object": item}).encode() + b"\n" for kind, item in reported
    )


GONE = ("ERROR", {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired"})


def bookmark(server: ApiServer) -> tuple[str, Json]:
    return "BOOKMARK", {"metadata": {"resourceVersion": f"{server.version}"}}


def ours(server: ApiServer) -> list[Json]:
    return server.objects("resourceslices", **{"spec.driver": DRIVER, "spec.nodeName": NODE})


def listing(server: ApiServer, items: Sequence[Json]) -> bytes:
    metadata = {"resourceVersion": f"{server.version}"}
    return json.dumps({"metadata": metadata, "items": items}).encode()


def watch(content: Callable[[ApiServer], bytes]) -> Callable[[ApiServer], list[Fault]]:
    """Have each watch say this and end."""
    return lambda server: [{"verbs": {"watch"}, "content": lambda: content(server)}]


def listed(change: Callable[[ApiServer], list[Json]]) -> Callable[[ApiServer], list[Fault]]:
    """Have each list say this, and each watch end at once, so that another list follows."""
    return lambda server: [
        {"verbs": {"list"}, "content": lambda: listing(server, change(server))},
        {"verbs": {"watch"}, "content": b""},
    ]


def with_other_content(server: ApiServer) -> list[Json]:
    """Return what is stored, with other devices under the same versions."""
    return [{**item, "spec": {**item["spec"], "devices": []}} for item in ours(server)]


_numbers = itertools.count()


def invented(server: ApiServer) -> list[Json]:
    """Return what is stored, and 50 slices of our pool that never were."""
    found = []
    for number in itertools.islice(_numbers, 50):
        item = slice_of(pool=POOL)
        item["metadata"] |= {"name": f"s{number}", "uid": f"u{number}", "resourceVersion": "7"}
        found.append(item)
    return ours(server) + found


def another_node(_server: ApiServer) -> bytes:
    metadata = {"name": NODE, "uid": f"uid-{next(_numbers)}"}
    info = {"kubeletVersion": f"v1.{35 + next(_numbers) // 2 % 2}.0"}
    return json.dumps({"metadata": metadata, "status": {"nodeInfo": info}}).encode()


def others_too(server: ApiServer) -> list[Fault]:
    """Have lists and watches report slices that no one has selected."""
    server.selects = False
    return watch(
        lambda server: events(
            *(("ADDED", item) for item in server.objects("resourceslices")),
            *(("DELETED", item) for item in server.objects("resourceslices")),
        )
    )(server)


CASES: dict[str, tuple[Callable[[ApiServer], list[Fault]], str]] = {
    "an endless list":
        (lambda _: [{"verbs": {"list"}, "endless": b" " * 2**20}], "answer has more than 4 MiB"),
    "watches that end at once": (watch(lambda _: b""), "no watch of"),
    "watches that are lost after a bookmark":
        (lambda _: [{"verbs": {"watch"}, "cut": True}], "does not answer"),
    "a bookmark before each 410": (watch(lambda server: events(bookmark(server), GONE)), "410"),
    "DELETED for what is listed":
        (watch(lambda server: events(*(("DELETED", item) for item in ours(server)))),
         "listed slices are deleted"),
    "slices of others in lists and watches": (others_too, "listed slices are deleted"),
    "other content under the same version":
        (listed(with_other_content), "keeps changing or deleting"),
    "nothing of what was written": (listed(lambda _: []), "keeps changing or deleting"),
    "slices of our pool that never were": (listed(invented), "no watch of"),
    "a Node that is another one each time":
        (lambda server: [{"verbs": {"get"}, "content": lambda: another_node(server)},
                         {"verbs": {"watch"}, "content": b""}],
         "no watch of"),
    "a conflict with each write":
        (lambda server: [{"verbs": {"create", "update", "delete"}, "status": 409},
                         *listed(with_other_content)(server)],
         "409"),
}  # fmt: skip
"""What the server does, and what is said of it."""


@asynccontextmanager
async def publishing(access: Callable[[], Access]) -> AsyncIterator[Publisher]:
    async with ApiClient(access) as client, asyncio.TaskGroup() as tasks:
        stored = StoredSlices(client, driver=DRIVER, node_name=NODE)
        publisher = Publisher(stored, wanted=Observed(lists(2)), registered=Observed(True))
        running = tasks.create_task(publisher.run())
        yield publisher
        running.cancel()


def offered(server: ApiServer) -> int:
    return sum(len(item["spec"].get("devices", ())) for item in ours(server))


def complaints(publisher: Publisher) -> list[str]:
    """Return what status shows."""
    return [
        text for text in (publisher.slices.failure.value, *publisher.state.value.values()) if text
    ]


async def becomes(condition: Callable[[], object]) -> None:
    """Wait until something holds: leftovers by the hundred are deleted at leisure."""
    async with asyncio.timeout(3 * HOUR):
        while not condition():  # noqa: ASYNC110  # it would stop virtual time more often
            await asyncio.sleep(0.5)  # noqa: TID251 -- virtual time


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_server_gets_few_requests_and_no_foreign_slice_and_is_forgiven(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, says = CASES[case]

    async def main() -> None:
        async with ApiServer() as server, publishing(server.access) as publisher:
            server.add_node(NODE)
            others = [server.put("resourceslices", item) for item in foreign()]
            await becomes(lambda: offered(server) == 2 and server.watching)
            with ExitStack() as faults:
                for fault in wrong(server):
                    faults.enter_context(server.failing(**fault))
                server.end_watches()
                before = len(server.requests)
                await asyncio.sleep(LONG)  # noqa: TID251 -- virtual time
                sent = server.requests[before:]
                logged = (
                    record.message
                    for record in caplog.records
                    if record.name.startswith("genericdp")
                )
                said = [*complaints(publisher), *logged]
            assert any(says in text for text in said), said
            assert all(text.isprintable() for text in said)
            assert len(sent) < FEW * LONG
            server.selects = True
            server.end_watches()
            publisher.wanted.value = lists(3)
            await becomes(lambda: offered(server) == 3 and not complaints(publisher))
            assert all(item in server.objects("resourceslices") for item in others)

    virtually(main())


_VALUES: Mapping[str, tuple[object, ...]] = {
    "metadata.name": (None, [], "", "../pods"),
    "metadata.uid": (None, 7),
    "metadata.resourceVersion": (None, "abc", "-1", "1" + "0" * 400),
    "spec.pool": (None, [], {}),
    "spec.pool.name": (None, {}),
    "spec.pool.generation": ("1", True, -1, 1.5, 10**400),
    "spec.devices": (7, {"name": "x"}, [None], [{"name": []}]),
}


def malformed() -> list[Json]:
    """Return slices of this node, each with one wrong value."""
    found: list[Json] = []
    for path, values in _VALUES.items():
        for value in values:
            item = slice_of(pool=POOL)
            name = f"odd{len(found)}"
            item["metadata"] |= {"name": name, "uid": f"u{len(found)}", "resourceVersion": "7"}
            *parents, last = path.split(".")
            inner = item
            for parent in parents:
                inner = inner[parent]
            inner[last] = value
            found.append(item)
    return found


def test_malformed_slices_concern_themselves_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with ApiServer() as server:
            server.add_node(NODE)
            with server.failing(
                verbs={"list"}, content=lambda: listing(server, malformed() + ours(server))
            ):
                async with publishing(server.access) as publisher:
                    await becomes(lambda: offered(server) == 2 and not complaints(publisher))
                    for kind in ("ADDED", "MODIFIED", "DELETED"):
                        server.tell_watches(events(*((kind, item) for item in malformed())))
                    publisher.wanted.value = lists(3)
                    await becomes(lambda: offered(server) == 3 and not complaints(publisher))
            assert [request.verb for request in server.writes] == ["create", "update"]

    virtually(main())
    assert len([text for text in caplog.messages if "malformed ResourceSlices" in text]) == 1


def test_access_that_is_missing_is_looked_for_rarely_and_found_soon() -> None:
    looks = 0

    async def main() -> None:
        async with ApiServer() as server:
            server.add_node(NODE)
            is_missing = True

            def access() -> Access:
                nonlocal looks
                looks += 1
                if is_missing:
                    raise ApiAccessError("there is none")
                return server.access()

            async with publishing(access) as publisher:
                await asyncio.sleep(LONG)  # noqa: TID251 -- virtual time
                assert "there is none" in complaints(publisher)
                assert looks < 2 * LONG
                is_missing = False
                await asyncio.sleep(5.0)  # noqa: TID251 -- virtual time
                assert offered(server) == 2

    virtually(main())


def test_nothing_is_sent_for_as_long_as_the_api_server_asks_for() -> None:
    async def main() -> None:
        async with ApiServer() as server, publishing(server.access) as publisher:
            server.add_node(NODE)
            with server.failing(status=429, retry_after=300):
                await asyncio.sleep(299.0)  # noqa: TID251 -- virtual time
                assert len(server.requests) == 1
            await becomes(lambda: offered(server) == 2 and not complaints(publisher))

    virtually(main())


def test_what_happens_once_is_healed_at_once_and_a_healthy_hour_is_quiet() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time
        async with ApiServer() as server, publishing(server.access) as publisher:
            server.add_node(NODE)
            await becomes(lambda: offered(server) == 2 and server.watching)
            await asyncio.sleep(HOUR)  # noqa: TID251 -- virtual time
            # The client has each watch end after 5 to 10 minutes; three requests begin another.
            assert len(server.requests) < 3 * 15
            disturbances: list[Callable[[], None]]
            disturbances = [lambda: server.wipe(NODE), server.compact, server.end_watches]
            for disturb in disturbances:
                before, lists_before = now(), publisher.slices.listed.value
                disturb()
                server.end_watches()
                while publisher.slices.listed.value == lists_before or offered(server) != 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)  # noqa: TID251 -- virtual time
                assert now() - before < 1
                await asyncio.sleep(HOUR)  # noqa: TID251 -- virtual time
            assert not complaints(publisher)

    virtually(main())
