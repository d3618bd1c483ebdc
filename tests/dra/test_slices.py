"""ResourceSlices: names, devices, which slice has which, and the requests that make them so."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.resourcenames import label
from genericdp.devices.transitions import State
from genericdp.dra.slices import (
    MAX_PER_SLICE,
    Pool,
    devices_of,
    has_extended_resources,
    layout_of,
    next_layout,
    plan,
    pool_name,
)
from genericdp.model import TaintEffect
from genericdp.reasons import Code, Reason
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.devices.making import decide, decision, node, resource, selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.dra.slices import Layout

    Json = dict[str, Any]

USB0, USB1 = node("/dev/ttyUSB0", (188, 0)), node("/dev/ttyUSB1", (188, 1))
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("zram0", "zram0"),
        ("a" * 63, "a" * 63),
        ("a" * 64, f"{'a' * 54}-ffe054fe"),
        ("ttyUSB0", "ttyusb0-8acffaea"),
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
        ("v1.37.0+k3s1", True),
        ("v1.35.9", False),
        ("v1.4.36", False),
        ("unknown", False),
    ],
)
def test_claims_for_plain_limits_need_a_kubelet_of_version_1_36(
    version: str, *, has_them: bool
) -> None:
    assert has_extended_resources(version) is has_them


SPEC = replace(resource("serial", "/dev/ttyUSB*"), unhealthy_taint=TaintEffect.NO_EXECUTE)
BOTH, SECOND = {"files": [USB0, USB1]}, {"files": [USB1]}
HANGING = {**BOTH, "hanging": ["/dev/ttyUSB*"]}
EXCLUDED = {**BOTH, "spec": replace(SPEC, exclude=(selector("/dev/ttyUSB0"),))}
UNMATCHED = {**BOTH, "spec": replace(SPEC, match=(selector("/dev/ttyUSB1"),))}


def taint_of(devices: DeviceList) -> str | None:
    """Return the taint of ttyUSB0, as kubectl shows it."""
    found = devices_of(SPEC.name, devices, driver="genericdp.io", extended_resource=True)
    (taint,) = found.devices[label("ttyUSB0")].get("taints", [None])
    return taint and f"{taint['key']}={taint['value']}:{taint['effect']}"


@pytest.mark.parametrize(
    ("state", "codes", "taint"),
    [
        (State.PROBING, [Code.NOT_PROBED], "unhealthy=not_probed:NoSchedule"),
        (State.UNHEALTHY, [Code.PROBE_FAILED], "unhealthy=probe_failed:NoExecute"),
        (State.UNHEALTHY, [Code.LOG_LINE], "unhealthy=log_line:NoExecute"),
        (State.UNHEALTHY, [Code.MEMBER_LOST, Code.PROBE_FAILED], "unhealthy=member_lost:NoExecute"),
        (State.UNHEALTHY, [Code.MEMBER_LOST], "unhealthy=member_lost:NoSchedule"),
        (State.UNHEALTHY, [Code.SPEC_FAILED], "unhealthy=spec_failed:NoSchedule"),
        (State.MISSING, [Code.PROBE_FAILED], "missing=probe_failed:NoSchedule"),
    ],
)
def test_only_a_failed_check_of_what_is_there_may_evict_pods(
    state: State, codes: list[Code], taint: str
) -> None:
    (entry,) = decide([SPEC], [USB0])[SPEC.name].entries
    reasons = tuple(Reason(code, "why") for code in codes)
    entries = (replace(entry, state=state, reasons=reasons),)
    devices = DeviceList(entries=entries, unhealthy_taint=TaintEffect.NO_EXECUTE)
    assert taint_of(devices) == f"genericdp.io/{taint}"
    devices = replace(devices, unhealthy_taint=TaintEffect.NO_SCHEDULE)
    assert taint_of(devices) == f"genericdp.io/{taint}".replace("NoExecute", "NoSchedule")


GONE, GONE_LONG = "missing=gone:NoSchedule", "missing=gone:NoExecute"
UNREAD, FORBIDDEN, LEFT_OUT = (
    f"missing={code}:NoSchedule" for code in ("hanging", "excluded", "not_matched")
)


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(100.0, SECOND, GONE), (129.9, SECOND, GONE), (None, SECOND, GONE_LONG),
                      (131.0, BOTH, None)], id="gone"),
        pytest.param([(1.0, HANGING, UNREAD), (99.0, HANGING, UNREAD), (100.0, SECOND, GONE),
                      (None, SECOND, GONE_LONG)], id="cannot be read"),
        pytest.param([(1.0, EXCLUDED, FORBIDDEN), (200.0, EXCLUDED, FORBIDDEN)], id="excluded"),
        pytest.param([(1.0, UNMATCHED, LEFT_OUT), (200.0, UNMATCHED, LEFT_OUT)], id="left out"),
    ],
)  # fmt: skip
def test_only_hardware_that_is_gone_for_30_seconds_may_evict_pods(
    looks: list[tuple[float | None, dict[str, Any], str | None]],
) -> None:
    """A decision without a time comes when time alone changes something."""
    found = decision([SPEC], [USB0, USB1])
    for now, seen, taint in looks:
        at = now or found.due or 0.0
        spec, files = seen.get("spec", SPEC), seen["files"]
        hanging = seen.get("hanging", ())
        found = decision([spec], files, found.lists, now=at, hanging=hanging)
        assert taint_of(found.lists[SPEC.name]) == (taint and f"genericdp.io/{taint}")
        assert at == 130.0 or taint != GONE_LONG


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


def test_changes_in_two_slices_give_all_another_generation() -> None:
    api, layout = published()
    api.settle(layout, devices(name for name in NAMES if name not in ("d0", "d500")))
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


def test_null_in_an_empty_slice_as_kubernetes_1_34_has_it_is_no_change() -> None:
    api, layout = published([])
    for entry in api.observed:
        entry["spec"]["devices"] = None
    assert layout_of(api.observed) == layout
    assert plan(POOL, layout, {}, api.observed) == []


def test_a_slice_that_is_being_deleted_is_not_deleted_again() -> None:
    api, layout = published(NAMES[:64])
    (right,) = api.observed
    other = api.create({**right, "metadata": {"generateName": "of-somebody-"}})
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.settle(layout, devices(NAMES))
    assert len(api.slices) == 2


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
