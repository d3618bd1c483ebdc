"""What squat's groups offer, as resources: each kind of group gives one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.converting.draft import Draft, Resource, Said, replicas_of
from genericdp.converting.naming import FOLDERS, ONLY_LINKS, checked_name, exactly
from genericdp.converting.squatcomposed import compose, is_series, needed, unused
from genericdp.converting.squatpaths import Path, inserted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.converting.parts import Part

_ANOTHER = (
    "{name} in squat, too: what a container gets with these devices differs from the above, and a"
    " resource says that once. Pods that are to have one of these ask for the name below."
)
_D9 = (
    "Two of them in one container would be at one place: squat lets the container have only one;"
    " genericdp refuses. $(allocation.index) in containerPath tells them apart."
)
_D1 = (
    "Of several equal USB devices squat makes one device, whose id changes with each plug;"
    " here each is a device of its own."
)
_C2 = (
    "An id is not quoted in squat's config: squat may have read another number; here it is"
    " taken as it is written."
)
_FOLDER = "A folder: a container gets the device files in it."


MAX_GROUPS = 256
"""So many groups of one device are looked at, and so many paths of a group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usb:
    """USB devices by their ids, and whether squat may read other numbers there."""

    vendor: tuple[str, bool]
    product: tuple[str, bool]
    serial: str

    @property
    def selector(self) -> dict[str, object]:
        """The same in our language."""
        usb = {"vendor": self.vendor[0], "product": self.product[0]}
        if self.serial:
            usb["serial"] = exactly(self.serial)
        return {"usb": usb}


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One entry of squat's groups: paths or USB devices."""

    part: Part
    count: int
    paths: tuple[Path, ...] = ()
    usb: tuple[Usb, ...] = ()


def add_resources(
    name: str, device: Part, groups: Iterable[Group], draft: Draft, *, together: bool
) -> None:
    """Add the resources for one of squat's devices; paths are one device only if ``together``."""
    checked_name(name, device)
    groups = tuple(groups)
    if max(len(groups), *(len(group.paths) + len(group.usb) for group in groups), 0) > MAX_GROUPS:
        device.fail(f"more than {MAX_GROUPS} groups, or paths or USB devices in one")
        return
    if not together:
        groups = [
            Group(part=group.part, count=group.count, paths=(path,))
            for group in groups
            for path in group.paths
        ]
    kinds = _alike(groups)
    for i, alike in enumerate(kinds):
        resource = Resource(name=draft.name_for(name))
        if i:
            resource.comments.append(_ANOTHER.format(name=name))
        replicas_of(alike[0].count, resource, "count")
        _fill(resource, alike)
        draft.resources.append(resource)
    if not kinds:
        draft.left.append(f"Not converted, {name}: it has no groups, so squat offers nothing.")


def _alike(groups: Iterable[Group]) -> list[list[Group]]:
    """Put groups together that one ``inject`` can serve."""
    found: list[list[Group]] = []
    for group in groups:
        for others in found:
            if _goes_with(group, others):
                others.append(group)
                break
        else:
            found.append([group])
    return found


def _goes_with(group: Group, others: Sequence[Group]) -> bool:
    first = others[0]
    if group.count != first.count:
        return False
    if group.usb or first.usb:
        return len(group.usb) == len(first.usb) == 1
    if len(group.paths) == len(first.paths) == 1:
        return group.paths[0].shape == first.paths[0].shape
    return len(first.paths) > 1 and is_series([one.paths for one in (*others, group)])


def _fill(resource: Resource, alike: Sequence[Group]) -> None:
    if alike[0].usb:
        _fill_usb(resource, alike)
    elif len(alike[0].paths) == 1:
        _fill_single(resource, [group.paths[0] for group in alike])
    else:
        compose(resource, [group.paths for group in alike])


def _fill_usb(resource: Resource, alike: Sequence[Group]) -> None:
    specs = tuple(dict.fromkeys(usb for group in alike for usb in group.usb))
    selectors: list[Said] = [Said(usb.selector) for usb in specs]
    resource.match = [one for i, one in enumerate(selectors) if one not in selectors[:i]]
    if any(usb.vendor[1] or usb.product[1] for usb in specs):
        resource.comments.append(_C2)
    if len(alike[0].usb) > 1:
        resource.group_by = "all"
        resource.comments.append("All that is found of these is one device, as in squat.")
    elif not all(usb.serial for usb in specs):
        resource.comments.append(_D1)


def _fill_single(resource: Resource, paths: Sequence[Path]) -> None:
    first = paths[0]
    globs = list(dict.fromkeys(path.glob for path in paths))
    for path in dict.fromkeys(paths):
        unused(resource, path)
        needed(resource, path)
    selector: dict[str, object] = {"path": globs[0] if len(globs) == 1 else globs}
    resource.match = [Said(selector)]
    if first.mount_path and (len(globs) > 1 or first.is_pattern):
        resource.comments.append(_D9)
    if first.is_mount:
        selector["type"] = ["char", "block", "directory", "file"]
        resource.devices = []
        resource.mounts = [Said(mounted("$(device.path)", first))]
    elif first.is_folder:
        selector["type"] = "directory"
        within = FOLDERS[first.glob.removeprefix("/dev/")]
        if not within:
            resource.withheld = resource.withheld or ONLY_LINKS
        inside = re.sub(r"/*\Z", "/", first.mount_path) if first.mount_path else ""
        entry = inserted(f"{first.glob}/{within or '*'}", first.permissions, inside)
        resource.devices = [Said({**entry, "shared": True, "optional": True})]
        if within:
            resource.comments.append(_FOLDER)
    else:
        entry = inserted("$(device.path)", first.permissions, first.mount_path)
        resource.devices = [Said(entry)]
