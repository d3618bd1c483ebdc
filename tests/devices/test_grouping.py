"""Groups: which candidates are one device, what it is made of, and when it is offered."""

from __future__ import annotations

from cProfile import Profile
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.allocation import edits
from genericdp.model import Inject, Mount, Selector, ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.known import Known
from tests.devices.making import (
    decide,
    healthy,
    inject,
    node,
    nodes,
    plain,
    refusals,
    resource,
)
from tests.devices.sound import CAPTURES, CONTROLS, given_for, paths, sound
from tests.selecting import udev_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import FoundFile


def test_nodes_are_paired_by_a_text_of_theirs_never_by_their_index() -> None:
    """D2: ``controlC1`` is given with ``pcmC10D0c``, and a plug shifts all later pairs."""
    offers = decide([sound(needs="each")], CONTROLS + CAPTURES)
    offered = offers["example.com/sound"].devices
    assert list(offered) == ["card0", "card2", "card10"]
    assert paths(edits([offered["card10"].device])) == ["/dev/snd/controlC10", "/dev/snd/pcmC10D0c"]
    assert refusals(offers, "sound") == {
        "/dev/snd/controlC1": "its group 'card1' has members of 1 of 2 entries: 1 missing, match[1]"
        " (groupNeeds: each)"
    }


def test_a_group_may_be_named_after_the_node() -> None:
    one = resource("sound", "/dev/snd/*", group_by=parse("all of $(node.name)"))
    (offered,) = decide([one], CONTROLS)["example.com/sound"].devices.values()
    assert offered.device.key == "group all of node-1"


def test_what_does_not_differ_between_members_is_looked_at_once() -> None:
    """2,000 members and 4,000 mounts took more than a minute of each reconcile."""
    asked: list[str] = []

    class Host(Known):
        def exists_on_host(self, path: str) -> bool:
            asked.append(path)
            return True

    ports = [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(30)]
    paths = [*(f"/opt/{n}" for n in range(20)), "/opt/of-$(device.name)"]
    mounts = tuple(
        Mount(host_path=parse(path), container_path=parse(path), optional=True) for path in paths
    )
    one = resource("sound", "/dev/ttyUSB*", given=Inject(mounts=mounts), group_by=parse("all"))
    (offered,) = decide([one], ports, facts=Host())["example.com/sound"].devices.values()
    assert len(asked) == 20 + 30
    assert [mount.host_path for mount in offered.device.mounts] == [
        *(f"/opt/{n}" for n in range(20)),
        *(f"/opt/of-ttyUSB{n}" for n in range(30)),
    ]


def test_the_work_grows_as_the_number_of_groups_does() -> None:
    """Each group collected the keys of all."""

    def calls(count: int) -> int:
        ports = [node(f"/dev/ttyUSB{n}", (188, n)) for n in range(count)]
        one = resource("serial", "/dev/ttyUSB*", group_by=parse("$(device.name)"))
        with Profile() as profile:
            assert len(decide([one], ports)["example.com/serial"].devices) == count
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)  # what is only done once
    assert calls(400) < 4.4 * calls(100)


def test_the_nodes_of_a_group_come_in_natural_order() -> None:
    ports = [node(f"/dev/ttyUSB{n}", (188, n)) for n in (10, 2, 0)]
    one = resource("sound", "/dev/ttyUSB*", group_by=parse("all"))
    assert paths(given_for("all", one, ports)) == ["/dev/ttyUSB0", "/dev/ttyUSB2", "/dev/ttyUSB10"]


@pytest.mark.parametrize(
    ("needs", "ids", "reason"),
    [
        (None, ["card0", "card1", "card2", "card10"], ""),
        (1, ["card0", "card1", "card2", "card10"], ""),
        (2, ["card0", "card2", "card10"], "its group 'card1' has 1 of 2 members: 1 missing"),
        (3, [], "its group 'card1' has 1 of 3 members: 2 missing"),
        ("each", ["card0", "card2", "card10"], "1 missing, match[1]"),
    ],
)
def test_a_group_is_offered_when_it_has_the_members_it_needs(
    needs: int | str | None, ids: list[str], reason: str
) -> None:
    offers = decide([sound(needs=needs)], CONTROLS + CAPTURES)
    assert healthy(offers, "sound") == ids
    assert reason in refusals(offers, "sound").get("/dev/snd/controlC1", "")
    for refused in offers["example.com/sound"].not_offered:
        assert CONTROLS[1].key in refused.device.keys or needs == 3


