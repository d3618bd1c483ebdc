"""``genericdp completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from genericdp.cli.command_line import COMMANDS, parser_of
from genericdp.cli.output import print_document

if TYPE_CHECKING:
    import argparse

    CommandOptions = dict[str, list[argparse.Action]]
    """The options and positional arguments, which have no flags, of each command."""

EXAMPLE = (
    "  genericdp completion bash > ~/.local/share/bash-completion/completions/genericdp\n"
    "  source <(genericdp completion zsh)        # in ~/.zshrc, after compinit\n"
    "  genericdp completion fish > ~/.config/fish/completions/genericdp.fish"
)
_ASIDE = re.compile(r"[;:,] | \(")
"""What of an option's help is too much for a menu stands behind this."""


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
    commands = {name: parser_of(name).arguments for name in COMMANDS}
    print_document(_SHELLS[arguments.shell](commands))
    return 0


def _summary(action: argparse.Action) -> str:
    return _ASIDE.split(action.help or "")[0]


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _bash(commands: CommandOptions) -> str:
    flags, values = "", ""
    for name, options in commands.items():
        words = " ".join(flag for one in options for flag in one.option_strings)
        positional = " ".join(_choices(one) for one in options if not one.option_strings)
        flags += f"        {name}) options='{words}' words='{positional}';;\n"
        for one in options:
            if one.option_strings and one.nargs != 0:
                pattern = "|".join(f'"{name} {flag}"' for flag in one.option_strings)
                values += f"        {pattern}) words='{_choices(one)}';;\n"
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


def _zsh(commands: CommandOptions) -> str:
    cases = ""
    for name, options in commands.items():
        specs = [spec for one in options for spec in _zsh_specs(one)]
        cases += f"        {name}) _arguments {' '.join(map(shlex.quote, specs))};;\n"
    listed = " ".join(shlex.quote(f"{name}:{summary}") for name, summary in COMMANDS.items())
    return _ZSH.format(cases=cases, commands=listed)


def _zsh_specs(option: argparse.Action) -> list[str]:
    choices, flags = _choices(option), option.option_strings
    values = f"({choices})" if choices else "_files"
    if not flags:
        return [f"*:argument:{values}"]
    summary = re.sub(r"[\\\[\]:]", r"\\\g<0>", _summary(option))
    if option.nargs == 0:
        return [f"{flag}[{summary}]" for flag in flags]
    return [
        f"*{flag}{'=' if flag.startswith('--') else ''}[{summary}]:value:{values}" for flag in flags
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
# Autoloaded from a file of site-functions it is called; sourced, it is only defined.
if [[ $funcstack[1] == _genericdp ]]; then
    _genericdp "$@"
else
    compdef _genericdp genericdp
fi
"""


def _fish(commands: CommandOptions) -> str:
    lines = [
        f"complete -c genericdp -n __fish_use_subcommand -f -a {name} -d {shlex.quote(summary)}"
        for name, summary in COMMANDS.items()
    ]
    for name, options in commands.items():
        start = f"complete -c genericdp -n '__fish_seen_subcommand_from {name}'"
        for one in options:
            flags, choices = one.option_strings, _choices(one)
            words = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in flags]
            if choices:
                words.append(f"-x -a {shlex.quote(choices)}")
            elif flags and one.nargs != 0:
                words.append("-r")
            if flags:
                words.append(f"-d {shlex.quote(_summary(one))}")
            if words:
                lines.append(" ".join([start, *words]))
    return "\n".join(lines)


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
