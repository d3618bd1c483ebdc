"""What nobody can know to be excluded is not offered, and the reason says what is not known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD, first_line
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
DISKS = "pci0000:00/0000:00:17.0/ata1"
SDA = f"sys/devices/{DISKS}/block/sda"
SDB = f"sys/devices/{DISKS}/block/sdb"
HELD = (
    '    values: {holder: {link: "$(device.syspath)/holders/*"}}\n'
    "    exclude: [{path: /dev/sd*, values: {holder: dm-*}}]\n"
)


class Machine(Tree):
    """A host of disks; what cannot be read is a folder in its place, which root cannot read."""

    def disk(self, name: str, number: str) -> None:
        """Add a disk in its class."""
        folder = f"devices/{DISKS}/block/{name}"
        self.node(name, number, at=f"{DISKS}/block", block=True, ro="0")
        self.link(f"sys/{folder}/subsystem", "../../../../../../class/block")
        self.link(f"sys/class/block/{name}", f"../../{folder}")

    def holder(self, name: str, disk: str = SDA) -> None:
        """Let a disk be used by another block device."""
        self.write(f"sys/devices/virtual/block/{name}/uevent", "")
        self.link(f"{disk}/holders/{name}", f"../../../../../../virtual/block/{name}")

    def hide(self, path: str) -> None:
        """Make a file or link unreadable."""
        file = self.folder / path
        if file.is_symlink():
            file.unlink()
            self.write(path, "")
            return
        file.unlink(missing_ok=True)
        file.mkdir(parents=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two disks, one of them with a partition."""
    machine = Machine(tmp_path / "root")
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16")
    machine.node("sda1", "8:1", at=f"{DISKS}/block/sda", block=True)
    for path in (SDA, SDB):
        (machine.folder / path / "holders").mkdir()
    return machine


class Found:
    """What ``discover`` prints of one resource."""

    def __init__(self, found: dict[str, list[dict[str, str]]]) -> None:
        self.paths = [one["path"].removeprefix("/dev/") for one in found["devices"]]
        self.refused = {one["path"]: one["reason"] for one in found["notOffered"]}


def discovered(machine: Machine, capsys: Capture, *rest: str, policy: str = "") -> list[Found]:
    """Run ``discover`` with a resource of all disks for each text of further keys."""
    text = HEAD
    for i, keys in enumerate(rest):
        text += f"  - name: example.com/disk{i}\n    match: [{{path: /dev/sd*}}]\n{keys}"
    config = machine.folder.parent / "config.yaml"
    config.write_text(text)
    options = ["--config", str(config), "--root", str(machine.folder), "-o", "json"]
    if policy:
        (bounds := config.with_name("policy.yaml")).write_text(policy)
        options += ["--policy", str(bounds)]
    assert main(["discover", *options]) == 0
    found = resources_in(capsys.readouterr().out)
    return [Found(one) for one in found.values()]


def test_a_disk_with_two_holders_is_not_offered_raw(machine: Machine, capsys: Capture) -> None:
    machine.holder("dm-0")
    (one,) = discovered(machine, capsys, HELD)
    assert one.refused["/dev/sda"] == "excluded by the config"
    machine.holder("dm-1")
    (two,) = discovered(machine, capsys, HELD)
    reason = f"may be excluded, but the value 'holder': /{SDA}/holders/* finds 2 paths, wanted one"
    assert two.refused == {"/dev/sda": reason, "/dev/sda1": reason}
    assert two.paths == ["sdb"]


@pytest.mark.parametrize("target", ["/nowhere/dm-0", "dm-0"])
def test_a_link_that_leads_nowhere_is_no_absence(
    machine: Machine, capsys: Capture, target: str
) -> None:
    """The second one leads to itself."""
    link = machine.folder / SDA / "holders/dm-0"
    link.symlink_to(target)
    (one,) = discovered(machine, capsys, HELD)
    reason = (
        f"may be excluded, but the value 'holder': /{SDA}/holders/dm-0 is a link that leads nowhere"
    )
    assert one.refused == {"/dev/sda": reason, "/dev/sda1": reason}
    assert one.paths == ["sdb"]


