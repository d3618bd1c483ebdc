"""CDI specs of the devices of a resource, and the directory where container runtimes find them.

The format and its versions are those of the Container Device Interface, SPEC.md. Specs of other
programs are never read.
"""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from genericdp.devices.allocation import edits
from genericdp.durable import lock, opened, remove_temporary, write
from genericdp.errors import reason_of
from genericdp.host.pathwalk import read
from genericdp.model import InjectBy, is_cdi_kind, is_cdi_name
from genericdp.printing import printable
from genericdp.template import is_share, templates_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.model import Resource

log = logging.getLogger(__name__)

Edits: TypeAlias = dict[str, list[Any]]
"""CDI's ``containerEdits``, by their keys."""

PREFIX = "genericdp_"
"""The prefix of our files: no other program uses it."""
SUFFIX = ".json"
_HEAD = re.compile(rb'\{\n  "cdiVersion": "[0-9.]+",\n  "kind": "([^"\n]+)",\n  "devices": \[\n')
_NOT_IN_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Container runtimes read JSON as YAML, which accepts neither these nor JSON's surrogate pairs."""
DOTTED_CLASS_VERSION = "0.6.0"
"""The first version in which a class may contain a dot; podman before 4.4 ignores such specs."""


def file_name(kind: str) -> str:
    """Return the name of the file with the spec of a kind, as ``example.com/serial``."""
    return f"{PREFIX}{kind.replace('/', '_')}{SUFFIX}"


def specs(
    resources: Mapping[str, Resource], lists: DeviceLists, *, everything: bool
) -> dict[str, bytes]:
    """Return the content of the spec files of resources, by kind; no file for a resource without
    devices.

    With ``everything``, a spec contains everything that a container gets, for each resource that
    works without Kubernetes; else only the device nodes, for resources with ``by: cdi``.
    """
    found = {}
    for name, resource in resources.items():
        if _why_not_alone(resource) if everything else resource.inject.by is not InjectBy.CDI:
            continue
        # A missing device must have no entry: its nodes could belong to a different device by now.
        given = {
            device_id: container_edits(edits([entry.device]), [entry.device], everything=everything)
            for device_id, entry in lists[name].devices.items()
            # With another name a runtime would refuse the whole spec.
            if entry.is_complete and is_cdi_name(f"{name}={device_id}")
        }
        if spec := spec_of(name, given):
            found[name] = spec
    return found


def left_out(resources: Mapping[str, Resource], lists: DeviceLists) -> dict[str, str]:
    """Return the resources and devices that have no spec without Kubernetes, and why."""
    found = {name: why for name, resource in resources.items() if (why := _why_not_alone(resource))}
    full_names = (
        f"{name}={device_id}"
        for name in resources.keys() - found
        for device_id in lists[name].devices
    )
    why = "a CDI device's name begins and ends with a letter or digit (see id)"
    return found | {
        full_name: why for full_name in sorted(full_names) if not is_cdi_name(full_name)
    }


def _why_not_alone(resource: Resource) -> str:
    """Return why a resource cannot be used without Kubernetes; empty if it can."""
    injects = (resource.inject, *(selector.inject for selector in resource.match))
    references = [ref for template in templates_of(injects) for ref in template.references]
    if any(map(is_share, references)):
        return "it uses $(device.share), which only a kubelet's request has"
    if any(reference.scope == "allocation" for reference in references):
        return "it uses $(allocation.index), which only a kubelet's request has"
    if any(inject.annotations for inject in injects):
        return "it gives annotations, which a CDI spec cannot"
    if any(inject.cdi for inject in injects):
        return "it gives CDI devices of others, which a CDI spec cannot (say --device for each)"
    if resource.name_template is None and not is_cdi_kind(resource.name):
        return "its name is not a CDI kind: the domain and the type have to begin with a letter"
    return ""


