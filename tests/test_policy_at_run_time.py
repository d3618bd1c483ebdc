"""What a policy refuses once it is known what templates give and where links lead.

Each of these configs is valid: as far as its plain text tells, the policy allows it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.cli import main
from tests.config.bounded import HEAD
from tests.printed import resources_in
from tests.world import Host, World, config, resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "example.com/r"
POLICY = f"""{HEAD}devices: {{paths: [/dev/ttyUSB*, /dev/serial, /dev/dri]}}
mounts: [{{hostPath: /opt}}, {{hostPath: /var/lib, readOnly: false}}]
files: [/run]
env: [A]
annotations: ["*"]
cdi: [v.com/ttyUSB0]
"""
NODES = "is not among the device nodes that are allowed (policy P:3 says devices: /dev/ttyUSB*, "
MOUNTS = "is not among the mounts that are allowed (policy P:4 says mounts: /opt, /var/lib)"
FILES = "is not among the files that are allowed (policy P:5 says files: /run)"
OF_USB0 = "/sys/devices/virtual/tty/ttyUSB0"
CDI = "is not allowed (policy P:8 says cdi: v.com/ttyUSB0)"


class Place:
    """A host in a folder, a policy, and a config of one resource."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.host = Host(folder / "host")
        for name in ("ttyUSB0", "ttyUSB1"):
            self.host.plug(name)
        self.host.plug("sda", major=8)
        self.host.write("/etc/ttyUSB0", "secret")
        self.host.write("/etc/shadow", "secret")
        self.host.write("/run/ttyUSB0", "up")
        self.host.write("/run/empty", "")
        for link, target in {
            "dev/serial/good": "../ttyUSB0",
            "dev/serial/bad": "../sda",
            "opt/good": "lib",
            "opt/bad": "../etc",
            "opt/later": "/etc/none",
            "run/bad": "../etc/shadow",
            "run/there/bad": "/etc/shadow",
            "run/in/slot0": OF_USB0,
            "etc/in/slot0": OF_USB0,
            "run/folder": "../etc/in",
        }.items():
            path = self.host.folder / link
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(target)
        (self.host.folder / "opt/lib").mkdir()
        self.config, self.policy = folder / "c.yaml", folder / "p.yaml"
        self.policy.write_text(POLICY)
        self._capsys = capsys

    def ask(self, *words: str, root: str = "") -> tuple[int, str]:
        """Return the exit code of a command, and what it prints."""
        applied = [f"--config={self.config}", f"--root={root or self.host.folder}"]
        named = [str(self.config)] if words[0] == "validate" else applied
        code = main([*words, *named, f"--policy={self.policy}"])
        return code, "".join(self._capsys.readouterr()).replace(str(self.policy), "P")

    def wants(self, *globs: str, **keys: object) -> None:
        """Write a config, which must be valid under the policy."""
        self.config.write_text(config(resource(NAME, *(globs or ("/dev/ttyUSB0",)), **keys)))
        code, said = self.ask("validate")
        assert code == 0, said

    def reasons(self) -> list[str]:
        """Return why devices are not offered."""
        _, said = self.ask("discover", "-o", "json")
        return [one["reason"] for one in resources_in(said)[NAME]["notOffered"]]


