"""A loaded config as JSON, for the pipe between the process that loads and the daemon."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.config.build import build
from genericdp.config.loaded import Loaded
from genericdp.errors import Problem
from genericdp.model import Place
from genericdp.policy import from_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_PROBLEMS = 1000
"""More than a person reads, and than a log should hold."""

Listed = tuple["Sequence[Mapping[str, Any]]", "Sequence[Place]"]
"""The plain data of a document's resources, and their places."""


def encode(loaded: Loaded, documents: Sequence[Listed]) -> bytes:
    """Give the bytes for what was read; ``documents`` are empty where there are problems."""
    message = {
        "documents": [
            {"resources": resources, "places": [asdict(place) for place in places]}
            for resources, places in documents
        ],
        "problems": [asdict(problem) for problem in loaded.problems[:MAX_PROBLEMS]],
        "warnings": [asdict(warning) for warning in loaded.warnings[:MAX_PROBLEMS]],
        "files": [os.fspath(path) for path in loaded.files],
        "digest": loaded.digest,
        "policy": loaded.policy and asdict(loaded.policy),
        "policyIsUnusable": loaded.policy_is_unusable,
    }
    return json.dumps(message).encode()


def decode(text: bytes) -> Loaded:
    """Give what was encoded, with the resources built; raises ValueError for anything else."""
    try:
        return _decoded(text)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no encoded config: {error}") from error


def _decoded(text: bytes) -> Loaded:
    message = json.loads(text)
    policy = message["policy"] and from_plain(message["policy"])
    resources = tuple(
        resource
        for document in message["documents"]
        for resource in build(
            document["resources"], [Place(**place) for place in document["places"]], policy
        )
    )
    return Loaded(
        resources=resources,
        problems=tuple(Problem(**problem) for problem in message["problems"]),
        warnings=tuple(Problem(**warning) for warning in message["warnings"]),
        files=tuple(Path(path) for path in message["files"]),
        digest=message["digest"],
        policy=policy,
        policy_is_unusable=message["policyIsUnusable"],
        wire=text,
    )
