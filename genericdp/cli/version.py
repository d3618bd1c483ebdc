"""``genericdp version``: what to put into a bug report."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.cli.options import add_output
from genericdp.cli.output import DATA, print_data, print_lines

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
    if arguments.output in DATA:
        print_data(versions, arguments.output)
    else:
        print_lines(f"{name} {number}" for name, number in versions.items())
    return 0
