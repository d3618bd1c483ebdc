"""One conversion: a peer's text in, a valid config or what is wrong out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.config.load import load
from genericdp.config.loaded import STDIN
from genericdp.converting import akri, rdma, smarter, squat, sriov
from genericdp.converting.parts import Source, parts
from genericdp.converting.writing import resource_lines, written
from genericdp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.converting.draft import Draft
    from genericdp.converting.parts import Part

PEERS: dict[str, Callable[[tuple[Part, ...]], Draft]] = {
    "squat": squat.convert,
    "smarter": smarter.convert,
    "akri": akri.convert,
    "sriov": sriov.convert,
    "rdma": rdma.convert,
}
"""Whose configs can be converted."""
MAX_RESOURCES = 1000
MAX_SHOWN = 5
"""So many resources that cannot be offered yet are shown where there is no other."""
_TITLE = "From {peer}'s {file}. What could not be the same is said where it is."


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """A valid config, or no text and the problems that there are."""

    text: str = ""
    problems: tuple[Problem, ...] = ()
    resources: tuple[str, ...] = ()
    """The names of those that are offered."""
    withheld: dict[str, str] = field(default_factory=dict)
    """Those that are only a comment, with why."""


def convert(peer: str, file: str, content: bytes) -> Converted:
    """Convert the config of a peer; ``file`` is what messages call it."""
    source = Source(file=file)
    draft = PEERS[peer](parts(source, content))
    if source.problems:
        return Converted(problems=tuple(sorted(set(source.problems))))
    if all(resource.withheld for resource in draft.resources):
        return Converted(problems=(_nothing(file, draft),))
    if len(draft.resources) > MAX_RESOURCES:
        many = f"it becomes {len(draft.resources)} resources, more than {MAX_RESOURCES}"
        return Converted(problems=(_problem(file, many),))
    draft.head.insert(0, _TITLE.format(peer=peer, file=file.rpartition("/")[2]))
    text = written(draft)
    wrong = load([STDIN], stdin=text.encode()).problems
    if wrong:
        return Converted(problems=tuple(_unexpected(file, problem) for problem in wrong))
    return Converted(
        text=text,
        resources=tuple(one.name for one in draft.resources if not one.withheld),
        withheld={one.name: one.withheld for one in draft.resources if one.withheld},
    )


def _nothing(file: str, draft: Draft) -> Problem:
    reasons = [f"{one.name}: {one.withheld}" for one in draft.resources]
    left = [line for one in draft.resources for line in one.left] + draft.left
    reasons += [line for line in left if not line.startswith(" ")]
    why = "".join(f"\n    {reason}" for reason in reasons)
    shown = [one for one in draft.resources if one.match][:MAX_SHOWN]
    begun = "".join(f"\n    {line}" for one in shown for line in resource_lines(one))
    start = f"\n    What it has become so far:{begun}" if begun else ""
    return _problem(file, f"nothing in it can be converted{':' if why else ''}{why}{start}")


def _unexpected(file: str, problem: Problem) -> Problem:
    return _problem(file, f"what it becomes would not be valid: {problem.path}: {problem.message}")


def _problem(file: str, message: str) -> Problem:
    return Problem(file=file, line=1, column=1, path="", message=message)
