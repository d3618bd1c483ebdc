"""What an entry of ``match`` may take, but cannot read: it is not offered, nor given to others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from genericdp.cli import main
from tests.world import World, config, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.world import Host

SERIAL = "example.com/serial"
LATER = "example.com/later"
NODES = "/dev/ttyUSB*"
USB0 = "/dev/ttyUSB0"
MAYBE = "may be of match[0], but "
RECORD = "/run/udev/data/c188:0"
FOLDER = "/sys/devices/virtual/tty/ttyUSB0"
VALUES = {
    "kind": {"file": "/run/kinds/$(device.name)"},
    "attribute": {"text": "$(attribute.kind:-none)"},
}


def by_kind(condition: dict[str, object], *, second: str = NODES, **keys: object) -> dict[str, Any]:
    """Return a resource that gives what its first entry takes another folder than the rest."""
    match = [
        {
            "path": NODES,
            **entry,
            "inject": {
                "mounts": [{"hostPath": f"/opt/{kind}", "containerPath": f"/{kind}"}],
                "env": {"KIND": kind},
            },
        }
        for kind, entry in (("prod", condition), ("test", {"path": second}))
    ]
    return {"name": SERIAL, "match": match, "values": VALUES, **keys}


def large(file: Path) -> None:
    """Let a file be larger than a value may be."""
    file.write_text("prod" * 20_000)


def circular(file: Path) -> None:
    """Let a link to itself stand in the place of a file."""
    file.unlink()
    file.symlink_to(file.name)


def folder(file: Path) -> None:
    """Let a folder stand in the place of a file, which nobody can read."""
    file.unlink()
    file.mkdir()


def readable(file: Path, text: str) -> None:
    """Write a file in the place of whatever is there."""
    if file.is_dir():
        file.rmdir()
    file.unlink(missing_ok=True)
    file.write_text(text)


ATTRIBUTE: dict[str, object] = {"hardware": {"udev": {"attributes": {"kind": "prod"}}}}
PROPERTY: dict[str, object] = {"hardware": {"udev": {"properties": {"KIND": "prod"}}}}
UNKNOWN: list[tuple[dict[str, object], str, Callable[[Path], None], str]] = [
    ({"values": {"kind": "prod"}}, "/run/kinds/ttyUSB0", large, "it has more than 64 KiB"),
    ({"values": {"kind": "prod"}}, "/run/kinds/ttyUSB0", circular, "the value 'kind': "),
    ({"values": {"attribute": "prod"}}, f"{FOLDER}/kind", folder, "kind cannot be read: "),
    (ATTRIBUTE, f"{FOLDER}/kind", folder, f"{FOLDER}/kind cannot be read: "),
    (PROPERTY, RECORD, circular, f"{RECORD} cannot be read: "),
]
"""What the first entry asks for, the file that tells, how it is made unreadable, what is said."""


@pytest.fixture
def host(world: World) -> Host:
    """A host with two adapters, of which the first is ``prod`` however one asks."""
    for name in ("ttyUSB0", "ttyUSB1"):
        world.host.plug(name)
    world.host.write("/sys/class/tty/x", "")
    link = world.host.folder / FOLDER[1:] / "subsystem"
    link.symlink_to("../../../../class/tty")
    for path in ("/run/kinds/ttyUSB0", f"{FOLDER}/kind"):
        world.host.write(path, "prod")
    world.host.write(RECORD, "E:KIND=prod\n")
    return world.host


class Asked:
    """What commands say of a host and a config."""

    def __init__(self, host: Host, capsys: pytest.CaptureFixture[str], *given: Any) -> None:
        self._capsys = capsys
        file = host.folder.parent / "asked.yaml"
        file.write_text(config(*given))
        self._options = ["--config", str(file), "--root", str(host.folder), "-o", "json"]
        found = {one["name"]: one for one in self._told("discover")["resources"]}
        self.ids = {name: [one["id"] for one in its["devices"]] for name, its in found.items()}
        self.refused = {
            name: {one["path"]: one["reason"] for one in its["notOffered"]}
            for name, its in found.items()
        }

    def _told(self, command: str, *words: str) -> dict[str, Any]:
        assert main([command, *words, *self._options]) == 0
        return dict(json.loads(self._capsys.readouterr().out))

    def given(self) -> tuple[str, list[str]]:
        """Return the variable and the folders of a container with all devices."""
        answer = self._told("allocate", f"{SERIAL}={len(self.ids[SERIAL])}")[SERIAL]
        return answer["env"]["KIND"], [one["hostPath"] for one in answer["mounts"]]


@pytest.mark.parametrize(("condition", "file", "hide", "why"), UNKNOWN)
def test_it_is_not_offered_and_no_later_resource_gets_it(
    host: Host,
    capsys: pytest.CaptureFixture[str],
    condition: dict[str, object],
    file: str,
    hide: Callable[[Path], None],
    why: str,
) -> None:
    resources = by_kind(condition), resource(LATER, NODES)
    before = Asked(host, capsys, *resources)
    assert before.given() == ("prod,test", ["/opt/prod", "/opt/test"])
    hide(host.folder / file[1:])
    unknown = Asked(host, capsys, *resources)
    assert unknown.given() == ("test", ["/opt/test"])
    (reason,) = unknown.refused[SERIAL].values()
    assert reason.startswith(MAYBE)
    assert why in reason
    assert unknown.ids[LATER] == []
    assert "belongs to resource example.com/serial" in unknown.refused[LATER][USB0]
    readable(host.folder / file[1:], "E:KIND=prod\n" if file == RECORD else "prod")
    assert Asked(host, capsys, *resources).given() == before.given()


@pytest.mark.parametrize(("condition", "file", "hide", "why"), UNKNOWN[:4])
async def test_on_offer_it_is_unhealthy_with_the_reason_until_it_is_known(
    world: World,
    host: Host,
    condition: dict[str, object],
    file: str,
    hide: Callable[[Path], None],
    why: str,
) -> None:
    async with world.serving(by_kind(condition), resource(LATER, NODES)) as daemon:
        await daemon.offers(SERIAL, ttyUSB0="", ttyUSB1="")
        hide(host.folder / file[1:])
        host.plug("ttyUSB2")
        await world.listed(SERIAL, "ttyUSB1", "ttyUSB2")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await world.allocated(SERIAL, ["ttyUSB0"])
        assert f"{USB0}: {MAYBE}" in str(refused.value.details())
        assert why in str(refused.value.details())
        await daemon.offers(LATER)
        readable(host.folder / file[1:], "prod")
        host.plug("ttyUSB3")
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyUSB3")
        answer = await world.allocated(SERIAL, ["ttyUSB0"])
        (given,) = answer.container_responses
        assert (given.envs["KIND"], given.mounts[0].host_path) == ("prod", "/opt/prod")


async def test_a_member_of_a_group_is_lost_until_it_is_known(world: World, host: Host) -> None:
    grouped = by_kind({"values": {"kind": "prod"}}, groupBy="all")
    async with world.serving(grouped) as daemon:
        await daemon.offers(SERIAL, all="")
        await world.listed(SERIAL, "all")  # else a kubelet that has no list yet shows none, too
        large(host.folder / "run/kinds/ttyUSB0")
        host.plug("null", major=1, minor=3)
        why = f"{USB0}: {MAYBE}the value 'kind': "
        await daemon.shows(SERIAL, lambda it: it["devices"][0]["reason"].startswith(why))
        await world.listed(SERIAL)


def test_names_that_cannot_be_seen_may_be_those_of_the_first_entry(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only of what udev says that it has such a name."""
    host.write(RECORD, "S:serial/prod\n")
    (host.folder / "dev/serial").symlink_to("serial")
    found = Asked(host, capsys, by_kind({"path": "/dev/serial/*"}))
    assert found.ids == {SERIAL: ["ttyUSB1"]}
    assert found.refused[SERIAL][USB0].startswith(f"{MAYBE}/dev/serial")