@pytest.fixture
def place(short_folder: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(short_folder, capsys)


def given(**inject: object) -> dict[str, object]:
    return {"inject": {"devices": [], **inject}}


def nodes(path: str) -> dict[str, object]:
    return {"inject": {"devices": [{"path": path}]}}


def mount(path: str, *, read_only: bool = True, **values: object) -> dict[str, object]:
    values = {"w": {"text": "$(usb.serial)"}, **values}
    mounts = [{"hostPath": path, "containerPath": "/x", "readOnly": read_only}]
    return {"values": values, **given(mounts=mounts)}


def value(**source: str) -> dict[str, object]:
    return {"values": {"v": source}, **given(env={"A": "$(value.v)"})}


def annotation(text: str, **keys: object) -> dict[str, object]:
    return {**given(annotations={"cdi.k8s.io/x": text, "other": "n.com/gpu=1"}), **keys}


@pytest.mark.parametrize("of", ["the resource", "an entry of match"])
@pytest.mark.parametrize(
    ("glob", "keys", "refusal"),
    [
        ("/dev/ttyUSB0", nodes("$(device.path)"), ""),
        ("/dev/serial/good", nodes("$(device.path)"), ""),
        ("/dev/sda", nodes("$(device.path)"), f"/dev/sda {NODES}"),
        ("/dev/sda", nodes("/dev/$(device.name)"), f"/dev/sda {NODES}"),
        ("/dev/sda", nodes("/dev/[$(device.name)]da"), f"/dev/sda {NODES}"),
        ("/dev/serial/bad", {}, f"/dev/sda {NODES}"),
        ("/dev/ttyUSB0", mount("/opt/good"), ""),
        ("/dev/ttyUSB0", mount("/opt/$(device.name)"), ""),
        ("/dev/ttyUSB0", mount("/etc/$(device.name)"), f"/etc/ttyUSB0 {MOUNTS}"),
        ("/dev/ttyUSB0", mount("$(property.X:-/etc)/x"), f"/etc/x {MOUNTS}"),
        ("/dev/ttyUSB0", mount("$(value.w:-/opt)/good"), ""),
        ("/dev/ttyUSB0", mount("$(value.w:-/etc)/x"), f"/etc/x {MOUNTS}"),
        ("/dev/ttyUSB0", mount("/opt/bad"), f"/etc {MOUNTS}"),
        ("/dev/ttyUSB0", mount("/opt/later"), f"/etc/none {MOUNTS}"),
        ("/dev/ttyUSB0", mount("$(value.folder)/good", folder={"text": "/opt"}), ""),
        ("/dev/ttyUSB0", mount("$(value.f)/x", f={"text": "/etc"}), f"/etc/x {MOUNTS}"),
        (
            "/dev/ttyUSB0",
            mount("$(value.f)", f={"text": "$(device.syspath)", "regex": "^/"}),
            "'$(value.f)' is '/', which cannot be part of a path",
        ),
        (
            "/dev/ttyUSB0",
            mount("/opt/$(value.f)", f={"file": "/run/empty"}),
            "'/opt/$(value.f)' gives '/opt/', which holds an empty name",
        ),
        ("/dev/ttyUSB0", mount("/var/lib/$(device.name)", read_only=False), ""),
        (
            "/dev/ttyUSB0",
            mount("/opt/$(device.name)", read_only=False),
            "/opt/ttyUSB0 may be mounted only for reading (policy P:4 says hostPath: /opt",
        ),
        ("/dev/ttyUSB0", value(file="/run/$(device.name)"), ""),
        ("/dev/ttyUSB0", value(file="/etc/$(device.name)"), f"/etc/ttyUSB0 {FILES}"),
        ("/dev/ttyUSB0", value(file="/run/bad"), f"/etc/shadow {FILES}"),
        ("/dev/ttyUSB0", value(link="/opt/$(property.w:-good)"), f"/opt/good {FILES}"),
        ("/dev/ttyUSB0", value(link="/run/there/*"), f"/etc/shadow {FILES}"),
        ("/dev/ttyUSB0", value(linkedBy="$(property.w:-/etc)/in/s*"), f"/etc/in/slot0 {FILES}"),
        ("/dev/ttyUSB0", value(linkedBy="/run/in/s*"), f"{OF_USB0} {FILES}"),
        ("/dev/ttyUSB0", value(linkedBy="/run/folder/s*"), f"/etc/in/slot0 {FILES}"),
        ("/dev/ttyUSB0", value(link="/run/folder/slot0"), f"/etc/in/slot0 {FILES}"),
        ("/dev/ttyUSB0", given(cdi=["v.com/$(device.name)=1"]), ""),
        ("/dev/ttyUSB1", given(cdi=["v.com/$(device.name)=1"]), f"'v.com/ttyUSB1' {CDI}"),
        ("/dev/ttyUSB0", annotation("v.com/$(device.name)=$(allocation.index)"), ""),
        (
            "/dev/ttyUSB0",
            annotation("v.com/ttyUSB0=1,v.com/gpu=$(device.id)"),
            f"'v.com/gpu' {CDI}",
        ),
        (
            "/dev/ttyUSB0",
            annotation("$(value.v)", values={"v": {"text": "v.com/ttyUSB0=1, n.com/gpu=all"}}),
            f"' n.com/gpu' {CDI}",
        ),
    ],
)
def test_what_a_template_gives_and_where_a_link_leads_is_refused_with_the_policys_line(
    place: Place, glob: str, keys: Mapping[str, Any], refusal: str, of: str
) -> None:
    if of == "the resource":
        place.wants(glob, **keys)
    else:
        entry = {"path": glob, "inject": keys.get("inject", {})}
        rest = {**keys, "inject": {"devices": []} if "inject" in keys else {}}
        place.wants(match=[entry], **rest)
    reasons = place.reasons()
    code, said = place.ask("allocate", f"{NAME}=1")
    if refusal:
        assert [refusal in one for one in reasons] == [True], reasons
        assert code == 1
        assert refusal in said
    else:
        assert (reasons, code) == ([], 0), said
    assert "secret" not in said


@pytest.mark.parametrize("keys", [{}, nodes("/dev/tty*")], ids=["matched", "injected"])
def test_of_what_a_glob_finds_the_policy_has_the_last_word(
    place: Place, keys: Mapping[str, Any]
) -> None:
    """The glob is wider than the policy: the config is valid, and the node that is not is kept."""
    place.host.plug("ttyS0", major=4)
    place.wants("/dev/tty*", **keys)
    reasons = place.reasons()
    assert reasons
    assert [one for one in reasons if f"/dev/ttyS0 {NODES}" not in one] == []
    _, said = place.ask("discover", "-o", "json")
    offered = resources_in(said)[NAME]["devices"]
    assert [one["nodes"] for one in offered] == (
        [] if keys else [["/dev/ttyUSB0"], ["/dev/ttyUSB1"]]
    )


def test_of_the_links_that_a_glob_finds_only_allowed_ones_are_read(place: Place) -> None:
    for link in ("opt/s0", "run-of-others/s0"):
        path = place.host.folder / link
        path.parent.mkdir(exist_ok=True)
        path.symlink_to("/etc/shadow")
    place.wants(**value(link="/r*/s0"))
    (reason,) = place.reasons()
    assert f"/run-of-others/s0 {FILES}" in reason


def test_no_default_takes_the_place_of_what_must_not_be_read(place: Place) -> None:
    source = {"v": {"file": "/etc/$(device.name)"}}
    place.wants(values=source, **given(env={"A": "$(value.v:-safe)"}))
    (reason,) = place.reasons()
    assert f"/etc/ttyUSB0 {FILES}" in reason


def test_nothing_matches_by_what_must_not_be_read(place: Place) -> None:
    selector = {"path": "/dev/ttyUSB0", "values": {"v": "*"}}
    place.wants(match=[selector], values={"v": {"file": "/etc/$(device.name)"}})
    assert place.ask("allocate", f"{NAME}=1")[0] == 1
    assert f"/etc/ttyUSB0 {FILES}" in place.ask("explain", "/dev/ttyUSB0")[1]


def test_a_group_is_refused_for_any_of_its_members(place: Place) -> None:
    place.wants("/dev/ttyUSB0", "/dev/sda", groupBy="all", **nodes("$(device.path)"))
    (reason,) = place.reasons()
    assert f"/dev/sda {NODES}" in reason


def test_a_name_that_only_an_allocation_completes_is_refused_there(place: Place) -> None:
    """The first device of a container has the index 0, the second one 1."""
    keys = annotation("v.com/ttyUSB$(allocation.index)=a")
    place.wants("/dev/ttyUSB*", **{"prefer": "none", **keys})
    assert place.reasons() == []
    assert place.ask("allocate", f"{NAME}=1")[0] == 0
    code, said = place.ask("allocate", f"{NAME}=2")
    assert code == 1
    assert f"cdi.k8s.io/x: 'v.com/ttyUSB1' {CDI}" in said


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/run/$(device.name)", ""),
        ("/etc/$(device.name)", f"/etc/ttyUSB0 {FILES}"),
        ("/run/bad", f"/etc/shadow {FILES}"),
    ],
)
def test_a_file_probe_reads_nothing_that_is_not_allowed(
    place: Place, path: str, refusal: str
) -> None:
    place.wants(health=[{"file": {"path": path, "equals": "up"}}])
    code, said = place.ask("probe")
    assert code == (1 if refusal else 0)
    assert refusal in said
    assert "secret" not in said
    _, said = place.ask("probe", "-o", "json")
    (device,) = resources_in(said)[NAME]["devices"]
    assert refusal in device["reason"]


