"""Devices under probes, for tests."""

from __future__ import annotations

from genericdp.devices.checks import BoundProbe, Check, CommandRun, FileRead
from genericdp.devices.device import Device
from genericdp.devices.inventory import Identity
from genericdp.health.hooks import HookRunner
from genericdp.model import FileCheck, Probe
from genericdp.process.run import Commands
from genericdp.template import parse


def probe(**settings: object) -> Probe:
    """A probe as the config has it; times in seconds may be fractions."""
    return Probe(check=FileCheck(path=parse("/x"), equals=parse("1")), **settings)  # type: ignore[arg-type]


def no_hooks() -> HookRunner:
    """Give what runs hooks, for devices that have none."""
    return HookRunner(Commands().run)


def device(name: str, *probes: Probe, inode: int = 1, file: bool = False) -> Device:
    """A device with probes; each runs a program of its own, or reads a file of its own."""

    def check(path: str) -> Check:
        return FileRead(path=path, equals="1") if file else CommandRun(argv=(path,))

    bound = tuple(
        BoundProbe(probe=one, check=check(f"/{name}/{i}")) for i, one in enumerate(probes)
    )
    path = f"/dev/{name}"
    return Device(id=name, key=path, path=path, identity=Identity(inode=inode), probes=bound)
