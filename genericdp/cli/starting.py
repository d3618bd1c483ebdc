"""The text of a config to start from: what was recognised, and what else there is, as comments."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from genericdp.devices.hardware import is_pci_function, is_usb_device, nearest
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.cli.recogniser import Recogniser
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.sysdevice import Host
    from genericdp.explain.catalog import Group, Run

    Names = Mapping[tuple[str, str, str], tuple[str, str]]
    """By bus, vendor and device id."""

KIND = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\n"
_HEAD = """\
# What genericdp recognises on {machine}, as a config to start from (genericdp init).
#
{commands}
#
# Keep what pods shall have and delete the rest: whoever may start a pod on the node can ask for
# all that is here. A pod asks by name:   resources: {{limits: {{{example}: 1}}}}
# In place of example.com goes a domain of yours.
"""
_NOTHING = """\
resources:
  # Nothing of this machine is recognised as something to hand out unasked. This one offers
  # nothing either until you say what it is made of:
  - name: example.com/my-device         # what pods ask for
    match:                              # one or several of:
      - path: /dev/my-device            # a path or a glob
      # - udev: {subsystem: tty}        # or what it is: here the serial ports of a USB device
      #   hardware: {usb: {vendor: "0403", product: "6001"}}
    replicas: 1                         # how many containers may share each
