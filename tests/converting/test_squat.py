"""squat/generic-device-plugin: what its documentation says is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.converting.conversion import convert
from genericdp.converting.gopaths import glob_of
from tests.converting.offering import (
    INPUTS,
    golden_of,
    inputs_of,
    offers,
    offers_of,
    problems_of,
    prose_of,
    text_of,
)
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

SOUND = "{name: s, groups: [{paths: [{path: %s}, {path: %s}]}]}"
PUBLISHED = INPUTS / "squat"


@pytest.mark.parametrize("config", inputs_of("squat"), ids=lambda path: path.stem)
def test_what_squat_has_published_becomes_this(config: Path) -> None:
    assert convert("squat", str(config), config.read_bytes()).text == golden_of(config).read_text()


def test_its_daemonset_offers_the_same(tmp_path: Path) -> None:
    """Read from its README: a group of all its paths, each glob's match, a folder as a whole."""
    offered = offers(golden_of(PUBLISHED / "daemonset.yaml"), path_of("webcam"), tmp_path)
    sound = ["/dev/snd/controlC1", "/dev/snd/pcmC1D0c"]
    assert offered == {
        "squat.ai/video": [["/dev/video0"]],
        "squat.ai/audio": [sound],
        "squat.ai/capture": [sound],
    }


def test_its_usb_devices_are_the_same(tmp_path: Path) -> None:
    offered = offers(golden_of(PUBLISHED / "flags.yaml"), path_of("serial-adapters"), tmp_path)
    assert offered == {
        "example.com/ch340": [["/dev/bus/usb/001/006"]],
        # All that its entries find is one device.
        "example.com/ftdi": [[f"/dev/bus/usb/001/00{i}" for i in (3, 4, 5)]],
        "example.com/serial": [[f"/dev/ttyUSB{i}"] for i in range(4)],
    }


def test_paths_of_a_group_are_paired_by_what_their_stars_stand_for(tmp_path: Path) -> None:
    """D2: squat pairs by index; without ``$(value.key)`` in ``_inject`` each gets any node."""
    paired = SOUND % ("/dev/snd/controlC*", "/dev/snd/pcmC*D0c")
    text = text_of("squat", paired)
    assert "by its place in two sorted lists" in prose_of("squat", paired)
    machine = tmp_path / "machine"
    machine.write_text(path_of("webcam").read_text().replace("pcmC1D0c", "pcmC10D0c"))
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert offers(config, machine, tmp_path) == {}


def test_a_limit_is_never_passed(tmp_path: Path) -> None:
    """Two of four adapters may have the node of a limit of 2, by their names' numbers."""
    limited = "{path: /dev/ttyUSB*}, {path: /dev/bus/usb/001/001, limit: 2}"
    text = f"name: s, groups: [{{paths: [{limited}]}}]"
    offered = offers_of("squat", f"{{{text}}}", path_of("serial-adapters"), tmp_path)
    assert [nodes[-1] for nodes in offered["squat.ai/s"]] == ["/dev/ttyUSB0", "/dev/ttyUSB1"]


def test_patterns_that_cannot_be_paired_are_withheld() -> None:
    odd = SOUND % ("/dev/a*b*", "/dev/c*")
    assert "exactly one *" in problems_of("squat", odd)[0]


def test_ids_without_quotes_are_taken_as_written_and_told() -> None:
    """C2: squat reads other numbers; ``part.number()`` in ``_hexadecimal`` brings them back."""
    text = prose_of("squat", "{name: s, groups: [{usb: [{vendor: 0403, product: 1e10}]}]}")
    assert 'usb: {vendor: "0403", product: "1e10"}' in text
    assert "may have read another number" in text


def test_unknown_keys_are_told() -> None:
    """C1: squat ignores them; without ``keys.kept`` in ``_path`` they are lost here, too."""
    group = "{paths: [{path: /dev/fuse, pth: x}], coutn: 3}"
    text = text_of("squat", f"{{name: s, groups: [{group}], domian: y}}")
    assert [word in text for word in ("pth: x", "coutn: 3", "domian: ")] == [True] * 3


