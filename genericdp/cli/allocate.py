"""``genericdp allocate``: what a container would be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.applying import discovered
from genericdp.cli.container import as_json, as_text
from genericdp.cli.docker import docker_arguments, podman_4_needs
from genericdp.cli.environment import Appended
from genericdp.cli.options import (
    add_config,
    add_host,
    add_output,
    amounts_of,
    root_of,
)
from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.errors import GenericdpError, UsageError
from genericdp.printing import (
    print_document,
    print_json,
    print_lines,
    print_warning,
    printable,
    shell_words,
)
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.devices.device import ContainerEdits, Device
    from genericdp.devices.devicelist import DeviceList

_MOST_REASONS = 10
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
        help=(
            "how many devices of which resource, as in a pod's resources.limits; no hook is run"
            " (simulate --allocate runs them)"
        ),
    )
    parser.add_argument(
        "--id",
        dest="ids",
        metavar="ID",
        action=Appended,
        default=[],
        help="a device (or share) that must be among them; may be repeated",
    )
    add_host(parser)
    add_output(parser, "docker")


def execute(arguments: argparse.Namespace) -> int:
    """Choose devices as a kubelet might, and print what the answer would be."""
    amounts = amounts_of(arguments.amounts)
    discovery, nothing_found = discovered(arguments)
    offers = discovery.lists
    ids = tuple(dict.fromkeys(arguments.ids))
    _check_amounts(amounts, offers)
    _check_ids(ids, amounts, offers)
    _check_enough(amounts, offers, nothing_found)
    answers = {
        name: _answer(name, _chosen(name, count, offers, ids)) for name, count in amounts.items()
    }
    if arguments.output == "json":
        print_json({name: as_json(answer) for name, answer in answers.items()})
    elif arguments.output == "docker":
        _print_for_docker(docker_arguments(answers.values(), root_of(arguments)))
    else:
        for name, answer in answers.items():
            print_lines((f"{name}:", *as_text(answer)))
    return 0


def _print_for_docker(words: Sequence[str]) -> None:
    print_document(shell_words(words))
    for word in words:
        if other := podman_4_needs(word):
            print_warning(
                f"podman before 5.0 misreads the comma or quote in {shell_words([word])}:"
                f" there, replace it by {shell_words([other])}"
            )


def _check_amounts(amounts: Mapping[str, int], offers: Mapping[str, DeviceList]) -> None:
    for name in amounts:
        if name not in offers:
            known = ", ".join(offers) or "none"
            raise UsageError(f"the config has no resource {name!r} for this node (it has: {known})")


def _check_ids(
    ids: Sequence[str], amounts: Mapping[str, int], offers: Mapping[str, DeviceList]
) -> None:
    known = {share for name in amounts for share in _shares(offers[name])}
    for device_id in ids:
        if device_id not in known:
            raise GenericdpError(f"no device {device_id!r} is on offer (see genericdp discover)")


def _check_enough(
    amounts: Mapping[str, int],
    offers: Mapping[str, DeviceList],
    nothing_found: Sequence[tuple[str, str]],
) -> None:
    for name, count in amounts.items():
        free = len(_shares(offers[name]))
        if count > free:
            empty = (f"nothing found: {text}" for one, text in nothing_found if one == name)
            reasons = [*_lacking(offers[name]), *empty]
            more = [f"and {len(reasons) - _MOST_REASONS} more"] * (len(reasons) > _MOST_REASONS)
            lines = [f"{name}: {count} wanted, {free} healthy", *reasons[:_MOST_REASONS], *more]
            raise GenericdpError("\n  ".join(lines))


def _lacking(offer: DeviceList) -> Iterator[str]:
    """Say what there is and cannot be had."""
    for device_id, one in offer.devices.items():
        if one.unhealthy:
            yield f"{device_id} is Unhealthy: {printable(one.unhealthy)}"
    for left in offer.not_offered:
        yield printable(f"not offered: {left.path}: {left.reason}")


def _shares(offer: DeviceList) -> dict[str, Device]:
    return {
        share: one.device
        for one in offer.devices.values()
        if not one.unhealthy
        for share in one.device.shares
    }


def _chosen(
    name: str, count: int, offers: Mapping[str, DeviceList], ids: Sequence[str]
) -> list[Device]:
    free = _shares(offers[name])
    wanted = [share for share in ids if share in free]
    if len(wanted) > count:
        raise UsageError(f"{name}: {len(wanted)} devices named by --id, but {count} asked for")
    wanted += [share for share in free if share not in wanted]
    return [free[share] for share in wanted[:count]]


def _answer(name: str, devices: list[Device]) -> ContainerEdits:
    try:
        return edits(devices)
    except (AllocationConflictError, UnusableValueError) as error:
        raise GenericdpError(f"{name}: {error}") from error