def test_every_entry_without_a_member_is_named() -> None:
    one = resource(
        "sound",
        "/dev/snd/controlC*",
        "/dev/snd/pcm*",
        "/dev/snd/midi*",
        group_by=parse("all"),
        group_needs="each",
    )
    assert refusals(decide([one], CONTROLS), "sound") == {
        "/dev/snd/controlC0": "its group 'all' has members of 1 of 3 entries: 2 missing, match[1]"
        " and match[2] (groupNeeds: each)"
    }


def test_for_each_a_member_counts_in_every_entry_that_takes_it() -> None:
    one = resource(
        "sound", "/dev/snd/*", "/dev/snd/controlC*", group_by=parse("all"), group_needs="each"
    )
    assert healthy(decide([one], CONTROLS), "sound") == ["all"]
    assert healthy(decide([one], CAPTURES), "sound") == []


def test_what_inject_names_is_expanded_for_every_member_and_repeats_count_once() -> None:
    control = node("/dev/ctl", (10, 1))
    one = sound(
        given=inject(
            nodes("$(device.path)"),
            nodes("/dev/ctl"),
            mounts=[("/opt/$(device.name)", "/opt/$(device.name)"), ("/lib/x", "/x")],
            env={"NODES": "$(device.path)", "CARD": "$(device.id)"},
            separator=" ",
            annotations={"example.com/names": "$(device.name)"},
            cdi=["example.com/sound=$(device.name)"],
        )
    )
    answer = given_for("card2", one, [*CONTROLS, *CAPTURES, control])
    assert paths(answer) == ["/dev/snd/controlC2", "/dev/ctl", "/dev/snd/pcmC2D0c"]
    assert [one.host_path for one in answer.mounts] == ["/opt/controlC2", "/lib/x", "/opt/pcmC2D0c"]
    assert answer.env == {"NODES": "/dev/snd/controlC2 /dev/snd/pcmC2D0c", "CARD": "card2"}
    assert answer.annotations == {"example.com/names": "controlC2,pcmC2D0c"}
    assert answer.cdi == ("example.com/sound=controlC2", "example.com/sound=pcmC2D0c")


def test_each_container_gets_the_nodes_of_its_own_device() -> None:
    """D15: every answer holds the last device, by a variable of a loop that all share."""
    offered = decide(
        [sound(given=inject(nodes("$(device.path)"), env={"A": "$(device.name)"}))],
        CONTROLS + CAPTURES,
    )["example.com/sound"].devices
    answers = {name: edits([one.device]) for name, one in offered.items()}
    assert {name: (paths(one), one.env["A"]) for name, one in answers.items()} == {
        "card0": (["/dev/snd/controlC0", "/dev/snd/pcmC0D0c"], "controlC0,pcmC0D0c"),
        "card1": (["/dev/snd/controlC1"], "controlC1"),
        "card2": (["/dev/snd/controlC2", "/dev/snd/pcmC2D0c"], "controlC2,pcmC2D0c"),
        "card10": (["/dev/snd/controlC10", "/dev/snd/pcmC10D0c"], "controlC10,pcmC10D0c"),
    }


@pytest.mark.parametrize(
    ("keys", "files", "reason"),
    [
        (
            {"id": "$(device.name)"},
            [CONTROLS[0], CAPTURES[0]],
            "its members have different ids: 'controlC0' (/dev/snd/controlC0) and 'pcmC0D0c'"
            " (/dev/snd/pcmC0D0c)",
        ),
        (
            {"given": inject(nodes("$(device.path)", "/dev/mic"))},
            [CONTROLS[0], CAPTURES[0]],
            "device card0: /dev/snd/controlC0 and /dev/snd/pcmC0D0c would both be '/dev/mic'",
        ),
        (
            {"given": inject(env={"A": "$(usb.serial)"})},
            [CONTROLS[0]],
            "usb.serial",
        ),
    ],
)
def test_what_no_device_can_be_made_of_is_not_offered_and_says_why(
    keys: dict[str, object], files: list[FoundFile], reason: str
) -> None:
    offers = decide([sound(**keys)], files)  # type: ignore[arg-type]
    assert healthy(offers, "sound") == []
    assert list(refusals(offers, "sound")) == ["/dev/snd/controlC0"]
    assert reason in refusals(offers, "sound")["/dev/snd/controlC0"]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("$(usb.serial)", "groupBy: "),
        ("$(usb.serial:-)", "groupBy '$(usb.serial:-)' gives an empty text"),
    ],
)
def test_what_has_no_text_is_in_no_group(template: str, reason: str) -> None:
    one = resource("sound", "/dev/snd/*", group_by=parse(template))
    offers = decide([one], CONTROLS[:2])
    assert healthy(offers, "sound") == []
    reasons = refusals(offers, "sound")
    assert set(reasons) == {"/dev/snd/controlC0", "/dev/snd/controlC1"}
    assert all(why.startswith(reason) for why in reasons.values())