def test_what_surely_does_not_hold_excludes_nothing(machine: Machine, capsys: Capture) -> None:
    """No file, no link and no hit are answers, not failures."""
    machine.write("run/udev/data/b8:0", "E:ID_FS_TYPE=ext4\n")
    keys = (
        "    values:\n"
        '      holder: {link: "$(device.syspath)/holders/*"}\n'
        '      nothing: {file: "$(device.syspath)/nothing"}\n'
        '      ro: {file: "$(device.syspath)/ro", regex: "[a-z]+"}\n'
        "    exclude:\n"
        '      - {path: /dev/sd*, values: {holder: "*"}}\n'
        '      - {path: /dev/sd*, values: {nothing: "*"}}\n'
        '      - {path: /dev/sd*, values: {ro: "*"}}\n'
        '      - {udev: {subsystem: block, attributes: {nothing: "*"}}}\n'
        '      - {udev: {subsystem: block, properties: {NOTHING: "*"}}}\n'
    )
    (found,) = discovered(machine, capsys, keys)
    assert (found.paths, found.refused) == (["sda", "sda1", "sdb"], {})


def test_a_default_does_not_hide_what_is_not_known(machine: Machine, capsys: Capture) -> None:
    keys = (
        "    values:\n"
        '      holder: {link: "$(device.syspath)/holders/*"}\n'
        '      use: {text: "$(value.holder:-free)"}\n'
        "    exclude: [{path: /dev/sd*, values: {use: dm-*}}]\n"
        '    inject: {env: {USE: "$(value.use)"}}\n'
    )
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sda", "sda1", "sdb"]
    machine.holder("dm-0")
    machine.holder("dm-1")
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sdb"]
    (found,) = discovered(machine, capsys, keys.replace("use: dm-*", 'use: "-"'))
    assert found.paths == ["sdb"]  # whatever the text would be
    (found,) = discovered(
        machine, capsys, keys.replace("exclude: [{path: /dev/sd*,", "exclude: [{path: /dev/none,")
    )
    assert found.paths == ["sda", "sda1", "sdb"]  # elsewhere it stands for several, too


