"""Test what a policy refuses of probes and of a running daemon; else cases of policies.

Each of these configs is valid: as far as its plain text shows, the policy allows it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from genericdp.cli import main

from tests.config.bounded import HEAD
from tests.printed import resources_in
from tests.world import World, config, resource

NAME = "example.com/r"
POLICY = f"{HEAD}devices: {{}}\nmounts: [{{hostPath: /opt}}]\nfiles: [/run]\n"


def probed(
    root: Path,
    directory: Path,
    policy: str,
    check: dict[str, object],
    *,
    glob: str = "/dev/ttyUSB0",
) -> list[str]:
    """Return the words of a probe, with ``r.yaml`` and ``p.yaml`` written for it."""
    file, bounds = directory / "r.yaml", directory / "p.yaml"
    file.write_text(config(resource(NAME, glob, health=[check])))
    bounds.write_text(policy)
    assert main(["validate", str(file), f"--policy={bounds}"]) == 0
    return ["probe", f"--config={file}", f"--policy={bounds}", f"--root={root}", "-o", "json"]


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/run/$(device.name)", ""),
        (
            "/etc/$(device.name)",
            "file: /etc/ttyUSB0 is not among the files that are allowed (policy ",
        ),
        ("/run/bad", "file: /etc/shadow is not among the files that are allowed (policy "),
    ],
)
def test_a_file_probe_reads_nothing_that_is_not_allowed(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, refusal: str
) -> None:
    world.host.plug("ttyUSB0")
    for file in ("/etc/ttyUSB0", "/etc/shadow"):
        world.host.write(file, "secret")
    world.host.write("/run/ttyUSB0", "up")
    (world.host.directory / "run/bad").symlink_to("../etc/shadow")
    check: dict[str, object] = {"file": {"path": path, "equals": "up"}}
    words = probed(world.host.directory, tmp_path, POLICY, check)
    capsys.readouterr()
    assert main(words) == (1 if refusal else 0)
    said = capsys.readouterr().out
    (device,) = resources_in(said)[NAME]["devices"]
    assert device["reason"].startswith(refusal)
    assert bool(device["reason"]) is bool(refusal)
    assert "secret" not in said


def test_a_program_that_is_another_one_is_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, ran = tmp_path / "check", tmp_path / "ran"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    policy = f"{POLICY}commands: [{{path: {program}, sha256: '{digest}'}}]\n"
    check: dict[str, object] = {"exec": {"command": [str(program), "$(device.path)"]}}
    words = probed(Path("/"), tmp_path, policy, check, glob="/dev/null")
    assert main(words) == 0
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    assert main(words) == 1
    said = capsys.readouterr().out
    assert f"is not run: {program} has the SHA-256 " in said
    assert f"(policy {tmp_path}/p.yaml:6 says " in said
    assert not ran.exists()


async def test_a_link_that_is_turned_after_the_device_was_listed_is_refused_at_allocate(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    for directory in ("opt/lib", "etc"):
        (world.host.directory / directory).mkdir(parents=True)
    link = world.host.directory / "opt/driver"
    link.symlink_to("lib")
    mounts = [{"hostPath": "/opt/driver", "containerPath": "/x"}]
    inject = {"devices": [{"path": "$(device.path)"}], "mounts": mounts}
    async with world.serving(
        resource(NAME, "/dev/ttyUSB0", inject=inject), policy=POLICY
    ) as daemon:
        await daemon.registered(NAME)
        await world.listed(NAME, "ttyUSB0")
        link.unlink()
        link.symlink_to("../etc")
        assert "/etc is not among the mounts that are allowed (policy " in await world.refusal(r=1)
        await daemon.log.says(
            "device ttyUSB0 is Unhealthy: /dev/ttyUSB0: /etc is not among the mounts"
        )
        assert daemon.log.count("is not offered") == 0, "one line says it"
