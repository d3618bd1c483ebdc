"""``genericdp schema``: the JSON Schemas of configs and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.output import print_data, print_document
from genericdp.cli.parser import choice
from genericdp.config.schema import CONFIG, POLICY, schema, schema_text

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp schema > genericdp.v1alpha1.json\n"
    "  genericdp schema --kind policy > genericdp-policy.v1alpha1.json"
)
_KINDS = {"config": CONFIG, "policy": POLICY}
ARGUMENTS = {"--kind": choice("of which document", tuple(_KINDS), default="config")}


def execute(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    kind = _KINDS[arguments.kind]
    if arguments.output == "yaml":
        print_data(schema(kind), arguments.output)
    else:
        print_document(schema_text(kind))
    return 0
