"""Asking commands in tests, each in a directory of its own."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.cli import main

from tests.config.loading import HEAD
from tests.programs import quiet_grpc

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Answer(NamedTuple):
    """The output of a command."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each line, with T for a time."""
        return [re.split(r"  +", re.sub(r"\d+\.\d{3} s", "T", line)) for line in self.lines]

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Ask:
    """Runs commands in this process and in ``directory``, where ``config.yaml`` may be."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def __call__(self, line: str, *words: object, code: int | None = 0) -> Answer:
        """Run a command line, with more words as they are; it must end with the code, if any."""
        with quiet_grpc():
            try:
                ended: object = main([*shlex.split(line), *map(str, words)])
            except SystemExit as end:  # --help
                ended = end.code
        said = Answer(*self._capsys.readouterr())
        assert code in (ended, None), (line, *words, said)
        return said

    def config(self, *resources: str, name: str = "config.yaml") -> Path:
        """Write a config of resources in braces, without these, or as blocks that begin with -."""
        entries = (text if text.startswith("  - ") else f"  - {{{text}}}\n" for text in resources)
        return self.write(name, HEAD + "".join(entries))

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
