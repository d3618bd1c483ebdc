"""``genericdp allocate``: what a container would be given."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.cli.apply import discovered, refuse_unknown, unknown_device
from genericdp.cli.output import DATA, print_data, print_lines, print_warning
from genericdp.cli.parser import Append, argument
from genericdp.cli.probe import Probed, who_probes
from genericdp.devices.allocation import edits_for_kubelet
from genericdp.devices.device import shares_by_device
from genericdp.devices.preferred import preferred_ids
from genericdp.errors import GenericdpError, UsageError
from genericdp.model import ServedBy, config_key
from genericdp.printing import printable, quoted
from genericdp.reasons import Code
from genericdp.status import view
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import BindMount, ContainerEdits, Device, DeviceSpec
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.model import Resource

_MAX_REASONS = 10
_AMOUNT = re.compile(r"0*[1-9][0-9]{0,8}")
_MOST = 999_999_999
EXAMPLE = "  genericdp allocate examples/configs/fuse.yaml example.com/fuse=1"
ARGUMENTS = {
    "RESOURCE=N": argument(
        "how many devices of which resource, as in a pod's resources.limits; no hook is run"
        " (simulate --allocate runs them)",
        dest="amounts",
        nargs="+",
    ),
    "--id": argument(
        "a device (or share) that must be among them; may be repeated",
        metavar="ID",
        dest="ids",
        action=Append,
        default=(),
    ),
}


def amounts_of(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``RESOURCE=N``, each resource once; raises UsageError."""
    amounts: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.partition("=")
        if not (name and equals):
            form = "is not of the form RESOURCE=N, as in example.com/fuse=1"
            raise UsageError(f"{quoted(text)} {form}")
        if not _AMOUNT.fullmatch(count):
            raise UsageError(f"{quoted(text)}: N has to be a whole number from 1 to {_MOST:,}")
        if name in amounts:
            total = amounts[name] + int(count)
            raise UsageError(f"{name} is given twice: for {total} devices write {name}={total}")
        amounts[name] = int(count)
    return amounts


def execute(arguments: argparse.Namespace) -> int:
    """Choose devices as the kubelet would if all were free, and print the answer."""
    amounts = amounts_of(arguments.amounts)
    resources, lists, nothing = discovered(arguments)
    ids: Sequence[str] = arguments.ids
    healthy = _healthy_shares(amounts, lists)
    _check_ids(ids, healthy, lists)
    for name, count in amounts.items():
        if count > len(healthy[name]):
            reasons = [*_unavailable(lists[name], nothing.get(name, ()))]
            raise GenericdpError(_too_few(name, count, len(healthy[name]), reasons))
    answers: dict[str, ContainerEdits] = {}
    probed = []
    for name, count in amounts.items():
        must = [share for share in ids if share in healthy[name]]
        if len(must) > count:
            raise UsageError(f"{name}: {len(must)} devices named by --id, but {count} requested")
        chosen = _chosen(count, healthy[name], must, resources[name], lists[name])
        try:
            entries = [healthy[name][share] for share in chosen]
            devices = [entry.device for entry in entries]
            answers[name] = edits_for_kubelet(devices, shares_by_device(chosen))
        except UnusableValueError as error:
            raise GenericdpError(f"{name}: {error}") from error
        probed += [Probed(resource=name, listed=entry) for entry in entries]
    for warning in _losses(answers, probed):
        print_warning(warning)
    if arguments.output in DATA:
        print_data(
            {name: edits_as_json(answer) for name, answer in answers.items()}, arguments.output
        )
    else:
        print_lines(_as_text(answers, probed, arguments))
    return 0


def _losses(answers: Mapping[str, ContainerEdits], probed: Iterable[Probed]) -> Iterator[str]:
    """Yield what a container does not get: absent mounts, and what two resources both set."""
    for name, mount in dict.fromkeys(
        (device.resource, mount)
        for device in probed
        for mount in device.listed.device.mounts
        if mount.absent
    ):
        yield f"{name}: {mount.host_path} does not exist, so its optional mount is left out"
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for name, edits in answers.items():
        for kind, texts in (("variable", edits.env), ("annotation", edits.annotations)):
            for key, text in texts.items():
                other, of_other = first.setdefault((kind, key), (name, text))
                if of_other != text:
                    yield (
                        f"{name} and {other} both set the {kind} {key}, to {quoted(text)} and"
                        f" {quoted(of_other)}: the kubelet keeps only one of them"
                    )


