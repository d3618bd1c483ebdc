"""Whatever comes in: a valid config or a clear error comes out, and no key is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genericdp.config.load import load
from genericdp.config.loaded import STDIN
from genericdp.converting.conversion import PEERS, convert
from genericdp.converting.draft import Draft, Resource, Said
from genericdp.converting.patterns import globs_of
from genericdp.converting.writing import written
from genericdp.glob import matches, path_problem
from genericdp.regex import PatternError, compiled
from tests.budget import examples
from tests.converting.offering import inputs_of, problems_of, text_of

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
        *("ens1f0#0-3", 'KERNEL=="a*"'),
    )
)
_TEXTS = _WORDS | st.text(max_size=12)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 20_000) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=5),
    max_leaves=25,
)
_ANY |= st.lists(_ANY.map(json.dumps) | _WORDS, max_size=3)
"""Also texts that hold configs, as ConfigMaps and flags do."""


@given(st.sampled_from(tuple(PEERS)), _ANY)
@settings(max_examples=examples(50))
def test_anything_gives_a_valid_config_or_a_clear_error(peer: str, value: Any) -> None:
    done = convert(peer, "f", json.dumps(value).encode())
    assert bool(done.text) != bool(done.problems)
    assert all("would not be valid" not in problem.message for problem in done.problems)


@given(st.sampled_from(tuple(PEERS)), st.binary(max_size=60))
@settings(max_examples=examples(25))
def test_any_bytes_give_a_valid_config_or_a_clear_error(peer: str, content: bytes) -> None:
    done = convert(peer, "f", content)
    assert bool(done.text) != bool(done.problems)


def _with_key(value: Any, path: list[Any], key: str) -> Any:
    """Give a copy with one more key in the mapping at a path."""
    if not path:
        return {**value, key: "surely"}
    if isinstance(value, list):
        return [
            _with_key(one, path[1:], key) if i == path[0] else one for i, one in enumerate(value)
        ]
    return {k: _with_key(one, path[1:], key) if k == path[0] else one for k, one in value.items()}


_PATH = {"path": "/dev/a"}
_SQUAT = {"devices": [{"name": "a", "groups": [{"paths": [_PATH]}]}]}
_RULES = {"name": "a", "discoveryDetails": {"udevRules": ['KERNEL=="a"']}}
_AKRI = {"udev": {"configuration": _RULES}}
_SRIOV = {"resourceList": [{"resourceName": "a", "selectors": [{"vendors": ["8086"]}]}]}
_RDMA = {"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}
_KEYED: dict[str, tuple[Any, list[list[Any]]]] = {
    "squat": (
        _SQUAT,
        [[], ["devices", 0], ["devices", 0, "groups", 0], ["devices", 0, "groups", 0, "paths", 0]],
    ),
    "smarter": ([{"devicematch": "a", "nummaxdevices": 1}], [[0]]),
    "akri": (
        _AKRI,
        [
            *([], ["udev"], ["udev", "configuration"]),
            ["udev", "configuration", "discoveryDetails"],
        ],
    ),
    "sriov": (_SRIOV, [[], ["resourceList", 0], ["resourceList", 0, "selectors", 0]]),
    "rdma": (_RDMA, [[], ["configList", 0], ["configList", 0, "selectors"]]),
}


@pytest.mark.parametrize(
    ("peer", "config", "path"),
    [(peer, config, path) for peer, (config, paths) in _KEYED.items() for path in paths],
)
def test_a_key_nobody_knows_is_kept_as_a_comment(peer: str, config: Any, path: list[Any]) -> None:
    text = text_of(peer, json.dumps(_with_key(config, path, "neverHeardOf")))
    assert sum("neverHeardOf: surely" in line for line in text.splitlines()) == 1


@pytest.mark.parametrize("peer", PEERS)
def test_every_key_of_what_is_published_is_converted_or_kept(peer: str) -> None:
    """What stays in no comment was taken; a ``take`` without use would be seen in the goldens."""
    for config in inputs_of(peer):
        assert convert(peer, config.name, config.read_bytes()).text


def test_nothing_escapes_from_a_comment() -> None:
    """YAML ends a line, and so a comment, at more characters than one."""
    nasty = "x\u2028resources: []\u0085- y\r\nname: z"
    text = text_of("smarter", json.dumps([{"devicematch": "a", "nummaxdevices": 1, nasty: nasty}]))
    loaded = load([STDIN], stdin=text.encode())
    assert not loaded.problems
    assert [resource.name for resource in loaded.resources] == ["smarter-devices/a"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_text_is_written_as_itself(one: str, other: str) -> None:
    clean = [text.encode("utf-8", "replace").decode().replace("\0", "") for text in (one, other)]
    resource = Resource(name="a/b", comments=clean, match=[Said({"path": "/dev/x"}, clean)])
    resource.env = {"A": f"{clean[0]}{clean[1]}".replace("$(", "").replace("\n", "")}
    loaded = load([STDIN], stdin=written(Draft(resources=[resource], left=clean)).encode())
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 200, "nested deeper"),
        ("a: &a [*a]", "inside of its own anchor"),
        ("", "it is empty"),
        ("\x00", "cannot stand in YAML"),
        ("a: 1\na: 2", "given twice"),
    ],
)
def test_hostile_text_is_refused_with_its_place(content: str, said: str) -> None:
    first = problems_of("squat", content)[0]
    assert first.startswith("config:")
    assert said in first


@pytest.mark.parametrize(
    "regex", ["(a|b|c|d){8}", "((((((((a{8}){8}){8}){8}){8}){8}){8}){8})", ".*a" * 60, "(" * 900]
)
def test_expressions_that_explode_are_only_asked_themselves(regex: str) -> None:
    found = globs_of(regex)
    assert not found.equal
    assert len(found.globs) == 4


@given(st.text(alphabet="ab01/.*+?|()[]^$-{},\\dw", max_size=14))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_globs_of_an_expression_are_always_paths(regex: str) -> None:
    assert all(path_problem(f"/dev/{glob}") is None for glob in globs_of(regex).globs)


@given(
    st.text(alphabet="ab0.*+?|()[]^$-", max_size=10),
    st.text(alphabet="ab0", min_size=1, max_size=5),
    st.text(alphabet="ab0", max_size=3),
)
@settings(max_examples=examples(120))
def test_globs_are_never_wider_where_they_stand_alone(regex: str, name: str, below: str) -> None:
    path = f"{name}/{below}" if below else name
    found = globs_of(regex)
    try:
        is_found = compiled(f"({regex})").search(path) is not None
    except PatternError:
        return
    is_matched = any(_is_path_of(path, glob) for glob in found.globs)
    if found.equal:
        assert is_found or not is_matched
        assert all(compiled(f"({regex})").search(one) is not None for one in found.names)
    # A class that excludes something could also be a folder's slash: that is not looked for.
    assert is_matched or not is_found or "[^" in regex


def _is_path_of(path: str, glob: str) -> bool:
    names, globs = path.split("/"), glob.split("/")
    return len(names) == len(globs) and all(
        matches(pattern, name) for name, pattern in zip(names, globs, strict=True)
    )


def test_a_flood_of_resources_is_refused() -> None:
    many = json.dumps([{"devicematch": f"a{i}", "nummaxdevices": 1} for i in range(1001)])
    assert "1001 resources" in problems_of("smarter", many)[0]
