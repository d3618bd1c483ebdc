"""Specs: what is in them, in which version of the format, and which files are ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cdi import file_name, kind_of_ours, left_out, rendered, specs
from genericdp.model import InjectBy, Resource
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.devices.making import decide, inject, node, nodes, plain, resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.inventory import FoundFile

USB0 = node("/dev/ttyUSB0", (188, 0))
USB1 = node("/dev/ttyUSB1", (188, 1))


def written(
    entry: Resource, files: Iterable[FoundFile] = (USB0,), *, everything: bool = True
) -> dict[str, Any]:
    """The spec of the only resource; empty if there is not one."""
    found = specs({entry.name: entry}, decide([entry], files), everything=everything)
    assert found.keys() <= {entry.name}
    return json.loads(found[entry.name]) if found else {}


def edits(entry: Resource, files: Iterable[FoundFile] = (USB0,), **how: bool) -> dict[str, Any]:
    """By device, what containers get."""
    devices = written(entry, files, **how).get("devices", ())
    return {device["name"]: device["containerEdits"] for device in devices}


def by_cdi(**keys: Any) -> Resource:
    given_keys = keys.pop("given", inject())
    return resource("serial", "/dev/ttyUSB*", given=replace(given_keys, by=InjectBy.CDI), **keys)


@pytest.mark.parametrize(
    ("name", "keys", "version"),
    [
        pytest.param("serial", {}, "0.3.0", id="plain"),
        pytest.param("serial", {"id": "0-$(device.name)"}, "0.5.0", id="a leading digit"),
        pytest.param("serial", {"given": inject(nodes("/dev/ttyUSB0", "/dev/modem"))}, "0.5.0",
                     id="another path in the container"),
        pytest.param("serial.v2", {}, "0.6.0", id="a dotted type"),
        pytest.param("serial.v2", {"id": "0-$(device.name)"}, "0.6.0", id="both"),
        pytest.param("serial", {"given": inject(env={"A": "b"}, mounts=[("/dev/x", "/x")])},
                     "0.3.0", id="env and mounts"),
    ],
)  # fmt: skip
def test_the_version_is_the_lowest_that_suffices(
    name: str, keys: dict[str, Any], version: str
) -> None:
    found = written(resource(name, "/dev/ttyUSB*", **keys), (USB0, plain("/dev/x")))
    assert found["cdiVersion"] == version
    assert found["kind"] == f"example.com/{name}"


def test_a_node_is_named_by_its_path_alone_where_that_is_the_same() -> None:
    assert edits(resource("serial", "/dev/ttyUSB*")) == {
        "ttyUSB0": {"deviceNodes": [{"path": "/dev/ttyUSB0", "permissions": "rw"}]}
    }


def test_links_are_followed_on_the_host_and_kept_in_the_container() -> None:
    link = node("/dev/serial/by-id/adapter", (188, 0), target="/dev/ttyUSB0")
    found = edits(resource("serial", "/dev/serial/by-id/*"), [link, USB0])
    (given_nodes,) = [match["deviceNodes"] for match in found.values()]
    assert given_nodes == [
        {"path": "/dev/serial/by-id/adapter", "hostPath": "/dev/ttyUSB0", "permissions": "rw"}
    ]


def test_devices_come_in_natural_order() -> None:
    files = [node(f"/dev/ttyUSB{number}", (188, number)) for number in (10, 9, 100)]
    assert [*edits(resource("serial", "/dev/ttyUSB*"), files)] == [
        "ttyUSB9",
        "ttyUSB10",
        "ttyUSB100",
    ]


EVERYTHING = inject(env={"PORT": "$(device.path)"}, mounts=[("/dev/lock", "/lock")])


def test_everything_has_env_and_mounts_too() -> None:
    found = edits(resource("serial", "/dev/ttyUSB*", given=EVERYTHING), [USB0, plain("/dev/lock")])
    assert found["ttyUSB0"] == {
        "deviceNodes": [{"path": "/dev/ttyUSB0", "permissions": "rw"}],
        "mounts": [
            {
                "hostPath": "/dev/lock",
                "containerPath": "/lock",
                "options": ["rbind", "rprivate", "ro"],
            }
        ],
        "env": ["PORT=/dev/ttyUSB0"],
    }


def test_only_nodes_move_into_the_spec_where_the_kubelet_gives_the_rest() -> None:
    found = edits(by_cdi(given=EVERYTHING), [USB0, plain("/dev/lock")], everything=False)
    assert found["ttyUSB0"].keys() == {"deviceNodes"}


def test_only_resources_that_come_by_cdi_have_a_spec_beside_a_kubelet() -> None:
    assert written(resource("serial", "/dev/ttyUSB*"), everything=False) == {}
    assert written(by_cdi(), everything=False)["kind"] == "example.com/serial"


def test_no_edits_are_empty_and_no_device_is_without_any() -> None:
    no_nodes = resource("serial", "/dev/ttyUSB*", given=inject(env={"A": "b"}))
    no_nodes = replace(no_nodes, inject=replace(no_nodes.inject, devices=()))
    assert edits(no_nodes) == {"ttyUSB0": {"env": ["A=b"]}}
    nothing = replace(no_nodes, inject=replace(no_nodes.inject, env={}))
    assert written(nothing) == {}


def test_without_devices_there_is_no_spec() -> None:
    assert written(resource("serial", "/dev/ttyUSB*"), []) == {}


def test_what_lacks_something_or_is_gone_has_no_entry() -> None:
    both = inject(nodes("$(device.path)"), nodes("/dev/reset-$(device.name)"))
    spec = resource("serial", "/dev/ttyUSB*", given=both)
    resets = [node(f"/dev/reset-ttyUSB{number}", (10, number)) for number in (0, 1)]
    before = decide([spec], [USB0, USB1, resets[0]])
    assert _names(spec, before) == ["example.com/serial=ttyUSB0"]
    after = decide([spec], [USB1, resets[1]], before, now=1.0)
    assert {*after[spec.name].devices} == {"ttyUSB0", "ttyUSB1"}
    assert _names(spec, after) == ["example.com/serial=ttyUSB1"]


def _names(entry: Resource, lists: DeviceLists) -> list[str]:
    spec = json.loads(specs({entry.name: entry}, lists, everything=True)[entry.name])
    return [f"{spec['kind']}={device['name']}" for device in spec["devices"]]


def test_a_device_that_cdi_cannot_name_spoils_no_spec() -> None:
    """A runtime refuses a spec as a whole for one name that is not one."""
    spec = resource("serial", "/dev/ttyUSB*", id="$(device.name)")
    odd = resource("serial", "/dev/ttyUSB*", id="_$(device.name)")
    files = [USB0]
    assert written(spec, files)
    assert written(odd, files) == {}
    (why,) = left_out({odd.name: odd}, decide([odd], files)).items()
    assert why[0] == "example.com/serial=_ttyUSB0"
    assert "begins and ends with a letter or digit" in why[1]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (resource("a", "/dev/*", given=inject(nodes("/dev/a", "/dev/a$(allocation.index)"))),
         "it uses $(allocation.index), which only a kubelet's request has"),
        (resource("a", "/dev/*", given=inject(env={"A": "$(allocation.index)"})),
         "it uses $(allocation.index), which only a kubelet's request has"),
        (resource("a", "/dev/*", given=inject(env={"A": "$(device.share)"})),
         "it uses $(device.share), which only a kubelet's request has"),
        (resource("a", "/dev/*", given=inject(annotations={"a/b": "c"})),
         "it gives annotations, which a CDI spec cannot"),
        (resource("a", "/dev/*", given=inject(cdi=["a.b/c=d"])),
         "it gives CDI devices of others, which a CDI spec cannot (say --device for each)"),
        (resource("1a", "/dev/*"),
         "its name is not a CDI kind: the domain and the type have to begin with a letter"),
    ],
)  # fmt: skip
def test_a_resource_is_left_out_that_needs_a_kubelet(entry: Resource, why: str) -> None:
    assert left_out({entry.name: entry}, {}) == {entry.name: why}
    assert specs({entry.name: entry}, {}, everything=True) == {}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PART = st.from_regex(r"[a-z]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
TYPE = st.from_regex(r"[A-Za-z]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?", fullmatch=True)
KIND = st.builds("{}/{}".format, PART, TYPE)


@given(KIND, st.lists(st.tuples(TEXT, TEXT), min_size=1, unique_by=lambda entry: entry[0]))
def test_what_we_write_is_ours(kind: str, devices: list[tuple[str, str]]) -> None:
    entries = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path}]}}
        for name, path in devices
    ]
    content = rendered({"cdiVersion": "0.3.0", "kind": kind, "devices": entries})
    assert kind_of_ours(content) == kind
    assert json.loads(content)["devices"] == entries
    # Container runtimes read it as YAML.
    assert yaml.safe_load(content)["devices"] == entries
    assert kind_of_ours(json.dumps(json.loads(content)).encode()) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "devices", "cdiVersion", "name"]), inner)
    ),
)


@given(JSON | st.fixed_dictionaries({"cdiVersion": JSON, "kind": JSON, "devices": JSON}))
def test_whatever_has_our_form_and_is_no_spec_is_not_ours(value: Any) -> None:
    assume(not (isinstance(value, dict) and isinstance(value.get("devices"), list)))
    assert kind_of_ours(rendered(value)) == ""


@given(st.binary() | st.builds("[".__mul__, st.just(100_000)).map(str.encode))
def test_no_content_is_too_odd_to_be_looked_at(content: bytes) -> None:
    assert kind_of_ours(content) == ""


@given(KIND, KIND)
def test_two_kinds_never_have_one_file(first: str, other: str) -> None:
    assert (file_name(first) == file_name(other)) == (first == other)
    assert "/" not in file_name(first)
