"""genericdp.health.execution: what a policy says of a command, before each run."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from genericdp.errors import Outcome, UnusableDeviceError
from genericdp.health.execution import HookRunner, run_for, why_not_permitted
from genericdp.health.kinds.file import FileCheck
from genericdp.host.root import Root
from genericdp.model import Command
from genericdp.process.run import Commands
from tests.config.bounded import policy_of
from tests.health.probed_devices import device
from tests.health.test_hooks import device as device_with_hook

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from genericdp.policy import Policy

R = "example.com/r"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "check"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def _pinned(script: Path) -> Policy:
    digest = hashlib.sha256(script.read_bytes()).hexdigest().upper()
    text = f"commands: [{{path: {script}, sha256: '{digest}'}}]\n"
    return policy_of(script.parent, text)


async def test_a_probe_whose_program_has_changed_is_not_run_and_says_the_line(script: Path) -> None:
    one = replace(device("a"), policy=_pinned(script))
    check = Command(argv=(str(script),))
    async with Commands() as commands:
        probe = partial(run_for, one, check, resource=R, run=commands.run)
        assert (await probe(timeout_seconds=5)).ok
        marker = script.with_name("ran")
        script.write_text(f"#!/bin/sh\ntouch {marker}\n")
        after = await probe(timeout_seconds=5)
    assert not after.ok
    assert f"{script} has the SHA-256 " in after.reason
    assert f"(policy {script.parent}/p.yaml:3 says " in after.reason
    assert not marker.exists()


async def test_a_hook_that_is_not_allowed_is_not_run_and_says_why(script: Path) -> None:
    ran = []

    async def run(
        argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        ran.append(argv)
        return Outcome()

    policy = policy_of(script.parent, "")
    one = replace(device_with_hook("a", str(script)), policy=policy)
    with pytest.raises(UnusableDeviceError) as raised:
        await HookRunner(run=run).run("allocate", R, [one])
    assert "its allocate hook" in str(raised.value)
    assert "p.yaml:1 has no 'commands', which allows none" in str(raised.value)
    assert ran == []
    await HookRunner(run=run).run("allocate", R, [replace(one, policy=_pinned(script))])
    assert ran == [(str(script),)]


async def test_a_program_that_cannot_be_read_or_takes_too_long_is_not_run(script: Path) -> None:
    policy = _pinned(script)
    late = await why_not_permitted(policy, str(script), timeout_seconds=0)
    assert "takes longer than 0 s" in late
    script.unlink()
    gone = await why_not_permitted(policy, str(script), timeout_seconds=5)
    assert "cannot be read: No such file or directory" in gone


async def test_without_a_policy_or_a_digest_nothing_is_read(script: Path) -> None:
    script.unlink()
    unpinned = policy_of(script.parent, f"commands: [{{path: {script}}}]\n")
    for policy in (None, unpinned):
        assert await why_not_permitted(policy, str(script), timeout_seconds=1) == ""


async def test_a_file_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    for folder in ("dev", "run", "etc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "etc/shadow").write_text("secret")
    (tmp_path / "run/state").write_text("up")
    allowed = replace(device("a"), policy=policy_of(tmp_path, "files: [/run]\n"))
    check: FileCheck[str, float] = FileCheck(path="/run/state", equals="up")
    assert check.look(allowed, Root(tmp_path)).ok
    (tmp_path / "run/state").unlink()
    (tmp_path / "run/state").symlink_to("../etc/shadow")
    said = check.look(allowed, Root(tmp_path)).reason
    assert "/etc/shadow is not among the files that are allowed (policy" in said
    assert "secret" not in said