def test_an_exclude_by_what_must_not_be_read_excludes(place: Place) -> None:
    """Rules that exclude fail closed."""
    text = config(
        {
            **resource(NAME, "/dev/ttyUSB0"),
            "values": {"v": {"file": "/etc/$(device.name)"}},
            "exclude": [{"path": "/dev/ttyUSB*", "values": {"v": "something else"}}],
        }
    )
    place.config.write_text(text)
    assert place.ask("validate")[0] == 0
    (reason,) = place.reasons()
    assert f"/etc/ttyUSB0 {FILES}" in reason


def test_a_program_that_is_another_one_is_not_run(place: Place, tmp_path: Path) -> None:
    program, ran = tmp_path / "check", tmp_path / "ran"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    more = f"commands: [{{path: {program}, sha256: '{digest}'}}]\n"
    place.policy.write_text(POLICY.replace("[/dev/ttyUSB*", "[/dev/null") + more)
    exec_probe = {"exec": {"command": [str(program), "$(device.path)"]}}
    place.wants("/dev/null", health=[exec_probe])
    assert place.ask("probe", root="/")[0] == 0
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    code, said = place.ask("probe", root="/")
    assert code == 1
    assert f"is not run: {program} has the SHA-256 " in said
    assert "(policy P:9 says " in said
    assert not ran.exists()


