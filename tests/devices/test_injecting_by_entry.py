"""Entries of ``match`` that inject: their limits, and that they do what a resource would."""

from __future__ import annotations

from dataclasses import replace

import pytest
from genericdp.devices.allocation import edits
from genericdp.health.kinds.exec import ExecCheck
from genericdp.model import (
    Command,
    Hook,
    Inject,
    PathSelector,
    Probe,
    Selector,
)
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

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

WDM = [node(f"/dev/cdc-wdm{n}", (180, 176 + n)) for n in (0, 1)]
TTY = [node(f"/dev/ttyUSB{n}", (188, n)) for n in (2, 6)]
NONE = Inject(devices=())


def entry(glob: str, given: Inject) -> Selector:
    """An entry of ``match`` with its own ``inject``."""
    return replace(selector(glob), inject=given)


def strings(count: int, *, with_reference: bool = True) -> Inject:
    """Variables of 60 KiB each."""
    reference = "$(device.name)" if with_reference else ""
    return inject(env={f"E{n}{reference[:1]}": "a" * 60_000 + reference for n in range(count)})


@pytest.mark.parametrize(
    ("first", "second", "is_offered"),
    [
        (strings(8), Inject(), True),
        (strings(9), Inject(), False),
        (strings(8), strings(1), True),
        (strings(8), strings(2), False),
        (strings(17, with_reference=False), Inject(), True),
        (strings(17, with_reference=False), strings(1), False),
    ],
)
def test_the_strings_of_a_device_are_those_of_the_entries_of_its_members(
    first: Inject, second: Inject, is_offered: bool
) -> None:
    """Literal text without a template counts once, other text for each member of its entry."""
    match = (entry("/dev/cdc-wdm[01]", first), entry("/dev/ttyUSB[26]", second))
    lists = decide([resource("modem", *match, group_by=parse("all"))], [*WDM, TTY[0]])
    assert bool(healthy(lists, "modem")) is is_offered
    reasons = refusals(lists, "modem")
    assert all("its strings take more than 1 MiB together" in text for text in reasons.values())


def test_the_strings_of_probes_and_hooks_count_once_in_a_group() -> None:
    ports = [node(f"/dev/ttyACM{n}", (166, n)) for n in range(64)]

    def offered(count: int) -> list[str]:
        """Return the devices whose probe and hook have this many strings of 20 KB each."""
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
            Selector(candidates=PathSelector(globs=(glob,)), inject=each)
            for glob in dict.fromkeys(globs)
        ]
        wanted = resource("modem", *match, given=own, group_by=parse(group_by))
        listed = decide([wanted], WDM + TTY)["example.com/modem"]
        return {
            name: (edits([entry.device]), entry.text) for name, entry in listed.devices.items()
        }, listed.not_offered

    assert answers(NONE, given) == answers(given, Inject())
