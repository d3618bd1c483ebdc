"""The last good config, kept on disk for a start at which the one on disk is bad."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.config.build import decode
from genericdp.config.child import MAX_OUTPUT
from genericdp.config.rebinding import rebound
from genericdp.host.workers import in_worker
from genericdp.observed import until

if TYPE_CHECKING:
    from genericdp.config.loaded import Loaded
    from genericdp.model import Resource
    from genericdp.observed import Observed
    from genericdp.policy import Policy

log = logging.getLogger(__name__)

NAME = "last-good.json"
_TEMPORARY = ".last-good-"
_LEFT_SECONDS = 60.0
"""A temporary file that is older is left over from a crash."""
_MOST_NAMED = 5
_KIND = "genericdp last good config"


class UnusableStateError(Exception):
    """What lies in the folder cannot be used; its text says why."""


async def keep(
    folder: Path,
    in_force: Observed[Loaded | None],
    decided: Observed[tuple[Resource, ...] | None],
) -> None:
    """Store each config by which every resource could be decided, forever."""
    kept: Loaded | None = None
    while True:

        def is_good(kept: Loaded | None = kept) -> bool:
            loaded = in_force.value
            good = loaded is not None and loaded.resources == decided.value
            return good and loaded is not kept

        await until(is_good, in_force, decided)
        if (kept := in_force.value) is None:
            continue
        try:
            await in_worker(partial(store, folder, kept))
        except OSError as error:
            log.warning("the last good config cannot be kept in %s: %s", folder, error)


async def find(folder: Path, policy: Policy | None) -> Loaded | None:
    """Return what was kept, as ``recall`` does; None, and log why, if it cannot be used."""
    try:
        loaded = await in_worker(partial(recall, folder, policy))
    except UnusableStateError as error:
        log.warning("the last good config is ignored: %s", error)
        return None
    if loaded is None:
        log.warning("there is no last good config in %s", folder)
    return loaded


def store(folder: Path, loaded: Loaded) -> None:
    """Keep a config that has come from a child; raises OSError. What was kept is replaced whole."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_leftovers(folder)
    descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(loaded.wire) + loaded.wire)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(folder / NAME)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    _sync(folder)


def _head(text: bytes) -> bytes:
    """Return a first line that tells what follows, by whom, and whether it is whole."""
    head = {"kind": _KIND, "version": __version__, "sha256": hashlib.sha256(text).hexdigest()}
    return json.dumps(head).encode() + b"\n"


def _sync(folder: Path) -> None:
    """Let the new name outlive a power failure, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    for path in folder.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _LEFT_SECONDS:  # noqa: TID251
                path.unlink()


def recall(folder: Path, policy: Policy | None = None) -> Loaded | None:
    """Return what was kept, None if there is nothing; raises UnusableStateError.

    Whatever bounded it when it was kept, ``policy`` does now.
    """
    path = folder / NAME
    try:
        content = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableStateError(f"{path} cannot be read: {error.strerror}") from error
    head, newline, text = content.partition(b"\n")
    kept = _fields(head)
    if not newline or kept.get("kind") != _KIND:
        raise UnusableStateError(f"{path} is nothing that genericdp has written")
    if kept.get("version") != __version__:
        raise UnusableStateError(
            f"{path} is of version {kept.get('version')!r}, this is {__version__}"
        )
    if head + newline != _head(text):
        raise UnusableStateError(f"{path} is damaged")
    try:
        loaded = rebound(decode(text), policy)
    except ValueError as error:
        raise UnusableStateError(f"{path} is damaged: {error}") from error
    if loaded.problems:
        named = "; ".join(map(str, loaded.problems[:_MOST_NAMED]))
        more = "; …" if len(loaded.problems) > _MOST_NAMED else ""
        raise UnusableStateError(f"the policy does not allow what is in {path}: {named}{more}")
    return loaded


def _fields(head: bytes) -> dict[str, object]:
    try:
        fields = json.loads(head)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _read(path: Path) -> bytes:
    """Read a file that only we, or root, can have written; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        trusted = status.st_uid in {0, os.geteuid()} and not status.st_mode & 0o022
        if not stat.S_ISREG(status.st_mode) or not trusted:
            raise PermissionError(0, "others may have written it")
        return file.read(MAX_OUTPUT + 4096)
