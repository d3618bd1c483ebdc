"""Two ways to ask the API server: as a person does, and fast."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tests.cluster.control_plane import ADMIN, API
from tests.e2e.cluster.sweep import MARK
from tests.e2e.cluster.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from pathlib import Path


class Api:
    """Reads, many times a second."""

    def __init__(self) -> None:
        self._trust = ssl.create_default_context()
        self._trust.check_hostname = False
        self._trust.verify_mode = ssl.CERT_NONE

    def get(self, path: str) -> dict[str, Any]:
        """Give an object or a list; empty if there is none. A busy server is asked again."""

        def asked() -> list[dict[str, Any]]:
            found = self._ask(path)
            return [] if found is None else [found]

        return eventually(asked, what=f"the API server answers {path}")[0]

    def _ask(self, path: str) -> dict[str, Any] | None:
        request = urllib.request.Request(
            f"{API}{path}", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                return {} if error.code == HTTPStatus.NOT_FOUND else None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def answers(self) -> bool:
        """Show whether it is ready."""
        return bool(self._ask("/api/v1/namespaces/default"))

    def items(self, path: str) -> list[dict[str, Any]]:
        """Give what a list holds."""
        return self.get(path).get("items") or []


class Tool:
    """A program for the cluster's administrator: kubectl or helm."""

    def __init__(self, program: Path, directory: Path, *words: str) -> None:
        """``directory`` is the cluster's; ``words`` come before all others."""
        self._command = (str(program), *words, f"--kubeconfig={directory}/{ADMIN}.kubeconfig")
        # The mark lets `sweep` end one whose tests have been killed.
        self._env = {"HOME": f"{directory}/home", "PATH": "/usr/bin:/bin", MARK: f"{directory}/"}

    def __call__(self, *words: str, given: str = "", check: bool = True) -> str:
        """Run it with a string as input; give its output, errors too if ``check`` is off."""
        done = subprocess.run(
            [*self._command, *words],
            input=given,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE_SECONDS,
        )
        if not check:
            return done.stdout + done.stderr
        if done.returncode:
            raise AssertionError(f"{' '.join(words)}: {done.stderr.strip()}\n{done.stdout}")
        return done.stdout

    def json(self, *words: str) -> dict[str, Any]:
        """Run it and read what it printed."""
        found: dict[str, Any] = json.loads(self(*words, "--output=json"))
        return found