@pytest.mark.parametrize("wanted", ["prod", "none"])
@pytest.mark.parametrize("second", ["/dev/none", NODES])
def test_what_no_entry_surely_takes_is_kept_back_all_the_same(
    host: Host, capsys: pytest.CaptureFixture[str], second: str, wanted: str
) -> None:
    """Whatever the default: ``none`` is what a device without the attribute has."""
    match = [{"path": NODES, "values": {"attribute": wanted}}, {"path": second}]
    given = {"name": SERIAL, "match": match, "values": VALUES}
    folder(host.folder / FOLDER[1:] / "kind")
    found = Asked(host, capsys, given, resource(LATER, NODES))
    reason = f"{MAYBE}{FOLDER}/kind cannot be read: it is a folder, not a file"
    assert found.refused[SERIAL] == {USB0: reason}
    assert "belongs to resource example.com/serial" in found.refused[LATER][USB0]


@pytest.mark.parametrize("paths", [("a", "b"), ("nowhere",)])
def test_several_links_and_one_that_leads_nowhere_are_no_answer(
    host: Host, capsys: pytest.CaptureFixture[str], paths: tuple[str, ...]
) -> None:
    for name in paths:
        host.write(f"/run/links/ttyUSB0/{name}", "")
    if paths == ("nowhere",):
        (host.folder / "run/links/ttyUSB0/nowhere").unlink()
        (host.folder / "run/links/ttyUSB0/nowhere").symlink_to("/gone")
    given = {
        "name": SERIAL,
        "match": [{"path": NODES, "values": {"link": "a"}}],
        "values": {"link": {"link": "/run/links/$(device.name)/*"}},
    }
    found = Asked(host, capsys, given, resource(LATER, NODES))
    assert found.refused[SERIAL][USB0].startswith(f"{MAYBE}the value 'link': /run/links/ttyUSB0/")
    assert found.ids == {SERIAL: [], LATER: ["ttyUSB1"]}, "no link at all is an answer"


