"""``genericdp validate``: lists every problem of configs, without applying them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli.loading import chosen, load_in_time, read_pipes, single
from genericdp.cli.options import ROOT
from genericdp.cli.output import DATA, print_result
from genericdp.cli.parser import argument, choice, config_of, flag, is_given, path_option
from genericdp.config.claims import check_claims
from genericdp.config.files import SUFFIXES, Loaded, unusable
from genericdp.config.load import load_each
from genericdp.errors import UsageError
from genericdp.printing import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from genericdp.errors import Problem

EXAMPLE = (
    "  genericdp validate examples/configs/*.yaml       # each is a separate config\n"
    "  genericdp validate --config a.yaml --config b/   # together one config, as for run\n"
    "  kubectl -n genericdp get configmap genericdp-config -o yaml | genericdp validate -\n"
    "  kubectl kustomize overlays/site | genericdp validate -  # each ConfigMap, as mounted\n"
    "  genericdp validate serial.yaml claims.yaml       # claims, against the config\n"
    "  genericdp validate --diff /etc/genericdp new.yaml    # what a running daemon would do"
)
ARGUMENTS = {
    "PATH": argument(
        "a separate config: a file, a directory whose *.yaml and *.yml make up one, or - for"
        " stdin; exit 2 if anything is wrong. Parameters of claims, their templates and"
        " DeviceClasses are checked against all configs",
        dest="paths",
        nargs="*",
        type=config_of,
    ),
    "--strict": flag("exit 2 even if there are only warnings, as in CI"),
    "--diff": flag(
        "take exactly two configs, OLD and NEW, and show what a daemon does on this machine that"
        " changes from one to the other: the resources that are added, removed or changed (which"
        " keys; in place, or registered again and why), and the devices that appear, disappear or"
        " change their id; exit 0 also where they differ, 2 where one of them cannot be used"
    ),
    "--root": path_option(
        f"{ROOT}; with it, also warn of IDs that can change there when the machine boots (default:"
        " /)"
    ),
    "--output": choice(
        "how to print; github is for GitHub Actions, which then shows problems and warnings at"
        " their lines",
        ("text", *DATA, "github"),
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Load each config and print its problems and warnings."""
    groups = [[path] for path in arguments.paths]
    # The variable is for commands that need a config; here it counts only if no config is given.
    if is_given(arguments.config) or (arguments.config and not groups):
        groups.append(list(arguments.config))
    if not groups:
        raise UsageError("a config is required: PATH or --config (see genericdp validate --help)")
    if arguments.diff and len(groups) != 2:
        raise UsageError(f"--diff takes two configs, OLD and NEW, not {len(groups)}")
    pipes = read_pipes([path for paths in groups for path in paths])
    load = partial(load_each, with_claims=not arguments.diff)
    loaded = [load_in_time(paths, pipes, policy=arguments.policy, load=load) for paths in groups]
    if arguments.diff:
        configs = [single(chosen(found, arguments.config_map)) for found in loaded]
    else:
        every = [config for found in loaded for config in found]
        configs = chosen(every, arguments.config_map)
        configs += _checked_claims(configs, every, arguments.dra_driver)
    # Only who names a machine expects that a config is applied to it.
    applies = arguments.root is not None
    arguments.root = arguments.root or Path("/")
    if arguments.diff and not any(config.problems for config in configs):
        # Needs what the daemon needs, which takes its time to import.
        from genericdp.cli.diff import print_difference

        print_difference(arguments, *configs)
    else:
        if applies:
            configs = _applied(configs, arguments)
        is_github = arguments.output == "github"
        lines = _as_text(configs, strict=arguments.strict, is_github=is_github)
        print_result(_as_json(configs, is_diff=arguments.diff), lines, arguments.output)
    judged = configs[1:] if arguments.diff else configs  # OLD is active already
    is_refused = arguments.strict and any(config.warnings for config in judged)
    return 2 if is_refused or any(config.problems for config in configs) else 0


def _checked_claims(
    configs: Sequence[Loaded], every: Sequence[Loaded], driver: str
) -> list[Loaded]:
    """Return the problems of all claims, held against the configs."""
    claims = [claim for config in every for claim in config.claims]
    if not claims or any(config.problems for config in configs):
        return []
    resources = [resource for config in configs for resource in config.resources]
    problems, warnings = check_claims(claims, resources, driver)
    if not resources:
        hint = "name it, too: genericdp validate CONFIG CLAIMS"
        problems = [unusable(claims[0].file, "there is no config to check claims against", hint)]
        warnings = []
    return [Loaded(problems=tuple(problems), warnings=tuple(warnings))]


