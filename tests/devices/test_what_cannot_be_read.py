"""Facts that cannot be read: they hang, are denied, or fail, as on no machine of a case.

They change nothing but that there is less on offer. In ``exclude``, a device is excluded. In
``match``, it is not offered, and no later entry and no later resource gets it; who had it before
keeps it (D8).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from genericdp.devices import decide as deciding
from genericdp.devices.inventory import FoundFile, Look
from genericdp.model import Inject, Resource, Selector, ValueKind, ValueSource
from genericdp.template import parse
from hypothesis import example, given
from hypothesis import strategies as st

from tests.devices.known import ROOT, Known
from tests.devices.making import (
    decide,
    finds,
    healthy,
    inject,
    node,
    refusals,
    resource,
    selector,
)
from tests.selecting import hardware, udev_selector, usb_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import SysDevice

TTY0, TTY1 = (node(f"/dev/ttyUSB{number}", (188, number)) for number in range(2))


def test_an_undecided_resource_keeps_nothing_from_those_that_share_with_it() -> None:
    resources = [
        resource("encode", "/dev/ttyUSB*", id="e-$(device.name)", replicas=4, exclusive=False),
        resource("compute", "/dev/ttyUSB*", id="c-$(device.name)", replicas=2, exclusive=False),
        resource("whole", "/dev/ttyUSB*"),
    ]
    names = ("encode", "compute", "whole")
    offers = decide(resources, [TTY0, TTY1], hanging=["/dev/ttyUSB*"])
    assert [len(healthy(offers, name)) for name in names] == [0, 0, 0]
    offers = decide(resources, [TTY0, TTY1], offers, now=1.0)
    assert [len(healthy(offers, name)) for name in names] == [2, 2, 0]


def test_a_name_that_may_be_handed_out_counts_before_one_that_may_not() -> None:
    smuggled = node("/dev/shm/a", (188, 0), target="/dev/ttyUSB0", refusal="not on /dev")
    offers = decide([resource("x", "/dev/ttyUSB0", "/dev/shm/*")], [TTY0, smuggled])
    assert healthy(offers, "x") == ["ttyUSB0"]
    offers = decide([resource("x", "/dev/shm/*")], [TTY0, smuggled])
    assert refusals(offers, "x") == {"/dev/shm/a": "not on /dev"}


NODES, LINKS, CLASS = "/dev/ttyUSB*", "/dev/serial/by-id/*", "/sys/class/tty"
PLACES = range(3)
FACTS = ("kind", "idVendor", "file", "record", "twice")
VALUES = {
    "kind": ValueSource(kind=ValueKind.FILE, source=parse("/run/kinds/$(device.name)")),
    "attribute": ValueSource(kind=ValueKind.TEXT, source=parse("$(attribute.kind:-b)")),
    "link": ValueSource(kind=ValueKind.LINK, source=parse("/run/links/$(device.name)/*")),
}
SELECTORS = {
    "nodes": selector(NODES),
    "first": selector("/dev/ttyUSB0"),
    "links": selector(LINKS),
    "tty": Selector(candidates=udev_selector(subsystem=("tty",))),
    "kind": Selector(candidates=udev_selector(subsystem=("tty",), attributes={"kind": ("a",)})),
    "property": Selector(candidates=udev_selector(subsystem=("tty",), properties={"P": ("a",)})),
    "vendor": replace(selector(NODES), hardware=hardware(usb=usb_selector(vendor=("a",)))),
    "any": replace(
        selector(NODES), hardware=hardware(udev=udev_selector(attributes={"idVendor": ("a",)}))
    ),
    "file": replace(selector(NODES), values={"kind": ("a",)}),
    "default": replace(selector(NODES), values={"attribute": ("b",)}),
    "link": replace(selector(LINKS), values={"link": ("a",)}),
}
Unreadable = frozenset[tuple[int, str]]


@dataclass(slots=True)
class Machine(Known):
    """Serial adapters, each of one kind however one asks, of which some facts cannot be read."""

    hidden: Mapping[str, str] = field(default_factory=dict)
    """Globs and directories of which something cannot be seen: ``hangs`` or ``denied``."""

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        # Of the class only the first is seen.
        found = Known.members(self, subsystem)
        return found[:1] if f"/sys/class/{subsystem}" in self.hidden else found

    def hide(self, fact: str, place: int, usb: str, tty: str) -> None:
        """Make a fact of an adapter unreadable, or ambiguous."""
        if fact == "twice":
            self.links[f"/run/links/ttyUSB{place}/x"] = "/x"
            return
        if fact == "record":
            properties = {k: v for k, v in self.devices[tty].properties.items() if k != "P"}
            self.devices[tty] = replace(self.devices[tty], properties=properties)
        paths = {
            "kind": f"{tty}/kind",
            "idVendor": f"{usb}/idVendor",
            "file": f"/run/kinds/ttyUSB{place}",
            "record": tty,
        }
        self.texts.pop(paths[fact], None)
        self.unreadable[paths[fact]] = "denied"


def machine(kinds: str, unreadable: Unreadable, hidden: Mapping[str, str]) -> Machine:
    known = Machine(hidden=hidden)
    files: list[FoundFile] = []
    for i, kind in enumerate(kinds):
        usb = known.usb(f"usb1/1-{i}", idVendor=kind, serial=f"s{i}")
        path, link = f"usb1/1-{i}/1-{i}:1.0/ttyUSB{i}/tty/ttyUSB{i}", f"/dev/serial/by-id/{i}"
        known.interface(f"usb1/1-{i}/1-{i}:1.0")
        tty = known.add(path, "tty", number=(188, i), attributes={"kind": kind})
        properties = {**tty.properties, "P": kind}
        known.devices[tty.syspath] = replace(tty, properties=properties, links=(link,))
        known.texts[f"/run/kinds/ttyUSB{i}"] = kind
        known.links[f"/run/links/ttyUSB{i}/{kind}"] = f"/{kind}"
        for fact in (fact for place, fact in unreadable if place == i):
            known.hide(fact, i, usb.syspath, tty.syspath)
        files.append(node(f"/dev/ttyUSB{i}", (188, i), syspath=f"{ROOT}/{path}"))
        files.append(node(link, (188, i), target=f"/dev/ttyUSB{i}", syspath=f"{ROOT}/{path}"))
    if CLASS in hidden:
        known.unreadable[CLASS] = "denied"

    def look(pattern: str) -> Look | None:
        if hidden.get(pattern) == "hangs":
            return None
        if pattern in hidden:
            return Look(unreadable=f"{pattern} cannot be read (denied)")
        found = (file for file in files if finds(pattern, file.path))
        return Look(files=tuple(found))

    known.look = look
    return known


def resources_of(
    names: list[tuple[list[str], list[str]]], *, has_nodes: bool = True
) -> list[Resource]:
    """Return resources that match and exclude by these selectors; each entry says which it is."""
    given = Inject() if has_nodes else Inject(devices=())
    return [
        replace(
            resource(f"r{i}", values=VALUES, given=given),
            match=tuple(
                replace(SELECTORS[name], inject=inject(env={"ENTRY": str(place)}))
                for place, name in enumerate(match)
            ),
            exclude=tuple(SELECTORS[name] for name in exclude),
        )
        for i, (match, exclude) in enumerate(names)
    ]


def lists_of(
    resources: list[Resource], host: Machine, previous: Mapping[str, DeviceList] | None = None
) -> Mapping[str, DeviceList]:
    found = deciding.decide(resources, host, node_name="n", previous=previous or {}, now=1.0)
    assert not found.failures, found.failures
    return found.lists


def offered(lists: Mapping[str, DeviceList]) -> set[tuple[str, str, str]]:
    """Return what is Healthy, as resource, hardware and the entry that takes it."""
    return {
        (name, listed.device.key, str(listed.device.env["ENTRY"].values[0]))
        for name, devices in lists.items()
        for listed in devices.devices.values()
        if not listed.reasons
    }


@given(
    kinds=st.text("ab", min_size=len(PLACES), max_size=len(PLACES)),
    names=st.lists(
        st.tuples(
            st.lists(st.sampled_from(sorted(SELECTORS)), min_size=1, max_size=2),
            st.lists(st.sampled_from(sorted(SELECTORS)), max_size=1),
        ),
        min_size=1,
        max_size=3,
    ),
    unreadable=st.frozensets(st.tuples(st.sampled_from(PLACES), st.sampled_from(FACTS))),
    hidden=st.dictionaries(
        st.sampled_from([NODES, LINKS, CLASS]), st.sampled_from(["hangs", "denied"]), max_size=1
    ),
    has_nodes=st.booleans(),
    kinds_before=st.text("ab", min_size=len(PLACES), max_size=len(PLACES)),
)
@example("bbb", [(["kind"], []), (["nodes"], [])], frozenset({(0, "kind")}), {}, True, "bbb")
@example("abb", [(["file", "nodes"], [])], frozenset({(0, "file")}), {}, True, "abb")
@example("aaa", [(["links"], []), (["nodes"], [])], frozenset(), {LINKS: "denied"}, True, "aaa")
@example("bbb", [(["vendor"], []), (["tty"], [])], frozenset(), {NODES: "hangs"}, True, "bbb")
@example("aaa", [(["tty"], []), (["nodes"], [])], frozenset(), {CLASS: "denied"}, True, "aaa")
@example(
    "aaa", [(["nodes"], ["link"]), (["nodes"], [])], frozenset({(0, "twice")}), {}, True, "aaa"
)
@example("aba", [(["nodes"], ["default"])], frozenset({(0, "kind")}), {}, True, "aba")
@example("abb", [(["kind"], []), (["nodes"], [])], frozenset({(0, "kind")}), {}, False, "bbb")
def test_less_is_offered_and_nothing_to_others(
    kinds: str,
    names: list[tuple[list[str], list[str]]],
    unreadable: Unreadable,
    hidden: Mapping[str, str],
    has_nodes: bool,
    kinds_before: str,
) -> None:
    resources = resources_of(names, has_nodes=has_nodes)
    readable = lists_of(resources, machine(kinds, frozenset(), {}))
    host = machine(kinds, unreadable, hidden)

    fresh = lists_of(resources, host)
    assert offered(fresh) <= offered(readable), "nothing goes to another resource or entry"
    for name, key, _ in offered(readable) - offered(fresh):
        is_said = any(entry.device.key == key for entry in fresh[name].not_offered)
        assert is_said or hidden, "what is kept back has a reason"

    after = lists_of(resources, host, readable)
    assert offered(after) <= offered(readable)
    for name, before in readable.items():
        assert before.devices.keys() <= after[name].devices.keys(), "what was listed stays listed"

    former = lists_of(resources, machine(kinds_before, frozenset(), {}))
    changed = lists_of(resources, machine(kinds, frozenset(), {}), former)
    assert offered(lists_of(resources, host, changed)) <= offered(changed), "nor to who once had it"

    again = lists_of(resources, machine(kinds, frozenset(), {}), after)
    assert offered(again) == offered(readable), "and all is as before once it can be read"
