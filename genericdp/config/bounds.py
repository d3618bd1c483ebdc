"""What a resource asks for and a policy does not allow, as far as the text tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp import glob, policy
from genericdp.config.containment import lies_within
from genericdp.config.finding import Finding, shown
from genericdp.config.reach import reach
from genericdp.glob import segments_of
from genericdp.model import FileType, PathSelector
from genericdp.template import Template, TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from genericdp.config.tree import Path
    from genericdp.policy import Bound, Policy, Section

    Keys = Callable[[Path], Set[str]]

_NODE_TYPES = {FileType.CHAR, FileType.BLOCK}


def bounds_findings(
    at: Path, resource: dict[str, Any], bounds: Policy, keys: Keys | None = None
) -> Iterator[Finding]:
    """Give what a resource may not ask for; what only the host knows is asked there again.

    ``keys`` gives those of a mapping as they are written, also where their values are wrong and
    so not in ``resource``; None: none are.
    """
    inject = resource.get("inject")
    inject = inject if isinstance(inject, dict) else {}
    globs = tuple(_path_globs(resource))
    yield from _node_findings(at, resource, inject, bounds)
    for i, mount in enumerate(inject.get("mounts") or ()):
        if isinstance(mount, dict):
            yield from _mount_findings((*at, "inject", "mounts", i), mount, bounds, globs)
    yield from _name_findings((*at, "inject"), inject, bounds, keys)
    for step, text in _cdi_texts(inject):
        yield from _cdi_findings((*at, "inject", *step), text, bounds)
    for here, text, pattern in _files_read(at, resource):
        yield from _path_findings(here, text, bounds.files, globs, pattern=pattern)
    for here, program in _programs(at, resource):
        yield from _command_findings(here, program, bounds, keys)


def _path_globs(
    resource: dict[str, Any], of_others: tuple[str, ...] = ("/dev/*",)
) -> Iterator[str]:
    """Give globs for all that ``$(device.path)`` can be.

    What a selector that is no path finds has its node below /dev; which one, the host knows.
    """
    for selector in resource.get("match") or ():
        if isinstance(selector, dict) and "path" in selector:
            yield from (text for _, text in each_text((), selector["path"]))
        else:
            yield from of_others


def _node_findings(
    at: Path, resource: dict[str, Any], inject: dict[str, Any], bounds: Policy
) -> Iterator[Finding]:
    entries = inject.get("devices")
    if entries is None:
        for i, selector in enumerate(resource.get("match") or ()):
            if isinstance(selector, dict):
                yield from _own_node_findings((*at, "match", i), selector, bounds)
        return
    globs = tuple(_path_globs(resource, of_others=()))
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue
        here = (*at, "inject", "devices", i)
        if isinstance(text := entry.get("path"), str):
            yield from _path_findings((*here, "path"), text, bounds.devices, globs, pattern=True)
        elif not bounds.devices.given:
            yield Finding(path=here, message=_NO_NODES, hint=bounds.devices.says)


_NO_NODES = "it asks for device nodes"


def _own_node_findings(at: Path, selector: dict[str, Any], bounds: Policy) -> Iterator[Finding]:
    """Look at a selector whose candidates are given as they are: where they are is its text."""
    if "path" not in selector:
        if "udev" in selector and not bounds.devices.given:
            yield Finding(path=(*at, "udev"), message=_NO_NODES, hint=bounds.devices.says)
        return
    types = {text for _, text in each_text((), selector.get("type"))} or set(_DEFAULT_TYPES)
    if not types & _NODE_TYPES:
        return
    if types & _NODE_TYPES == {FileType.BLOCK} and bounds.devices.given and not bounds.block:
        message = "block devices are not allowed"
        yield Finding(path=(*at, "type"), message=message, hint=policy.block_says(bounds))
    for here, text in each_text((*at, "path"), selector["path"]):
        if not _is_allowed(segments_of(text), bounds.devices):
            yield Finding(path=here, message=_outside(text), hint=bounds.devices.says)


_DEFAULT_TYPES = PathSelector(globs=()).types


def _is_allowed(narrow: tuple[str, ...], section: Section) -> bool:
    return any(lies_within(narrow, segments_of(bound.text)) for bound in section.bounds)


def _outside(text: str) -> str:
    if glob.is_glob(text) or "$(" in text:
        return f"{shown(text)} can lead to what is not allowed"
    return f"{shown(text)} is not allowed"


def _parsed(text: object) -> Template | None:
    """Give a template, or None for what is a problem already."""
    try:
        return parse(text) if isinstance(text, str) else None
    except TemplateSyntaxError:
        return None


def _path_findings(
    at: Path, text: object, section: Section, globs: tuple[str, ...], *, pattern: bool
) -> Iterator[Finding]:
    parsed = _parsed(text)
    if parsed is None:
        return
    ways = reach(parsed, pattern=pattern, device_path=globs)
    if not section.given or not all(_is_allowed(one, section) for one in ways):
        yield Finding(path=at, message=_outside(str(text)), hint=section.says)


def _mount_findings(
    at: Path, mount: dict[str, Any], bounds: Policy, globs: tuple[str, ...]
) -> Iterator[Finding]:
    text, section = mount.get("hostPath"), bounds.mounts
    found = list(_path_findings((*at, "hostPath"), text, section, globs, pattern=False))
    yield from found
    parsed = _parsed(text)
    if found or parsed is None or mount.get("readOnly") is not False:
        return
    for way in reach(parsed, pattern=False, device_path=globs):
        inside = [one for one in section.bounds if lies_within(way, segments_of(one.text))]
        if all(one.read_only for one in inside):
            message = f"{shown(str(text))} may be mounted only for reading"
            hint = policy.says_read_only(inside[0])
            yield Finding(path=(*at, "readOnly"), message=message, hint=hint)
            return


def _keys(of: Mapping[str, Any], at: Path, written: Keys | None) -> list[str]:
    plain = of.get(str(at[-1]))
    return sorted({*(plain if isinstance(plain, dict) else ()), *(written(at) if written else ())})


def _name_findings(
    at: Path, inject: dict[str, Any], bounds: Policy, keys: Keys | None
) -> Iterator[Finding]:
    for key, section in (("env", bounds.env), ("annotations", bounds.annotations)):
        for name in _keys(inject, (*at, key), keys):
            if policy.name_refusal(section, name):
                here, message = (*at, key, name), f"{shown(name)} is not allowed"
                yield Finding(path=here, message=message, hint=section.says, of_key=True)


def _cdi_texts(inject: dict[str, Any]) -> Iterator[tuple[Path, object]]:
    """Give each text that names CDI devices, and where it is."""
    for i, text in enumerate(inject.get("cdi") or ()):
        yield ("cdi", i), text
    for key, text in (inject.get("annotations") or {}).items():
        if policy.asks_for_cdi(key):
            yield ("annotations", key), text


def _cdi_findings(at: Path, text: object, bounds: Policy) -> Iterator[Finding]:
    parsed = _parsed(text)
    if parsed is not None and not policy.allows_cdi(bounds, parsed):
        yield Finding(path=at, message=_outside(str(text)), hint=bounds.cdi.says)


def _files_read(at: Path, resource: dict[str, Any]) -> Iterator[tuple[Path, object, bool]]:
    """Give each file that is read, link that is followed: place, text, and if it is a glob."""
    for name, value in (resource.get("values") or {}).items():
        if isinstance(value, dict):
            for key in ("file", "link"):
                yield (*at, "values", name, key), value.get(key), key == "link"
    for i, probe in enumerate(resource.get("health") or ()):
        if isinstance(probe, dict) and isinstance(check := probe.get("file"), dict):
            yield (*at, "health", i, "file", "path"), check.get("path"), False


def _programs(at: Path, resource: dict[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    probes = ((("health", i), one) for i, one in enumerate(resource.get("health") or ()))
    hooks = ((("hooks", name), one) for name, one in (resource.get("hooks") or {}).items())
    for way, one in (*probes, *hooks):
        if isinstance(one, dict) and isinstance(program := one.get("exec"), dict):
            yield (*at, *way, "exec"), program


def _command_findings(
    at: Path, program: Mapping[str, Any], bounds: Policy, keys: Keys | None
) -> Iterator[Finding]:
    argv = program.get("command") or [None]
    if not isinstance(name := argv[0], str):
        return
    bound = policy.command_bound(bounds, name)
    if bound is None:
        message = f"the command {shown(name)} is not allowed"
        yield Finding(path=(*at, "command", 0), message=message, hint=bounds.commands.says)
        return
    yield from (
        _variable_finding((*at, "env", variable), variable, bound)
        for variable in _keys(program, (*at, "env"), keys)
        if not glob.matches_any(bound.env, variable)
    )


def _variable_finding(at: Path, variable: str, bound: Bound) -> Finding:
    said = f"env: {', '.join(bound.env)}" if bound.env else "no env"
    return Finding(
        path=at,
        message=f"the variable {shown(variable)} is not allowed for {bound.text}",
        hint=f"policy {bound.place} says {said} for this command",
        of_key=True,
    )


def each_text(path: Path, texts: object) -> Iterator[tuple[Path, str]]:
    """Yield each text of a text or a list of texts, with its path."""
    if isinstance(texts, str):
        yield path, texts
    elif isinstance(texts, list):
        yield from (((*path, i), text) for i, text in enumerate(texts) if isinstance(text, str))
