"""Rules across the resources of all files of a config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, shown
from genericdp.config.limits import config_limit_findings
from genericdp.config.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.config.tree import Document, Path

    Placed = tuple[Document, Path, dict[str, Any]]


def across(documents: Sequence[Document]) -> Iterator[tuple[Document, Finding]]:
    """Yield equal names, limits passed, and what one container cannot get of two resources."""
    placed: list[Placed] = []
    for document in documents:
        listed = document.data.get("resources") if isinstance(document.data, dict) else None
        placed += [
            (document, ("resources", i), resource)
            for i, resource in enumerate(listed or ())
            if isinstance(resource, dict)
        ]
    yield from _equal_names(placed)
    yield from config_limit_findings(placed)
    yield from _lost_in_one_container(placed)


def _equal_names(placed: Sequence[Placed]) -> Iterator[tuple[Document, Finding]]:
    first: dict[str, Placed] = {}
    first_everywhere: dict[str, Placed] = {}
    for placed_here in placed:
        document, path, resource = placed_here
        if not isinstance(name := resource.get("name"), str):
            continue
        everywhere = "nodeNames" not in document.keys(path)
        other = (first if everywhere else first_everywhere).get(name)
        if other is not None:
            yield document, _equal_name(name, path, other)
        first.setdefault(name, placed_here)
        if everywhere:
            first_everywhere.setdefault(name, placed_here)


def _equal_name(name: str, path: Path, other: Placed) -> Finding:
    document, other_path, _ = other
    mark = document.mark((*other_path, "name"))
    return Finding(
        path=(*path, "name"),
        message=f"{shown(name)} is already the name of {shown_path(other_path)}"
        f" at {document.file}:{mark.line}:{mark.column}",
        hint="names may be equal only where both resources have nodeNames",
    )


def _lost_in_one_container(placed: Sequence[Placed]) -> Iterator[tuple[Document, Finding]]:
    """Warn of equal keys with different values: the kubelet keeps either one (ALL-6)."""
    first: dict[tuple[str, str], tuple[str, Any, str]] = {}
    for document, path, resource in placed:
        inject = resource.get("inject")
        for kind, key, value, where in _given(inject if isinstance(inject, dict) else {}):
            name = str(resource.get("name"))
            other, other_value, place = first.setdefault(
                (kind, key), (name, value, _place(document, (*path, *where)))
            )
            if other != name and (other_value != value or "$(" in str(value)):
                message = (
                    f"a container with this and {shown(other)} gets only one {kind} {shown(key)}"
                )
                yield (
                    document,
                    Finding(
                        path=(*path, *where),
                        message=message,
                        hint=f"the other one: {place}",
                        of_key=kind != "containerPath",
                        warning=True,
                    ),
                )


def _given(inject: dict[str, Any]) -> Iterator[tuple[str, str, Any, Path]]:
    for key, value in (inject.get("env") or {}).items():
        yield "variable", key, value, ("inject", "env", key)
    for key, value in (inject.get("annotations") or {}).items():
        yield "annotation", key, value, ("inject", "annotations", key)
    for key in ("devices", "mounts"):
        for i, entry in enumerate(inject.get(key) or ()):
            if not isinstance(entry, dict):
                continue
            inside = entry.get("containerPath")
            if isinstance(inside, str) and "$(" not in inside and not inside.endswith("/"):
                host = entry.get("path") or entry.get("hostPath") or entry.get("subsystem")
                yield "containerPath", inside, host, ("inject", key, i, "containerPath")


def _place(document: Document, path: Path) -> str:
    mark = document.mark(path)
    return f"{document.file}:{mark.line}:{mark.column}"