def spec_of(kind: str, given: Mapping[str, Edits]) -> bytes:
    """Return the content of the spec for devices with these edits, by name; empty if there are
    none.

    Its version is the lowest that has the features in use: runtimes ignore specs that are newer
    than they are.
    """
    entries = [{"name": name, "containerEdits": edits} for name, edits in given.items() if edits]
    if not entries:
        return b""
    nodes = (node for edits in given.values() for node in edits.get("deviceNodes", ()))
    version = "0.3.0"
    if any(str(entry["name"])[0].isdecimal() for entry in entries) or any(
        "hostPath" in node for node in nodes
    ):
        version = "0.5.0"
    if "." in kind.partition("/")[2]:
        version = DOTTED_CLASS_VERSION
    return rendered({"cdiVersion": version, "kind": kind, "devices": entries})


def container_edits(
    given: ContainerEdits, devices: Iterable[Device], *, everything: bool = True
) -> Edits:
    """Return what a container gets for devices, in CDI's format; no key is empty.

    Without ``everything`` only the device nodes.
    """
    # Runtimes read the type and number of the node, and make the container's user its owner.
    real_paths = {node.host_path: node.real_path for device in devices for node in device.nodes}
    found: Edits = {"deviceNodes": []}
    for node in given.devices:
        host_path = real_paths[node.host_path]
        other = {} if host_path == node.container_path else {"hostPath": host_path}
        found["deviceNodes"].append(
            {"path": node.container_path, **other, "permissions": node.permissions}
        )
    if everything:
        found["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["rbind", "rprivate", "ro" if mount.read_only else "rw"],
            }
            for mount in given.mounts
        ]
        found["env"] = [f"{name}={value}" for name, value in given.env.items()]
    return {key: listed for key, listed in found.items() if listed}


def rendered(spec: Mapping[str, object]) -> bytes:
    """Return a spec as the content of a file; always the same for the same spec."""
    text = json.dumps(spec, indent=2, ensure_ascii=False)
    return f"{_NOT_IN_YAML.sub(_escaped, text)}\n".encode()


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def kind_of_ours(content: bytes) -> str:
    """Return the kind of a spec if the file's content begins like our specs; else an empty
    string.
    """
    head = _HEAD.match(content)
    return head[1].decode(errors="replace") if head else ""


STATIC_DIRECTORY = Path("/etc/cdi")
"""The directory in which container runtimes expect specs that never change."""
_MAX_BYTES = 16 * 1024 * 1024
"""Limit of a file; the spec of a thousand devices has 250 KB."""
_STAYS = "it is not overwritten (remove it)"


class SpecError(Exception):
    """A foreign file has the path of a spec."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecFile:
    """A file with our prefix."""

    path: Path
    content: bytes
    is_ours: bool
    """Whether it is a spec that genericdp has written."""
    is_maintained: bool
    """Whether a process keeps it up to date."""


class SpecDirectory:
    """Maintains the specs of this process in a directory, which it never creates.

    It holds a shared lock on each of its files: a file without a lock is left over from an earlier
    config or a process that has ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[str, int] = {}
        """Descriptors that hold the locks, by kind."""

    def maintain(self, specs: Mapping[str, bytes]) -> dict[str, str]:
        """Write the specs that differ, given by kind, and remove stale ones.

        Return the errors, by kind. Even if the process is killed, there is either the old spec or
        the new one.
        """
        errors = {}
        for kind in self._locks.keys() - specs.keys():
            self._end(kind)
        for kind, content in specs.items():
            path, held = self.path / file_name(kind), self._locks.get(kind)
            had_other = is_maintained(path, held)
            try:
                self._locks[kind], is_new = put(self.path, kind, content)
            except (SpecError, OSError, MemoryError) as error:
                errors[kind] = why_not(error, self.path)
                continue
            if held is not None:
                os.close(held)
            if is_new:
                log.info("%s written", path, extra={"resource": kind})
            if is_new and had_other:
                why = "another process, too, which wants something else in it"
                log.warning("%s is maintained by %s", path, why, extra={"resource": kind})
        self._remove_leftovers({file_name(kind) for kind in specs})
        return errors

    def _remove_leftovers(self, kept: Collection[str]) -> None:
        """Remove our files, except those to be kept and those that a process has locked."""
        remove_temporary(self.path)
        with suppress(OSError):
            for path in _our_files(self.path):
                if path.name not in kept and remove_ours(path):
                    log.info("%s removed: no process maintains it", path)

    def _end(self, kind: str) -> None:
        """Remove a spec that has no device left; a different instance that needs it writes it
        again.
        """
        path, held = self.path / file_name(kind), self._locks.pop(kind)
        with suppress(OSError):
            if os.path.samestat(os.fstat(held), path.lstat()):
                path.unlink()
                log.info("%s removed: no device is left for it", path, extra={"resource": kind})
        os.close(held)

    def close(self) -> None:
        """Stop maintaining specs; the files stay, for containers that are started again."""
        while self._locks:
            os.close(self._locks.popitem()[1])


