from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAN = (
    "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    "  - name: example.com/can\n    match:\n      - net: {linkType: can}\n"
    "    inject: {env: {CAN: $(net.name)}}\n"
)


@pytest.fixture
def snapshot(testbed: Callable[[str], Path], tmp_path: Path) -> Path:
    file = tmp_path / "can.tar.gz"
    assert main(["snapshot", str(file), "--root", str(testbed("can"))]) == 0
    return file


@pytest.fixture
def temporary(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(short_directory))
    monkeypatch.setattr("tempfile.tempdir", None)
    return short_directory


def test_every_command_takes_a_snapshot_and_leaves_nothing(
    snapshot: Path, temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "can.yaml"
    config.write_text(CAN)
    root = ["--root", str(snapshot)]
    for argv in (
        ["discover", "--config", str(config)],
        ["explain", "--config", str(config), "can0"],
        ["allocate", "--config", str(config), "example.com/can=1"],
        ["probe", "--config", str(config)],
        ["validate", "--diff", str(config), str(config)],
        ["simulate", "--config", str(config), "--once"],
    ):
        assert main([*argv, *root]) == 0, argv
        assert list(temporary.iterdir()) == []
    assert "can0" in capsys.readouterr().out


def test_what_is_no_snapshot_is_bad_usage(
    temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tar.gz").write_text("hello")
    assert main(["hardware", "--root", str(tmp_path / "x.tar.gz")]) == 2
    assert "it is not a snapshot" in capsys.readouterr().err
    assert main(["hardware", "--root", str(tmp_path / "none.tar.gz")]) == 2
    assert "none.tar.gz does not exist" in capsys.readouterr().err
    assert list(temporary.iterdir()) == []


def test_who_may_read_a_file_does_not_hang_on_the_umask(
    snapshot: Path, temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot holds only what everybody may read: made of one, it is the same."""
    entries = []
    before = os.umask(0o022)
    try:
        for umask in (0o022, 0o077):
            os.umask(umask)
            packed = str(tmp_path / f"{umask}.tar.gz")
            assert main(["snapshot", packed, "--root", str(snapshot), "-o", "json"]) == 0
            assert os.umask(umask) == umask
            entries.append(json.loads(capsys.readouterr().out)["entries"])
    finally:
        os.umask(before)
    assert entries[0] == entries[1] > 10
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_leaves_nothing(
    number: signal.Signals, snapshot: Path, temporary: Path
) -> None:
    """While the command waits for the reader of its output."""
    reader, full = os.pipe()
    with os.fdopen(reader), os.fdopen(full, "wb", buffering=0) as stdout:
        os.set_blocking(full, False)
        while stdout.write(b"x" * 4096):
            pass
        os.set_blocking(full, True)
        argv = [sys.executable, "-m", "genericdp", "hardware", f"--root={snapshot}"]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=stdout, stderr=asyncio.subprocess.PIPE
        )
        await poll_until(lambda: list(temporary.iterdir()))
        process.send_signal(number)
        async with asyncio.timeout(60):
            _, complaint = await process.communicate()
    assert (process.returncode, complaint) == (128 + number, b"")
    assert list(temporary.iterdir()) == []
