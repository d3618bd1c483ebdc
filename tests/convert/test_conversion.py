"""Whatever comes in: a valid config or a clear error comes out, and no key is lost."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.config.files import STDIN
from genericdp.config.load import load
from genericdp.convert.conversion import PEERS, convert
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.convert.offering import CONFIGS, golden_of, problems_of, text_of

if TYPE_CHECKING:
    from pathlib import Path

_WORDS = st.sampled_from(
    (
        *("name", "groups", "paths", "path", "mountPath", "type", "Mount", "limit", "usb"),
        *("vendor", "product", "serial", "count", "devices", "domain", "args", "--device"),
        *("devicematch", "nummaxdevices", "config", "apiVersion", "kind", "ConfigMap", "List"),
        *("Configuration", "items", "data", "metadata", "spec", "template", "containers"),
        *("discoveryHandler", "discoveryDetails", "udev", "udevRules", "configuration"),
        *("capacity", "resourceList", "resourceName", "selectors", "vendors", "drivers"),
        *("pfNames", "rootDevices", "linkTypes", "isRdma", "configList", "rdmaHcaMax"),
        *("ifNames", "deviceIDs", "/dev/tty*", "/dev/snd", "^video[0-9]*$", "8086", "0403"),
        *("ens1f0#0-3", 'KERNEL=="a*"', "genericDevicePlugin", "akri.sh/v0", "DOMAIN"),
    )
)
_TEXTS = _WORDS | st.text(max_size=12)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 20_000) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=5),
    max_leaves=25,
)
_ANY |= st.lists(_ANY.map(json.dumps) | _WORDS, max_size=3)
"""Also strings that hold configs, as ConfigMaps and arguments do."""
_REGEXES = st.text(alphabet="ab01/.*+?|()[]^$-{},\\dw", max_size=14)


def _check(peer: str, content: bytes) -> None:
    done = convert(peer, "f", content)
    assert bool(done.text) != bool(done.problems)
    assert all("would not be valid" not in problem.message for problem in done.problems)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_others_publish_becomes_this(config: Path) -> None:
    done = convert(config.parent.name, config.name, config.read_bytes())
    assert done.text == golden_of(config).read_text()


@given(st.sampled_from(tuple(PEERS)), _ANY)
@settings(max_examples=examples(80))
def test_anything_gives_a_valid_config_or_a_clear_error(peer: str, value: Any) -> None:
    _check(peer, json.dumps(value).encode())


@given(_REGEXES)
@settings(max_examples=examples(50))
def test_any_expression_gives_a_valid_config_or_a_clear_error(regex: str) -> None:
    _check("smarter", json.dumps([{"devicematch": regex, "nummaxdevices": 1}]).encode())


@given(st.sampled_from(tuple(PEERS)), st.binary(max_size=60))
@settings(max_examples=examples(25))
def test_any_bytes_give_a_valid_config_or_a_clear_error(peer: str, content: bytes) -> None:
    _check(peer, content)


_RULES = {"name": "a", "discoveryDetails": {"udevRules": ['KERNEL=="a"']}}
_BY_VENDOR = {"resourceName": "a", "selectors": {"vendors": ["8086"]}}
_OWN: dict[str, Any] = {
    "squat": {"devices": [{"name": "a", "groups": [{"paths": [{"path": "/dev/a"}]}]}]},
    "smarter": {"config": [{"devicematch": "a", "nummaxdevices": 1}]},
    "akri": {"udev": {"configuration": _RULES}},
    "sriov": {"resourceList": [_BY_VENDOR]},
    "rdma": {"configList": [{**_BY_VENDOR, "rdmaHcaMax": 1}]},
}
_KEYED: dict[str, list[list[Any]]] = {
    "squat": [
        *([], ["devices", 0], ["devices", 0, "groups", 0]),
        ["devices", 0, "groups", 0, "paths", 0],
    ],
    "smarter": [["config", 0]],
    "akri": [["udev", "configuration"], ["udev", "configuration", "discoveryDetails"]],
    "sriov": [[], ["resourceList", 0], ["resourceList", 0, "selectors"]],
    "rdma": [[], ["configList", 0], ["configList", 0, "selectors"]],
}


@pytest.mark.parametrize(
    ("peer", "path"), [(peer, path) for peer, paths in _KEYED.items() for path in paths]
)
def test_a_key_nobody_knows_is_kept_as_a_comment(peer: str, path: list[Any]) -> None:
    config = json.loads(json.dumps(_OWN[peer]))
    part = config
    for step in path:
        part = part[step]
    part["neverHeardOf"] = "surely"
    text = text_of(peer, json.dumps(config))
    assert sum("neverHeardOf: surely" in line for line in text.splitlines()) == 1


@pytest.mark.parametrize(("owner", "asked"), tuple(permutations(_OWN, 2)))
def test_a_file_of_another_plugin_is_recognized(owner: str, asked: str) -> None:
    (problem,) = problems_of(asked, json.dumps(_OWN[owner]))
    assert "this is not a config of" in problem
    assert f": --from {owner})" in problem


@pytest.mark.parametrize("peer", PEERS)
def test_a_config_of_our_own_is_recognized(peer: str) -> None:
    own = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources: []\n"
    said = "this is a config of genericdp already (check it with 'genericdp validate')"
    assert problems_of(peer, own) == [f"config:1:1: {said}"]
    wrapped = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.yaml": own}})
    assert problems_of(peer, wrapped) == [f"config:1:1: {said}"]


def test_the_problems_of_a_text_in_a_manifest_have_their_place_in_it() -> None:
    manifest = "apiVersion: v1\nkind: ConfigMap\ndata:\n  conf.yaml: |\n    - devicematch: '('\n"
    (problem,) = problems_of("smarter", manifest)
    assert problem.startswith('config (data["conf.yaml"]):1:16: [0].devicematch: ')


def test_nothing_escapes_from_a_comment() -> None:
    """YAML ends a line, and so a comment, at more characters than one."""
    nasty = "x\u2028resources: []\u0085- y\r\nname: z"
    text = text_of(
        "smarter", json.dumps([{"devicematch": "^a$", "nummaxdevices": 1, nasty: nasty}])
    )
    loaded = load([STDIN], pipes={STDIN: text.encode()})
    assert not loaded.problems
    assert [resource.name for resource in loaded.resources] == ["smarter-devices/a"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_text_is_written_as_itself(name: str, value: str) -> None:
    """The value of a variable is any text; the rule is quoted in a comment."""
    broker = {"A": value.replace("\0", "").encode("utf-8", "replace").decode().replace("\n", "")}
    rules = {"udevRules": ['KERNEL=="a"', name.encode("utf-8", "replace").decode() or "x"]}
    config = {"name": "c", "discoveryDetails": rules, "brokerProperties": broker}
    done = convert("akri", "f", json.dumps({"udev": {"configuration": config}}).encode())
    if done.problems:
        return
    loaded = load([STDIN], pipes={STDIN: done.text.encode()})
    assert str(loaded.resources[0].inject.env["A"].value) == broker["A"].replace("$(", "$$(")


@pytest.mark.parametrize(
    "regex", ["(a|b|c|d){8}", "((((((((a{8}){8}){8}){8}){8}){8}){8}){8})", "(" * 900]
)
def test_expressions_that_explode_are_not_written_out(regex: str) -> None:
    _check("smarter", json.dumps([{"devicematch": regex, "nummaxdevices": 1}]).encode())