def test_a_folder_may_be_a_member_that_is_mounted() -> None:
    folder = plain("/opt/card0", folder=True)
    assert healthy(decide([sound()], [*CONTROLS, folder]), "sound")[0] == "card0"


def test_what_a_group_has_belongs_to_no_other_device() -> None:
    other = resource("other", "/dev/snd/pcmC*")
    offers = decide([sound(), other], CONTROLS + CAPTURES)
    assert healthy(offers, "other") == []
    assert len(healthy(offers, "sound")) == 4


def test_shares_of_a_group_carry_its_id() -> None:
    offered = decide([sound(replicas=3)], CONTROLS[:1])["example.com/sound"].devices
    assert offered["card0"].device.shares == ("card0", "card0::1", "card0::2")


def _told(offers: Mapping[str, DeviceList]) -> tuple[object, ...]:
    offer = offers["example.com/sound"]
    devices = {name: edits([one.device]) for name, one in offer.devices.items()}
    return list(devices.items()), sorted(refusals(offers, "sound").items())


def test_the_order_of_the_candidates_changes_nothing() -> None:
    files = [CONTROLS[0], CAPTURES[0], CONTROLS[1], CONTROLS[2]]
    told = [_told(decide([sound(needs=2)], order)) for order in permutations(files)]
    assert all(one == told[0] for one in told)


@given(
    numbers=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from("ABC")), min_size=1, max_size=12, unique=True
    ),
    random=st.randoms(use_true_random=False),
    needs=st.sampled_from([None, 1, 2, 3]),
)
def test_any_candidates_in_any_order_give_the_same_devices_ids_and_answers(
    numbers: list[tuple[int, str]], random: st.DataObject, needs: int | None
) -> None:
    files = [
        node(
            f"/dev/{group}{n}", (10, n * 3 + "ABC".index(group)), syspath=f"/sys/devices/{group}{n}"
        )
        for n, group in numbers
    ]
    key = ValueSource(kind=ValueKind.TEXT, source=parse("$(device.path)"), regex="/dev/([A-Z])")
    one = resource(
        "sound",
        "/dev/*",
        values={"key": key},
        group_by=parse("$(value.key)"),
        group_needs=needs,
        replicas=2,
    )
    told = _told(decide([one], files))
    random.shuffle(files)  # type: ignore[attr-defined]
    assert _told(decide([one], files)) == told
    sizes = {group: sum(other == group for _, other in numbers) for _, group in numbers}
    offered = healthy(decide([one], files), "sound")
    assert offered == sorted(group for group, size in sizes.items() if size >= (needs or 1))


PORT_AT = "0000:00:14.0/usb1/1-1/1-1:1.0"


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        (("interface", "tty", "node"), ""),
        (("interface",), "it has no device node (write inject: {devices: []} if it needs none;"),
        (("interface", "tty"), "it has no device node"),
        (("interface", "tty", "serial", "node"), "its node /dev/serial0 does not exist"),
    ],
)
def test_of_a_group_one_member_must_have_a_node_and_each_the_one_that_the_kernel_names(
    present: tuple[str, ...], reason: str
) -> None:
    known = Known()
    known.interface(PORT_AT)
    files: list[FoundFile] = []
    if "tty" in present:
        tty = known.add(f"{PORT_AT}/ttyUSB0/tty/ttyUSB0", "tty", number=(188, 0))
        files += [node("/dev/ttyUSB0", (188, 0), syspath=tty.syspath)] if "node" in present else []
    if "serial" in present:
        known.add(f"{PORT_AT}/serial0", "tty", number=(188, 1))
    files += [plain(syspath, folder=True) for syspath in known.devices]
    wanted = Selector(candidates=udev_selector(subsystem=("usb", "tty")))
    offer = decide([resource("port", wanted, group_by=parse("x"))], files, facts=known)
    refused = [one.text for one in offer["example.com/port"].not_offered]
    if reason:
        assert [one.startswith(reason) for one in refused] == [True]
    else:
        assert (healthy(offer, "port"), refused) == (["x"], [])
