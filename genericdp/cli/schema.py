"""``genericdp schema``: the JSON Schemas of configs, policies, and output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.cli.output import print_data, print_document
from genericdp.cli.parser import choice
from genericdp.config.schema import CONFIG, KINDS, POLICY, shipped

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp schema > genericdp.v1alpha1.json\n"
    "  genericdp schema --kind policy > genericdp-policy.v1alpha1.json"
)
_FILES = {
    "config": KINDS[CONFIG],
    "policy": KINDS[POLICY],
    "output": "genericdp-output.v1alpha1.json",
}
_ABOUT = "of which document; output is /status and -o json"
ARGUMENTS = {"--kind": choice(_ABOUT, tuple(_FILES), default="config")}


def execute(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    text = shipped(f"schemas/{_FILES[arguments.kind]}").read_text("utf-8")
    if arguments.output == "yaml":
        print_data(json.loads(text), arguments.output)
    else:
        print_document(text)
    return 0
