"""Rules of ``inject``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, exactly_one, shown
from genericdp.config.names import annotation_problem, env_problem, is_cdi_name
from genericdp.config.schema import schema
from genericdp.config.texts import glob_findings, path_findings, template_findings
from genericdp.config.tree import shown_path
from genericdp.glob import is_glob
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.config.texts import Context
    from genericdp.config.tree import Document, Path, Plain

_PERMISSIONS = "rwm"


def inject_findings(
    at: Path, inject: Plain, document: Document, context: Context
) -> Iterator[Finding]:
    """Give what the rules say of what a container is given."""
    if not isinstance(inject, dict):
        return
    for i, entry in enumerate(inject.get("devices") or ()):
        if isinstance(entry, dict):
            yield from _device_findings((*at, "devices", i), entry, document, context)
    for i, mount in enumerate(inject.get("mounts") or ()):
        if isinstance(mount, dict):
            yield from _mount_findings((*at, "mounts", i), mount, context)
    yield from _named_findings(at, inject, document, replace(context, allocation=True))
    for i, name in enumerate(inject.get("cdi") or ()):
        if isinstance(name, str):
            yield from _cdi_findings((*at, "cdi", i), name, context)
    yield from _collisions(at, inject)


def _named_findings(
    at: Path, inject: dict[str, Any], document: Document, context: Context
) -> Iterator[Finding]:
    for kind, problem_with in (("env", env_problem), ("annotations", annotation_problem)):
        for key in sorted(document.keys((*at, kind))):
            yield from _key_findings((*at, kind, key), key, problem_with)
    for key, value in (inject.get("env") or {}).items():
        here = (*at, "env", key)
        text = value.get("value") if isinstance(value, dict) else value
        if isinstance(text, str):
            place = (*here, "value") if isinstance(value, dict) else here
            yield from template_findings(place, text, context)
    for key, text in (inject.get("annotations") or {}).items():
        yield from template_findings((*at, "annotations", key), text, context)


def _device_findings(
    at: Path, entry: dict[str, Any], document: Document, context: Context
) -> Iterator[Finding]:
    known = schema()["$defs"]["deviceNodes"]["properties"]
    keys = document.keys(at)
    yield from exactly_one(at, keys, ("path", "subsystem"), known)
    if "name" in keys and "subsystem" not in keys and "path" in keys:
        message = "'name' is only taken beside 'subsystem'"
        yield Finding(path=(*at, "name"), message=message, of_key=True)
    if isinstance(path := entry.get("path"), str):
        yield from path_findings((*at, "path"), path, context, glob=True)
    yield from glob_findings((*at, "name"), entry.get("name"))
    yield from _container_path_findings(at, entry, context)
    permissions = entry.get("permissions")
    if isinstance(permissions, str) and not _are_permissions(permissions):
        message = f"{shown(permissions)} is not made of the letters r, w and m, each at most once"
        yield Finding(path=(*at, "permissions"), message=message)


def _are_permissions(text: str) -> bool:
    return set(text) <= set(_PERMISSIONS) and len(set(text)) == len(text)


def _container_path_findings(
    at: Path, entry: dict[str, Any], context: Context
) -> Iterator[Finding]:
    text = entry.get("containerPath")
    if not isinstance(text, str):
        return
    here = (*at, "containerPath")
    if text == "/":
        yield Finding(path=here, message="the root of the container cannot be replaced")
        return
    yield from path_findings(here, text, replace(context, allocation=True), folder=True)


def _mount_findings(at: Path, mount: dict[str, Any], context: Context) -> Iterator[Finding]:
    if isinstance(path := mount.get("hostPath"), str) and path != "/":
        yield from path_findings((*at, "hostPath"), path, context, folder=True)
    yield from _container_path_findings(at, mount, context)


def _key_findings(
    at: Path, key: str, problem_with: Callable[[str], str | None]
) -> Iterator[Finding]:
    if "$(" in key:
        message = f"templates are not taken in keys: {shown(key)}"
        yield Finding(path=at, message=message, of_key=True)
    elif problem := problem_with(key):
        yield Finding(path=at, message=problem, of_key=True)


def _cdi_findings(at: Path, name: str, context: Context) -> Iterator[Finding]:
    found = list(template_findings(at, name, context))
    yield from found
    if found:
        return
    parsed = parse(name)
    shape = "".join(part if isinstance(part, str) else "x" for part in parsed.parts)
    literal = "".join(part for part in parsed.parts if isinstance(part, str))
    # A reference may bring the vendor or the class with it.
    is_whole = not parsed.references or ("/" in literal and "=" in literal)
    if is_whole and not is_cdi_name(shape):
        yield Finding(path=at, message=f"{shown(name)} is no CDI name, which is vendor/class=name")


def _collisions(at: Path, inject: dict[str, Any]) -> Iterator[Finding]:
    """Say which entries would put different things at one path of the container."""
    taken: dict[str, tuple[Path, tuple[str, str], bool]] = {}
    for key, host in (("devices", "path"), ("mounts", "hostPath")):
        for i, entry in enumerate(inject.get(key) or ()):
            if not isinstance(entry, dict) or (inside := _fixed_path(entry, host)) is None:
                continue
            here = (*at, key, i)
            source = (key, str(entry.get(host)))
            may_be_absent = entry.get("optional") is True
            first = taken.setdefault(inside, (here, source, may_be_absent))
            if first[1] == source or may_be_absent or first[2]:
                continue
            message = f"{shown(inside)} in the container is already that of {shown_path(first[0])}"
            yield Finding(path=here, message=message)


def _fixed_path(entry: dict[str, Any], host: str) -> str | None:
    text = entry.get("containerPath")
    if text is None and isinstance(path := entry.get(host), str) and not is_glob(path):
        text = path
    if not isinstance(text, str) or text.endswith("/"):
        return None
    try:
        return None if parse(text).references else text
    except TemplateSyntaxError:
        return None
