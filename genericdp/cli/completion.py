"""``genericdp completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.output import print_document
from genericdp.shipped import shipped

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp completion bash > ~/.local/share/bash-completion/completions/genericdp\n"
    "  source <(genericdp completion zsh)        # in ~/.zshrc, after compinit\n"
    "  genericdp completion fish > ~/.config/fish/completions/genericdp.fish"
)
FILES = {
    "bash": "bash-completion/completions/genericdp",
    "zsh": "zsh/site-functions/_genericdp",
    "fish": "fish/vendor_completions.d/genericdp.fish",
}
"""Below share/, where tools/generate_share writes them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=tuple(FILES), help=f"one of: {', '.join(FILES)}"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print_document(shipped(f"share/{FILES[arguments.shell]}").read_text("utf-8"))
    return 0
