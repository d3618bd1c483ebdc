"""ResourceSlices: names, devices, which slice has which, and the requests that make them so."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import pytest
from genericdp.devices.attributes import AttributeValue
from genericdp.devices.devicelist import DeviceList, Entry
from genericdp.devices.resourcenames import label
from genericdp.devices.transitions import State
from genericdp.dra.slices import (
    MAX_PER_SLICE,
    Offered,
    Pool,
    devices_of,
    has_extended_resources,
    layout_of,
    next_layout,
    plan,
    pool_name,
)
from genericdp.model import AttributeType, TaintEffect
from genericdp.reasons import Code, Reason
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.devices.making import decide, decision, node, resource, selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import Device
    from genericdp.devices.inventory import FoundFile
    from genericdp.dra.slices import Layout

    Json = dict[str, Any]

USB0, USB1 = node("/dev/ttyUSB0", (188, 0)), node("/dev/ttyUSB1", (188, 1))
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("zram0", "zram0"),
        ("0", "0"),
        ("a" * 63, "a" * 63),
        ("a" * 64, f"{'a' * 54}-ffe054fe"),
        ("ttyUSB0", "ttyusb0-8acffaea"),
        ("zram0::1", "zram0--1-1137cf7d"),
        ("1-1.4:1.0-tty", "1-1-4-1-0-tty-635f26bd"),
        ("-a-", "a-a75a468f"),
        ("", "e3b0c442"),
        ("…", "b4935894"),
    ],
)
def test_a_name_is_the_id_where_that_is_a_dns_label_else_one_with_its_digest(
    text: str, name: str
) -> None:
    assert label(text) == name


@given(st.text(max_size=80))
def test_any_text_becomes_a_dns_label(text: str) -> None:
    assert LABEL.fullmatch(label(text))


@pytest.mark.parametrize(
    ("node_name", "name", "pool"),
    [
        ("node-1", "example.com/zram", "node-1/example.com/zram"),
        ("node-1.example.com", "example.com/Serial_2", "node-1.example.com/example.com/serial-2-x"),
        ("n" * 253, "example.com/zram", f"{'n' * 244}-x"),
        ("n" * 243, "example.com/zram", f"{'n' * 243}-x"),
    ],
)
def test_a_pool_is_named_by_node_and_resource(node_name: str, name: str, pool: str) -> None:
    found = pool_name(node_name, name)
    assert re.sub(r"-[0-9a-f]{8}$", "-x", found) == pool
    assert len(found) <= 253


@pytest.mark.parametrize(
    ("version", "has_them"),
    [
        ("v1.36.0", True),
        ("v1.36.1-gke.1000", True),
        ("v1.37.0+k3s1", True),
        ("v2.0.0", True),
        ("v1.35.9", False),
        ("v1.4.36", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_claims_for_plain_limits_need_a_kubelet_of_version_1_36(
    version: str, *, has_them: bool
) -> None:
    assert has_extended_resources(version) is has_them


def offered(files: Iterable[FoundFile] = (USB0, USB1), **keys: Any) -> Offered:
    extended_resource = keys.pop("extended_resource", True)
    attributes: Mapping[str, AttributeValue] = keys.pop("attributes", {})
    spec = resource("serial", "/dev/ttyUSB*", **keys)
    devices = decide([spec], files)[spec.name]
    entries = tuple(
        replace(entry, device=replace(entry.device, attributes=attributes))
        for entry in devices.devices.values()
    )
    found = replace(devices, entries=entries)
    return devices_of(spec.name, found, driver="genericdp.io", extended_resource=extended_resource)


def test_a_device_has_its_attributes_its_resource_and_its_id() -> None:
    attributes = {
        "maker": AttributeValue(AttributeType.STRING, "FTDI"),
        "speed": AttributeValue(AttributeType.INT, 12),
        "isolated": AttributeValue(AttributeType.BOOL, value=False),
        "firmware": AttributeValue(AttributeType.VERSION, "1.2.0"),
        "resource.kubernetes.io/numaNode": AttributeValue(AttributeType.INT, 0),
    }
    name = label("ttyUSB0")
    assert offered([USB0], attributes=attributes, extended_resource=False).devices == {
        name: {
            "name": name,
            "attributes": {
                "maker": {"string": "FTDI"},
                "speed": {"int": 12},
                "isolated": {"bool": False},
                "firmware": {"version": "1.2.0"},
                "resource.kubernetes.io/numaNode": {"int": 0},
                "resource": {"string": "example.com/serial"},
                "extendedResource": {"bool": False},
                "id": {"string": "ttyUSB0"},
            },
        }
    }


def test_each_share_is_a_device() -> None:
    found = offered([USB0], replicas=2)
    assert found.shares == {label("ttyUSB0"): "ttyUSB0", label("ttyUSB0::1"): "ttyUSB0::1"}
    ids = [device["attributes"]["id"]["string"] for device in found.devices.values()]
    assert ids == ["ttyUSB0", "ttyUSB0::1"]


def taints(found: Offered) -> dict[str, Json | None]:
    """Return the taint of each device, by its ID."""
    return {
        found.shares[name]: (device.get("taints") or [None])[0]
        for name, device in found.devices.items()
    }


def tainted(
    entry: Entry[Device], effect: TaintEffect, *, lacking: Iterable[str] = ()
) -> dict[str, Json | None]:
    found = DeviceList(entries=(entry,), unhealthy_taint=effect)
    return taints(
        devices_of(
            "example.com/serial",
            found,
            driver="genericdp.io",
            extended_resource=True,
            lacking=tuple(lacking),
        )
    )


NO_SCHEDULE, NO_EXECUTE = TaintEffect
(ENTRY,) = decide([resource("serial", "/dev/ttyUSB*")], [USB0])["example.com/serial"].entries
SHOWN = cast("Entry[Device]", ENTRY)


@pytest.mark.parametrize(
    ("state", "codes", "is_long_gone", "taint", "evicts"),
    [
        (State.PROBING, [Code.NOT_PROBED], False, "unhealthy=not_probed", False),
        (State.UNHEALTHY, [Code.PROBE_FAILED], False, "unhealthy=probe_failed", True),
        (State.UNHEALTHY, [Code.LOG_LINE], False, "unhealthy=log_line", True),
        (State.UNHEALTHY, [Code.MEMBER_LOST, Code.PROBE_FAILED], False, "unhealthy=member_lost",
         True),
        (State.UNHEALTHY, [Code.MEMBER_LOST], False, "unhealthy=member_lost", False),
        (State.UNHEALTHY, [Code.NODE_MISSING], False, "unhealthy=node_missing", False),
        (State.UNHEALTHY, [Code.RENAMED], False, "unhealthy=renamed", False),
        (State.UNHEALTHY, [Code.SPEC_FAILED], False, "unhealthy=spec_failed", False),
        (State.MISSING, [Code.GONE], False, "missing=gone", False),
        (State.MISSING, [Code.GONE], True, "missing=gone", True),
        (State.MISSING, [Code.PROBE_FAILED], False, "missing=probe_failed", False),
        (State.MISSING, [Code.EXCLUDED], False, "missing=excluded", False),
        (State.MISSING, [Code.HANGING], False, "missing=hanging", False),
        (State.MISSING, [Code.UNREADABLE], False, "missing=unreadable", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("effect", TaintEffect)
def test_a_device_that_is_not_healthy_has_a_taint_with_the_code_of_its_reason(
    effect: TaintEffect,
    state: State,
    codes: list[Code],
    is_long_gone: bool,
    taint: str,
    evicts: bool,
) -> None:
    reasons = tuple(Reason(code, "why") for code in codes)
    entry = replace(SHOWN, state=state, reasons=reasons, is_long_gone=is_long_gone)
    key, _, value = taint.partition("=")
    expected = effect if evicts else NO_SCHEDULE
    assert tainted(entry, effect) == {
        "ttyUSB0": {"key": f"genericdp.io/{key}", "value": value, "effect": str(expected)}
    }
    assert tainted(entry, effect, lacking=["taints"]) == {}


def test_a_healthy_device_has_no_taint_and_a_withheld_share_is_left_out() -> None:
    assert tainted(SHOWN, NO_EXECUTE) == {"ttyUSB0": None}
    withheld = {"ttyUSB0": Reason(Code.SHARE_WITHHELD, "held")}
    assert tainted(replace(SHOWN, withheld=withheld), NO_EXECUTE) == {}


def test_pods_may_be_evicted_once_the_hardware_has_been_missing_for_30_seconds() -> None:
    spec = replace(resource("serial", "/dev/ttyUSB*"), unhealthy_taint=NO_EXECUTE)

    def effects(lists: DeviceLists) -> dict[str, str]:
        found = devices_of(
            spec.name, lists[spec.name], driver="genericdp.io", extended_resource=True
        )
        return {name: taint["effect"] for name, taint in taints(found).items() if taint}

    before = decision([spec], [USB0, USB1])
    gone = decision([spec], [USB1], before.lists, now=100.0)
    assert effects(gone.lists) == {"ttyUSB0": "NoSchedule"}
    assert gone.due == 130.0
    again = decision([spec], [USB1], gone.lists, now=129.9)
    assert effects(again.lists) == {"ttyUSB0": "NoSchedule"}
    late = decision([spec], [USB1], again.lists, now=130.0)
    assert effects(late.lists) == {"ttyUSB0": "NoExecute"}
    assert late.due == 400.0
    assert effects(decision([spec], [USB0, USB1], late.lists, now=131.0).lists) == {}
    assert decision([spec], [USB1], late.lists, now=400.0).lists[spec.name].devices.keys() == {
        "ttyUSB1"
    }


def test_time_in_which_hardware_could_not_be_read_does_not_count() -> None:
    spec = replace(resource("serial", "/dev/ttyUSB*"), unhealthy_taint=NO_EXECUTE)
    before = decision([spec], [USB0, USB1]).lists
    hanging = decision([spec], [USB0, USB1], before, now=1.0, hanging=["/dev/ttyUSB*"]).lists
    gone = decision([spec], [USB1], hanging, now=100.0)
    entry = gone.lists[spec.name].devices["ttyUSB0"]
    assert (entry.state, entry.is_long_gone, gone.due) == (State.MISSING, False, 130.0)
    late = decision([spec], [USB1], gone.lists, now=131.0).lists
    assert late[spec.name].devices["ttyUSB0"].is_long_gone
    again = decision([spec], [USB0, USB1], late, now=132.0).lists[spec.name]
    assert not any(entry.is_long_gone for entry in again.devices.values())


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"hanging": ["/dev/ttyUSB*"]}, id="cannot be read"),
        pytest.param({"exclude": (selector("/dev/ttyUSB0"),)}, id="excluded"),
        pytest.param({"match": (selector("/dev/ttyUSB1"),)}, id="no longer matched"),
    ],
)
def test_what_is_not_a_fact_about_the_hardware_never_evicts(keys: dict[str, Any]) -> None:
    hanging = keys.pop("hanging", ())
    spec = replace(resource("serial", "/dev/ttyUSB*"), unhealthy_taint=NO_EXECUTE)
    before = decision([spec], [USB0, USB1])
    changed = replace(spec, **keys)
    found = decision([changed], [USB0, USB1], before.lists, now=1.0, hanging=hanging)
    for now in (100.0, 200.0):
        found = decision([changed], [USB0, USB1], found.lists, now=now, hanging=hanging)
        offers = devices_of(
            spec.name, found.lists[spec.name], driver="genericdp.io", extended_resource=True
        )
        assert all(
            taint["effect"] == "NoSchedule"
            for taint in taints(offers).values()
            if taint is not None
        )
        assert found.due is None or found.due > 300.0 or hanging


def test_of_two_shares_with_one_name_the_second_is_not_offered() -> None:
    taken = label("ttyUSB0")
    spec = resource("serial", "/dev/*")
    devices = decide([spec], [node(f"/dev/{taken}", (188, 9)), USB0])[spec.name]
    found = devices_of(spec.name, devices, driver="genericdp.io", extended_resource=True)
    first, second = devices.devices
    assert found.shares == {taken: first}
    assert found.not_offered == {second: f"in ResourceSlices its name is that of {first}: {taken}"}


POOL = Pool(name="node-1/example.com/x", driver="genericdp.io", node_name="node-1", node_uid="u1")
NAMES = [f"d{number}" for number in range(1000)]


def devices(names: Iterable[str], **attributes: Any) -> dict[str, Json]:
    return {name: {"name": name, "attributes": dict(attributes)} for name in names}


class Api:
    """The slices of one pool, as an API server has them."""

    def __init__(self) -> None:
        self.slices: dict[str, Json] = {}
        self._numbers = count(1)

    @property
    def observed(self) -> list[Json]:
        return list(self.slices.values())

    def create(self, entry: Json) -> Json:
        number = next(self._numbers)
        name = f"{entry['metadata']['generateName']}{number:05}"
        own = {"name": name, "uid": f"uid-{number}", "resourceVersion": str(number)}
        self.slices[name] = {**entry, "metadata": {**entry["metadata"], **own}}
        return self.slices[name]

    def carry_out(self, todo: list[tuple[str, Json]], most: int = 10_000) -> int:
        """Carry out the first this many requests; return how many there were."""
        for verb, entry in todo[:most]:
            if verb == "create":
                self.create(entry)
                continue
            name = entry["metadata"]["name"]
            before = self.slices.pop(name)["metadata"]
            assert entry["metadata"]["resourceVersion"] == before["resourceVersion"]
            if verb == "update":
                metadata = {**entry["metadata"], "resourceVersion": str(next(self._numbers))}
                self.slices[name] = {**entry, "metadata": metadata}
        return len(todo)

    def settle(self, layout: Layout, offered: Mapping[str, Json], pool: Pool = POOL) -> None:
        for _ in range(3):
            if self.carry_out(plan(pool, layout, offered, self.observed)) == 0:
                return
        pytest.fail("it never rests")

    def generations(self) -> set[int]:
        return {entry["spec"]["pool"]["generation"] for entry in self.observed}


def published(names: Sequence[str] = NAMES) -> tuple[Api, Layout]:
    api, layout = Api(), next_layout({}, names)
    api.settle(layout, devices(names))
    return api, layout


def test_a_thousand_devices_are_sixteen_slices() -> None:
    api, layout = published()
    assert [len(entry["spec"]["devices"]) for entry in api.observed] == [64] * 15 + [40]
    assert [name for names in layout.values() for name in names] == NAMES
    assert {item["spec"]["pool"]["resourceSliceCount"] for item in api.observed} == {16}
    assert layout_of(api.observed) == layout


def test_names_of_slices_begin_with_their_index_and_are_not_too_long() -> None:
    pool = Pool(
        name="n/example.com/x", driver="genericdp.io", node_name="n" * 80 + ".a", node_uid="u"
    )
    todo = plan(pool, next_layout({}, NAMES[:100]), devices(NAMES[:100]), [])
    starts = [entry["metadata"]["generateName"] for _, entry in todo]
    assert [start[:18] for start in starts] == ["0000-genericdp.io-", "0001-genericdp.io-"]
    assert all(len(each_start) <= 58 and each_start.endswith("n-") for each_start in starts)


@pytest.mark.parametrize("last", [False, True], ids=["flips", "has another attribute"])
def test_one_device_that_changes_is_one_update_of_the_same_generation(*, last: bool) -> None:
    api, layout = published()
    offered = devices(NAMES)
    if last:
        offered["d500"]["attributes"] = {"speed": {"int": 12}}
    else:
        del offered["d500"]
    ((verb, entry),) = plan(POOL, layout, offered, api.observed)
    assert verb == "update"
    assert entry["spec"]["pool"]["generation"] == 1
    api.settle(layout, offered)


def test_changes_in_two_slices_give_all_another_generation() -> None:
    api, layout = published()
    api.settle(layout, devices(name for name in NAMES if name not in ("d0", "d500")))
    assert api.generations() == {2}


def test_a_slice_more_gives_all_another_generation() -> None:
    api, layout = published(NAMES[:64])
    api.settle(next_layout(layout, NAMES[:65]), devices(NAMES[:65]))
    assert len(api.slices) == 2
    assert api.generations() == {2}


def test_a_slice_less_is_deleted_first_and_gives_all_another_generation() -> None:
    api, layout = published(NAMES[:130])
    smaller = next_layout(layout, NAMES[:64] + NAMES[128:130])
    assert {index: len(names) for index, names in smaller.items()} == {0: 64, 2: 2}
    (verb, gone), *others = plan(POOL, smaller, devices(NAMES), api.observed)
    assert verb == "delete"
    assert "delete" not in dict(others)
    assert gone["metadata"]["name"].startswith("0001-")
    api.settle(smaller, devices(NAMES))
    assert api.generations() == {2}
    assert {entry["metadata"]["name"][:4] for entry in api.observed} == {"0000", "0002"}


def test_a_new_device_takes_a_free_place() -> None:
    _, layout = published(NAMES[:128])
    without = next_layout(layout, [name for name in NAMES[:128] if name != "d3"])
    again = next_layout(
        without, [*(each_name for each_name in NAMES[:128] if each_name != "d3"), "new"]
    )
    assert again[0][-1] == "new"
    assert again[1] == layout[1]


@pytest.mark.parametrize("before", [{}, {0: ("d0",)}, {3: ("d0",)}])
def test_without_devices_there_is_one_empty_slice(before: Layout) -> None:
    layout = next_layout(before, [])
    assert layout == {min(before, default=0): ()}
    ((verb, entry),) = plan(POOL, layout, {}, [])
    assert verb == "create"
    assert "devices" not in entry["spec"]
    assert entry["spec"]["pool"] == {"name": POOL.name, "generation": 1, "resourceSliceCount": 1}


def test_null_in_an_empty_slice_as_kubernetes_1_34_has_it_is_no_change() -> None:
    api, layout = published([])
    for entry in api.observed:
        entry["spec"]["devices"] = None
    assert layout_of(api.observed) == layout
    assert plan(POOL, layout, {}, api.observed) == []


def test_a_slice_that_somebody_has_deleted_is_created_and_nothing_else_written() -> None:
    api, layout = published()
    api.slices.pop(next(name for name in api.slices if name.startswith("0007-")))
    todo = plan(POOL, layout, devices(NAMES), api.observed)
    values = [(verb, entry["metadata"]["generateName"][:5]) for verb, entry in todo]
    assert values == [("create", "0007-")]
    api.settle(layout, devices(NAMES))
    assert api.generations() == {1}


def test_wiped_slices_are_all_created_in_one_go() -> None:
    api, layout = published()
    api.slices.clear()
    verbs = [verb for verb, _ in plan(POOL, layout, devices(NAMES), [])]
    assert verbs == ["create"] * 16


def test_what_was_half_changed_is_completed_and_not_begun_anew() -> None:
    api, layout = published()
    offered = devices(NAMES, speed={"int": 1})
    assert api.carry_out(plan(POOL, layout, offered, api.observed), 10) == 16
    assert api.carry_out(plan(POOL, layout, offered, api.observed)) == 6
    assert plan(POOL, layout, offered, api.observed) == []
    assert api.generations() == {2}


def test_a_pool_that_is_not_wanted_is_removed() -> None:
    api, _ = published(NAMES[:65])
    todo = plan(POOL, {}, {}, api.observed)
    assert [verb for verb, _ in todo] == ["delete"] * 2
    assert api.carry_out(todo) == 2
    assert plan(POOL, {}, {}, api.observed) == []


def test_slices_of_an_index_that_is_taken_and_of_no_index_are_deleted() -> None:
    api, layout = published(NAMES[:64])
    (right,) = api.observed
    api.create({**right, "metadata": {"generateName": "0000-genericdp.io-node-1-"}})
    api.create({**right, "metadata": {"generateName": "of-somebody-"}})
    api.settle(layout, devices(NAMES))
    assert [entry["metadata"]["uid"] for entry in api.observed] == [right["metadata"]["uid"]]


def test_a_slice_that_is_being_deleted_is_not_deleted_again() -> None:
    api, layout = published(NAMES[:64])
    (right,) = api.observed
    other = api.create({**right, "metadata": {"generateName": "of-somebody-"}})
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.settle(layout, devices(NAMES))
    assert len(api.slices) == 2


def test_a_node_that_was_created_anew_owns_the_slices_then() -> None:
    api, layout = published(NAMES[:64])
    new = Pool(name=POOL.name, driver=POOL.driver, node_name=POOL.node_name, node_uid="u2")
    api.settle(layout, devices(NAMES), new)
    (only,) = api.observed
    assert only["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u2", "controller": True}
    ]


def test_an_update_keeps_what_others_have_noted() -> None:
    api, layout = published(["d0"])
    (only,) = api.observed
    only["metadata"] |= {"labels": {"a": "b"}, "managedFields": [{"manager": "x"}]}
    ((verb, sent),) = plan(POOL, layout, {}, api.observed)
    assert verb == "update"
    assert sent["metadata"]["labels"] == {"a": "b"}
    assert sent["metadata"]["uid"] == only["metadata"]["uid"]
    assert sent["metadata"]["managedFields"] == [{"manager": "x"}]


def test_more_devices_than_a_slice_may_have_are_moved() -> None:
    layout = next_layout({0: tuple(NAMES[:100])}, NAMES[:100])
    assert [len(names) for names in layout.values()] == [64, 36]
    assert layout[0] == tuple(NAMES[:64])


names_of_devices = st.sets(st.integers(0, 199)).map(
    lambda chosen: [f"d{entry}" for entry in chosen]
)


class Publishing(RuleBasedStateMachine):
    """Devices come, go and flip, requests fail, others interfere, and the daemon restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()
        self.layout: Layout = {}
        self.listed: list[str] = []
        self.healthy: list[str] = []

    @rule(listed=names_of_devices, unhealthy=names_of_devices)
    def devices_change(self, listed: list[str], unhealthy: list[str]) -> None:
        self.listed = listed
        self.healthy = [name for name in listed if name not in unhealthy]
        before, self.layout = self.layout, next_layout(self.layout, listed)
        where = {name: index for index, names in self.layout.items() for name in names}
        assert sorted(where) == sorted(listed)
        for index, names in before.items():
            assert all(where[name] == index for name in names if name in where)

    @rule(number=st.integers(0, 199))
    def one_device_flips(self, number: int) -> None:
        name = f"d{number}"
        self.all_is_written()
        if name in self.healthy:
            self.healthy.remove(name)
        elif name in self.listed:
            self.healthy.append(name)
        todo = plan(POOL, self.layout, devices(self.healthy), self.api.observed)
        assert [verb for verb, _ in todo] == ["update"] * (name in self.listed)

    @rule(requests=st.integers(0, 3))
    def some_requests_succeed(self, requests: int) -> None:
        todo = plan(POOL, self.layout, devices(self.healthy), self.api.observed)
        if self.layout:
            self.api.carry_out(todo, requests)

    @rule(which=st.integers(0, 5))
    def somebody_deletes_a_slice(self, which: int) -> None:
        if self.api.slices:
            self.api.slices.pop(sorted(self.api.slices)[which % len(self.api.slices)])

    @rule(which=st.integers(0, 5), index=st.integers(0, 5), generation=st.integers(0, 9))
    def somebody_copies_a_slice(self, which: int, index: int, generation: int) -> None:
        if self.api.slices:
            entry = self.api.observed[which % len(self.api.slices)]
            pool = {**entry["spec"]["pool"], "generation": generation}
            metadata = {"generateName": f"{index:04x}-somebody-"}
            self.api.create(
                {**entry, "metadata": metadata, "spec": {**entry["spec"], "pool": pool}}
            )

    @rule()
    def the_daemon_restarts(self) -> None:
        self.layout = next_layout(layout_of(self.api.observed), self.listed)

    @rule()
    def all_is_written(self) -> None:
        if not self.layout:
            self.layout = next_layout({}, self.listed)
        offered = devices(self.healthy)
        self.api.settle(self.layout, offered)
        assert len(self.api.generations()) == 1
        assert all(
            item["spec"]["pool"]["resourceSliceCount"] == len(self.api.slices)
            for item in self.api.observed
        )
        shown = [d["name"] for entry in self.api.observed for d in entry["spec"].get("devices", ())]
        assert sorted(shown) == sorted(self.healthy)

    @invariant()
    def no_slice_is_too_large(self) -> None:
        assert all(len(names) <= MAX_PER_SLICE for names in self.layout.values())


Publishing.TestCase.settings = settings(max_examples=60, stateful_step_count=12)
test_whatever_happens_the_slices_become_what_is_wanted = Publishing.TestCase
