"""Targets of paths, and paths that must not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.policy import Policy

_OF_OTHERS = ("/sys/fs/", "/sys/kernel/")
"""Directories with other filesystems: users may make links in the one for BPF."""


class PathTarget(NamedTuple):
    """The target of a path, whether or not it exists."""

    target: str
    refusal: str = ""
    """Why it must not be injected or read; empty if nothing is wrong."""


def is_kernels_own(path: str) -> bool:
    """Return whether only the kernel makes links on the way to a path, and none leads elsewhere."""
    is_of_sysfs = path.startswith("/sys/") and not path.startswith(_OF_OTHERS)
    return is_of_sysfs or path == "/proc/self/mountinfo"


def file_to_read(
    policy: Policy | None, path: str, target_of: Callable[[str], PathTarget]
) -> PathTarget:
    """Return the location of a file that the config names, with the refusal if it must not be read.

    Read the target itself, since a link may be redirected meanwhile.
    """
    if is_kernels_own(path):
        found = PathTarget(target=path)
    else:
        found = target_of(path)
        if found.refusal:
            found = found._replace(refusal=f"{path} must not be read: {found.refusal}")
    if policy is None:
        return found
    refusal = policy.file_refusal(path, found.target)
    return found._replace(refusal=refusal or found.refusal)
