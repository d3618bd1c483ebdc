"""Configs that a schema takes and that ask for far too much, each next to a good resource."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.config.changing import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


def hostile_configs() -> dict[str, str]:
    """Return the configs by name; in every other one the good resource comes last."""
    made = {}
    for at, (name, resources) in enumerate(sorted(_RESOURCES.items())):
        good = {"name": GOOD, "match": [{"path": "/dev/ttyUSB0"}]}
        listed = [good, *resources()] if at % 2 else [*resources(), good]
        made[name] = HEAD + "".join(f"  - {json.dumps(one)}\n" for one in listed)
    return made | {name: text() for name, text in _TEXTS.items()}


def _resource(number: int = 0, **keys: Any) -> dict[str, Any]:
    name = _HOSTILE + (str(number) if number else "")
    return {"name": name, "match": [_ONE], "inject": _env({"K": "v"}), **keys}


def _one(**keys: Any) -> Callable[[], list[dict[str, Any]]]:
    return lambda: [_resource(**keys)]


def _chain(length: int, times: int = 1, start: str = "deep", default: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {"v0": {"text": start}}
    for number in range(1, length):
        values[f"v{number}"] = {"text": f"$(value.v{number - 1}{default})" * times}
    return values


def _chained(length: int, times: int = 1, **keys: Any) -> Callable[[], list[dict[str, Any]]]:
    values = _chain(length, times, **keys)
    return _one(values=values, inject=_env({"X": f"$(value.v{length - 1})"}))


def _env(env: Mapping[str, str]) -> dict[str, Any]:
    return {"devices": [], "env": dict(env)}


def _numbered(count: int, text: str) -> dict[str, str]:
    return {f"E{number}": text.replace("@", str(number)) for number in range(count)}


def _file_values(count: int, **keys: str) -> dict[str, Any]:
    return {f"f{n}": {"file": f"/many/file{n}", **keys} for n in range(count)}


def _regexes(count: int, pattern: str) -> dict[str, Any]:
    return {
        f"r{n}": {"text": "aXbab" * 200, "regex": pattern.replace("@", str(n))}
        for n in range(count)
    }


def _all_values(values: Mapping[str, Any], default: str = ":-x") -> dict[str, Any]:
    return _env({f"E{n}": f"$(value.{name}{default})" for n, name in enumerate(values)})


def _with_values(values: Mapping[str, Any], **keys: Any) -> Callable[[], list[dict[str, Any]]]:
    return _one(values=dict(values), inject=_all_values(values), **keys)


def _many(count: int, **keys: Any) -> Callable[[], list[dict[str, Any]]]:
    return lambda: [_resource(number + 1, **keys) for number in range(count)]


def _probe(**check: Any) -> dict[str, Any]:
    return {**check, "periodSeconds": 1}


_LONG = "x" * 60 * KIB
_RESOURCES: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
    "values-150-deep": _chained(150),
    "values-5000-deep": _chained(5000),
    "values-32-deep": _chained(32),
    "values-doubled-40-times": _chained(40, 2),
    "values-doubled-31-times": _chained(32, 2),
    "values-times-1000": _chained(5, 1000),
    "values-doubled-with-defaults": _chained(31, 2, default=":-a"),
    "values-of-what-is-lacking": _chained(31, 2, start="$(property.NO)", default=":-"),
    "values-all-of-one": _with_values({f"v{n}": {"text": "$(node.name)" * 99} for n in range(800)}),
    "values-by-the-thousand": _with_values({f"v{n}": {"text": "t"} for n in range(9000)}),
    "values-chained-by-files": _with_values(
        {"a": {"file": "/full"}, "b": {"file": "/$(value.a)"}, "c": {"link": "/$(value.a)/*"}}
    ),
    "file-referenced-3000-times": _one(
        values={"v": {"file": "/full"}}, inject=_env({"X": "$(value.v)" * 3000})
    ),
    "file-in-3000-variables": _one(
        values={"v": {"file": "/full"}}, inject=_env(_numbered(3000, "$(value.v)"))
    ),
    "file-of-1-mib": _one(values={"v": {"file": "/big"}}, inject=_env({"X": "$(value.v)"})),
    "file-of-1-mib-found-whole": _with_values({"v": {"file": "/big", "regex": "b+"}}),
    "files-by-the-thousand": _with_values(_file_values(2000)),
    "files-searched": _with_values(_file_values(1500, regex="^[0-9]+")),
    "files-endless": _with_values({"z": {"file": "/dev/zero"}, "k": {"file": "/proc/kmsg"}}),
    "files-as-devices": _one(
        match=[_FILES], values={"v": {"file": "$(device.path)"}}, inject=_env({"X": "$(value.v)"})
    ),
    "files-as-devices-with-long-texts": _one(
        match=[_FILES], inject=_env(_numbered(12, f"$(device.name){_LONG}"))
    ),
    "files-as-devices-times-1000": _one(match=[_FILES], replicas=1000),
    "files-in-one-group": _one(
        match=[_FILES], groupBy="all", inject=_env(_numbered(8, f"$(device.name){'y' * 9 * KIB}"))
    ),
    "files-in-groups-of-one": _one(match=[_FILES], groupBy="$(device.name)"),
    "regexes-by-the-thousand": _with_values(_regexes(800, "a(.)@?b")),
    "regexes-that-need-states": _with_values(_regexes(300, "(a|X)*a(a|b|X){12}@?")),
    "regexes-that-count": _with_values(_regexes(400, "(a{1,30}){1,30}@?")),
    "regexes-of-all-letters": _with_values(_regexes(60, r"\pL{1,300}@?")),
    "regexes-over-1-mib": _with_values(
        {f"r{n}": {"file": "/big", "regex": f"(b|c)*b(b|c){{9}}{n}"} for n in range(40)}
    ),
    "regexes-of-60-kib": _with_values(_regexes(12, "|".join(f"m{n}" for n in range(9000)) + "@")),
    "env-by-the-thousand": _one(inject=_env(_numbered(20_000, "v@"))),
    "env-of-60-kib-each": _one(inject=_env(_numbered(15, _LONG))),
    "env-of-1-mib": _one(inject=_env({"X": "x" * 1000 * KIB})),
    "annotations-by-the-thousand": _one(
        inject={"devices": [], "annotations": {f"a.com/x{n}": "t" * 99 for n in range(6000)}}
    ),
    "mounts-by-the-thousand": _one(
        inject={
            "mounts": [{"hostPath": f"/m{n}", "containerPath": f"/m{n}"} for n in range(9000)],
        }
    ),
    "mounts-of-256-entries-in-one-group": _one(
        match=[
            {
                "path": f"/many/*{n}",
                "type": "file",
                "inject": {
                    **_env({f"E{m}": f"$(device.name){n}" for m in range(20)}),
                    "mounts": [
                        {"hostPath": f"/m{n}/{m}", "containerPath": f"/m{m}/$(device.name)"}
                        for m in range(10)
                    ],
                },
            }
            for n in range(256)
        ],
        groupBy="all",
    ),
    "nodes-by-the-thousand": _one(
        inject={
            **_env({"K": "v"}),
            "devices": [{"path": f"/dev/n{n}", "optional": True} for n in range(9000)],
        }
    ),
    "cdi-by-the-thousand": _one(
        inject={"devices": [], "cdi": [f"vendor.com/class=d{n}" for n in range(9000)]}
    ),
    "globs-by-the-thousand": _one(match=[{"path": [f"/none{n}/*" for n in range(20_000)]}]),
    "globs-for-the-same": _one(
        match=[{"path": ["/many/*" + "*?"[n % 2] * (n % 9) for n in range(200)], "type": "file"}]
    ),
    "globs-that-try-everything": _one(match=[{"path": "/many/" + "*m" * 2000 + "b"}]),
    "globs-in-all-folders": _one(match=[{"path": "/*/*/*/*", "type": "file"}]),
    "globs-60-levels-deep": _one(match=[{"path": "/*" * 60}]),
    "excludes-by-the-thousand": _one(exclude=[{"path": f"/many/x{n}*"} for n in range(9000)]),
    "selectors-by-the-thousand": _one(
        match=[{"udev": {"subsystem": f"s{n}*"}} for n in range(9000)]
    ),
    "probes-by-the-thousand": _one(
        health=[_probe(file={"path": f"/many/file{n}", "regex": "m"}) for n in range(500)]
    ),
    "probes-of-1-mib": _one(
        match=[_FILES], health=[_probe(file={"path": "/big", "regex": "(b|c)*x"})]
    ),
    "commands-with-long-texts": _one(
        match=[_FILES], health=[_probe(exec={"command": ["/bin/true", "$(device.name)" + _LONG]})]
    ),
    "resources-by-the-hundred": _many(150),
    "resources-with-all-files": _many(20, match=[_FILES], values=_file_values(9)),
    "ids-of-60-kib": _one(match=[_FILES], id=f"$(device.name){_LONG}"),
}


def _good(more: str) -> str:
    return f"{HEAD}  - name: {GOOD}\n    match: [{{path: /dev/ttyUSB0}}]\n{more}"


def _aliases() -> str:
    again = "".join(f"        E{number}: *long\n" for number in range(17_000))
    return _good(
        f"  - name: {_HOSTILE}\n    match: [{{path: /dev/null}}]\n    inject:\n      devices: []\n"
        f"      env:\n        E: &long {'a' * 60_000}\n{again}"
    )


def _nested() -> str:
    return _good(f"x-deep: {'[' * 20_000}{']' * 20_000}\n")


def _laughs() -> str:
    lines = ["x-0: &x0 [a, a]\n"]
    lines += [f"x-{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 60)]
    return "".join(lines) + _good("")


_TEXTS: Mapping[str, Callable[[], str]] = {
    "yaml-aliases": _aliases,
    "yaml-nested": _nested,
    "yaml-laughs": _laughs,
}
