"""``genericdp validate``: every problem of configs, without applying them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from genericdp.cli.loading import load_in_time, read_stdin
from genericdp.cli.options import add_host, add_output, add_policy, config_of
from genericdp.errors import UsageError
from genericdp.printing import print_json, print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from genericdp.config.loaded import Loaded
    from genericdp.errors import Problem

SUMMARY = "say what is wrong with configs, or what a reload would do; exit 2 if anything is wrong"
EXAMPLE = (
    "  genericdp validate examples/configs/*.yaml\n"
    "  genericdp validate -o json /etc/genericdp        # a folder is one config\n"
    "  genericdp validate --diff /etc/genericdp new.yaml    # what a running daemon would do"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=config_of,
        help="a config of its own: a file, a folder whose *.yaml and *.yml make up one, or - for"
        " stdin",
    )
    add_policy(parser)
    parser.add_argument(
        "--diff",
        action="store_true",
        help="take exactly two configs, OLD and NEW, and say what a daemon that goes from one to"
        " the other does on this machine: the resources that are added, removed or changed (which"
        " keys; in place, or registered anew and why), and the devices that appear, go or change"
        " their id; exit 0 also where they differ, 2 where one of them cannot be used",
    )
    add_host(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Load each config and print what there is to say."""
    stdin = read_stdin(arguments.paths)
    if arguments.diff and len(arguments.paths) != 2:
        raise UsageError(f"--diff takes two configs, OLD and NEW, not {len(arguments.paths)}")
    configs = [load_in_time([path], stdin, policy=arguments.policy) for path in arguments.paths]
    if arguments.diff and not any(config.problems for config in configs):
        # Needs what the daemon needs, which takes its time to import.
        from genericdp.cli.differing import print_difference

        print_difference(arguments, *configs)
        return 0
    if arguments.output == "json":
        print_json(_as_json(configs))
    else:
        print_lines(_as_text(configs))
    return 2 if any(config.problems for config in configs) else 0


def _as_text(configs: Sequence[Loaded]) -> list[str]:
    problems = [problem for config in configs for problem in config.problems]
    said = [(problem, str(problem)) for problem in problems]
    for config in configs:
        said += ((warning, _as_warning(warning)) for warning in config.warnings)
    lines = [line for _, line in sorted(set(said))]
    if problems:
        files = len({problem.file for problem in problems})
        total = f"{_count(len(problems), 'problem')} in {_count(files, 'file')}"
        if any(config.policy_is_unusable for config in configs):
            total += "; the policy cannot be used, so run would not start"
    else:
        files = sum(len(config.files) for config in configs)
        resources = sum(len(config.resources) for config in configs)
        total = f"{_count(files, 'file')}, {_count(resources, 'resource')}: valid"
    return [*lines, total]


def _as_warning(warning: Problem) -> str:
    hint = f" ({warning.hint})" if warning.hint else ""
    path = f"{warning.path}: " if warning.path else ""
    place = f"{warning.file}:{warning.line}:{warning.column}"
    return f"{place}: warning: {path}{warning.message}{hint}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _as_json(configs: Sequence[Loaded]) -> dict[str, object]:
    problems = sorted({problem for config in configs for problem in config.problems})
    warnings = sorted({warning for config in configs for warning in config.warnings})
    return {
        "valid": not problems,
        "files": sum(len(config.files) for config in configs),
        "resources": sum(len(config.resources) for config in configs),
        "problems": [asdict(problem) for problem in problems],
        "warnings": [asdict(warning) for warning in warnings],
    }