async def test_a_link_that_is_turned_after_the_device_was_listed_is_refused_at_allocate(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    for folder in ("opt/lib", "etc"):
        (world.host.folder / folder).mkdir(parents=True)
    link = world.host.folder / "opt/driver"
    link.symlink_to("lib")
    one = resource(
        NAME,
        "/dev/ttyUSB0",
        inject={
            "devices": [{"path": "$(device.path)"}],
            "mounts": [{"hostPath": "/opt/driver", "containerPath": "/x"}],
        },
    )
    async with world.serving(one, policy=POLICY) as daemon:
        await daemon.registered(NAME)
        await world.listed(NAME, "ttyUSB0")
        link.unlink()
        link.symlink_to("../etc")
        assert "/etc is not among the mounts that are allowed (policy " in await world.refusal(r=1)
        await daemon.log.says(
            "device ttyUSB0 is Unhealthy: /dev/ttyUSB0: /etc is not among the mounts"
        )
        assert daemon.log.count("is not offered") == 0, "one line says it"


async def test_the_daemon_says_why_it_offers_nothing(world: World) -> None:
    world.host.plug("sda")
    async with world.serving(
        resource(NAME, "/dev/sda", **nodes("$(device.path)")), policy=POLICY
    ) as daemon:
        await daemon.log.says("/dev/sda is not among the device nodes that are allowed (policy ")
        await daemon.shows(NAME, lambda found: "/dev/sda is not among" in json.dumps(found))
        assert world.kubelet.devices(NAME) == {}
