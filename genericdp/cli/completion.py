"""``genericdp completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from argcomplete import autocomplete
from argcomplete.shell_integration import shellcode

from genericdp.cli.command_line import parser_of
from genericdp.cli.commands import COMMANDS
from genericdp.cli.output import print_document
from genericdp.cli.parser import Parser, argument

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp completion bash > ~/.local/share/bash-completion/completions/genericdp\n"
    "  source <(genericdp completion zsh)        # in ~/.zshrc, after compinit\n"
    "  genericdp completion fish > ~/.config/fish/completions/genericdp.fish"
)
_SHELLS = ("bash", "zsh", "fish")
ARGUMENTS = {"SHELL": argument(f"one of: {', '.join(_SHELLS)}", choices=_SHELLS)}


def execute(arguments: argparse.Namespace) -> int:
    """Print the script: at each Tab it starts genericdp, which then does ``complete``."""
    print_document(shellcode(["genericdp"], shell=arguments.shell).rstrip())
    return 0


def complete() -> None:
    """Print completions for the shell, which has set variables for it, and exit."""
    typed = os.environ["COMP_LINE"].split()[1:3]
    top = Parser("genericdp")
    top.add_argument("--version", action="version", help="print the version")
    groups = {"": top.add_subparsers()}
    for name, command in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            first = groups[""].choices.get(group) or groups[""].add_parser(group)
            groups[group] = first.add_subparsers()
        # Only the module of the typed command is imported.
        is_typed = name.split() == typed[: len(name.split())]
        parents = [parser_of(name)] if is_typed else []
        groups[group].add_parser(last, help=command.about, parents=parents, add_help=False)
    autocomplete(top)
