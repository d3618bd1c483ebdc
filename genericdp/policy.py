"""What an administrator allows configs to do; what is not allowed is refused, with the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.glob import is_within, segments_of
from genericdp.template import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from genericdp.template import Template

_MOST_LISTED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """One thing that is allowed: a path with all below it, or a glob for names."""

    text: str
    place: str
    """Where the policy says so, as ``FILE:LINE``."""
    read_only: bool = True
    """Of a mount: only for reading."""
    sha256: str = ""
    """Of a command: what its file must have, in small hexadecimal digits; empty: anything."""
    env: tuple[str, ...] = ()
    """Of a command: the variables that a config may set for it, as globs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """All that is allowed of one kind."""

    key: str
    """How the policy calls it."""
    place: str
    """Where the policy says so, or where a policy begins that says nothing of it."""
    given: bool = False
    bounds: tuple[Bound, ...] = ()

    @property
    def says(self) -> str:
        """What a refusal cites."""
        if not self.given:
            return f"policy {self.place} has no {self.key!r}, which allows none"
        listed = ", ".join(bound.text for bound in self.bounds[:_MOST_LISTED])
        more = ", …" if len(self.bounds) > _MOST_LISTED else ""
        return f"policy {self.place} says {self.key}: {listed or 'none'}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The bounds of all configs."""

    place: str
    devices: Section
    mounts: Section
    files: Section
    commands: Section
    env: Section
    annotations: Section
    cdi: Section
    block: bool = False
    """Whether block devices are among what ``devices`` allows."""
    block_place: str = ""
    sha256: str = ""
    """Of its file, in small hexadecimal digits."""

    @property
    def file(self) -> str:
        """What it was read from, as messages call it."""
        return self.place.rpartition(":")[0]


SECTIONS = ("devices", "mounts", "files", "commands", "env", "annotations", "cdi")


def from_plain(plain: Mapping[str, Any]) -> Policy:
    """Return what ``dataclasses.asdict`` took apart; raises KeyError or TypeError."""
    return Policy(**{**plain, **{key: _section(plain[key]) for key in SECTIONS}})


def _section(plain: Mapping[str, Any]) -> Section:
    bounds = tuple(Bound(**{**one, "env": tuple(one["env"])}) for one in plain["bounds"])
    return Section(**{**plain, "bounds": bounds})


def node_refusal(policy: Policy, path: str, target: str, *, block: bool) -> str:
    """Return why a device node must not be given to containers; empty: it may.

    The ``path`` is how the config names it, the ``target`` where that leads: both count.
    """
    if outside := _outside(policy.devices, path, target):
        return f"{outside} is not among the device nodes that are allowed ({policy.devices.says})"
    if block and not policy.block:
        return f"{path} is a block device ({block_says(policy)})"
    return ""


def block_says(policy: Policy) -> str:
    """Return what a refusal of a block device cites."""
    return f"policy {policy.block_place or policy.devices.place} allows no block devices"


def mount_refusal(policy: Policy, path: str, target: str, *, read_only: bool) -> str:
    """Return why a path must not be mounted; empty: it may."""
    if outside := _outside(policy.mounts, path, target):
        return f"{outside} is not among the mounts that are allowed ({policy.mounts.says})"
    if not read_only:
        for one in (path, target):
            inside = [bound for bound in policy.mounts.bounds if _allows(bound, one)]
            if all(bound.read_only for bound in inside):
                return f"{one} may be mounted only for reading ({says_read_only(inside[0])})"
    return ""


def says_read_only(bound: Bound) -> str:
    """Return what a refusal of a mount that can be written to cites."""
    return f"policy {bound.place} says hostPath: {bound.text} without readOnly: false"


def file_refusal(policy: Policy, path: str, target: str) -> str:
    """Return why a file must not be read for a config; empty: it may."""
    if outside := _outside(policy.files, path, target):
        return f"{outside} is not among the files that are allowed ({policy.files.says})"
    return ""


def _outside(section: Section, *paths: str) -> str:
    """Return the first of the paths that nothing allows; empty: there is none."""
    for path in paths:
        if not any(_allows(bound, path) for bound in section.bounds):
            return path
    return ""


def _allows(bound: Bound, path: str) -> bool:
    return is_within(path, segments_of(bound.text))


def command_bound(policy: Policy, program: str) -> Bound | None:
    """Return what allows a program, or None if nothing does."""
    return next((bound for bound in policy.commands.bounds if bound.text == program), None)


def command_refusal(policy: Policy, program: str) -> str:
    """Return why a program must not be run; empty: it may, whatever its file holds."""
    if command_bound(policy, program) is None:
        return f"{program} is not among the commands that are allowed ({policy.commands.says})"
    return ""


def name_refusal(section: Section, name: str) -> str:
    """Return why a name must not be given to containers; empty: it may."""
    if any(glob.matches(bound.text, name) for bound in section.bounds):
        return ""
    return f"{name!r} is not allowed ({section.says})"


def cdi_kind(name: str) -> str:
    """Return ``vendor/class`` of a CDI name."""
    return name.partition("=")[0]


def asks_for_cdi(annotation: str) -> bool:
    """Return whether container runtimes read names of CDI devices from an annotation."""
    return annotation.startswith("cdi.k8s.io/")


def allows_cdi(policy: Policy, names: Template) -> bool:
    """Return whether all CDI names, which commas divide, are allowed as far as their text tells."""
    shape = "".join(_INSERTED if isinstance(one, Reference) else one for one in names.parts)
    return all(
        any(_allows_kind(bound.text, cdi_kind(name)) for bound in policy.cdi.bounds)
        for name in shape.split(",")
    )


_INSERTED = "\0"
"""Stands for what a reference inserts; no name holds it."""


def _allows_kind(allowed: str, kind: str) -> bool:
    before, inserted, _ = kind.partition(_INSERTED)
    # What is inserted may be anything, and hold the `=`, so that the kind ends there.
    return glob.matches(allowed, before) and (not inserted or allowed.endswith("*"))
