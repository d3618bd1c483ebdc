"""``genericdp allocate``: what a container would be given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.cli.applying import discovered
from genericdp.cli.docker import docker_arguments
from genericdp.cli.options import (
    add_config,
    add_node_name,
    add_output,
    add_root,
    amounts_of,
    root_of,
)
from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.errors import GenericdpError, UsageError
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.devices.offers import Offer

SUMMARY = "show what a container that asks for devices would be given"
EXAMPLE = (
    "  genericdp allocate --config examples/configs/fuse.yaml example.com/fuse=1\n"
    '  eval podman run --rm "$(genericdp allocate --config examples/configs/fuse.yaml'
    ' example.com/fuse=1 -o docker)" IMAGE ls -l /dev/fuse'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_config(parser)
    parser.add_argument(
        "amounts",
        metavar="RESOURCE=N",
        nargs="+",
        help="how many devices of which resource, as in a pod's resources.limits",
    )
    parser.add_argument(
        "--id",
        dest="ids",
        metavar="ID",
        action="append",
        default=[],
        help="a device (or share) that must be among them; may be repeated",
    )
    add_root(parser)
    add_node_name(parser)
    add_output(parser, "docker")


def execute(arguments: argparse.Namespace) -> int:
    """Choose devices as a kubelet might, and print what the answer would be."""
    amounts = amounts_of(arguments.amounts)
    offers = discovered(arguments).offers
    ids = tuple(dict.fromkeys(arguments.ids))
    _check_amounts(amounts, offers)
    _check_ids(ids, amounts, offers)
    answers = {
        name: _answer(name, _chosen(name, count, offers, ids)) for name, count in amounts.items()
    }
    if arguments.output == "json":
        print(json.dumps({name: _as_json(answer) for name, answer in answers.items()}, indent=2))
    elif arguments.output == "docker":
        print(docker_arguments(answers.values(), root_of(arguments)))
    else:
        print("\n".join(line for name, one in answers.items() for line in as_text(name, one)))
    return 0


def _check_amounts(amounts: Mapping[str, int], offers: Mapping[str, Offer]) -> None:
    for name in amounts:
        if name not in offers:
            known = ", ".join(offers) or "none"
            raise UsageError(f"the config has no resource {name!r} for this node (it has: {known})")


def _check_ids(ids: Sequence[str], amounts: Mapping[str, int], offers: Mapping[str, Offer]) -> None:
    known = {share for name in amounts for share in _shares(offers[name])}
    for device_id in ids:
        if device_id not in known:
            raise GenericdpError(f"no device {device_id!r} is on offer (see genericdp discover)")


def _shares(offer: Offer) -> dict[str, Device]:
    return {
        share: one.device
        for one in offer.offered.values()
        if not one.unhealthy
        for share in one.device.shares
    }


def _chosen(name: str, count: int, offers: Mapping[str, Offer], ids: Sequence[str]) -> list[Device]:
    free = _shares(offers[name])
    wanted = [share for share in ids if share in free]
    if len(wanted) > count:
        raise UsageError(f"{name}: {len(wanted)} devices named by --id, but {count} asked for")
    wanted += [share for share in free if share not in wanted]
    if count > len(free):
        raise GenericdpError(f"{name}: {count} wanted, {len(free)} healthy")
    return [free[share] for share in wanted[:count]]


def _answer(name: str, devices: list[Device]) -> ContainerEdits:
    try:
        return edits(devices)
    except (AllocationConflictError, UnusableValueError) as error:
        raise GenericdpError(f"{name}: {error}") from error


def as_text(name: str, answer: ContainerEdits) -> Iterator[str]:
    """Give an answer as lines for people."""
    yield f"{name}:"
    for node in answer.devices:
        yield f"  device      {node.container_path} ({node.permissions}) from {node.host_path}"
    for mount in answer.mounts:
        mode = "ro" if mount.read_only else "rw"
        yield f"  mount       {mount.container_path} ({mode}) from {mount.host_path}"
    yield from (f"  env         {key}={value}" for key, value in answer.env.items())
    yield from (f"  annotation  {key}={value}" for key, value in answer.annotations.items())
    yield from (f"  cdi         {cdi}" for cdi in answer.cdi)


def _as_json(answer: ContainerEdits) -> dict[str, object]:
    return {
        "devices": [
            {
                "hostPath": node.host_path,
                "containerPath": node.container_path,
                "permissions": node.permissions,
            }
            for node in answer.devices
        ],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "readOnly": mount.read_only,
            }
            for mount in answer.mounts
        ],
        "env": dict(answer.env),
        "annotations": dict(answer.annotations),
        "cdi": list(answer.cdi),
    }
