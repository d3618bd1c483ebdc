"""``genericdp cdi generate``: CDI specs of the devices of a config, once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from genericdp.cdi import (
    DOTTED_CLASS_VERSION,
    STATIC_DIRECTORY,
    SpecError,
    file_name,
    is_maintained,
    left_out,
    put,
    remove_ours,
    specs,
)
from genericdp.cli.apply import discover_once, load_resources
from genericdp.cli.output import print_document, print_lines, print_warning
from genericdp.cli.parser import flag, path_option
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import node_name_of, root_of
from genericdp.devices.resourcenames import resulting
from genericdp.errors import GenericdpError, UsageError, reason_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

EXAMPLE = (
    "  genericdp cdi generate examples/configs/fuse.yaml\n"
    "  sudo genericdp cdi generate examples/configs/fuse.yaml --static\n"
    "  podman run --rm --device example.com/fuse=fuse IMAGE ls -l /dev/fuse"
)
ARGUMENTS = {
    "--output": path_option(
        "write a file for each resource to this directory, which is made if need be (default: print"
        " them)"
    ),
    "--static": flag(
        f"write to {STATIC_DIRECTORY} if no --output is given: for devices that never change, since"
        " these specs outlast a reboot and nothing updates them (genericdp cdi watch does)"
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Print or write the specs; 1 if a resource cannot have one."""
    directory = _directory_of(arguments)
    (_, here), node_name = load_resources(arguments), node_name_of(arguments)
    lists = run_skipping_hangs(
        root_of(arguments), lambda host: discover_once(here, host, node_name).lists
    )
    resources = resulting(here, lists)
    found = specs(resources, lists, everything=True)
    skipped = left_out(resources, lists)
    for name, why in skipped.items():
        print_warning(f"{name} is left out: {why}")
    for name, resource in resources.items():
        if name not in skipped:
            _warn(resource, lists[name], has_spec=name in found)
    for path in (directory / file_name(name) for name in resources.keys() - found if directory):
        if remove_ours(path):
            print_lines([f"{path}: removed, since no device is left for it"])
    if not found:
        raise GenericdpError("there is nothing to write a CDI spec for")
    if directory is None:
        print_document("".join(spec.decode() for spec in found.values()))
    else:
        _write(directory, found)
    return 1 if skipped else 0


def _directory_of(arguments: argparse.Namespace) -> Path | None:
    """Return the directory to write to, or None to print the specs. Raises UsageError."""
    given: Path | None = arguments.output
    directory = given and given.absolute()
    if directory is not None and directory.exists() and not directory.is_dir():
        raise UsageError(f"--output {given} is not a directory")
    if arguments.static:
        return directory or STATIC_DIRECTORY
    if directory is not None and directory.resolve() == STATIC_DIRECTORY:
        raise UsageError(
            f"specs in {STATIC_DIRECTORY} outlast a reboot, and nothing updates them: use --static"
            " if the devices never change, else use genericdp cdi watch"
        )
    return directory


def _warn(resource: Resource, devices: DeviceList, *, has_spec: bool) -> None:
    """Warn of keys of the config that a spec cannot contain."""
    name = resource.name
    for device_id, entry in devices.devices.items():
        if not entry.is_complete:
            print_warning(f"{name}: {device_id} is left out: {entry.text}")
    if not has_spec:
        why, cause = devices.why_empty
        if cause:
            print_warning(f"{name} has no devices: {why}")
        return
    if resource.hooks:
        print_warning(f"{name}: its hooks are not run, since there is no kubelet")
    if "." in name.partition("/")[2]:
        print_warning(
            f"{name}: with a dot in the type the spec needs CDI {DOTTED_CLASS_VERSION}, which"
            " podman before 4.4 does not know"
        )


def _write(directory: Path, found: Mapping[str, bytes]) -> None:
    """Write the specs that differ; raises GenericdpError if one cannot be written, after all
    others.
    """
    mistakes = []
    try:
        if not directory.is_dir():
            directory.mkdir()
            directory.chmod(0o755)  # other users may start containers with it
    except OSError as error:
        raise GenericdpError(f"{directory} cannot be used: {reason_of(error).lower()}") from error
    for kind, content in found.items():
        path = directory / file_name(kind)
        if is_maintained(path):
            mistakes.append(f"{path} is maintained by a genericdp that runs")
            continue
        try:
            lock, is_new = put(directory, kind, content)
            os.close(lock)
            print_lines([f"{path}: {'written' if is_new else 'unchanged'}"])
        except SpecError as error:
            mistakes.append(str(error))
        except OSError as error:
            mistakes.append(f"{path} cannot be written: {reason_of(error).lower()}")
    if mistakes:
        raise GenericdpError("\n".join(mistakes))
