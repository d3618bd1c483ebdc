"""Configs in Kubernetes manifests: what ConfigMaps hold, and which of them a pod mounts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.config.claims import KINDS as CLAIM_KINDS
from genericdp.config.document import Document, Mark, problem_at
from genericdp.config.files import SUFFIXES
from genericdp.config.read import IF_EMPTY, indentation, read
from genericdp.config.schema import KINDS, POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.config.document import YamlNode
    from genericdp.errors import Problem

_SEPARATORS = ("---", "...", "%")
_OURS = {*KINDS, "List", ""}
_NO_CONFIG = "the ConfigMap holds no config: no text of its data has a key in .yaml or .yml"
_GROUP, _CLAIMS = "genericdp.io/", "resource.k8s.io/"
_CONFIG_MAP = ("v1", "ConfigMap")
_OPTIONS = {"--config": "GENERICDP_CONFIG", "--policy": "GENERICDP_POLICY"}


class Source(NamedTuple):
    """Names what a pod mounts of a ConfigMap."""

    config_map: str
    key: str = ""
    """The file that is read; empty: all files whose names end as those of a config."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mounted:
    """A config as a pod gets it of ConfigMaps, and the policy that bounds it there."""

    name: str
    """Of its ConfigMap; of several, with commas between; of the policy if there is no config."""
    documents: Sequence[Document] = ()
    problems: Sequence[Problem] = ()
    files: Sequence[tuple[str, str]] = ()
    """The name and text of each file of the config."""
    policy: Mounted | None = None
    lacks: str = ""
    """The ConfigMap of the policy, if it is not in the manifests."""
    claims: Sequence[Document] = ()


class _Pod(NamedTuple):
    """Lists what the options of a container that runs genericdp lead to."""

    config: list[Source]
    policy: list[Source]


def read_config(
    file: str, content: bytes, *, if_empty: str = IF_EMPTY
) -> tuple[list[Document], list[Problem]]:
    """Return the documents of a file and its problems; of a ConfigMap, those of the files in it.

    Claims and DeviceClasses come last. Other manifests in the file of a ConfigMap with a config, or
    next to claims alone, are left out.
    """
    documents: list[Document] = []
    claims: list[Document] = []
    others: list[Document] = []
    has_config = False
    found, problems = read(file, content, if_empty=if_empty)
    lines = content.decode("utf-8-sig").splitlines() if found else []
    for document in found:
        version, kind = _version_and_kind(document)
        if (version, kind) == _CONFIG_MAP:
            inner = _unwrap(document, lines)
            documents += inner.documents
            problems += inner.problems
            has_config |= bool(inner.documents)
        elif of_claims := list(filter(is_claim, _items(document))):
            claims += of_claims
        elif version and kind not in _OURS and not version.startswith(_GROUP):
            others.append(document)
        else:
            documents.append(document)
    if has_config:
        problems = [problem for problem in problems if problem.message != _NO_CONFIG]
    if has_config or (claims and not documents):
        others = []
    return documents + others + claims, problems


def is_claim(document: Document) -> bool:
    """Return whether it is a manifest that can give parameters to devices."""
    version, kind = _version_and_kind(document)
    return version.startswith(_CLAIMS) and kind in CLAIM_KINDS


def mounted_configs(file: str, content: bytes) -> list[Mounted]:
    """Return the configs that are in manifests, each as a DaemonSet among them mounts it.

    A ConfigMap that none mounts is a config of its own. Empty if the content is not manifests, or
    only one ConfigMap: ``read_config`` reads those.
    """
    found, problems = read(file, content)
    objects = [inner for document in found for inner in _items(document)]
    kinds = [_version_and_kind(document) for document in objects]
    is_ours = any(not version or version.startswith(_GROUP) for version, _ in kinds)
    if is_ours or (objects == found and len(found) == 1) or _CONFIG_MAP not in kinds:
        return []
    lines = content.decode("utf-8-sig").splitlines()
    config_maps: dict[str, list[Document]] = {}
    for document, kind in zip(objects, kinds, strict=True):
        if kind == _CONFIG_MAP:
            config_maps.setdefault(_name(document), []).append(document)

    def files_of(sources: Sequence[Source]) -> list[Mounted]:
        return [
            _unwrap(document, lines, key)
            for name, key in sources
            for document in config_maps.get(name, ())
        ]

    mounted = list[Mounted]()
    taken = set[str]()
    for pod in (pod for document in objects for pod in _pods(document)):
        taken |= {source.config_map for source in (*pod.config, *pod.policy)}
        config, policies = files_of(pod.config), files_of(pod.policy)
        if config:
            missing = [name for name, _ in pod.policy if name not in config_maps]
            mounted.append(
                replace(
                    _together(config),
                    policy=_together(policies) if policies else None,
                    lacks=next(iter(missing), ""),
                )
            )
        else:
            mounted += (Mounted(name=policy.name, policy=policy) for policy in policies)
    rest = [d for name, found in config_maps.items() if name not in taken for d in found]
    ours = [document for document in rest if _mentions_us(document)]
    for document in ours or ([] if mounted else rest):
        alone = _unwrap(document, lines)
        kinds = [_version_and_kind(inner) for inner in alone.documents]
        is_policy = bool(kinds) and all(kind == POLICY for _, kind in kinds)
        mounted.append(Mounted(name=alone.name, policy=alone) if is_policy else alone)
    # What is wrong with the YAML of other manifests, or with all of it.
    rest_of_file = Mounted(name="", problems=problems, claims=list(filter(is_claim, objects)))
    return [rest_of_file, *mounted] if problems or rest_of_file.claims else mounted


