"""Squat's groups of several paths: one path finds the device, the others follow from it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.converting.draft import Said
from genericdp.converting.squatpaths import Path, inserted, mounted, text_of
from genericdp.glob import escape
from genericdp.template import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.converting.draft import Resource

Row = tuple[Path, ...]

_D2 = (
    "squat pairs what these patterns find by its place in two sorted lists, so that controlC1 comes"
    " with pcmC10D0c; here what the stars stand for must be the same."
)
_LIMITED = (
    "limit allows {limit} of these at most; a number of devices cannot be bounded here, so that"
    " fewer names are taken: {glob}"
)
_IDLE = "limit: {limit} of {glob} is left out: it counts only beside a path that finds more."
_LARGER = "limit: {limit} of {glob} is left out: the least in a group counts."
_PAIRED = (
    "limit: {limit} of {glob} is left out: here each goes with the one whose star stands for the"
    " same, and so once."
)
_NEEDED = "{glob} is optional in squat, but must exist here: {why}."
_OF_MOUNT = "a mount cannot be left out"
_OF_ANCHOR = "it finds the device"
_OFFERED = "Offered where all its paths exist, as in squat."
_OFFERED_WITHOUT = (
    "Offered where all its paths but the optional ones exist; these are given where they exist."
)
_NO_STAR = (
    "in a group of several paths only patterns with exactly one * and nothing else can be put"
    " together; write groupBy with a value that is the same for what belongs together"
)


def is_series(rows: Sequence[Row]) -> bool:
    """Say whether groups differ in nothing but one text, the same in all their paths."""
    if any(path.is_pattern for row in rows for path in row) or len({*map(len, rows)}) != 1:
        return False
    columns = [*zip(*rows, strict=True)]
    if any(len({*map(_manner, one)}) != 1 or _inside(one) is None for one in columns):
        return False
    differing = [
        (column, pair) for column, pair in zip(columns, _varying(rows), strict=True) if pair
    ]
    texts = {_between(pair, column) for column, pair in differing}
    if len(texts) != 1 or all(column[0].is_mount for column, _ in differing):
        return False
    (keys,) = texts
    whole = all(key and "/" not in key and escape(key) == key for key in keys)
    return whole and len({*keys}) == len(rows)


def compose(resource: Resource, rows: Sequence[Row]) -> None:
    """Fill a resource from groups of several paths that ``is_series`` has put together."""
    places = [path.mount_path or path.glob for path in rows[0]]
    if len(set(places)) < len(places):
        resource.withheld = "two of its paths would be at one place in the container"
        resource.comments += [f"  at {place}" for place in places]
    elif any(path.is_pattern for path in rows[0]):
        _compose_patterns(resource, rows[0])
    else:
        _compose_texts(resource, rows)


def _compose_patterns(resource: Resource, row: Row) -> None:
    patterns = [path for path in row if path.is_pattern]
    anchor = _anchor(patterns)
    if anchor is None or any(path.halves is None for path in patterns):
        resource.withheld = _NO_STAR
        resource.comments += [f"  path: {path.glob}" for path in row]
        return
    globs = [anchor.glob]
    limits = [path.limit for path in row if not path.is_pattern]
    if limits:
        globs = _bounded(anchor, min(limits))
        shown = " ".join(globs)
        resource.comments.append(_LIMITED.format(limit=min(limits), glob=shown))
    for path in row:
        if path.is_pattern or path.limit > min(limits, default=1):
            unused(resource, path, _PAIRED if path.is_pattern else _LARGER)
    if len(patterns) > 1:
        resource.comments.append(_D2)
    halves = {id(path): path.halves or (path.glob, "") for path in row}
    _inject(resource, globs, anchor, row, halves)


def _anchor(paths: Sequence[Path]) -> Path | None:
    """Choose which path finds the device: one that must exist, if there is such a one."""
    devices = [path for path in paths if not path.is_mount]
    return next((path for path in devices if not path.optional), next(iter(devices), None))


def unused(resource: Resource, path: Path, why: str = _IDLE) -> None:
    """Say that a limit of more than one does nothing."""
    if path.limit > 1:
        resource.comments.append(why.format(limit=path.limit, glob=path.glob))


def needed(resource: Resource, path: Path, why: str = _OF_ANCHOR) -> None:
    """Say that an optional path must exist."""
    if path.optional:
        resource.comments.append(_NEEDED.format(glob=path.glob, why=why))


def _bounded(anchor: Path, limit: int) -> list[str]:
    """Give globs that match so many names at most."""
    before, after = anchor.halves or (anchor.glob, "")
    if limit < 10:
        numbers = ["0"] if limit == 1 else [f"[0-{limit - 1}]"]
    else:
        numbers = ["[0-9]", "[1-9][0-9]"] if limit >= 100 else ["[0-9]"]
    return [f"{before}{number}{after}" for number in numbers]


def _compose_texts(resource: Resource, rows: Sequence[Row]) -> None:
    if any(path.is_folder for path in rows[0]):
        resource.withheld = "a folder is among the paths: name the device files in it"
        resource.comments += [f"  path: {path.glob}" for row in rows for path in row]
        return
    anchor = _anchor(rows[0])
    if anchor is None:
        resource.withheld = "all its paths are mounts, and none of them is a device"
        resource.comments += [f"  path: {path.glob}" for path in rows[0]]
        return
    for path in dict.fromkeys(path for row in rows for path in row):
        unused(resource, path, _IDLE)
    varying = _varying(rows)
    pairs = tuple(zip(rows[0], varying, strict=True))
    anchor = _anchor([path for path, pair in pairs if pair]) or anchor
    index = next(i for i, path in enumerate(rows[0]) if path is anchor)
    columns = zip(*rows, strict=True)
    row = tuple(replace(column[0], mount_path=_inside(column) or "") for column in columns)
    halves = {id(path): pair or (path.glob, "") for path, pair in zip(row, varying, strict=True)}
    globs = list(dict.fromkeys(one[index].glob for one in rows))
    _inject(resource, globs, row[index], row, halves)


def _inject(
    resource: Resource,
    globs: Sequence[str],
    anchor: Path,
    row: Row,
    halves: dict[int, tuple[str, str]],
) -> None:
    """Say what finds the device, what else must exist, and what a container gets."""
    selector: dict[str, object] = {"path": globs[0] if len(globs) == 1 else list(globs)}
    resource.devices = []
    before, after = halves[id(anchor)]
    has_key = (before, after) != (anchor.glob, "")
    if has_key:
        regex = f"^{_exactly(before)}(.*){_exactly(after)}$"
        resource.values["key"] = Said({"text": "$(device.path)", "regex": regex})
    needs: dict[str, str] = {}
    for i, path in enumerate(row, start=1):
        if path is anchor:
            entry = inserted("$(device.path)", path.permissions, path.mount_path)
            resource.devices.append(Said(entry))
            needed(resource, path, _OF_ANCHOR)
            continue
        glob = _given(resource, path, halves[id(path)])
        if path.is_mount or not path.optional:
            resource.values[f"path{i}"] = Said({"link": glob})
            needs[f"path{i}"] = "*"
    if needs:
        selector["values"] = needs
    without = any("optional" in said.value for said in resource.devices)
    resource.comments.append(_OFFERED_WITHOUT if without else _OFFERED)
    resource.match = [Said(selector)]


def _given(resource: Resource, path: Path, halves: tuple[str, str]) -> str:
    """Give a container one more path, and return its template."""
    first, last = halves
    varies = halves != (path.glob, "")
    glob = f"{literal(first)}$(value.key){literal(last)}" if varies else literal(path.glob)
    if path.is_mount:
        needed(resource, path, _OF_MOUNT)
        host_path = glob if varies else literal(text_of(path))
        resource.mounts.append(Said(mounted(host_path, path)))
    else:
        entry = inserted(glob, path.permissions, path.mount_path, optional=path.optional)
        resource.devices = [*(resource.devices or ()), Said(entry)]
    return glob


def _inside(column: Sequence[Path]) -> str | None:
    """Give the one place in the container; empty: that of the host; None: there are several."""
    if not any(path.mount_path for path in column):
        return ""
    places = {path.mount_path or path.glob for path in column}
    return places.pop() if len(places) == 1 else None


def _manner(path: Path) -> tuple[object, ...]:
    """Give what must not differ between the groups, beside its place."""
    return (path.is_mount, path.read_only, path.permissions, path.is_folder, path.optional)


def _varying(rows: Sequence[Row]) -> list[tuple[str, str] | None]:
    """Give for each path what all groups begin and end it with, or None where it is the same."""
    found: list[tuple[str, str] | None] = []
    for column in zip(*rows, strict=True):
        globs = [path.glob for path in column]
        if len(set(globs)) == 1:
            found.append(None)
            continue
        # A number is never cut in two.
        before = re.sub(r"\d+\Z", "", _common_start(globs))
        rests = [glob[len(before) :] for glob in globs]
        after = _common_start([rest[::-1] for rest in rests])[::-1]
        found.append((before, re.sub(r"\A\d+", "", after)))
    return found


def _between(pair: tuple[str, str], column: Sequence[Path]) -> tuple[str, ...]:
    """Give what stands between beginning and end, for each group."""
    before, after = pair
    return tuple(path.glob[len(before) : len(path.glob) - len(after)] for path in column)


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    same = (i for i, one in enumerate(first) if last[i : i + 1] != one)
    return first[: next(same, len(first))]


def _exactly(text: str) -> str:
    """Write a text for RE2, in the least number of characters."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