def _as_text(
    answers: Mapping[str, ContainerEdits], probed: Iterable[Probed], arguments: argparse.Namespace
) -> Iterator[str]:
    documents = {(device.resource, device.listed.device.id): device.document for device in probed}
    for name, answer in answers.items():
        yield f"{name}:"
        yield from edits_as_text(answer)
        for (resource, device_id), document in documents.items():
            if resource == name and document["state"] != view.DeviceState.HEALTHY:
                yield f"  {view.state(document):<10}  {device_id}"
    yield from who_probes(documents.values(), arguments)


def _healthy_shares(
    names: Iterable[str], lists: Mapping[str, DeviceList]
) -> dict[str, dict[str, Entry[Device]]]:
    """Return each Healthy share with its device, by resource; raises UsageError."""
    healthy = {}
    for name in names:
        refuse_unknown(name, lists)
        entries = [entry for entry in lists[name].devices.values() if entry.is_healthy]
        healthy[name] = {share: entry for entry in entries for share in entry.device.shares}
    return healthy


def _check_ids(
    ids: Sequence[str],
    healthy: Mapping[str, Collection[str]],
    lists: Mapping[str, DeviceList],
) -> None:
    """Raise UsageError or GenericdpError for an ID that no container can get."""
    for device_id in ids:
        if ids.count(device_id) > 1:
            raise UsageError(f"--id {device_id} is given twice: name each device, or share, once")
        if any(device_id in shares for shares in healthy.values()):
            continue
        for name in healthy:
            for entry in lists[name].devices.values():
                if entry.device.has_share(device_id):
                    raise GenericdpError(f"{name}: {device_id} is Unhealthy: {entry.text}")
        raise unknown_device(device_id, chain.from_iterable(healthy.values()))


def _unavailable(devices: DeviceList, nothing: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield why there are no devices, or which devices there are and why they cannot be
    allocated.
    """
    reason, cause = devices.why_empty
    if reason and cause != Code.NOT_OFFERED:  # these are listed one by one
        yield f"no devices: {reason}"
        nothing = ()
    for device_id, entry in devices.devices.items():
        if not entry.is_healthy:
            yield f"{device_id} is Unhealthy: {printable(entry.text)}"
    for left in devices.not_offered:
        yield printable(f"not offered: {left.device.path}: {left.text}")
    yield from (f"nothing found: {text}" for text, _ in nothing)


def _too_few(name: str, wanted: int, healthy: int, reasons: Sequence[str]) -> str:
    lines = [f"{name}: requested {wanted}, available {healthy}", *reasons[:_MAX_REASONS]]
    if len(reasons) > _MAX_REASONS:
        lines.append(f"and {len(reasons) - _MAX_REASONS} more")
    return "\n  ".join(lines)


def _chosen(
    count: int,
    healthy: Collection[str],
    must: Sequence[str],
    resource: Resource,
    devices: DeviceList,
) -> list[str]:
    """Return the shares that a container gets: those that the daemon prefers, or else the first.

    For resources that DRA serves, the scheduler chooses.
    """
    preferred: Sequence[str] = ()
    if resource.served_by is ServedBy.DEVICE_PLUGIN:
        spots = {device_id: entry.device.spot for device_id, entry in devices.devices.items()}
        preferred = preferred_ids(
            healthy, must, count, spots, resource.prefer, replicas=resource.replicas
        )
    return [*dict.fromkeys((*preferred, *must, *healthy))][:count]


def edits_as_text(edits: ContainerEdits) -> Iterator[str]:
    """Yield a line for each thing that a container gets."""
    for node in edits.devices:
        yield f"  device      {node.container_path} ({node.permissions}) from {node.host_path}"
    for mount in edits.mounts:
        mode = "ro" if mount.read_only else "rw"
        yield f"  mount       {mount.container_path} ({mode}) from {mount.host_path}"
    yield from (f"  env         {key}={value}" for key, value in edits.env.items())
    yield from (f"  annotation  {key}={value}" for key, value in edits.annotations.items())
    yield from (f"  cdi         {cdi}" for cdi in edits.cdi)


def edits_as_json(edits: ContainerEdits) -> dict[str, object]:
    """Return an object that has all lists and mappings, even empty ones."""
    return {
        "devices": [_by_config_key(device) for device in edits.devices],
        "mounts": [_by_config_key(mount) for mount in edits.mounts],
        "env": dict(edits.env),
        "annotations": dict(edits.annotations),
        "cdi": list(edits.cdi),
    }


def _by_config_key(edit: DeviceSpec | BindMount) -> dict[str, object]:
    return {config_key(name): value for name, value in asdict(edit).items()}
