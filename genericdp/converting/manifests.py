"""Kubernetes objects that hold a peer's config: ConfigMaps, and pods with it in their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.converting.parts import Part, Source, parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.converting.draft import Draft


def is_manifest(document: Part) -> bool:
    """Say whether a document is an object of Kubernetes."""
    items = document.node.items
    return items is not None and "kind" in items and "apiVersion" in items


def kind_of(document: Part) -> str:
    """Give the kind of an object; empty for what is none."""
    return document.keys().text("kind") if is_manifest(document) else ""


def objects(document: Part) -> Iterator[Part]:
    """Give a document, or the objects of a list of them."""
    if is_manifest(document) and kind_of(document) == "List":
        items = document.keys().take("items")
        yield from items.entries() if items is not None else ()
    else:
        yield document


def embedded(document: Part, draft: Draft) -> Iterator[Part]:
    """Give the documents in the data of a ConfigMap; of anything else, say that it holds none."""
    for one in objects(document):
        if kind_of(one) != "ConfigMap":
            draft.left.append(f"Not converted, {_called(one)}: it holds no config.")
            continue
        for _, text in texts_of(one):
            yield from text


def texts_of(config_map: Part) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Give the key and the documents of each text in a ConfigMap."""
    keys = config_map.keys()
    data = keys.take("data")
    if data is None:
        config_map.fail("this ConfigMap has no data")
        return
    for key, part in data.keys().left.items():
        source = Source(file=f"{part.source.file} (data, {key})", problems=part.source.problems)
        yield key, parts(source, part.text().encode("utf-8", "replace"))


def containers(document: Part) -> Iterator[Part]:
    """Give the containers of a pod, or of what makes pods."""
    spec = document.keys().take("spec")
    if spec is None:
        return
    keys = spec.keys()
    template = keys.take("template")
    if template is not None:
        inner = template.keys().take("spec")
        if inner is None:
            return
        keys = inner.keys()
    found = keys.take("containers")
    yield from found.entries() if found is not None else ()


def _called(document: Part) -> str:
    keys = document.keys()
    kind = keys.text("kind", "this")
    metadata = keys.take("metadata")
    name = metadata.keys().text("name") if metadata is not None else ""
    return f"{kind} {name}".strip()
