"""No string of a config grows without bounds: limits of lengths and of depths."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from genericdp.cli import main
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.devices.devicelist import DeviceList
from genericdp.host.cache import HostCache
from genericdp.host.root import Root

from tests.cases.machine import Machine
from tests.config.changing import HEAD
from tests.printed import resources_in
from tests.world import config as config_text
from tests.world import resource

KIB = 1024
NAME = "example.com/x"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a host with one directory to select."""
    directory = tmp_path / "host"
    for name in ("dev", "sys", "one"):
        (directory / name).mkdir(parents=True)
    return directory


def config_of(tmp_path: Path, values: dict[str, object], **env: str) -> Path:
    """Write a config of one resource."""
    match = [{"path": "/one", "type": "directory"}]
    inject = {"devices": [], "env": env or {"A": "b"}}
    resource = {"name": NAME, "match": match, "values": values, "inject": inject}
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}  - {json.dumps(resource)}\n")
    return path


def listed(config: Path, host: Path) -> DeviceList:
    """Return what is decided for a valid config."""
    loaded = load([config])
    assert loaded.problems == ()
    cache = HostCache(Root(host))
    return decide(loaded.resources, cache, node_name="n", previous={}, now=0.0).lists[NAME]


def chain(length: int, *, times: int = 1) -> dict[str, object]:
    """Return values of which each is made of the one before it."""
    values: dict[str, object] = {"v1": {"text": "deep"}}
    for number in range(2, length + 1):
        values[f"v{number}"] = {"text": f"$(value.v{number - 1})" * times}
    return values


@pytest.mark.parametrize(
    ("values", "env", "at"),
    [
        (chain(32), "$(value.v32)", ""),
        (chain(150), "$(value.v150)", "values.v33"),
        ({}, "a" * 64 * KIB, ""),
        ({}, "é" * 33 * KIB, "inject.env.X"),
        ({"v": {"file": "/x", "regex": r"(\pL{1,300}){1,3}"}}, "", "values.v.regex"),
    ],
    ids=["32 deep", "deeper", "64 KiB", "more bytes than characters", "memory for an expression"],
)
def test_the_first_that_is_too_much_is_a_problem(
    tmp_path: Path, values: dict[str, object], env: str, at: str
) -> None:
    problems = load([config_of(tmp_path, values, X=env)]).problems
    assert [problem.path for problem in problems] == [f".resources[0].{at}"] * bool(at)


LACKING: dict[str, object] = {
    "v1": {"file": "/absent"},
    **{f"v{n}": {"text": f"$(value.v{n - 1}:-)$(value.v{n - 1})"} for n in range(2, 33)},
}
"""Each would be looked for twice, and 2**31 times in all."""
LONG: dict[str, object] = {"long": {"file": "/long"}}
EIGHTEEN = {f"X{n}": "$(value.long)" for n in range(18)}


@pytest.mark.parametrize(
    ("values", "env", "reason"),
    [
        (chain(32, times=2), {"X": "$(value.v32)"}, "'$(value.v15)$(value.v15)' gives more than"),
        (LACKING, {"X": "$(value.v32)"}, "the value 'v1': /absent: it does not exist"),
        (LONG, {"X": "$(value.long)" * 3000}, "'$(value.long)$(value.long)"),
        (LONG, EIGHTEEN, "its strings take more than 1 MiB together"),
        # Of a large file only what the expression finds counts.
        ({"v": {"file": "/big"}}, {"X": "$(value.v)"}, "the value 'v': /big: it has more than 64 "),
        ({"v": {"file": "/big", "regex": "b+"}}, {"X": "$(value.v)"}, "the value 'v': it is more "),
        ({"v": {"file": "/big", "regex": "serial=(.*)"}}, {"X": "$(value.v)"}, None),
    ],
)
def test_what_would_be_too_much_for_a_device_is_refused(
    tmp_path: Path, host: Path, values: dict[str, object], env: dict[str, str], reason: str | None
) -> None:
    (host / "long").write_text("l" * 60 * KIB)
    (host / "big").write_text("b" * 900 * KIB + "serial=7\n")
    config = config_of(tmp_path, values, **env)
    said = [refusal.text for refusal in listed(config, host).not_offered]
    assert [text[: len(reason or "")] for text in said] == ([reason] if reason else [])
    assert all(len(text) < 300 for text in said)


