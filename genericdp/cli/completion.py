"""``genericdp completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.cli.parser import COMMANDS, parser_of
from genericdp.printing import print_document

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  genericdp completion bash > ~/.local/share/bash-completion/completions/genericdp\n"
    "  source <(genericdp completion zsh)        # in ~/.zshrc, after compinit\n"
    "  genericdp completion fish > ~/.config/fish/completions/genericdp.fish"
)
_ASIDE = re.compile(r"[;:,] | \(")
"""What of an option's help is too much for a menu stands behind this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Option:
    flags: tuple[str, ...]
    summary: str
    takes_value: bool
    choices: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=tuple(_SHELLS),
        help=f"one of: {', '.join(_SHELLS)}",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Print the script, made of what the parsers of all commands take."""
    commands = {name: [*map(_option, parser_of(name).arguments)] for name in COMMANDS}
    print_document(_SHELLS[arguments.shell](commands))
    return 0


def _option(action: argparse.Action) -> _Option:
    """Return an option; a positional argument has no flags."""
    summary = _ASIDE.split(action.help or "")[0]
    choices = tuple(map(str, action.choices or ()))
    return _Option(
        flags=tuple(action.option_strings),
        summary=summary,
        takes_value=action.nargs != 0,
        choices=choices,
    )


def _bash(commands: dict[str, list[_Option]]) -> str:
    flags, values = "", ""
    for name, options in commands.items():
        words = " ".join(flag for one in options for flag in one.flags)
        positional = " ".join(word for one in options if not one.flags for word in one.choices)
        flags += f"        {name}) options='{words}' words='{positional}';;\n"
        for one in options:
            if one.flags and one.takes_value:
                pattern = "|".join(f'"{name} {flag}"' for flag in one.flags)
                values += f"        {pattern}) words='{' '.join(one.choices)}';;\n"
    return _BASH.format(flags=flags, values=values, commands=" ".join(COMMANDS))


# Without words the shell completes the names of files ("-o default").
_BASH = """\
_genericdp() {{
    local command=${{COMP_WORDS[1]}} current=${{COMP_WORDS[COMP_CWORD]}} options words
    local previous=${{COMP_WORDS[COMP_CWORD-1]}}
    # --option=value comes as three words.
    [[ $current == = ]] && current=
    [[ $previous == = ]] && previous=${{COMP_WORDS[COMP_CWORD-2]}}
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
        return
    fi
    case $command in
{flags}    esac
    [[ $current == -* ]] && words=$options
    case "$command $previous" in
{values}    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _genericdp genericdp
"""


def _zsh(commands: dict[str, list[_Option]]) -> str:
    cases = ""
    for name, options in commands.items():
        specs = [spec for one in options for spec in _zsh_specs(one)]
        cases += f"        {name}) _arguments {' '.join(map(shlex.quote, specs))};;\n"
    listed = " ".join(shlex.quote(f"{name}:{summary}") for name, summary in COMMANDS.items())
    return _ZSH.format(cases=cases, commands=listed)


def _zsh_specs(option: _Option) -> list[str]:
    values = f"({' '.join(option.choices)})" if option.choices else "_files"
    if not option.flags:
        return [f"*:argument:{values}"]
    summary = "".join(f"\\{one}" if one in "\\[]:" else one for one in option.summary)
    if not option.takes_value:
        return [f"{flag}[{summary}]" for flag in option.flags]
    return [
        f"*{flag}{'=' if flag.startswith('--') else ''}[{summary}]:value:{values}"
        for flag in option.flags
    ]


_ZSH = """\
#compdef genericdp
_genericdp() {{
    local -a commands
    commands=({commands})
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}    esac
}}
compdef _genericdp genericdp
"""


def _fish(commands: dict[str, list[_Option]]) -> str:
    lines = [
        f"complete -c genericdp -n __fish_use_subcommand -f -a {name} -d {shlex.quote(summary)}"
        for name, summary in COMMANDS.items()
    ]
    for name, options in commands.items():
        start = f"complete -c genericdp -n '__fish_seen_subcommand_from {name}'"
        for one in options:
            words = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in one.flags]
            if one.choices:
                words.append(f"-x -a {shlex.quote(' '.join(one.choices))}")
            elif one.takes_value and one.flags:
                words.append("-r")
            if one.flags:
                words.append(f"-d {shlex.quote(one.summary)}")
            if words:
                lines.append(" ".join([start, *words]))
    return "\n".join(lines)


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
