"""Rules of ``health`` and ``hooks``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, exactly_one, guess, shown
from genericdp.config.names import env_problem
from genericdp.config.schema import schema
from genericdp.config.texts import (
    Context,
    named_groups,
    path_findings,
    regex_findings,
    template_findings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.tree import Document, Path, Plain, YamlNode

_CHECKS = ("exec", "file", "open", "kernelLog")
_GIVEN = ("GENERICDP_RESOURCE", "GENERICDP_DEVICE_ID", "GENERICDP_DEVICE_PATHS")
_EXPECTATIONS = ("regex", "equals", "min", "max")
_WHEN_RUN = (
    *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
    *("failureThreshold", "successThreshold"),
)


def health_findings(
    at: Path, health: Plain, document: Document, context: Context, *, several: bool
) -> Iterator[Finding]:
    """Give what the rules say of the probes of a resource, which may have several devices."""
    known = schema()["$defs"]["probe"]["properties"]
    for i, probe in enumerate(health or ()):
        if not isinstance(probe, dict):
            continue
        here = (*at, i)
        keys = document.keys(here)
        yield from exactly_one(here, keys, _CHECKS, known)
        if "recoverAfterSeconds" in keys and "kernelLog" not in keys and keys & set(_CHECKS):
            message = "'recoverAfterSeconds' is only taken beside 'kernelLog'"
            yield Finding(path=(*here, "recoverAfterSeconds"), message=message, of_key=True)
        yield from _exec_findings((*here, "exec"), probe.get("exec"), context)
        yield from _file_findings((*here, "file"), probe.get("file"), document, context)
        yield from _log_findings((*here, "kernelLog"), probe.get("kernelLog"), context)
        if several:
            yield from _indiscriminate_findings((*here, "kernelLog"), probe, document)
        yield from _idle_findings(here, probe, document)


def _idle_findings(at: Path, probe: dict[str, Any], document: Document) -> Iterator[Finding]:
    """Warn of what changes nothing, or means less than it seems to."""
    keys = document.keys(at)
    if "kernelLog" in keys:
        for key in _WHEN_RUN:
            if key in keys:
                message = f"{key!r} does nothing beside 'kernelLog', whose lines count as they come"
                yield Finding(path=(*at, key), message=message, of_key=True, warning=True)
        return
    timeout, period = probe.get("timeoutSeconds"), probe.get("periodSeconds")
    by_default = "periodSeconds" not in keys
    if by_default:
        period = schema()["$defs"]["probe"]["properties"]["periodSeconds"]["default"]
    if timeout is not None and period is not None and timeout > period:
        yield Finding(
            path=(*at, "timeoutSeconds"),
            message=f"while it hangs it is done only every {timeout} s",
            hint=f"periodSeconds is {period}{' by default' if by_default else ''}",
            warning=True,
        )


def _indiscriminate_findings(
    at: Path, probe: dict[str, Any], document: Document
) -> Iterator[Finding]:
    where = document.node((*at, "where"))
    # What is written in a wrong way is a problem already, and no lack.
    if isinstance(probe.get("kernelLog"), dict) and (where is None or _is_empty(where)):
        yield Finding(
            path=at,
            message="without 'where' every line makes all devices of the resource Unhealthy",
            hint="write where: {name: $(device.name)}, and (?P<name>...) into the regex",
            of_key=True,
            warning=True,
        )


def _is_empty(node: YamlNode) -> bool:
    return node.items == {} and node.size == 1


def hook_findings(at: Path, hooks: Plain, context: Context) -> Iterator[Finding]:
    """Give what the rules say of a resource's hooks."""
    for name, hook in (hooks or {}).items():
        if isinstance(hook, dict):
            yield from _exec_findings((*at, name, "exec"), hook.get("exec"), context)


def _exec_findings(at: Path, program: Plain, context: Context) -> Iterator[Finding]:
    if not isinstance(program, dict):
        return
    for i, argument in enumerate(program.get("command") or ()):
        here = (*at, "command", i)
        if not isinstance(argument, str):
            continue
        if i == 0 and "$(" in argument:
            message = f"the program is not chosen by a template: {shown(argument)}"
            yield Finding(path=here, message=message)
        elif i == 0:
            yield from path_findings(here, argument, Context())
        else:
            yield from template_findings(here, argument, context)
    yield from _env_findings((*at, "env"), program.get("env"), context)


def _env_findings(at: Path, env: Plain, context: Context) -> Iterator[Finding]:
    for name, value in (env or {}).items():
        if problem := env_problem(name):
            yield Finding(path=(*at, name), message=problem, of_key=True)
        elif isinstance(name, str) and name in _GIVEN:
            message = f"every command is given {shown(name)} by the daemon"
            yield Finding(path=(*at, name), message=message, hint="omit it", of_key=True)
        yield from template_findings((*at, name), value, context)


def _file_findings(
    at: Path, check: Plain, document: Document, context: Context
) -> Iterator[Finding]:
    if not isinstance(check, dict):
        return
    if isinstance(path := check.get("path"), str):
        yield from path_findings((*at, "path"), path, context)
        if any(one in path for one in "*?["):
            message = "one file is read: a wildcard stands for itself here"
            yield Finding(path=(*at, "path"), message=message, warning=True)
    if isinstance(regex := check.get("regex"), str):
        yield from regex_findings((*at, "regex"), regex)
    if isinstance(equals := check.get("equals"), str):
        yield from template_findings((*at, "equals"), equals, context)
    keys = document.keys(at)
    known = schema()["$defs"]["fileCheck"]["properties"]
    if not keys & set(_EXPECTATIONS) and keys <= set(known):
        message = f"it expects nothing: one of {', '.join(_EXPECTATIONS)} is required"
        yield Finding(path=at, message=message)
    low, high = check.get("min"), check.get("max")
    if low is not None and high is not None and low > high:
        message = f"no number is at least {low} and at most {high}"
        yield Finding(path=(*at, "min"), message=message)


def _log_findings(at: Path, check: Plain, context: Context) -> Iterator[Finding]:
    if not isinstance(check, dict):
        return
    groups: frozenset[str] | None = None
    if isinstance(regex := check.get("regex"), str):
        yield from regex_findings((*at, "regex"), regex)
        groups = named_groups(regex)
    for key in ("where", "ignore"):
        for group, text in (check.get(key) or {}).items():
            here = (*at, key, group)
            if groups is not None and group not in groups:
                hint = guess(group, groups) if groups else "name it: (?P<name>...)"
                message = f"the regex has no group {shown(group)}"
                yield Finding(path=here, message=message, hint=hint, of_key=True)
            if key == "where" and isinstance(text, str):
                yield from template_findings(here, text, context)
