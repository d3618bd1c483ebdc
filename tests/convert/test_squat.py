"""squat/generic-device-plugin: what its documentation says is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.convert.offering import (
    DIRECTORY,
    converted,
    golden_of,
    offers,
    offers_of,
    problems_of,
    prose_of,
    text_of,
)
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = DIRECTORY / "peers/squat"
DOMAIN = "devic.es"


def device(*groups: str) -> str:
    """Make a device of groups."""
    return f"{{name: s, groups: [{', '.join(groups)}]}}"


def paths(*texts: str) -> str:
    """Make a device of one group of paths."""
    return device(f"{{paths: [{', '.join(f'{{path: {text}}}' for text in texts)}]}}")


def test_its_daemonset_offers_the_same(tmp_path: Path) -> None:
    """Read from its README: a group of all its paths, each glob's match, a directory as a whole."""
    golden = golden_of(PUBLISHED / "daemonset.yaml").read_text()
    sound = ["/dev/snd/controlC1", "/dev/snd/pcmC1D0c"]
    assert offers(golden, path_of("webcam"), tmp_path) == {
        f"{DOMAIN}/video": [["/dev/video0"]],
        f"{DOMAIN}/audio": [sound],
        f"{DOMAIN}/capture": [sound],
    }


def test_its_usb_devices_are_the_same(tmp_path: Path) -> None:
    golden = golden_of(PUBLISHED / "flags.yaml").read_text()
    assert offers(golden, path_of("serial-adapters"), tmp_path) == {
        "example.com/ch340": [["/dev/bus/usb/001/006"]],
        # All that its entries find is one device.
        "example.com/ftdi": [[f"/dev/bus/usb/001/00{i}" for i in (3, 4, 5)]],
        "example.com/serial": [[f"/dev/ttyUSB{i}"] for i in range(4)],
    }


@pytest.mark.parametrize(
    ("config", "machine", "nodes"),
    [
        # A directory of directories gives what is in them.
        (paths("/dev/bus/usb"), "serial-adapters", ["/dev/bus/usb/001/006"]),
        # An optional path is given where it exists, in whatever order.
        (paths("/dev/ttyUSB0", "/dev/none, optional: true"), "serial-adapters", ["/dev/ttyUSB0"]),
        (paths("/dev/none, optional: true", "/dev/ttyUSB0"), "serial-adapters", ["/dev/ttyUSB0"]),
        # One pattern may be any, and comes with the other path.
        (
            paths('"/dev/ttyUSB[2-9]"', "/dev/ttyUSB0, limit: 9"),
            "serial-adapters",
            ["/dev/ttyUSB2"],
        ),
        (paths("/dev/snd/controlC*", "/dev/snd/pcmC*D0c"), "webcam", ["/dev/snd/pcmC1D0c"]),
    ],
)
def test_paths_of_a_group_are_one_device(
    config: str, machine: str, nodes: list[str], tmp_path: Path
) -> None:
    offered = offers_of("squat", config, path_of(machine), tmp_path)
    assert set(nodes) <= set(offered[f"{DOMAIN}/s"][0])


def test_paths_of_a_group_are_paired_by_what_their_stars_stand_for(tmp_path: Path) -> None:
    """D2: squat pairs by index, so that a device gets the node of another one."""
    paired = paths("/dev/snd/controlC*", "/dev/snd/pcmC*D0c")
    assert "by position in two sorted lists" in prose_of("squat", paired)
    machine = tmp_path / "machine"
    machine.write_text(path_of("webcam").read_text().replace("pcmC1D0c", "pcmC10D0c"))
    assert offers_of("squat", paired, machine, tmp_path) == {}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # C2: squat reads other numbers.
        (device("{usb: [{vendor: 0403, product: 1e10}]}"), "may read another number"),
        (device("{usb: [{vendor: 0403, product: 1e10}]}"), '{vendor: "0403", product: "1e10"}'),
        (paths("/dev/x, optional: true"), "optional in the plugin, but must exist here"),
        (paths("/srv, type: Mount, optional: true"), "but must exist here"),
        (paths("/dev/a*, limit: 7"), "limit: 7 of /dev/a* has no counterpart"),
        (paths("/dev/a*", "/dev/b"), "limit: 1 of /dev/b has no counterpart"),
        (device("{usb: [{serial: x}]}"), 'usb: {vendor: "0000", product: "0000", serial: x}'),
        (paths("/b, type: Mount, permissions: r"), "for device files only"),
        # C1: squat ignores keys that it does not know.
        (paths("/dev/fuse, pth: x"), "pth: x"),
        (f"[{paths('/dev/a')}, {paths('/dev/a')}]", "is offered by the first of them only"),
        (paths("/dev/fuse"), "before that it was squat.ai"),
        ('[--domain, a.b, --device, "serial,/dev/ttyUSB*"]', "name: a.b/serial"),
        ('{env: [{name: DOMAIN, value: a.b}], args: [--device, "x,/dev/y"]}', "name: a.b/x"),
        # Another program's variable.
        ("{env: {DOMAIN: a.b}}\n---\n" + paths("/dev/y"), f"name: {DOMAIN}/s"),
    ],
)
def test_what_is_not_the_same_has_a_comment(config: str, said: str) -> None:
    assert said in prose_of("squat", config)