async def test_what_another_resource_has_on_offer_stays_there(world: World, host: Host) -> None:
    """It was no device of the first, when that could be read."""
    first = {"name": SERIAL, "match": [{"path": NODES, **ATTRIBUTE}]}
    async with world.serving(first, resource(LATER, NODES)) as daemon:
        await daemon.offers(SERIAL, ttyUSB0="")
        await daemon.offers(LATER, ttyUSB1="")
        host.write("/sys/devices/virtual/tty/ttyUSB1/kind/x", "")
        host.plug("ttyUSB2")
        await daemon.offers(LATER, ttyUSB1="", ttyUSB2="")
        host.write("/sys/devices/virtual/tty/ttyUSB3/kind/x", "")
        host.plug("ttyUSB3")
        host.plug("ttyUSB4")
        await daemon.offers(LATER, ttyUSB1="", ttyUSB2="", ttyUSB4="")
        found = await daemon.resource(SERIAL)
        refused = {one["path"]: one["reason"] for one in found["notOffered"]}
        assert refused.keys() == {"/dev/ttyUSB1", "/dev/ttyUSB3"}
        assert all("kind cannot be read: it is a folder" in one for one in refused.values())


@pytest.mark.parametrize("first", [{"path": USB0}, {"values": {"kind": "prod"}}])
def test_the_first_entry_that_surely_takes_it_counts(
    host: Host, capsys: pytest.CaptureFixture[str], first: dict[str, object]
) -> None:
    wanted = by_kind(first)
    wanted["match"].insert(1, {"path": NODES, **ATTRIBUTE, "inject": {"env": {"KIND": "other"}}})
    folder(host.folder / FOLDER[1:] / "kind")
    found = Asked(host, capsys, wanted)
    assert found.refused == {SERIAL: {}}
    assert found.given()[0] == "prod,test"


def test_what_is_excluded_for_sure_is_free(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    large(host.folder / "run/kinds/ttyUSB0")
    wanted = by_kind({"values": {"kind": "prod"}}, exclude=[{"path": USB0}])
    found = Asked(host, capsys, wanted, resource(LATER, NODES))
    assert found.refused[SERIAL] == {USB0: "excluded by the config"}
    assert found.ids[LATER] == ["ttyUSB0"]