def _applied(configs: Sequence[Loaded], arguments: argparse.Namespace) -> list[Loaded]:
    """Return the configs, with warnings about their results on the machine of ``--root``."""
    # Needs what the daemon needs, which takes its time to import.
    from genericdp.cli.apply import weak_ids_of
    from genericdp.cli.patience import run_skipping_hangs
    from genericdp.cli.root import node_name_of, root_of

    root, node_name = root_of(arguments), node_name_of(arguments)

    def applied(config: Loaded) -> Loaded:
        weak = run_skipping_hangs(root, partial(weak_ids_of, config.resources, node_name))
        return replace(config, warnings=(*config.warnings, *weak))

    return [config if config.problems else applied(config) for config in configs]


def _as_text(configs: Sequence[Loaded], *, strict: bool, is_github: bool) -> list[str]:
    problems = [problem for config in configs for problem in config.problems]
    warnings = [warning for config in configs for warning in config.warnings]
    if is_github:
        said = [(problem, _as_annotation("error", problem)) for problem in problems]
        said += ((warning, _as_annotation("warning", warning)) for warning in warnings)
    else:
        said = [(problem, str(problem)) for problem in problems]
        said += ((warning, _as_warning(warning)) for warning in warnings)
    lines = [line for _, line in sorted(set(said))]
    if problems:
        files = len({problem.file for problem in problems})
        total = f"{plural(len(problems), 'problem')} in {plural(files, 'file')}"
        if any(config.policy_is_unusable for config in configs):
            total += "; the policy cannot be used, so run would not start"
    else:
        resources = sum(len(config.resources) for config in configs)
        total = f"{plural(_files(configs), 'file')}, {plural(resources, 'resource')}: valid"
        if mounted := [config for config in configs if config.config_map]:
            total = f"{plural(len(mounted), 'config')} in {total}"
        total += f", but {plural(len(lines), 'warning')} (--strict)" if strict and lines else ""
    return [*lines, total]


def _files(configs: Sequence[Loaded]) -> int:
    """Return how many files were read; several configs of manifests are in one."""
    manifests = {path for config in configs if config.config_map for path in config.files}
    others = [path for config in configs if not config.config_map for path in config.files]
    return len(manifests) + sum(path not in manifests for path in others)


def _as_warning(warning: Problem) -> str:
    place = f"{warning.file}:{warning.line}:{warning.column}: "
    return f"{place}warning: {str(warning).removeprefix(place)}"


def _as_annotation(level: str, problem: Problem) -> str:
    """Return the workflow command that shows a problem at its line, in the files of a change.

    The text names the place, too: GitHub's logs show nothing else, and annotations of the first
    ten only.
    """
    text = _escaped(str(problem))
    # A directory, or what does not exist, has no lines; nor is stdin in the repository.
    is_whole = (problem.line, problem.column, problem.path) == (1, 1, "")
    if problem.file == "<stdin>" or (is_whole and not problem.file.endswith(SUFFIXES)):
        return f"::{level}::{text}"
    file = problem.file
    with suppress(OSError):  # the working directory was deleted
        # A step may run below the directory of the repository, in which GitHub looks for files.
        path = os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or ".")
        file = file if path.startswith("../") else path
    place = f"file={_escaped(file, ':,')},line={problem.line},col={problem.column}"
    return f"::{level} {place}::{text}"


def _escaped(text: str, more: str = "") -> str:
    """Escape a string as workflow commands require it; for a property, ``more`` as well."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)


def _as_json(configs: Sequence[Loaded], *, is_diff: bool) -> dict[str, object]:
    problems = sorted({problem for config in configs for problem in config.problems})
    warnings = sorted({warning for config in configs for warning in config.warnings})
    totals = {
        "valid": not problems,
        "files": _files(configs),
        "resources": sum(len(config.resources) for config in configs),
    }
    return {
        **({"resources": None, "devices": None} if is_diff else totals),
        "problems": [problem._asdict() for problem in problems],
        "warnings": [warning._asdict() for warning in warnings],
    }
