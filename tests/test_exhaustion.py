"""Promises of ``security.md``: no config exhausts the daemon, whatever it contains.

Each is taken by YAML and requests far too much, next to a good resource. All of them, which takes
minutes: ``THOROUGH=1 pytest tests/test_exhaustion.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from genericdp.config.load import load
from genericdp.simulator.kubelet import Kubelet

from tests.budget import THOROUGH
from tests.config.changing import HEAD, config
from tests.test_daemon import Daemon, Place

pytestmark = pytest.mark.slow

GOOD = "example.com/good"
KIB = 1024
MIB = 1024 * KIB
_HOSTILE = "example.com/hostile"
_FILES: Mapping[str, Any] = {"path": ["/many/*"], "type": "file"}
_ONE: Mapping[str, Any] = {"path": "/one", "type": "directory"}


def host_files() -> Iterator[tuple[str, str]]:
    """Return the files of the host that the configs are about: path and content."""
    yield "one/nothing", ""
    yield "big", "b" * 900 * KIB
    yield "full", "f" * 60 * KIB
    for number in range(2000):
        yield f"many/file{number}", f"{number} " + "m" * 8 * KIB
    for at in range(12):
        for place in range(12):
            yield f"wide/{at}/{place}/{at * place}", ""


@cache
def configs() -> dict[str, str]:
    """Return the configs by name; in every other one the good resource comes last."""
    good = {"name": GOOD, "match": [{"path": "/dev/ttyUSB0"}]}
    made = {}
    for at, (name, keys) in enumerate(sorted(_keys().items())):
        resources = [_resource(**keys)] if isinstance(keys, dict) else keys
        listed = [good, *resources] if at % 2 else [*resources, good]
        made[name] = HEAD + "".join(f"  - {json.dumps(resource)}\n" for resource in listed)
    return made | _texts()


def _resource(number: int = 0, **keys: Any) -> dict[str, Any]:
    name = _HOSTILE + (str(number) if number else "")
    return {"name": name, "match": [_ONE], "inject": _env({"K": "v"}), **keys}


def _env(env: Mapping[str, str]) -> dict[str, Any]:
    return {"devices": [], "env": dict(env)}


def _x(text: str, **values: Any) -> dict[str, Any]:
    """Give the keys of a resource with values, and a variable of a string."""
    return {**({"values": values} if values else {}), "inject": _env({"X": text})}


def _chained(length: int, times: int = 1) -> dict[str, Any]:
    values: dict[str, Any] = {"v0": {"text": "deep"}}
    for number in range(1, length):
        values[f"v{number}"] = {"text": f"$(value.v{number - 1})" * times}
    return _x(f"$(value.v{length - 1})", **values)


def _numbered(count: int, text: str) -> dict[str, Any]:
    return _env({f"E{number}": text.replace("@", str(number)) for number in range(count)})


def _all(values: Mapping[str, Any]) -> dict[str, Any]:
    env = {f"E{n}": f"$(value.{name}:-x)" for n, name in enumerate(values)}
    return {"values": dict(values), "inject": _env(env)}


def _keys() -> dict[str, dict[str, Any] | list[dict[str, Any]]]:
    """Return the keys of a resource, or several resources, by the name of their config."""
    full, value = {"v": {"file": "/full"}}, "$(value.v)"
    files = {"match": [_FILES]}
    return {
        "values-150-deep": _chained(150),
        "values-doubled-31-times": _chained(32, 2),
        "values-by-the-thousand": _all({f"v{n}": {"text": "t"} for n in range(9000)}),
        "file-referenced-3000-times": _x(value * 3000, **full),
        "files-by-the-thousand": _all(
            {f"f{n}": {"file": f"/many/file{n}"} for n in range(2000)}
        ),
        "files-endless": _all({"z": {"file": "/dev/zero"}, "k": {"file": "/proc/kmsg"}}),
        "files-as-devices-times-1000": {**files, "replicas": 1000},
        "files-in-one-group": {
            **files, "groupBy": "all", "inject": _numbered(8, f"$(device.name){'y' * 9 * KIB}")
        },
        "regexes-that-need-states": _all(
            {
                f"r{n}": {"text": "aXbab" * 200, "regex": f"(a|X)*a(a|b|X){{12}}{n}?"}
                for n in range(300)
            }
        ),
        "regexes-over-1-mib": _all(
            {f"r{n}": {"file": "/big", "regex": f"(b|c)*b(b|c){{9}}{n}"} for n in range(40)}
        ),
        "env-by-the-thousand": {"inject": _numbered(20_000, "v@")},
        "globs-by-the-thousand": {"match": [{"path": [f"/none{n}/*" for n in range(20_000)]}]},
        "globs-that-try-everything": {"match": [{"path": "/many/" + "*m" * 2000 + "b"}]},
        "globs-in-all-directories": {"match": [{"path": "/*/*/*/*", "type": "file"}]},
        "selectors-by-the-thousand": {
            "match": [{"udev": {"subsystem": f"s{n}*"}} for n in range(9000)]
        },
        "probes-of-1-mib": {
            **files,
            "health": [{"file": {"path": "/big", "regex": "(b|c)*x"}, "periodSeconds": 1}],
        },
        "resources-with-all-files": [
            _resource(n + 1, **files, values={"v": {"file": f"/many/file{n}"}}) for n in range(20)
        ],
    }  # fmt: skip


def _texts() -> dict[str, str]:
    """Return configs that only a string can say."""
    good = f"{HEAD}  - name: {GOOD}\n    match: [{{path: /dev/ttyUSB0}}]\n"
    again = "".join(f"        E{number}: *long\n" for number in range(17_000))
    laughs = (f"x-{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 60))
    aliases = (
        f"  - name: {_HOSTILE}\n    match: [{{path: /dev/null}}]\n    inject:\n      devices: []\n"
        f"      env:\n        E: &long {'a' * 60_000}\n{again}"
    )
    return {
        "yaml-aliases": good + aliases,
        "yaml-nested": f"{good}x-deep: {'[' * 20_000}{']' * 20_000}\n",
        "yaml-laughs": f"x-0: &x0 [a, a]\n{''.join(laughs)}{good}",
    }


STEADY = config("ttyUSB0").replace("example.com/ttyUSB0", GOOD)
LIMITED = ("prlimit", "--as=2000000000", sys.executable)
PATIENCE_SECONDS = 120
AT_ITS_START = "probes-of-1-mib"
"""Python ended the searching threads within RE2, which aborted the process (exit -6)."""
ONE_AFTER_THE_OTHER = (
    *("file-referenced-3000-times", "regexes-that-need-states", "values-150-deep"),
    "values-doubled-31-times",
)


@asynccontextmanager
async def serving(directory: Path, text: str) -> AsyncIterator[tuple[Place, Kubelet, Daemon]]:
    """Run a daemon with so much memory on the host that the configs are about, and a kubelet."""
    place = Place(directory)
    for path, content in host_files():
        place.host.write(path, content)
    place.config.write_text(text)
    state = f"--state-dir={directory}/state"
    async with place.serving(state, launch=LIMITED) as (kubelet, daemon):
        yield place, kubelet, daemon


async def is_taken_or_refused(place: Place, daemon: Daemon) -> bool:
    """Wait until the daemon says what becomes of the config; return whether it is active."""
    is_good = not load([place.config]).problems
    await daemon.says("active config" if is_good else "cannot be used")
    return is_good


@pytest.mark.parametrize("name", configs() if THOROUGH else [AT_ITS_START])
async def test_a_daemon_that_starts_with_one_serves_a_good_resource(
    name: str, short_directory: Path
) -> None:
    async with serving(short_directory, configs()[name]) as (place, kubelet, daemon):
        if not await is_taken_or_refused(place, daemon):
            place.config.write_text(STEADY)
        await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)


async def test_a_good_resource_is_served_while_one_follows_the_other(short_directory: Path) -> None:
    async with serving(short_directory, STEADY) as (place, kubelet, daemon):
        await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)
        await daemon.says("active config")
        for name in configs() if THOROUGH else ONE_AFTER_THE_OTHER:
            daemon.lines.clear()
            place.config.write_text(configs()[name])
            is_good = await is_taken_or_refused(place, daemon)
            daemon.lines.clear()
            # What comes after it shows that the pass about it has ended.
            place.config.write_text(STEADY)
            await daemon.says("active config" if is_good else "the config on disk is active")
            place.host.plug("ttyUSB0").touch()
            await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)
            assert kubelet.devices(GOOD) == {"ttyUSB0": "Healthy"}, name
        assert kubelet.observed.registrations[GOOD] == 1