"""
_WIDTH = 92
_MOST_DEVICES = 8
_MOST_OTHERS = 40
_SUPPORTING = ("05", "06", "08", "0c03", "0c05", "0c80", "11", "13", "0780", "1180")
"""PCI classes of what a machine needs itself: bridges, memory, timers, hosts of other buses."""
_HUB = "09"
_CLASSES = {
    "01": "storage",
    "02": "network",
    "03": "graphics",
    "04": "sound or video",
    "0b": "processor",
    "0d": "radio",
    "10": "encryption",
    "12": "accelerator",
}
"""The first two digits of a PCI class, for hardware whose name nobody knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one row has found."""

    row: Recogniser
    devices: tuple[tuple[str, str, str], ...]
    """Of each device the id, how a person finds it, and what it is."""
    shares: int


def found_by(row: Recogniser, offer: DeviceList, host: Host, names: Names) -> Found:
    """Say what a row offers now; what is Unhealthy does not count."""
    well = [one.device for one in offer.devices.values() if not one.unhealthy]
    return Found(
        row=row,
        devices=tuple((one.id, one.path, _what_is(one, host, names)) for one in well),
        shares=sum(one.replicas for one in well),
    )


def _what_is(device: Device, host: Host, names: Names) -> str:
    ids = ids_of(device.identity.syspath or "", host)
    return "" if ids is None else name_of(*ids, host=host, names=names)


def ids_of(syspath: str, host: Host) -> tuple[str, str, str, str] | None:
    """Give bus, vendor and device id and the folder of the hardware that a device is or sits on."""
    device = host.device(syspath) if syspath else None
    if device is None:
        return None
    for bus, is_one, keys in (
        ("usb", is_usb_device, ("idVendor", "idProduct")),
        ("pci", is_pci_function, ("vendor", "device")),
    ):
        if (place := nearest(device, host, is_one)) is not None:
            vendor, product = (host.attribute(place.syspath, key) or "" for key in keys)
            return bus, vendor.removeprefix("0x"), product.removeprefix("0x"), place.syspath
    return None


def name_of(bus: str, vendor: str, product: str, syspath: str, *, host: Host, names: Names) -> str:
    """Give the name of hardware for people: from the lists, else from itself, with its ids."""
    maker, model = names.get((bus, vendor, product), ("", ""))
    device = host.device(syspath)
    known = {} if device is None else device.properties
    maker = maker or known.get("ID_VENDOR_FROM_DATABASE", "")
    model = model or known.get("ID_MODEL_FROM_DATABASE", "")
    maker = maker or host.attribute(syspath, "manufacturer") or ""
    model = model or host.attribute(syspath, "product") or ""
    pci_class = (host.attribute(syspath, "class") or "").removeprefix("0x")
    words = " ".join(filter(None, (maker, model))) or _CLASSES.get(pci_class[:2], "")
    return printable(" ".join(filter(None, (words, f"({bus} {vendor}:{product})"))))


def text_of(found: Sequence[Found], others: Sequence[str], machine: str, root: str) -> str:
    """Give the whole config; ``others`` are lines of what no row takes, ``root`` is the flag."""
    plain = [one for one in found if not one.row.warning]
    example = plain[0].row.name if plain else "example.com/my-device"
    commands = "\n".join(f"#   {line}" for line in _commands(root))
    head = _HEAD.format(machine=machine, example=example, commands=commands)
    lines = [head + KIND.rstrip()]
    lines.append("resources:" if plain else _NOTHING.rstrip())
    for i, one in enumerate(plain):
        lines += [*[""] * bool(i), *_indented(_about(one), "  # "), *_resource(one.row, "  ")]
    for one in found:
        if one.row.warning:
            warning = wrap(f"Left out on purpose: {one.row.warning}", _WIDTH)
            lines += ["", *_indented([*_about(one), *warning], "  # ")]
            lines += _resource(one.row, "  # ")
    if others:
        lines += ["", *_indented([_ABOUT_OTHERS, "", *others], "  # ")]
    lines += ["", *_indented([" ".join(filter(None, [_ABOUT_ALL, printable(root)]))], "  # ")]
    return "\n".join(lines) + "\n"


def _commands(root: str) -> list[str]:
    """Say what to do with the config, with commands that are about the same machine."""
    told = {
        "genericdp validate FILE": "every mistake, with its line",
        f"genericdp discover --config FILE {root}": "what it offers now, and why not more",
        f"genericdp simulate --config FILE {root}": "what a node would show, live",
    }
    width = max(len(printable(command).rstrip()) for command in told)
    return [f"{printable(one).rstrip():{width}}    {what}" for one, what in told.items()]


_ABOUT_OTHERS = "What else there is. Each line is an entry for the match of a resource of yours:"
_ABOUT_ALL = "Everything, with all that a config could ask for: genericdp discover --all"


def config_of(rows: Iterable[Recogniser]) -> bytes:
    """Give a config of the rows alone."""
    resources = (line for row in rows for line in _resource(row, "  "))
    return "\n".join([KIND + "resources:", *resources, ""]).encode()


def _resource(row: Recogniser, before: str) -> Iterator[str]:
    first, *rest = row.resource.split("\n")
    return _indented([f"- {first}", *(f"  {line}" for line in rest)], before)


def _indented(lines: Iterable[str], before: str) -> Iterator[str]:
    return (f"{before}{line}".rstrip() for line in lines)


def _about(found: Found) -> list[str]:
    count = len(found.devices)
    shares = f", {found.shares} shares" if found.shares > count else ""
    lines = [*found.row.about.split("\n")]
    lines.append(f"Now: {count} device{'' if count == 1 else 's'}{shares}.")
    for device_id, path, what in found.devices[:_MOST_DEVICES]:
        where = path if path.startswith("/dev/") else path.rpartition("/")[2]
        told = (device_id, "" if where == device_id else where, what)
        lines.append("  " + "  ".join(printable(one) for one in told if one))
    if count > _MOST_DEVICES:
        lines.append(f"  and {count - _MOST_DEVICES} more")
    return lines


def others(
    groups: Iterable[Group], taken: frozenset[str], host: Host, names: Names
) -> Iterator[str]:
    """Give selectors of the hardware that nothing takes, with its name."""
    found: dict[str, str] = {}
    for group in groups:
        for selector, name in _of_group(group, taken, host, names):
            found.setdefault(selector, name)
    for selector, name in list(found.items())[:_MOST_OTHERS]:
        yield f"- {selector}  # {name}"
    if len(found) > _MOST_OTHERS:
        yield f"… and {len(found) - _MOST_OTHERS} more"


def _of_group(
    group: Group, taken: frozenset[str], host: Host, names: Names
) -> Iterator[tuple[str, str]]:
    hardware = group.hardware
    if hardware is None or _is_supporting(group):
        return
    ids = ids_of(hardware.syspath, host)
    name = hardware.name if ids is None else name_of(*ids, host=host, names=names)
    runs = [one for one in (group.itself, *group.members) if one is not None]
    if any(_is_taken(one, taken) for one in runs):
        return
    for run in runs:
        yield run.selector, f"{_kind(run)}{name}"


def _is_supporting(group: Group) -> bool:
    if group.itself is None:
        return group.hardware is not None and group.hardware.subsystem != "platform"
    buses = group.itself.entries[0].buses
    pci = buses.get("pci", {}) if "usb" not in buses else {}
    return pci.get("class", "").startswith(_SUPPORTING) or (
        buses.get("usb", {}).get("class") == _HUB
    )


def _is_taken(run: Run, taken: frozenset[str]) -> bool:
    return any(
        entry.path in taken or (entry.device is not None and entry.device.key in taken)
        for entry in run.entries
    )


def _kind(run: Run) -> str:
    device = run.entries[0].device
    if device is None or is_usb_device(device) or is_pci_function(device):
        return ""
    danger = " (the system may be on it)" if device.subsystem == "block" else ""
    return f"{printable(device.subsystem)}{danger} of "


def taken_by(offers: Iterable[DeviceList]) -> frozenset[str]:
    """Give what is part of a device on offer: keys and paths."""
    devices = [one.device for offer in offers for one in offer.devices.values()]
    keys = {key for one in devices for key in (one.key, *(m.key for m in one.members))}
    return frozenset(
        keys | {text for d in devices for n in d.nodes for text in (n.key, n.host_path)}
    )