def why_not(error: Exception, directory: Path) -> str:
    """Return why a spec could not be written, human-readable."""
    if isinstance(error, SpecError):
        return str(error)
    if isinstance(error, MemoryError):
        return "its CDI spec cannot be written: there is not enough memory"
    return f"its CDI spec cannot be written to {directory}: {reason_of(error).lower()}"


def put(directory: Path, kind: str, content: bytes) -> tuple[int, bool]:
    """Write this spec to a directory; return a descriptor that holds its lock, and whether it is
    new.

    Raises SpecError and OSError; a spec of ours that is out of date is removed then.
    """
    path = directory / file_name(kind)
    present = None
    try:
        with opened(path, follow=False) as descriptor:
            present = read(descriptor, _MAX_BYTES)
            if kind_of_ours(present) != kind:
                raise SpecError(f"{printable(str(path))} is not of genericdp: {_STAYS}")
            if present == content and lock(descriptor, exclusive=False):
                return os.dup(descriptor), False
    except FileNotFoundError:
        pass
    except ValueError:
        raise SpecError(f"{printable(str(path))} is not a regular file: {_STAYS}") from None
    try:
        return write(path, content), True
    except OSError:
        if present != content:
            with suppress(OSError):
                path.unlink()  # its nodes may belong to other devices by now
        raise


def is_maintained(path: Path, held: int | None = None) -> bool:
    """Return whether a process keeps a file up to date; the lock of the descriptor ``held`` does
    not count.
    """
    with suppress(OSError, ValueError), opened(path, follow=False) as descriptor:
        is_held = held is not None and os.path.sameopenfile(held, descriptor)
        return not is_held and not lock(descriptor, exclusive=True)
    return False


def remove_ours(path: Path) -> bool:
    """Remove a spec of ours that no process maintains; return whether it existed."""
    with suppress(OSError, ValueError), opened(path, follow=False) as descriptor:
        if lock(descriptor, exclusive=True):
            is_ours = path.name == file_name(kind_of_ours(read(descriptor, _MAX_BYTES)))
            # Another process may have written its own spec there since.
            if is_ours and os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
                return True
    return False


def spec_files(directory: Path) -> list[SpecFile]:
    """Return the files of a directory that have our prefix, by name; raises OSError."""
    found: list[SpecFile] = []
    with suppress(FileNotFoundError):
        for path in _our_files(directory):
            with suppress(OSError, ValueError), opened(path, follow=False) as descriptor:
                content = read(descriptor, _MAX_BYTES)
                spec = SpecFile(
                    path=path,
                    content=content,
                    is_ours=path.name == file_name(kind_of_ours(content)),
                    is_maintained=not lock(descriptor, exclusive=True),
                )
                found.append(spec)
    return found


def _our_files(directory: Path) -> list[Path]:
    """Return the files with a name of ours in a directory; raise OSError."""
    paths = sorted(directory.iterdir())
    return [path for path in paths if path.name.startswith(PREFIX) and path.suffix == SUFFIX]
