"""``genericdp version``: what to put into a bug report."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli.options import add_output
from genericdp.cli.output import print_result

if TYPE_CHECKING:
    import argparse

EXAMPLE = "  genericdp version"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the versions."""
    versions = {
        "genericdp": __version__,
        "python": platform.python_version(),
        "grpc": version("grpcio"),
    }
    lines = (f"{name} {number}" for name, number in versions.items())
    print_result(versions, lines, arguments.output)
    return 0
