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


def _groups() -> dict[str, list[str]]:
    """Return the second words of the commands that have two, by their first."""
    found: dict[str, list[str]] = {}
    for first, second in (name.split() for name in COMMANDS if " " in name):
        found.setdefault(first, []).append(second)
    return found


def _first_words() -> dict[str, str]:
    """Return what can stand after ``genericdp``, with its summary."""
    found: dict[str, str] = {}
    for name, summary in COMMANDS.items():
        first, _, second = name.partition(" ")
        about = summary if not second else f"one of: {', '.join(_groups()[first])}"
        found.setdefault(first, about)
    return found


def _bash(commands: CommandOptions) -> str:
    flags, values, groups = "", "", ""
    for first, seconds in _groups().items():
        groups += f"        {first}) seconds='{' '.join(seconds)}';;\n"
    for name, options in commands.items():
        words = " ".join(flag for one in options for flag in one.option_strings)
        positional = " ".join(_choices(one) for one in options if not one.option_strings)
        flags += f"        \"{name}\") options='{words}' words='{positional}';;\n"
        for one in options:
            if one.option_strings and one.nargs != 0:
                pattern = "|".join(f'"{name} {flag}"' for flag in one.option_strings)
                values += f"        {pattern}) words='{_choices(one)}';;\n"
    first = " ".join(_first_words())
    return _BASH.format(flags=flags, values=values, groups=groups, commands=first)


# Without words the shell completes the names of files ("-o default").
_BASH = """\
_genericdp() {{
    local command=${{COMP_WORDS[1]}} current=${{COMP_WORDS[COMP_CWORD]}} options words seconds
    local previous=${{COMP_WORDS[COMP_CWORD-1]}}
    # --option=value comes as three words.
    [[ $current == = ]] && current=
    [[ $previous == = ]] && previous=${{COMP_WORDS[COMP_CWORD-2]}}
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
        return
    fi
    case $command in
{groups}    esac
    if [[ $seconds && $COMP_CWORD == 2 ]]; then
        COMPREPLY=($(compgen -W "$seconds --help" -- "$current"))
        return
    fi
    [[ $seconds ]] && command+=" ${{COMP_WORDS[2]}}"
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
        cases += f"        {shlex.quote(name)}) _arguments {' '.join(map(shlex.quote, specs))};;\n"
    listed = " ".join(shlex.quote(f"{name}:{about}") for name, about in _first_words().items())
    groups = ""
    for first, words in _groups().items():
        seconds = " ".join(shlex.quote(f"{one}:{COMMANDS[f'{first} {one}']}") for one in words)
        groups += f"        {first}) seconds=({seconds});;\n"
    return _ZSH.format(cases=cases, commands=listed, groups=groups)


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
    local -a commands seconds
    commands=({commands})
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{groups}    esac
    if (( $#seconds )); then
        if (( CURRENT == 2 )); then
            _describe command seconds
            return
        fi
        command+=" $words[2]"
        shift words
        (( CURRENT-- ))
    fi
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
        f"complete -c genericdp -n __fish_use_subcommand -f -a {name} -d {shlex.quote(about)}"
        for name, about in _first_words().items()
    ]
    for first, words in _groups().items():
        is_next = f"__fish_seen_subcommand_from {first}"
        is_next += f"; and not __fish_seen_subcommand_from {' '.join(words)}"
        lines += [
            f"complete -c genericdp -n '{is_next}' -f -a {one}"
            f" -d {shlex.quote(COMMANDS[f'{first} {one}'])}"
            for one in words
        ]
    for name, options in commands.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {one}" for one in name.split())
        start = f"complete -c genericdp -n '{seen}'"
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
