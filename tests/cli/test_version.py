"""``genericdp version``: what to put into a bug report."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli import main

if TYPE_CHECKING:
    import pytest


def test_it_names_what_matters_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == (
        f"genericdp {__version__}\npython {platform.python_version()}\ngrpc {version('grpcio')}\n"
    )


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "genericdp": __version__,
        "python": platform.python_version(),
        "grpc": version("grpcio"),
    }
