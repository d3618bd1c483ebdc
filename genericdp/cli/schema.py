"""``genericdp schema``: the JSON Schemas of configs and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.options import add_choice, add_output
from genericdp.cli.output import print_data, print_document
from genericdp.config.schema import CONFIG, POLICY, schema, schema_text

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp schema > genericdp.v1alpha1.json\n"
    "  genericdp schema --kind policy > genericdp-policy.v1alpha1.json"
)
_KINDS = {"config": CONFIG, "policy": POLICY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; text and JSON are the same."""
    kinds = tuple(_KINDS)
    add_choice(parser, "--kind", choices=kinds, default="config", about="of which document")
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    kind = _KINDS[arguments.kind]
    if arguments.output == "yaml":
        print_data(schema(kind), arguments.output)
    else:
        print_document(schema_text(kind))
    return 0
