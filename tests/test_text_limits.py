"""No text of a config grows without bounds: how long texts and how deep values may be."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.config.changing import HEAD
from tests.printed import resources_in

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1024
NAME = "example.com/x"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a host with one folder to select."""
    folder = tmp_path / "host"
    for name in ("dev", "sys", "one"):
        (folder / name).mkdir(parents=True)
    return folder


def config_of(tmp_path: Path, values: dict[str, object], **inject: object) -> Path:
    """Write a config of one resource."""
    resource = {
        "name": NAME,
        "match": [{"path": "/one", "type": "directory"}],
        "values": values,
        "inject": {"devices": [], **inject},
    }
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}  - {json.dumps(resource)}\n")
    return path


def problems(capsys: pytest.CaptureFixture[str], config: Path) -> str:
    """Return what ``validate`` says; empty where the config is valid."""
    code = main(["validate", str(config)])
    said = capsys.readouterr().out
    assert code == (0 if said.endswith("valid\n") else 2)
    return "" if code == 0 else said


def refused(capsys: pytest.CaptureFixture[str], config: Path, host: Path) -> list[str]:
    """Return why devices of a valid config are not offered."""
    assert problems(capsys, config) == ""
    assert main(["discover", "--config", str(config), "--root", str(host), "-o", "json"]) == 0
    found = resources_in(capsys.readouterr().out)[NAME]
    return [one["reason"] for one in found["notOffered"]]


def chain(length: int, *, times: int = 1, start: str = "deep") -> dict[str, object]:
    """Return values of which each is made of the one before it."""
    values: dict[str, object] = {"v1": {"text": start}}
    for number in range(2, length + 1):
        values[f"v{number}"] = {"text": f"$(value.v{number - 1})" * times}
    return values


def test_values_may_be_32_deep(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, chain(32), env={"X": "$(value.v32)"})
    assert refused(capsys, config, host) == []


def test_values_that_are_deeper_are_a_problem_at_the_first_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, chain(150), env={"X": "$(value.v150)"})
    said = problems(capsys, config)
    assert ".resources[0].values.v33: the value 'v33' is nested more than 32 values deep (" in said
    assert said.endswith("1 problem in 1 file\n")


def test_values_that_contain_the_previous_one_twice_stop_at_the_longest_text(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, chain(32, times=2), env={"X": "$(value.v32)"})
    (reason,) = refused(capsys, config, host)
    assert reason == "'$(value.v15)$(value.v15)' gives more than 64 KiB of text"


