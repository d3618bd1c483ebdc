"""The paths of squat's groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.converting.gopaths import glob_of
from genericdp.converting.naming import FOLDERS
from genericdp.glob import escape, has_wildcard, is_glob, path_problem, unescape
from genericdp.template import literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.converting.draft import Draft
    from genericdp.converting.parts import Part

_ALL = "rwm"
_UNKNOWN = "squat has no such key in a path and ignores it"
_OF_MOUNTS = {"readOnly": "squat heeds it in mounts only"}
_OF_DEVICES = {"permissions": "squat heeds them in devices only"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """One path of a group, as our language has it."""

    glob: str
    mount_path: str = ""
    permissions: str = _ALL
    is_mount: bool = False
    read_only: bool = False
    limit: int = 1
    optional: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether it can match more than one file."""
        return has_wildcard(self.glob)

    @property
    def is_folder(self) -> bool:
        """Whether it is known to be a folder of device files."""
        return not self.is_mount and self.glob.removeprefix("/dev/") in FOLDERS

    @property
    def halves(self) -> tuple[str, str] | None:
        """What stands before and after its only star, if it has one and nothing else."""
        before, star, after = self.glob.partition("*")
        if not star or is_glob(before) or is_glob(after):
            return None
        return before, after

    @property
    def shape(self) -> tuple[object, ...]:
        """What must be the same for paths that one ``inject`` entry is to give."""
        folder = self.glob if self.is_folder else ""
        return (self.is_mount, self.read_only, self.permissions, self.mount_path, folder)


def inserted(
    path: str, permissions: str, mount_path: str, *, optional: bool = False
) -> dict[str, object]:
    """Give the entry of ``inject.devices`` for a template of nodes."""
    entry: dict[str, object] = {"path": path}
    if mount_path:
        entry["containerPath"] = literal(mount_path)
    if permissions != "rw":
        entry["permissions"] = permissions
    if optional:
        entry["optional"] = True
    return entry


def mounted(host_path: str, path: Path) -> dict[str, object]:
    """Give the entry of ``inject.mounts`` for a template of a path."""
    inside = literal(path.mount_path) or host_path
    return {"hostPath": host_path, "containerPath": inside, "readOnly": path.read_only}


def text_of(path: Path) -> str:
    """Give the only path that one without wildcards matches."""
    return unescape(path.glob)


def paths_of(part: Part, draft: Draft) -> tuple[Path, ...]:
    """Give the paths of a group."""
    return tuple(_path(one, draft) for one in part.entries())


def short_paths(texts: Iterable[str], part: Part) -> tuple[Path, ...]:
    """Give the paths of the short form of old versions; ``part`` is what holds it."""
    return tuple(Path(glob=_glob(text, part)) for text in texts)


def _path(part: Part, draft: Draft) -> Path:
    keys = part.keys()
    found = keys.take("path")
    if found is None:
        part.fail("path is missing")
        return Path(glob="/dev/null")
    kind = keys.take("type")
    word = "Device" if kind is None else kind.text() or "Device"
    if kind is not None and word not in {"Device", "Mount"}:
        kind.fail("Device or Mount is expected here")
    is_mount = word == "Mount"
    path = Path(
        glob=_glob(found.text(), found),
        mount_path=_inside(keys.take("mountPath")),
        permissions=_ALL if is_mount else _permissions(keys.take("permissions")),
        is_mount=is_mount,
        read_only=is_mount and keys.is_true("readOnly"),
        limit=keys.number("limit", 1) or 1,
        optional=keys.is_true("optional"),
    )
    draft.left += keys.kept(_OF_DEVICES if is_mount else _OF_MOUNTS, _UNKNOWN)
    return path


def _inside(part: Part | None) -> str:
    text = "" if part is None else part.text()
    if part is not None and text and (text == "/" or path_problem(escape(text)) is not None):
        part.fail(f"{text[:80]!r} is no absolute path in a container")
        return ""
    return text


def _permissions(part: Part | None) -> str:
    text = _ALL if part is None else part.text() or _ALL
    if part is not None and not set(text) <= set(_ALL):
        part.fail(f"permissions are letters of rwm, not {text[:40]!r}")
        return _ALL
    return "".join(letter for letter in _ALL if letter in text)


def _glob(text: str, part: Part) -> str:
    made = glob_of(text)
    if made is None or "$(" in made:
        part.fail(f"{text[:80]!r} is no absolute path or glob that can be converted")
        return "/dev/null"
    return made
