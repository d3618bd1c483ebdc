"""No text of a config grows without bounds: how long strings and how deep values may be."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.root import Root

from tests.config.changing import HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList

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


def refusals(config: Path, host: Path) -> list[str]:
    return [refusal.text for refusal in listed(config, host).not_offered]


def chain(length: int, *, times: int = 1) -> dict[str, object]:
    """Return values of which each is made of the one before it."""
    values: dict[str, object] = {"v1": {"text": "deep"}}
    for number in range(2, length + 1):
        values[f"v{number}"] = {"text": f"$(value.v{number - 1})" * times}
    return values


def test_values_may_be_32_deep_and_the_first_that_is_deeper_is_a_problem(
    tmp_path: Path, host: Path
) -> None:
    assert refusals(config_of(tmp_path, chain(32), X="$(value.v32)"), host) == []
    (problem,) = load([config_of(tmp_path, chain(150), X="$(value.v150)")]).problems
    assert problem.path == ".resources[0].values.v33"


def test_values_that_contain_the_previous_one_twice_stop_at_the_longest_text(
    tmp_path: Path, host: Path
) -> None:
    config = config_of(tmp_path, chain(32, times=2), X="$(value.v32)")
    assert refusals(config, host) == ["'$(value.v15)$(value.v15)' gives more than 64 KiB of text"]


def test_a_value_that_cannot_be_had_is_looked_for_once(tmp_path: Path, host: Path) -> None:
    """With a default for each, 31 levels of it would be requested 2**31 times."""
    values: dict[str, object] = {"v1": {"file": "/absent"}}
    for number in range(2, 33):
        last = number - 1
        values[f"v{number}"] = {"text": f"$(value.v{last}:-)$(value.v{last})"}
    config = config_of(tmp_path, values, X="$(value.v32)")
    assert refusals(config, host) == ["the value 'v1': /absent: it does not exist"]


def test_a_text_of_more_than_64_kib_is_a_problem(tmp_path: Path) -> None:
    assert load([config_of(tmp_path, {}, A="a" * 64 * KIB)]).problems == ()
    (problem,) = load([config_of(tmp_path, {}, A="é" * 33 * KIB)]).problems
    assert problem.path == ".resources[0].inject.env.A"
    assert "has 67,584 bytes, at most 65,536" in problem.message


def test_an_expression_that_takes_too_much_memory_is_a_problem(tmp_path: Path) -> None:
    values: dict[str, object] = {"v": {"file": "/x", "regex": r"(\pL{1,300}){1,3}"}}
    (problem,) = load([config_of(tmp_path, values)]).problems
    assert problem.path == ".resources[0].values.v.regex"
    assert "it takes more than 1 MiB of memory" in problem.message


@pytest.mark.parametrize(
    ("of_entry", "of_same", "of_all", "bytes_of_all"),
    [
        pytest.param(8, True, 5, "", id="a device is of one entry"),
        pytest.param(12, False, 9, "1,050,000", id="of the resource and the largest entry"),
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


def test_a_file_that_is_referenced_thousands_of_times_stops_at_the_longest_text(
    tmp_path: Path, host: Path
) -> None:
    (host / "big").write_text("b" * 60 * KIB)
    values: dict[str, object] = {"big": {"file": "/big"}}
    (reason,) = refusals(config_of(tmp_path, values, X="$(value.big)" * 3000), host)
    assert reason.startswith("'$(value.big)$(value.big)")
    assert reason.endswith("…' gives more than 64 KiB of text")
    config = config_of(tmp_path, values, **{f"X{i}": "$(value.big)" for i in range(18)})
    assert refusals(config, host) == ["its strings take more than 1 MiB together"]


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ({"regex": "serial=(.*)"}, ""),
        ({}, "the value 'big': /big: it has more than 64 KiB ("),
        ({"regex": "b+"}, "the value 'big': it is more than 64 KiB of text"),
    ],
)
def test_of_a_large_file_only_what_the_expression_finds_counts(
    tmp_path: Path, host: Path, regex: dict[str, str], reason: str
) -> None:
    (host / "big").write_text("b" * 900 * KIB + "serial=7\n")
    config = config_of(tmp_path, {"big": {"file": "/big", **regex}}, X="$(value.big)")
    found = refusals(config, host)
    assert len(found) == bool(reason)
    assert [text.startswith(reason) for text in found] == [True] * len(found)


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