def test_a_value_that_cannot_be_had_is_looked_for_once(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a default for each, 31 levels of it would be asked for 2**31 times."""
    values: dict[str, object] = {"v1": {"file": "/absent"}}
    for number in range(2, 33):
        last = number - 1
        values[f"v{number}"] = {"text": f"$(value.v{last}:-)$(value.v{last})"}
    config = config_of(tmp_path, values, env={"X": "$(value.v32)"})
    (reason,) = refused(capsys, config, host)
    assert reason == "the value 'v1': /absent: it does not exist"


def test_a_text_of_more_than_64_kib_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, {}, env={"A": "a" * 64 * KIB})
    assert problems(capsys, config) == ""
    config = config_of(tmp_path, {}, env={"A": "é" * 33 * KIB})
    said = problems(capsys, config)
    assert ".resources[0].inject.env.A: the text has 67,584 bytes, at most 65,536" in said


def test_texts_of_more_than_1_mib_for_one_device_are_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    env = "".join(f"        E{n}: &E{n} {'a' * 50_000}\n" for n in range(12))
    env += "".join(f"        F{n}: *E{n}\n" for n in range(10))
    path.write_text(
        f"{HEAD}  - name: {NAME}\n    match: [{{path: /dev/null}}]\n"
        f"    inject:\n      devices: []\n      env:\n{env}"
    )
    (problem,) = load([path]).problems
    assert "the texts of a device have 1,100,000 bytes, at most 1,048,576" in str(problem)


@pytest.mark.parametrize(
    ("each", "more", "own", "problem"),
    [
        (8, "      - {path: /dev/full, inject: *same}\n", 5, ""),
        (12, "", 9, "the texts of a device have 1,050,000 bytes"),
    ],
)
def test_of_the_texts_of_entries_those_of_the_largest_count(
    tmp_path: Path, each: int, more: str, own: int, problem: str
) -> None:
    """A device is of one entry; what the members of a group make is known on the host."""
    of_entry = ", ".join(f"E{n}: &E{n} {'a' * 50_000}" for n in range(each))
    of_all = ", ".join(f"A{n}: *E{n}" for n in range(own))
    path = tmp_path / "config.yaml"
    path.write_text(
        f"{HEAD}  - name: {NAME}\n    match:\n"
        f"      - {{path: /dev/null, inject: &same {{env: {{{of_entry}}}}}}}\n{more}"
        f"    inject: {{env: {{{of_all}}}}}\n"
    )
    found = [str(one) for one in load([path]).problems]
    assert [problem in one for one in found] == ([True] if problem else [])


def test_a_file_that_is_referenced_thousands_of_times_stops_at_the_longest_text(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (host / "big").write_text("b" * 60 * KIB)
    values: dict[str, object] = {"big": {"file": "/big"}}
    config = config_of(tmp_path, values, env={"X": "$(value.big)" * 3000})
    (reason,) = refused(capsys, config, host)
    assert reason.startswith("'$(value.big)$(value.big)")
    assert reason.endswith("…' gives more than 64 KiB of text")
    config = config_of(tmp_path, values, env={f"X{i}": "$(value.big)" for i in range(18)})
    assert refused(capsys, config, host) == ["its texts take more than 1 MiB together"]


def test_of_a_large_file_only_what_the_expression_finds_counts(
    tmp_path: Path, host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (host / "big").write_text("b" * 900 * KIB + "serial=7\n")
    part: dict[str, object] = {"big": {"file": "/big", "regex": "serial=(.*)"}}
    assert refused(capsys, config_of(tmp_path, part, env={"X": "$(value.big)"}), host) == []
    whole: dict[str, object] = {"big": {"file": "/big"}}
    (reason,) = refused(capsys, config_of(tmp_path, whole, env={"X": "$(value.big)"}), host)
    assert reason.startswith("the value 'big': /big: it has more than 64 KiB (")
    much: dict[str, object] = {"big": {"file": "/big", "regex": "b+"}}
    (reason,) = refused(capsys, config_of(tmp_path, much, env={"X": "$(value.big)"}), host)
    assert reason == "the value 'big': it is more than 64 KiB of text"


def test_files_that_were_searched_do_not_stay_in_memory(tmp_path: Path, host: Path) -> None:
    values: dict[str, object] = {}
    for number in range(40):
        (host / f"big{number}").write_text(f"{number} " + "b" * 900 * KIB)
        values[f"part{number}"] = {"file": f"/big{number}", "regex": "^[0-9]+"}
        (host / f"long{number}").write_text("l" * 60 * KIB)
        values[f"long{number}"] = {"file": f"/long{number}"}
        values[f"first{number}"] = {"text": f"$(value.long{number})", "regex": "."}
    env = {f"A{n}": f"$(value.part{n})$(value.first{n})" for n in range(40)}
    loaded = load([config_of(tmp_path, values, env=env)])
    assert loaded.problems == ()
    root = Root(host)
    tracemalloc.start()
    try:
        found = decide(loaded.resources, HostCache(root), node_name="n", previous={}, now=0.0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.lists[NAME].devices) == 1
    assert kept < 2 * KIB * KIB


def test_an_expression_that_takes_too_much_memory_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, object] = {"v": {"file": "/x", "regex": r"(\pL{1,300}){1,3}"}}
    said = problems(capsys, config_of(tmp_path, values))
    assert ".resources[0].values.v.regex: " in said
    assert (
        "is not a valid regular expression: it takes more than 1 MiB of memory (use smaller" in said
    )
