"""A config of earlier under the policy of today."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.config.bounds import bounds_findings
from genericdp.config.tree import shown_path
from genericdp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from genericdp.config.loaded import Loaded
    from genericdp.policy import Policy


def rebound(loaded: Loaded, policy: Policy | None) -> Loaded:
    """Give a decoded config as if it had been loaded under this policy; None: nothing bounds it.

    What the policy does not allow is a problem, at the place of its resource: where in the file
    the rest stood is not known any more. The digest is another one if the policy is.
    """
    if policy is not None and (problems := tuple(_problems(json.loads(loaded.wire), policy))):
        return replace(loaded, resources=(), problems=problems, policy=policy)
    if policy == loaded.policy:
        return loaded
    return replace(
        loaded,
        resources=tuple(replace(one, policy=policy) for one in loaded.resources),
        policy=policy,
        # Else the same config under its former policy would be taken for the one in force.
        digest=hashlib.sha256(f"{loaded.digest}\0{policy!r}".encode()).hexdigest(),
    )


def _problems(message: Mapping[str, Any], policy: Policy) -> Iterator[Problem]:
    for document in message["documents"]:
        listed = zip(document["resources"], document["places"], strict=True)
        for i, (resource, place) in enumerate(listed):
            for finding in bounds_findings(("resources", i), resource, policy):
                path = shown_path(finding.path)
                yield Problem(path=path, message=finding.message, hint=finding.hint, **place)
