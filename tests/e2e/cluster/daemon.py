"""The daemon, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.e2e.cluster.node import NODE_NAME
from tests.e2e.cluster.sweep import MARK
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.cluster.numa import View


class Daemon:
    """``genericdp run``; leaving the context ends it and checks that it ended well."""

    def __init__(self, program: Path, directory: Path, config: str, kubelet_dir: Path) -> None:
        self.view: View | None = None
        """What it sees from the next start on; None: this machine."""
        self.options: tuple[str, ...] = ()
        """More of them, from the next start on."""
        self.program: tuple[str, ...] = (str(program),)
        """What is started, from the next start on."""
        self._directory = directory
        self.config = config
        self._kubelet_dir = kubelet_dir
        self._process: subprocess.Popen[bytes] | None = None
        self._older: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process is None:
            return
        if kind is not None:
            print(f"\nthe daemon's log:\n{self.log()}")
        if self._older is not None:
            self.stop_older()
        self.stop()

    def start(self) -> None:
        """Start it."""
        config = self._directory / "config.yaml"
        self.reload(self.config)
        files = ("--config", str(config), "--kubelet-dir", str(self._kubelet_dir))
        with (self._directory / "daemon.log").open("ab") as log:
            command = (*self.program, "run", *files, "--node-name", NODE_NAME, *self.options)
            self._process = subprocess.Popen(
                self.view.command(*command) if self.view else command,
                env={**os.environ, MARK: f"{self._directory}/"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def reload(self, config: str) -> None:
        """Put another config in the place of the one active."""
        self.config = config
        written = self._directory / "config.new"
        written.write_text(config)
        written.rename(self._directory / "config.yaml")

    def start_beside(self) -> None:
        """Start another instance next to the one that runs, as a rolling update with surge does."""
        self._older = self._process
        self.start()

    def stop_older(self) -> None:
        """End the instance that was there before, in good order."""
        newer, self._process, self._older = self._process, self._older, None
        try:
            self.stop()
        finally:
            self._process = newer

    def stop(self) -> None:
        """End it as Kubernetes does, and check that it ended well."""
        code = self._end(signal.SIGTERM)
        assert code == 0, f"SIGTERM ended the daemon with {code}:\n{self.log()}"

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    def check_alive(self) -> None:
        """Fail if it has ended by itself."""
        ended = self._process is not None and self._process.poll() is not None
        assert not ended, f"the daemon ended by itself:\n{self.log()}"

    def log(self) -> str:
        """Give what it has logged since the test began."""
        return (self._directory / "daemon.log").read_text(errors="replace")

    def _end(self, number: signal.Signals) -> int:
        self.check_alive()
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
