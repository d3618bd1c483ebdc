"""``genericdp probe``: run the health probes of a config once, now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.applying import discovered
from genericdp.cli.options import add_config, add_host, add_output, root_of
from genericdp.cli.probing import Ending, State, label, probe_once, subjects_of
from genericdp.devices.devicelist import DeviceList
from genericdp.errors import UsageError
from genericdp.printing import print_json, print_lines, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.cli.probing import Probed, Result, Subject

SUMMARY = "run the health probes of a config once, now, and print what each says"
EXAMPLE = (
    "  genericdp probe --config examples/configs/infiniband.yaml\n"
    "  genericdp probe --config serial.yaml example.com/serial --device ttyUSB0 -o json"
)

MOST_LINES = 10
"""So many of the last lines of a command's output are shown."""
MOST_CHARACTERS = 200
"""Of such a line."""
_MOST_NAMED = 20
_HEADING = ("RESOURCE", "DEVICE", "PROBE", "RESULT", "TIME", "REASON")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_config(parser)
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        nargs="?",
        help="only the devices of this resource (default: of all)",
    )
    parser.add_argument("--device", metavar="ID", help="only the device with this id")
    add_host(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Probe and print; 1 if a device is not well, or a probe could not be run."""
    root = root_of(arguments)
    offers = _asked_for(discovered(arguments)[0].lists, arguments.resource, arguments.device)
    subjects = subjects_of(offers)
    if arguments.output == "json":
        probed = probe_once(subjects, root)
        print_json(_as_json(offers, probed))
    else:
        screen = _Screen(subjects)
        probed = probe_once(subjects, root, told=screen.show)
        if without := tuple(_without_probes(offers)):
            print_lines(without)
    return 0 if all(one.state is State.HEALTHY for one in probed) else 1


def _asked_for(
    offers: Mapping[str, DeviceList], resource: str | None, device: str | None
) -> dict[str, DeviceList]:
    """Give what is asked for; raises UsageError if there is no such thing."""
    if resource is not None and resource not in offers:
        raise UsageError(
            f"the config has no resource {resource!r} for this node (it has: {_named(offers)})"
        )
    among = {name: one for name, one in offers.items() if resource in {None, name}}
    if device is None:
        return among
    found = {
        name: DeviceList(devices={device_id: one})
        for name, offer in among.items()
        for device_id, one in offer.devices.items()
        if device in one.device.shares
    }
    if not found:
        ids = [device_id for offer in among.values() for device_id in offer.devices]
        of = f" of {resource}" if resource else ""
        raise UsageError(
            f"no device {device!r}{of} is on offer (there are: {_named(ids)};"
            " see genericdp discover)"
        )
    return found


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (", ".join(listed[:_MOST_NAMED]) or "none") + more


class _Screen:
    """Prints a table whose rows come one after the other."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        # One that lacks a node has a row of its own, whose probe is "-".
        names = [
            (one.resource, one.one.device.id, name)
            for one in subjects
            for name in ("-", *(label(bound.check) for bound in one.one.device.probes))
        ]
        columns = zip(_HEADING[:3], *names, strict=True)
        # What a result and a time can be at most is known before there are any.
        ends = (max(map(len, Ending)), len("1000.000 s"), 0)
        self._widths = (*(max(map(len, column)) for column in columns), *ends)
        self._headed = False

    def show(self, probed: Probed) -> None:
        """Print the rows of one device."""
        lines = list(self._lines(probed))
        if lines and not self._headed:
            self._headed = True
            lines.insert(0, self._line(_HEADING))
        if lines:
            print_lines(lines, flush=True)

    def _lines(self, probed: Probed) -> Iterator[str]:
        resource, one = probed.subject.resource, probed.subject.one
        if one.unhealthy:
            missing = printable(one.unhealthy)
            yield self._line((resource, one.device.id, "-", Ending.FAILED, "-", missing))
        for result in probed.results:
            outcome = result.outcome
            time = "-" if result.ending is Ending.NOT_RUN else f"{outcome.seconds:.3f} s"
            reason = printable(outcome.reason)
            yield self._line((resource, one.device.id, result.label, result.ending, time, reason))
            yield from _shown_output(result)

    def _line(self, cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return "  ".join(padded).rstrip()


def _shown_output(result: Result) -> Iterator[str]:
    """Give the end of what a failed command wrote, unless the reason has all of it."""
    outcome = result.outcome
    lines = outcome.output.rstrip().splitlines()
    if outcome.ok or not lines or (len(lines) == 1 and outcome.reason.endswith(lines[0].strip())):
        return
    left_out = len(lines) - MOST_LINES
    if left_out > 0:
        yield f"    … {left_out} line{'s' if left_out > 1 else ''} before (see -o json)"
    for line in lines[-MOST_LINES:]:
        cut = len(line) > MOST_CHARACTERS
        yield f"    {line[: MOST_CHARACTERS - 1]}…" if cut else f"    {line}".rstrip()


def _without_probes(offers: Mapping[str, DeviceList]) -> Iterator[str]:
    for name, offer in offers.items():
        if not offer.devices:
            yield f"{name} has no devices here (see genericdp discover)"
        elif not any(one.device.probes for one in offer.devices.values()):
            yield f"{name} has no probes"


def _as_json(offers: Mapping[str, DeviceList], probed: Iterable[Probed]) -> dict[str, object]:
    devices: dict[str, list[dict[str, object]]] = {name: [] for name in offers}
    for one in probed:
        devices[one.subject.resource].append(
            {
                "id": one.subject.one.device.id,
                "path": one.subject.one.device.path,
                "state": one.state,
                "reason": one.reason,
                "probes": [_result_as_json(result) for result in one.results],
            }
        )
    return {"resources": {name: {"devices": listed} for name, listed in devices.items()}}


def _result_as_json(result: Result) -> dict[str, object]:
    run = result.ending is not Ending.NOT_RUN
    return {
        "probe": result.label,
        "result": result.ending,
        "reason": result.outcome.reason,
        "seconds": round(result.outcome.seconds, 6) if run else None,
        "output": result.outcome.output,
    }