@pytest.mark.parametrize(
    ("rows", "resources"),
    [
        ((["card0", "kfd"], ["card1", "kfd"]), 1),
        ((["a0", "b0c0"], ["a1", "b1c0"], ["a12", "b12c0"]), 1),
        # No number in common.
        ((["card0", "renderD128"], ["card1", "renderD129"]), 2),
        ((["a0b0", "c"], ["a1b1", "c"]), 2),
        ((["a0", "b"], ["c0", "b"]), 2),
        ((["a0", "b"], ["a0", "b"]), 2),
        ((["a0", "b*"], ["a1", "b*"]), 2),
    ],
)
def test_groups_that_differ_in_one_number_are_one_resource(
    rows: tuple[list[str], ...], resources: int
) -> None:
    groups = [{"paths": [{"path": f"/dev/{name}"} for name in row]} for row in rows]
    done = converted("squat", json.dumps({"name": "s", "groups": groups}))
    assert done.resources == (f"{DOMAIN}/s", f"{DOMAIN}/s-2")[:resources]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (paths("dev/x"), "not an absolute path"),
        (paths('"/dev/["', "/dev/x"), "not an absolute path"),
        (paths('"/dev/x[!a]"'), "not an absolute path or glob that can be converted"),
        (paths("/dev/a*b*", "/dev/c*"), "each has one *"),
        (paths("/dev/serial"), "a directory of symbolic links"),
        (paths("/dev/x, type: Directory"), "expected Device or Mount"),
        (paths("/dev/x, mountPath: x"), "not an absolute path in a container"),
        (paths(*["/dev/x"] * 257), "more than 256 groups"),
        ("{name: s, groups: []}", "it has no groups"),
        (device("{count: many, paths: [{path: /dev/x}]}"), "a whole number"),
        (paths("/dev/x, permissions: xyz"), "letters of rwm"),
        ("{name: a b, groups: [{paths: [{path: /dev/x}]}]}", "cannot be the name of a resource"),
        (device("{usb: [{vendor: nothex, product: 1}]}"), "hexadecimal"),
        ("{listen: x}", "not a config of squat/generic-device-plugin: groups is missing"),
        ("text", "not a config of squat"),
        ("[--device, --device]", "a device is a mapping"),
        (f"genericDevicePlugin: {{devices: [{paths('/dev/a')}]}}", "status is not Enabled"),
    ],
)
def test_mistakes_have_a_location(config: str, said: str) -> None:
    first = problems_of("squat", config)[0]
    assert first.startswith(("config:1:", "config ([1]):1:"))
    assert said in first


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("/dev/tty[^A-Z]*", "/dev/tty[!A-Z]*"),
        (r"/dev/a\*b", "/dev/a[*]b"),
        ("/dev/**", "/dev/*"),
        ("/dev/video0/", "/dev/video0"),
    ],
)
def test_globs_of_go_are_converted(theirs: str, ours: str) -> None:
    config = json.dumps({"name": "s", "groups": [{"paths": [{"path": theirs}]}]})
    text = text_of("squat", config)
    assert f"path: {ours}" in text or f'path: "{ours}"' in text


LANES = {
    "gpu": "[{path: /dev/dri/renderD128}, {path: /dev/dri/card0, optional: true}]",
    "gpu-vaapi": "[{path: /dev/dri/renderD128}]",
    "gpus": "[{path: /dev/dri/renderD*}]",
}


def lanes(*names: str, count: int) -> str:
    """Make a device for each name, with the same render node in each of them."""
    listed = "".join(
        f"\n- name: {name}\n  groups: [{{count: {count}, paths: {LANES[name]}}}]" for name in names
    )
    return f"devices:{listed}"


@pytest.mark.parametrize(
    "names",
    [("gpu", "gpu-vaapi"), ("gpu-vaapi", "gpu"), ("gpu", "gpus"), ("gpus", "gpu-vaapi", "gpu")],
)
def test_several_names_of_one_path_offer_it_in_any_order(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    offered = offers_of("squat", lanes(*names, count=4), path_of("gpu"), tmp_path)
    render, card = "/dev/dri/renderD128", "/dev/dri/card0"
    assert offered == {
        f"{DOMAIN}/{name}": [[card, render] if name == "gpu" else [render]] for name in names
    }


def test_names_of_one_path_that_is_not_shared_have_a_comment() -> None:
    said = prose_of("squat", lanes("gpu", "gpu-vaapi", count=1))
    assert "Some of its devices are those of devic.es/gpu, and belong to what comes first" in said
    assert "exclusive: false\n" not in said
    said = prose_of("squat", lanes("gpu", "gpu-vaapi", count=2))
    assert "Its devices are those of devic.es/gpu-vaapi, too, as in the plugin." in said
    assert "offered by the first of them only" not in said
