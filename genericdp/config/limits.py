"""Limits on how much of the host a config has the daemon look at."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, shown
from genericdp.glob import has_wildcard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.config.tree import Document, Path

MOST_OF_RESOURCE = 256
"""Selectors of a resource, and globs; the schema has the same limit for each list."""
MOST_OF_CONFIG = 4096
"""Selectors of a config, and globs."""
MOST_LEVELS = 16
"""Levels of a path with wildcards: each may stand for a whole folder of folders."""

_HINTS = {
    "selectors": "one selector takes a list of globs, as path: [/dev/ttyUSB*, /dev/ttyACM*]",
    "globs": "one glob covers many paths, as /dev/ttyUSB*",
}


def resource_limit_findings(at: Path, resource: dict[str, Any]) -> Iterator[Finding]:
    """Check the limits of one resource; the key that goes beyond one is at fault."""
    for kind, by_key in _counts(resource).items():
        totals = zip(by_key, accumulate(by_key.values()), strict=True)
        beyond = [key for key, total in totals if total > MOST_OF_RESOURCE]
        if beyond:
            yield Finding(
                path=(*at, beyond[0]),
                message=f"the resource has {sum(by_key.values())} {kind}:"
                f" at most {MOST_OF_RESOURCE} are allowed",
                hint=_HINTS[kind],
                of_key=True,
            )


def config_limit_findings(
    placed: Sequence[tuple[Document, Path, dict[str, Any]]],
) -> Iterator[tuple[Document, Finding]]:
    """Check the limits of a whole config; the resource that goes beyond one is at fault."""
    totals = dict.fromkeys(_HINTS, 0)
    for document, path, resource in placed:
        for kind, by_key in _counts(resource).items():
            before = totals[kind]
            totals[kind] += sum(by_key.values())
            if before <= MOST_OF_CONFIG < totals[kind]:
                message = f"with this resource the config has {totals[kind]} {kind}"
                finding = Finding(
                    path=path,
                    message=f"{message}: at most {MOST_OF_CONFIG} are allowed",
                    hint=_HINTS[kind],
                )
                yield document, finding


def _counts(resource: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return how many selectors and globs a resource has, by the key that they are below."""
    selectors = {key: _list(resource.get(key)) for key in ("match", "exclude")}
    inject = resource.get("inject")
    values = resource.get("values")
    globs = {
        key: sum(_texts({**one, "type": None}) for one in some if isinstance(one, dict))
        for key, some in selectors.items()
    }
    globs["values"] = _of(values.values() if isinstance(values, dict) else (), "link")
    given = _list(inject.get("devices")) if isinstance(inject, dict) else []
    globs["inject"] = _of(given, "path") + _of(given, "name")
    probes = [one.get("file") for one in _list(resource.get("health")) if isinstance(one, dict)]
    globs["health"] = _of(probes, "path")
    return {"selectors": {key: len(some) for key, some in selectors.items()}, "globs": globs}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _of(mappings: Iterable[object], key: str) -> int:
    return sum(_texts(one.get(key)) for one in mappings if isinstance(one, dict))


def _texts(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_texts, value.values()))
    return sum(map(_texts, value)) if isinstance(value, list) else isinstance(value, str)


def level_findings(path: Path, pattern: str, text: str) -> Iterator[Finding]:
    """Check how deep a glob of paths goes; ``text`` is what the config says."""
    levels = pattern.strip("/").count("/") + 1
    if levels > MOST_LEVELS and has_wildcard(pattern):
        yield Finding(
            path=path,
            message=f"{shown(text)} has {levels} levels: at most {MOST_LEVELS} are allowed in a"
            " glob",
            hint="write a path without wildcards, or select by udev, usb or pci",
        )
