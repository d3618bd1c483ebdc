"""``genericdp schema``: the JSON Schema of the config language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.options import add_output
from genericdp.config.schema import schema_text

if TYPE_CHECKING:
    import argparse

SUMMARY = "print the JSON Schema of the config language, for editors and as its reference"
EXAMPLE = "  genericdp schema > genericdp.v1alpha1.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``-o``: text and JSON are the same here."""
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    del arguments
    print(schema_text(), end="")
    return 0
