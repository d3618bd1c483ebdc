"""The units under a real systemd, at a simulated kubelet. Needs root and podman."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.deploy.booting import CHECKOUT, booted, install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.deploy.booting import Machine

pytestmark = pytest.mark.deploy

NAME = "example.com/serial"
PATIENCE = 180.0
CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match:
      - path: /dev/ttyUSB[0-9]*
    health:
      - exec: {command: [/bin/test, -c, $(device.path)]}
  - name: example.com/tun
    match: [{path: /dev/genericdp-tun}]
    health: [{open: {}}]
  - name: example.com/log
    match: [{path: /dev/null}]
    health: [{kernelLog: {regex: never written}}]
  - name: example.com/zero
    match: [{path: /dev/zero}]
    inject: {by: cdi}
"""
SPEC = "/run/cdi/genericdp_example.com_{}.json"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if os.getuid() != 0 or shutil.which("podman") is None:
        pytest.skip("needs root and podman")
    if not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("there is no systemd here")
    with booted(tmp_path_factory.mktemp("machine")) as machine:
        install(machine, tmp_path_factory.mktemp("wheel"))
        (machine.root / "etc/genericdp/config.yaml").write_text(CONFIG)
        machine.run("mknod", "/dev/ttyUSB0", "c", "188", "0")
        machine.run("mknod", "/dev/genericdp-tun", "c", "10", "200")
        machine.run("systemctl", "start", "genericdp")
        machine.await_line("waiting for a kubelet")
        (machine.root / "var/lib/kubelet/device-plugins").mkdir(mode=0o750)
        yield machine


@asynccontextmanager
async def _kubelet(machine: Machine, directory: Path) -> AsyncIterator[Kubelet]:
    """A simulated kubelet, by a path that is short enough for a socket."""
    link = directory / "plugins"
    link.symlink_to(machine.root / "var/lib/kubelet/device-plugins")
    async with Kubelet(link) as kubelet:
        await kubelet.wait_for(lambda: kubelet.allocatable(NAME) == 1, PATIENCE)
        yield kubelet


def test_it_is_confined(machine: Machine) -> None:
    status = machine.run("cat", f"/proc/{machine.property('MainPID')}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0000000000000000"}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


async def test_it_serves_and_sees_what_is_plugged_in(
    machine: Machine, short_directory: Path
) -> None:
    async with _kubelet(machine, short_directory) as kubelet:
        machine.run("mknod", "/dev/ttyUSB1", "c", "188", "1")
        await kubelet.wait_for(lambda: kubelet.allocatable(NAME) == 2, PATIENCE)
        machine.run("rm", "/dev/ttyUSB1")
        await kubelet.wait_for(lambda: kubelet.allocatable(NAME) == 1, PATIENCE)
    lines = machine.journal()
    for trouble in ("kernel events", "cannot be watched", "cannot be kept"):
        assert trouble not in lines


def test_reload_has_the_config_read_again(machine: Machine) -> None:
    before = machine.property("MainPID")
    machine.await_line("active config")
    machine.run("systemctl", "reload", "genericdp")
    machine.await_line("SIGHUP: the config is read again")
    assert machine.property("MainPID") == before


async def test_it_is_started_again_when_it_is_killed(
    machine: Machine, short_directory: Path
) -> None:
    async with _kubelet(machine, short_directory) as kubelet:
        before = machine.property("MainPID")
        registered = kubelet.observed.registrations[NAME]
        machine.run("kill", "-KILL", before)
        await kubelet.wait_for(
            lambda: (
                kubelet.observed.registrations[NAME] > registered and kubelet.allocatable(NAME) == 1
            ),
            PATIENCE,
        )
        assert machine.property("MainPID") != before


async def test_a_kubelet_directory_that_is_made_again_is_served(
    machine: Machine, short_directory: Path
) -> None:
    """With ReadWritePaths=/var/lib/kubelet/device-plugins it is read-only from then on."""
    plugins = "/var/lib/kubelet/device-plugins"
    async with _kubelet(machine, short_directory):
        pass
    # Not by shutil.rmtree: the daemon removes its socket there at the same time.
    machine.run("rm", "-rf", plugins)
    machine.run("mkdir", "--mode=750", plugins)
    (short_directory / "plugins").unlink()
    async with _kubelet(machine, short_directory):
        pass


def test_more_is_allowed_by_files_that_are_added(machine: Machine) -> None:
    machine.await_line("device tun is Unhealthy: open: ")
    machine.await_line("the kernel's log cannot be read")
    machine.await_line("example.com/zero: device zero is Unhealthy: ")
    added = machine.root / "etc/systemd/system/genericdp.service.d"
    added.mkdir()
    for name in ("cdi.conf", "dra.conf", "kernel-log.conf", "listen.conf"):
        shutil.copy(CHECKOUT / "deploy/systemd/genericdp.service.d-examples" / name, added)
    (added / "open.conf").write_text("[Service]\nDeviceAllow=char-misc rw\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "genericdp")
    machine.await_line("device tun is Healthy")
    machine.await_line("endpoints at ")
    # At once, or after a moment: the kernel's log may be read before the first list is made.
    machine.await_line("example.com/log: 1 of 1 devices healthy", "log: device null is Healthy")
    status = json.loads(machine.run("/opt/genericdp/bin/genericdp", "status", "-o", "json"))
    assert {resource["name"] for resource in status["resources"]} == {
        NAME,
        "example.com/tun",
        "example.com/log",
        "example.com/zero",
    }
    machine.await_spec(SPEC.format("zero"), ["/dev/zero"])
    print(f"memory: {int(machine.property('MemoryCurrent')) / 1e6:.1f} MB")


def test_it_stops_at_once_and_leaves_nothing(machine: Machine) -> None:
    began = time.monotonic()
    machine.run("systemctl", "stop", "genericdp")
    print(f"stopped in {time.monotonic() - began:.2f} s")
    assert machine.property("Result") == "success"
    plugins = machine.root / "var/lib/kubelet/device-plugins"
    assert [path for path in plugins.iterdir() if path.is_socket()] == []
    assert (machine.root / "var/lib/genericdp/last-good").is_dir()
    machine.await_spec(SPEC.format("zero"), ["/dev/zero"])


def test_without_kubernetes_specs_follow_the_devices(machine: Machine) -> None:
    machine.run("systemctl", "start", "genericdp-cdi")
    machine.await_spec(SPEC.format("serial"), ["/dev/ttyUSB0"])
    machine.run("mknod", "/dev/ttyUSB1", "c", "188", "1")
    machine.await_spec(SPEC.format("serial"), ["/dev/ttyUSB0", "/dev/ttyUSB1"])
    machine.run("rm", "/dev/ttyUSB1")
    machine.await_spec(SPEC.format("serial"), ["/dev/ttyUSB0"])
    machine.run("systemctl", "reload", "genericdp-cdi")
    machine.await_line("SIGHUP: the config is read again", times=2)
    modes = machine.run("stat", "-c", "%U %a", "/run/cdi", SPEC.format("serial")).splitlines()
    assert modes == ["root 755", "root 644"]
    machine.run("systemctl", "stop", "genericdp-cdi")
    for trouble in ("kernel events", "cannot be watched", "cannot be written"):
        assert trouble not in machine.journal("genericdp-cdi")
    machine.await_spec(SPEC.format("serial"), ["/dev/ttyUSB0"])