def test_a_folder_of_folders_gives_what_is_in_them(tmp_path: Path) -> None:
    text = "{name: s, groups: [{paths: [{path: /dev/bus/usb}]}]}"
    offered = offers_of("squat", text, path_of("serial-adapters"), tmp_path)
    assert "/dev/bus/usb/001/006" in offered["squat.ai/s"][0]


def test_a_folder_of_links_is_withheld() -> None:
    text = "{name: s, groups: [{paths: [{path: /dev/serial}]}]}"
    assert "nothing but links" in problems_of("squat", text)[0]


@pytest.mark.parametrize("optional", [0, 1], ids=["first", "second"])
def test_an_optional_path_is_given_where_it_exists(optional: int, tmp_path: Path) -> None:
    paths: list[dict[str, object]] = [{"path": "/dev/ttyUSB0"}]
    paths.insert(optional, {"path": "/dev/no-such-node", "optional": True})
    text = json.dumps({"name": "s", "groups": [{"paths": paths}]})
    offered = offers_of("squat", text, path_of("serial-adapters"), tmp_path)
    assert offered == {"squat.ai/s": [["/dev/ttyUSB0"]]}
    assert "exist, as in squat" not in prose_of("squat", text)


def test_an_optional_path_that_must_exist_here_is_told() -> None:
    mount = "{path: /dev/a}, {path: /srv, type: Mount, optional: true}"
    for paths in ("{path: /dev/x, optional: true}", mount):
        text = prose_of("squat", f"{{name: s, groups: [{{paths: [{paths}]}}]}}")
        assert "optional in squat, but must exist here" in text


@pytest.mark.parametrize(
    "paths",
    [
        "{path: /dev/a*, limit: 7}",
        "{path: /dev/a*, limit: 7}, {path: /dev/b, limit: 3}",
        "{path: /dev/a*}, {path: /dev/b, limit: 3}, {path: /dev/c, limit: 7}",
        "{path: /dev/a, limit: 7}, {path: /dev/b}",
    ],
)
def test_a_limit_without_effect_is_told(paths: str) -> None:
    text = prose_of("squat", f"{{name: s, groups: [{{paths: [{paths}]}}]}}")
    assert text.count("limit: 7 of /dev/") == 1


def test_what_squat_heeds_of_the_other_type_only_is_told() -> None:
    paths = "{path: /dev/a, readOnly: true}, {path: /b, type: Mount, permissions: r}"
    text = prose_of("squat", f"{{name: s, groups: [{{paths: [{paths}]}}]}}")
    assert "in mounts only" in text
    assert "in devices only" in text


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[{name: a, groups: [{paths: [{path: dev/x}]}]}]", "no absolute path"),
        ("{name: a, groups: [{count: many, paths: [{path: /dev/x}]}]}", "a whole number"),
        ("{name: a, groups: [{paths: [{path: /dev/x, permissions: xyz}]}]}", "letters of rwm"),
        ("{name: a b, groups: [{paths: [{path: /dev/x}]}]}", "cannot be a resource"),
        ("{name: a, groups: [{usb: [{vendor: nothex, product: 1}]}]}", "hexadecimal"),
        ("{listen: x}", "it has no devices"),
        ("text", "no config of squat"),
        ("[--device, --device]", "a device is a mapping"),
    ],
)
def test_mistakes_have_a_place(config: str, said: str) -> None:
    first = problems_of("squat", config)[0]
    assert first.startswith("config:1:")
    assert said in first


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("/dev/tty[^A-Z]*", "/dev/tty[!A-Z]*"),
        ("/dev/x[!a]", "/dev/x[a!]"),
        (r"/dev/a\*b", "/dev/a[*]b"),
        ("/dev/**", "/dev/*"),
        ("/dev/[", None),
        ("/dev/../x", None),
    ],
)
def test_globs_of_go_are_ours(theirs: str, ours: str | None) -> None:
    assert glob_of(theirs) == ours