@pytest.mark.parametrize(
    ("hidden", "exclude", "file"),
    [
        ("ro", '{udev: {subsystem: block, attributes: {ro: "1"}}}', "ro"),
        ("ro", '{path: /dev/sd*, hardware: {udev: {attributes: {ro: "1"}}}}', "ro"),
        ("ro", '{path: /dev/sd*, values: {attribute: "1"}}', "ro"),
        ("ro", '{path: /dev/sd*, values: {ro: "1"}}', "ro"),
        ("uevent", '{udev: {subsystem: block, properties: {ID_BUS: "*"}}}', "uevent"),
        ("uevent", "{udev: {subsystem: block, devtype: disk}}", "uevent"),
        ("driver", "{udev: {subsystem: block, driver: sd}}", "driver"),
        ("driver", '{path: /dev/sd*, values: {driver: "sd"}}', "driver"),
        ("subsystem", '{udev: {subsystem: block, name: "sd*"}}', "subsystem"),
        ("subsystem", "{path: /dev/sd*, hardware: {pci: {driver: ahci}}}", "subsystem"),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_absent(
    machine: Machine, capsys: Capture, hidden: str, exclude: str, file: str
) -> None:
    if hidden == "driver":
        machine.link(f"{SDA}/driver", "../x")
    keys = (
        "    values:\n"
        '      attribute: {text: "$(attribute.ro:-0)"}\n'
        '      driver: {text: "$(device.driver:-none)"}\n'
        '      ro: {file: "$(device.syspath)/ro"}\n'
        f"    exclude: [{exclude}]\n"
    )
    (before,) = discovered(machine, capsys, keys)
    machine.hide(f"{SDA}/{hidden}")
    (after,) = discovered(machine, capsys, keys)
    assert set(after.paths).isdisjoint({"sda", "sda1"})
    assert after.refused["/dev/sda1"].startswith("may be excluded, but ")
    assert f"/{SDA}/{file}" in after.refused["/dev/sda1"]
    assert ("sdb" in after.paths) == ("sdb" in before.paths)


def test_a_record_of_udev_that_cannot_be_read_may_exclude(
    machine: Machine, capsys: Capture
) -> None:
    machine.write("run/udev/data/b8:0", "E:ID_FS_TYPE=LVM2_member\n")
    keys = "    exclude: [{udev: {subsystem: block, properties: {ID_FS_TYPE: LVM2*}}}]\n"
    (found,) = discovered(machine, capsys, keys)
    assert found.refused["/dev/sda"] == "excluded by the config"
    machine.hide("run/udev/data/b8:0")
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sdb"]
    assert "/run/udev/data/b8:0 cannot be read: " in found.refused["/dev/sda"]


@pytest.mark.parametrize("folder", ["run", "run/udev/data"])
def test_without_any_records_of_udev_a_property_may_exclude_everything(
    machine: Machine, capsys: Capture, folder: str
) -> None:
    (machine.folder / folder).mkdir(parents=True)
    keys = "    exclude: [{udev: {subsystem: block, properties: {ID_FS_TYPE: LVM2*}}}]\n"
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == []
    assert "/run/udev/data cannot be read: there are no records" in found.refused["/dev/sda"]


def test_a_record_of_udev_that_leads_to_itself_may_exclude(
    machine: Machine, capsys: Capture
) -> None:
    record = machine.write("run/udev/data/b8:0", "E:ID_FS_TYPE=LVM2_member\n")
    record.unlink()
    record.symlink_to(record.name)
    keys = "    exclude: [{udev: {subsystem: block, properties: {ID_FS_TYPE: LVM2*}}}]\n"
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sdb"]
    assert "/run/udev/data/b8:0 cannot be read: " in found.refused["/dev/sda"]


def test_records_of_udev_whose_folder_leads_to_itself_may_exclude(
    machine: Machine, capsys: Capture
) -> None:
    machine.link("run/udev/data", "data")
    keys = "    exclude: [{udev: {subsystem: block, properties: {ID_FS_TYPE: LVM2*}}}]\n"
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == []
    assert "/run/udev/data cannot be read: " in found.refused["/dev/sda"]


@pytest.mark.parametrize("pattern", ["/dev/mine/*", "/dev/mine/sda"])
def test_a_folder_of_its_glob_that_leads_to_itself_may_hold_anything(
    machine: Machine, capsys: Capture, pattern: str
) -> None:
    machine.link("dev/mine", "mine")
    (found,) = discovered(machine, capsys, f"    exclude: [{{path: {pattern}}}]\n")
    assert found.paths == []
    assert "may be excluded, but /dev/mine" in found.refused["/dev/sda"]


def test_a_file_that_is_a_link_to_nothing_may_exclude(machine: Machine, capsys: Capture) -> None:
    """As a value that is a link to nothing does; a file that is not there is an answer."""
    machine.link("run/claims/sda", "/nowhere")
    keys = (
        '    values: {claim: {file: "/run/claims/$(device.name)"}}\n'
        '    exclude: [{path: /dev/sd*, values: {claim: "*"}}]\n'
    )
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sdb"]
    assert found.refused["/dev/sda"] == (
        "may be excluded, but the value 'claim': /run/claims/sda is a link that leads nowhere"
    )


def test_a_condition_that_surely_fails_outweighs_what_is_not_known(
    machine: Machine, capsys: Capture
) -> None:
    machine.hide(f"{SDA}/ro")
    keys = '    exclude: [{udev: {subsystem: block, attributes: {ro: "1"}, name: sdb}}]\n'
    (found,) = discovered(machine, capsys, keys)
    assert (found.paths, found.refused) == (["sda", "sda1", "sdb"], {})
    machine.holder("dm-0")
    machine.holder("dm-1")
    keys = HELD + '    nodeNames: ["*"]\n'
    (found,) = discovered(
        machine,
        capsys,
        keys.replace("holder: dm-*", 'holder: dm-*, ro: "1"').replace(
            "values: {holder: {", 'values: {ro: {text: "0"}, holder: {'
        ),
    )
    assert found.paths == ["sda", "sda1", "sdb"]


def test_an_entry_that_surely_takes_it_is_the_reason(machine: Machine, capsys: Capture) -> None:
    machine.holder("dm-0")
    machine.holder("dm-1")
    keys = HELD.replace("exclude: [", "exclude: [{path: /dev/sda}, ")
    (found,) = discovered(machine, capsys, keys)
    assert found.refused["/dev/sda"] == "excluded by the config"


@pytest.mark.parametrize(
    ("text", "why"),
    [("x" * 70_000, "it has more than 64 KiB"), ("a\nb", "which holds a newline or NUL")],
)
def test_a_text_that_cannot_be_used_may_exclude(
    machine: Machine, capsys: Capture, text: str, why: str
) -> None:
    machine.write(f"{SDA}/label", text)
    keys = (
        "    values:\n"
        '      raw: {file: "$(device.syspath)/label"}\n'
        '      label: {text: "$(value.raw)"}\n'
        "    exclude: [{path: /dev/sd*, values: {label: secret}}]\n"
    )
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ["sdb"]
    assert why in found.refused["/dev/sda"]


def test_a_file_that_a_policy_refuses_may_exclude(machine: Machine, capsys: Capture) -> None:
    machine.write("run/claims/sda", "mine")
    machine.write("etc/claims/sda", "mine")
    machine.link("run/claims/sda", "/etc/claims/sda")
    keys = (
        '    values: {claim: {file: "/run/claims/$(device.name)"}}\n'
        "    exclude: [{path: /dev/sd*, values: {claim: mine}}]\n"
    )
    policy = (
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
        "devices: {block: true}\nfiles: [/run/claims]\n"
    )
    (found,) = discovered(machine, capsys, keys, policy=policy)
    assert found.paths == ["sdb"]
    assert found.refused["/dev/sda"].startswith(
        "may be excluded, but the value 'claim': /etc/claims/sda is not among the files"
    )


def test_no_later_resource_gets_what_is_not_known(machine: Machine, capsys: Capture) -> None:
    machine.holder("dm-0")
    first, second = discovered(machine, capsys, HELD, "")
    assert (first.paths, second.paths) == (["sdb"], ["sda", "sda1"])
    machine.holder("dm-1")
    first, second = discovered(machine, capsys, HELD, "")
    assert (first.paths, second.paths) == (["sdb"], [])
    assert "belongs to resource example.com/disk0" in second.refused["/dev/sda"]


def test_what_is_not_known_is_not_injected_either(machine: Machine, capsys: Capture) -> None:
    machine.holder("dm-0")
    machine.holder("dm-1")
    keys = HELD + "    inject: {devices: [{path: $(device.path)}, {path: /dev/sda}]}\n"
    (found,) = discovered(machine, capsys, keys)
    config = str(machine.folder.parent / "config.yaml")
    assert (
        main(["allocate", "example.com/disk0=1", "--config", config, "--root", str(machine.folder)])
        == 1
    )
    assert "/dev/sda: may be excluded, but the value 'holder'" in capsys.readouterr().err
    assert found.paths == ["sdb"]


def test_explain_names_the_entry_and_what_is_not_known(
    machine: Machine, capsys: Capture, tmp_path: Path
) -> None:
    machine.holder("dm-0")
    machine.holder("dm-1")
    disks = "  - name: example.com/disk\n    match: [{path: /dev/sd*}]\n" + HELD
    for disk in ("sda", "sda1"):
        asked = first_line(capsys, tmp_path, machine.folder, disks, f"/dev/{disk}")
        assert asked == (
            f"/dev/{disk} is not offered: example.com/disk takes it, but it may be excluded by"
            " exclude[0] path: /dev/sd*, values: {holder: dm-*}: the value 'holder':"
            f" /{SDA}/holders/* finds 2 paths, wanted one"
        )


@pytest.fixture
def as_nobody() -> Iterator[Callable[[], None]]:
    """Who calls it is someone else until the test ends: root may read everything."""
    before = os.geteuid()
    yield lambda: os.seteuid(65534 if before == 0 else before)
    os.seteuid(before)


@pytest.mark.parametrize(
    ("folder", "exclude"),
    [
        ("dev/mapper", "path: /dev/mapper/*"),
        ("sys/class/scsi_disk", "udev: {subsystem: scsi_disk}"),
        ("sys/class", 'udev: {name: "sd*"}'),
        ("run/udev/data", 'udev: {subsystem: block, properties: {ID_BUS: "*"}}'),
    ],
)
def test_a_folder_that_cannot_be_read_may_hold_what_is_excluded(
    short_folder: Path,
    capsys: Capture,
    as_nobody: Callable[[], None],
    folder: str,
    exclude: str,
) -> None:
    short_folder.chmod(0o755)
    machine = Machine(short_folder / "root")
    machine.disk("sda", "8:0")
    machine.write("dev/mapper/control", "")
    machine.write("run/udev/data/x", "")
    machine.write("sys/class/scsi_disk/x", "")
    keys = f"    exclude: [{{{exclude}}}]\n"
    (found,) = discovered(machine, capsys, keys)
    assert found.paths == ([] if folder == "sys/class" else ["sda"])
    (machine.folder / folder).chmod(0)
    config = machine.folder.parent / "config.yaml"
    as_nobody()
    options = ["--config", str(config), "--root", str(machine.folder), "-o", "json"]
    assert main(["discover", *options]) == 0
    (one,) = map(Found, resources_in(capsys.readouterr().out).values())
    assert one.paths == []
    reason = f"/{folder} cannot be read"
    assert one.refused["/dev/sda"].startswith(f"may be excluded, but {reason}")