@pytest.mark.parametrize(
    ("of_entry", "of_same", "of_all", "bytes_of_all"),
    [
        (8, True, 5, ""),  # a device is of one entry
        (12, False, 9, "1,050,000"),  # of the resource and the largest entry
    ],
)
def test_texts_of_more_than_1_mib_for_one_device_are_a_problem(
    tmp_path: Path, of_entry: int, of_same: bool, of_all: int, bytes_of_all: str
) -> None:
    """The strings of a group's members are known on the host."""
    entry = ", ".join(f"E{n}: &E{n} {'a' * 50_000}" for n in range(of_entry))
    rest = ", ".join(f"A{n}: *E{n}" for n in range(of_all))
    same = "      - {path: /dev/full, inject: *same}\n" if of_same else ""
    path = tmp_path / "config.yaml"
    path.write_text(
        f"{HEAD}  - name: {NAME}\n    match:\n"
        f"      - {{path: /dev/null, inject: &same {{env: {{{entry}}}}}}}\n{same}"
        f"    inject: {{env: {{{rest}}}}}\n"
    )
    found = [problem.message.partition(", at most")[0] for problem in load([path]).problems]
    assert found == [f"the strings of a device have {bytes_of_all} bytes"][: bool(bytes_of_all)]


def test_files_that_were_searched_do_not_stay_in_memory(tmp_path: Path, host: Path) -> None:
    values: dict[str, object] = {}
    for number in range(40):
        (host / f"big{number}").write_text(f"{number} " + "b" * 900 * KIB)
        values[f"part{number}"] = {"file": f"/big{number}", "regex": "^[0-9]+"}
        (host / f"long{number}").write_text("l" * 60 * KIB)
        values[f"long{number}"] = {"file": f"/long{number}"}
        values[f"first{number}"] = {"text": f"$(value.long{number})", "regex": "."}
    env = {f"A{n}": f"$(value.part{n})$(value.first{n})" for n in range(40)}
    config = config_of(tmp_path, values, **env)
    loaded, cache = load([config]), HostCache(Root(host))
    tracemalloc.start()
    try:
        found = decide(loaded.resources, cache, node_name="n", previous={}, now=0.0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.lists[NAME].devices) == 1
    assert kept < 2 * KIB * KIB


@pytest.mark.slow
def test_one_resource_with_slow_expressions_does_not_keep_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each search is within its bounds; together they would take half a minute."""
    tree = Machine(tmp_path / "root")
    for number in range(8):
        tree.node(f"ttyS{number}", f"4:{64 + number}")
    (tmp_path / "root/big").write_text("ab" * 30_000)
    text = {"text": "$(value.big)$(device.name)", "regex": "[ab]*a[ab]{900}c"}
    greedy = resource(
        "example.com/greedy",
        "/dev/ttyS[0-6]",
        values={"big": {"file": "/big"}, **{f"v{i}": text for i in range(10)}},
        inject={"env": {f"V{i}": f"$(value.v{i}:-none)" for i in range(10)}},
    )
    file = tmp_path / "config.yaml"
    file.write_text(config_text(greedy, resource("example.com/modest", "/dev/ttyS*")))
    options = ["--config", str(file), "--root", str(tmp_path / "root"), "-o", "json"]
    assert main(["discover", *options]) == 0
    found = resources_in(capsys.readouterr().out)
    assert [device["id"] for device in found["example.com/modest"]["devices"]] == ["ttyS7"]
    (refusal,) = found["example.com/greedy"]["notOffered"]
    assert "its regular expressions take more than 2 s" in refusal["reason"]
