"""What an entry of ``match`` injects comes beside what the resource does, for what it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.allocation import edits
from genericdp.devices.device import DeviceSpec
from genericdp.devices.matching import reads_properties
from genericdp.health.kinds.exec import ExecCheck
from genericdp.model import (
    Command,
    EnvVar,
    Hook,
    Inject,
    PathSelector,
    Probe,
    Selector,
)
from genericdp.template import parse
from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    refusals,
    resource,
    selector,
)
from tests.devices.sound import paths

if TYPE_CHECKING:
    from genericdp.devices.device import ContainerEdits
    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Resource

WDM = [node(f"/dev/cdc-wdm{n}", (180, 176 + n)) for n in (0, 1)]
TTY = [node(f"/dev/ttyUSB{n}", (188, n)) for n in (2, 6)]
NONE = Inject(devices=())


def entry(glob: str, given: Inject) -> Selector:
    """An entry of ``match`` with its own ``inject``."""
    return replace(selector(glob), inject=given)


def modem(own: Inject = NONE, *, group_by: str | None = None) -> Resource:
    """Control nodes and serial ports, each with what a container is given for it."""
    control = inject(
        nodes("$(device.path)", "/dev/cdc-wdm$(allocation.index)"),
        env={"CONTROL": "/dev/cdc-wdm$(allocation.index)", "NODES": "$(device.name)"},
        annotations={"a": "control"},
    )
    commands = inject(
        nodes("$(device.path)", "/dev/modem$(allocation.index)"),
        env={"AT": "/dev/modem$(allocation.index)", "NODES": "$(device.name)"},
        cdi=["vendor.com/modem=$(device.name)"],
    )
    match = (entry("/dev/cdc-wdm[01]", control), entry("/dev/ttyUSB[26]", commands))
    template = None if group_by is None else parse(group_by)
    return resource("modem", *match, given=own, group_by=template)


def one(number: int) -> list[FoundFile]:
    """The two nodes of a modem."""
    return [WDM[number], TTY[number]]


def given_by(wanted: Resource, *files: FoundFile) -> ContainerEdits:
    """What a container gets for all that the resource offers."""
    offered = decide([wanted], files)["example.com/modem"].devices
    return edits(each.device for each in offered.values())


def test_each_member_is_given_what_its_entry_says() -> None:
    own = Inject(devices=(), env={"NODES": EnvVar(value=parse("all of $(device.id)"))})
    answer = given_by(modem(own, group_by="all"), *one(1))
    assert answer.devices == (
        DeviceSpec(host_path="/dev/cdc-wdm1", container_path="/dev/cdc-wdm0", permissions="rw"),
        DeviceSpec(host_path="/dev/ttyUSB6", container_path="/dev/modem0", permissions="rw"),
    )
    # One variable of the resource and of entries is joined, as that of several members.
    assert answer.env == {
        "NODES": "all of all,cdc-wdm1,ttyUSB6",
        "CONTROL": "/dev/cdc-wdm0",
        "AT": "/dev/modem0",
    }
    assert answer.annotations == {"a": "control"}
    assert answer.cdi == ("vendor.com/modem=ttyUSB6",)


def test_without_groups_a_device_is_given_what_its_own_entry_says() -> None:
    offered = decide([modem()], one(0))["example.com/modem"].devices
    assert [edits([each.device]).env for each in offered.values()] == [
        {"CONTROL": "/dev/cdc-wdm0", "NODES": "cdc-wdm0"},
        {"AT": "/dev/modem0", "NODES": "ttyUSB2"},
    ]


@pytest.mark.parametrize(
    ("own", "added", "expected"),
    [
        (Inject(), Inject(), ["/dev/ttyUSB2"]),
        (Inject(), NONE, ["/dev/ttyUSB2"]),
        (Inject(), inject(nodes("/dev/ttyUSB6")), ["/dev/ttyUSB2", "/dev/ttyUSB6"]),
        (NONE, inject(nodes("/dev/ttyUSB6")), ["/dev/ttyUSB6"]),
        (inject(nodes("/dev/ttyUSB6")), NONE, ["/dev/ttyUSB6"]),
        (
            inject(nodes("/dev/cdc-wdm0")),
            inject(nodes("/dev/ttyUSB6")),
            ["/dev/cdc-wdm0", "/dev/ttyUSB6"],
        ),
    ],
)
def test_nodes_of_an_entry_come_beside_those_of_the_resource(
    own: Inject, added: Inject, expected: list[str]
) -> None:
    wanted = resource("modem", entry("/dev/ttyUSB2", added), given=own)
    assert paths(given_by(wanted, *WDM, *TTY)) == expected


def test_what_several_entries_take_counts_for_the_first() -> None:
    first, second = (entry(glob, inject(env={"E": glob})) for glob in ("/dev/tty*", "/dev/ttyUSB2"))
    for match, expected in (((first, second), "/dev/tty*"), ((second, first), "/dev/ttyUSB2")):
        assert given_by(resource("modem", *match), TTY[0]).env == {"E": expected}


def test_what_one_entry_misses_is_missed_by_its_devices_only() -> None:
    match = (
        entry("/dev/cdc-wdm0", inject(nodes("/dev/none"))),
        entry("/dev/cdc-wdm1", inject(nodes("/dev/none", optional=True))),
        entry("/dev/ttyUSB2", inject(nodes("$(property.X)"))),
        entry("/dev/ttyUSB6", Inject()),
    )
    lists = decide([resource("modem", *match)], WDM + TTY)
    listed = lists["example.com/modem"].devices
    assert {name: each.text for name, each in listed.items()} == {
        "cdc-wdm0": "/dev/none does not exist",
        "cdc-wdm1": "",
        "ttyUSB6": "",
    }
    assert refusals(lists, "modem") == {"/dev/ttyUSB2": "it has no '$(property.X)'"}


def test_two_things_at_one_path_are_refused_within_a_device_and_fine_between_two() -> None:
    match = [
        entry(f"/dev/{name}", inject(nodes("$(device.path)", "/dev/modem")))
        for name in ("cdc-wdm0", "ttyUSB2")
    ]
    apart = decide([resource("modem", *match, given=NONE)], one(0))
    assert healthy(apart, "modem") == ["cdc-wdm0", "ttyUSB2"]
    together = resource("modem", *match, given=NONE, group_by=parse("m"))
    reason = refusals(decide([together], one(0)), "modem")["/dev/cdc-wdm0"]
    assert "/dev/cdc-wdm0 and /dev/ttyUSB2 would both be '/dev/modem'" in reason
    both = entry("/dev/ttyUSB2", inject(mounts=[("/opt", "/dev/$(device.name)")]))
    reason = refusals(decide([resource("modem", both)], one(0)), "modem")["/dev/ttyUSB2"]
    assert "/dev/ttyUSB2 and /opt would both be '/dev/ttyUSB2'" in reason


def texts(count: int, *, with_reference: bool = True) -> Inject:
    """Variables of 60 KiB each."""
    reference = "$(device.name)" if with_reference else ""
    return inject(env={f"E{n}{reference[:1]}": "a" * 60_000 + reference for n in range(count)})


@pytest.mark.parametrize(
    ("first", "second", "is_offered"),
    [
        (texts(8), Inject(), True),
        (texts(9), Inject(), False),
        (texts(8), texts(1), True),
        (texts(8), texts(2), False),
        (texts(17, with_reference=False), Inject(), True),
        (texts(17, with_reference=False), texts(1), False),
    ],
)
def test_the_texts_of_a_device_are_those_of_the_entries_of_its_members(
    first: Inject, second: Inject, is_offered: bool
) -> None:
    """Literal text without a template counts once, other text for each member of its entry."""
    match = (entry("/dev/cdc-wdm[01]", first), entry("/dev/ttyUSB[26]", second))
    lists = decide([resource("modem", *match, group_by=parse("all"))], [*WDM, TTY[0]])
    assert bool(healthy(lists, "modem")) is is_offered
    reasons = refusals(lists, "modem")
    assert all("its texts take more than 1 MiB together" in one for one in reasons.values())


def test_the_texts_of_probes_and_hooks_count_once_in_a_group() -> None:
    ports = [node(f"/dev/ttyACM{n}", (166, n)) for n in range(64)]

    def offered(count: int) -> list[str]:
        """Return the devices whose probe and hook have so many texts of 20 KB each."""
        command = Command(argv=(parse("/bin/x"), *[parse("a" * 20_000 + "$(device.name)")] * count))
        lists = decide(
            [
                resource(
                    "ports",
                    "/dev/ttyACM*",
                    group_by=parse("all"),
                    health=(Probe(check=ExecCheck(command=command)),),
                    hooks={"allocate": Hook(command=command)},
                )
            ],
            ports,
        )
        return healthy(lists, "ports")

    assert offered(1) == ["all"]
    assert offered(26) == ["all"]
    assert offered(27) == []


def test_an_entry_that_asks_for_a_property_waits_for_udev() -> None:
    assert not reads_properties(resource("modem", entry("/dev/a", inject(env={"A": "a"}))))
    assert reads_properties(resource("modem", entry("/dev/a", inject(env={"A": "$(property.A)"}))))


@given(
    st.lists(st.sampled_from(["/dev/cdc-wdm[01]", "/dev/ttyUSB[26]", "/dev/*"]), min_size=1),
    st.sampled_from(["$(device.name)", "all", "$(device.major)"]),
    st.sampled_from(
        [
            inject(nodes("$(device.path)", "/dev/x$(device.name)"), mounts=[("/a", "/b")]),
            inject(nodes("/dev/ttyUSB*"), env={"A": "$(device.name)"}, cdi=["v.com/c=1"]),
            inject(nodes("/dev/none"), annotations={"a": "$(device.minor)"}),
        ]
    ),
)
def test_what_all_entries_inject_is_what_the_resource_would(
    globs: list[str], group_by: str, given: Inject
) -> None:
    def answers(own: Inject, each: Inject) -> object:
        match = [
            Selector(candidates=PathSelector(globs=(one,)), inject=each)
            for one in dict.fromkeys(globs)
        ]
        wanted = resource("modem", *match, given=own, group_by=parse(group_by))
        listed = decide([wanted], WDM + TTY)["example.com/modem"]
        return {
            name: (edits([one.device]), one.text) for name, one in listed.devices.items()
        }, listed.not_offered

    assert answers(NONE, given) == answers(given, Inject())
