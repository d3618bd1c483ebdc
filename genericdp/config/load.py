"""A whole config from its paths, in this process: read, check, then build."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.build import build
from genericdp.config.files import Content, content, sources, unquoted
from genericdp.config.loaded import Loaded
from genericdp.config.policyfile import LoadedPolicy, load_policy
from genericdp.config.read import read_config
from genericdp.config.rules import check, resources_of
from genericdp.model import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.config.tree import Document
    from genericdp.errors import Problem

__all__ = ["Loaded", "load", "read_all"]

MAX_PROBLEMS = 1000
"""More than a person reads, and than a log should hold."""


def load(
    paths: Sequence[Path],
    *,
    stdin: bytes | None = None,
    pipes: Mapping[Path, bytes] | None = None,
    policy: Path | None = None,
) -> Loaded:
    """Return the config that the paths make up together, or all of its problems.

    ``stdin`` is what the path ``-`` stands for, ``pipes`` what was read from others, by path.
    ``policy`` is the file of what bounds it.
    """
    loaded, documents = read_all(paths, stdin, policy, pipes)
    if loaded.problems:
        return loaded
    resources = tuple(
        resource
        for document in documents
        for resource in build(resources_of(document), places_of(document), loaded.policy)
    )
    return replace(loaded, resources=resources)


def read_all(
    paths: Sequence[Path],
    stdin: bytes | None = None,
    policy: Path | None = None,
    pipes: Mapping[Path, bytes] | None = None,
) -> tuple[Loaded, list[Document]]:
    """Return all but the resources, and the checked documents to build them from."""
    files, problems = sources(paths, stdin, pipes)
    documents: list[Document] = []
    digested: list[bytes] = []
    bounds = LoadedPolicy() if policy is None else load_policy(policy)
    problems += bounds.problems
    if policy is not None:
        digested += (f"policy\0{len(bounds.text)}\0".encode(), bounds.text)
    contents: dict[str, Content] = {}
    for source in files:
        given = content(source)
        if not isinstance(given, Content):
            problems.append(given)
            continue
        if source.name not in contents or given.doubt:
            contents[source.name] = given
        # Not its folder: nodes that keep the same config elsewhere have the same one.
        digested += (f"{Path(source.name).name}\0{len(given.text)}\0".encode(), given.text)
        found, wrong = read_config(source.name, given.text)
        documents += found
        problems += wrong
    wrong, warnings = check(documents, bounds.policy)
    problems += wrong
    loaded = Loaded(
        problems=_sorted(unquoted(problems, contents)),
        warnings=(*bounds.warnings, *unquoted(warnings, contents)),
        files=tuple(source.path for source in files),
        digest=hashlib.sha256(b"".join(digested)).hexdigest(),
        policy=bounds.policy,
        policy_is_unusable=bool(bounds.problems),
    )
    return loaded, documents


def places_of(document: Document) -> list[Place]:
    """Return the place of each resource of a document."""
    marks = [document.mark(("resources", i)) for i in range(len(resources_of(document)))]
    return [Place(file=document.file, line=mark.line, column=mark.column) for mark in marks]


def encode(loaded: Loaded, documents: Sequence[Document]) -> bytes:
    """Return JSON for the pipe to the daemon, which ``build.decode`` takes apart."""
    if loaded.problems:
        documents = ()
    message = {
        "documents": [
            {"resources": resources_of(one), "places": [asdict(place) for place in places_of(one)]}
            for one in documents
        ],
        "problems": [asdict(problem) for problem in loaded.problems[:MAX_PROBLEMS]],
        "warnings": [asdict(warning) for warning in loaded.warnings[:MAX_PROBLEMS]],
        "files": [os.fspath(path) for path in loaded.files],
        "digest": loaded.digest,
        "policy": loaded.policy and asdict(loaded.policy),
        "policyIsUnusable": loaded.policy_is_unusable,
    }
    return json.dumps(message).encode()


def _sorted(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(set(problems)))