def _together(parts: Sequence[Mounted]) -> Mounted:
    return Mounted(
        name=", ".join(part.name for part in parts),
        documents=[document for part in parts for document in part.documents],
        problems=[problem for part in parts for problem in part.problems],
        files=[file for part in parts for file in part.files],
    )


def _version_and_kind(document: Document) -> tuple[str, str]:
    version, kind = (_dig(document.data, key) for key in ("apiVersion", "kind"))
    return str(version or ""), str(kind or "")


def _name(document: Document) -> str:
    """Return the name, after the namespace where one is written."""
    namespace, name = (_dig(document.data, "metadata", key) for key in ("namespace", "name"))
    return f"{namespace}/{name}" if namespace else str(name or "")


def _items(document: Document) -> Iterator[Document]:
    """Yield the objects of a List, as of ``kubectl get -o yaml``; else the document itself."""
    version, kind = _version_and_kind(document)
    items = document.node(("items",))
    if not (version == "v1" and kind.endswith("List")) or items is None or items.entries is None:
        yield document
        return
    for node, data in zip(items.entries, document.data["items"], strict=True):
        yield Document(file=document.file, root=node, data=data)


def _dig(data: Any, *steps: str) -> Any:  # noqa: ANN401
    for step in steps:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _dicts(data: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _pods(document: Document) -> Iterator[_Pod]:
    """Yield the containers of a pod, or of what makes pods, whose options lead to ConfigMaps."""
    data = document.data
    namespace = _name(document).rpartition("/")[0]
    spec = _dig(data, "spec", "template", "spec") or _dig(data, "spec")
    volumes = {str(_dig(volume, "name")): volume for volume in _dicts(_dig(spec, "volumes"))}
    for container in _dicts(_dig(spec, "containers")):
        mounts = {
            str(_dig(mount, "mountPath")).rstrip("/"): volumes.get(str(_dig(mount, "name")))
            for mount in _dicts(_dig(container, "volumeMounts"))
        }
        config, policy = (
            [
                source
                for path in _values_of(container, option, variable)
                for source in _sources(path.rstrip("/"), mounts, namespace)
            ]
            for option, variable in _OPTIONS.items()
        )
        if config or policy:
            yield _Pod(config, policy)


def _values_of(container: dict[str, Any], option: str, variable: str) -> list[str]:
    """Return what an option is given, or else its variable."""
    parts = [_dig(container, "command"), _dig(container, "args")]
    words = [str(word) for part in parts if isinstance(part, list) for word in part]
    given = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    given += [after for word, after in pairwise(words) if word == option]
    env = _dicts(_dig(container, "env"))
    return given or [str(_dig(set_, "value")) for set_ in env if _dig(set_, "name") == variable]


def _sources(path: str, mounts: Mapping[str, Any], namespace: str) -> Iterator[Source]:
    """Yield the ConfigMaps of the volume that a path is in."""
    above = [at for at in mounts if path == at or path.startswith(f"{at}/")]
    if not above:
        return
    at = max(above, key=len)
    volume = mounts[at]
    projected = _dicts(_dig(volume, "projected", "sources"))
    for source in (volume, *projected):
        if name := _dig(source, "configMap", "name"):
            prefix = f"{namespace}/" if namespace else ""
            yield Source(f"{prefix}{name}", path[len(at) + 1 :])


def _mentions_us(config_map: Document) -> bool:
    values = _dig(config_map.data, "data")
    files = values.items() if isinstance(values, dict) else ()
    texts = [str(value) for name, value in files if name.endswith(SUFFIXES)]
    return any(word in text for text in texts for word in (_GROUP, *KINDS))


def _unwrap(config_map: Document, lines: Sequence[str], key: str = "") -> Mounted:
    """Return what is in the data of a ConfigMap: the files of a mount of it, or one of them."""
    documents: list[Document] = []
    problems: list[Problem] = []
    files: list[tuple[str, str]] = []
    data = config_map.node(("data",))
    entries = {
        name: value
        for name, (_, value) in ((data and data.items) or {}).items()
        if (name == key if key else name.endswith(SUFFIXES) and not name.startswith("."))
    }
    if not entries:
        problems.append(problem_at(config_map.file, config_map.mark(("data",)), _NO_CONFIG))
    for name, value in entries.items():
        if isinstance(value.scalar, str):
            found, wrong = _read_within(config_map.file, value, lines)
            documents += found
            problems += wrong
            files.append((name, value.scalar))
        else:
            mark = config_map.mark(("data", name), of_key=True)
            message, hint = f"the data of {name!r} is not a string", f"write {name}: |"
            problems.append(problem_at(config_map.file, mark, message, hint))
    return Mounted(name=_name(config_map), documents=documents, problems=problems, files=files)


def _read_within(
    file: str, value: YamlNode, lines: Sequence[str]
) -> tuple[list[Document], list[Problem]]:
    """Read a file within a manifest, so that all in it has the place that it has in the file."""
    inner = str(value.scalar)
    if lines[value.mark.line - 1][value.mark.column - 1 :].startswith("|"):
        return read(file, _in_place(inner, value.mark, lines).encode())
    found, wrong = read(file, inner.encode())
    return [replace(document, place=value.mark) for document in found], [
        problem._replace(line=value.mark.line, column=value.mark.column) for problem in wrong
    ]


def _in_place(inner: str, mark: Mark, lines: Sequence[str]) -> str:
    rows = inner.split("\n")
    first = next((i for i, row in enumerate(rows) if row.strip()), 0)
    outer = lines[mark.line + first] if mark.line + first < len(lines) else ""
    indent = " " * (indentation(outer) - indentation(rows[first]))
    moved = (row if row.startswith(_SEPARATORS) else f"{indent}{row}" for row in rows)
    return "\n" * mark.line + "\n".join(moved)
