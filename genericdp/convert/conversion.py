"""One conversion: another plugin's config in, a valid config or the problems of the input out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from genericdp.config.document import shown_path
from genericdp.config.files import STDIN, unusable
from genericdp.config.foreign import named
from genericdp.config.load import load
from genericdp.config.schema import CONFIG
from genericdp.convert import akri, rdma, smarter, squat, sriov
from genericdp.convert.document import Source, called, find, is_object, objects, parse
from genericdp.convert.output import ConfigDraft, render, resource_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.convert.document import Part
    from genericdp.errors import Problem


class PeerPlugin(Protocol):
    """The module for one other plugin."""

    PLUGIN: str
    """The plugin's name."""
    MARKERS: tuple[str, ...]
    """Keys of which each of its configs has one; the first is that of its own format."""
    HEAD: tuple[str, ...]
    """Comments for all configs."""

    def is_config(self, part: Part, /) -> bool:
        """Return whether a value is a config of this plugin."""

    def convert(self, configs: Sequence[Part], draft: ConfigDraft, /) -> None:
        """Add resources for the configs of one document."""


PEERS: dict[str, PeerPlugin] = {
    "squat": squat,
    "smarter": smarter,
    "akri": akri,
    "sriov": sriov,
    "rdma": rdma,
}
"""The plugins whose configs can be converted."""
_SHARED = "A device that several resources find is offered by the first of them only."
_OF_NODES = {("nodeSelector",), ("nodeAffinity",)}
_NODES = "give genericdp's DaemonSet the same nodes, or the resources nodeNames"
_MAX_SHOWN = 5
"""The number of withheld resources shown without another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """A valid config, or no text and the problems."""

    text: str = ""
    problems: tuple[Problem, ...] = ()
    resources: tuple[str, ...] = ()
    """The names of those that are offered."""
    withheld: dict[str, str] = field(default_factory=dict)
    """Those that are only comments, with the reason."""


def convert(peer: str, file: str, content: bytes) -> Converted:
    """Convert the config of a plugin; ``file`` is its name in messages."""
    source, plugin = Source(file=file), PEERS[peer]
    title = f"Converted from {file.rpartition('/')[2]}, a config of {plugin.PLUGIN}."
    draft = ConfigDraft(head=[f"{title} What is not the same has a comment.", *plugin.HEAD])
    content = squat.listed(content) if peer == "squat" else content
    for document in (found for parsed in parse(source, content) for found in objects(parsed)):
        plugin.convert(_configs(document, peer, draft), draft)
    foreign = None if draft.resources else named(content.decode("utf-8", "replace"))
    if foreign is not None:
        return Converted(problems=(unusable(file, *foreign),))
    if source.problems:
        return Converted(problems=tuple(sorted(set(source.problems))))
    if all(resource.withheld for resource in draft.resources):
        return Converted(problems=(_nothing(file, draft),))
    draft.head += [_SHARED] if any(resource.exclusive for resource in draft.resources[1:]) else []
    text = render(draft)
    if wrong := load([STDIN], pipes={STDIN: text.encode()}).problems:
        messages = (
            f"the result would not be valid: {problem.path}: {problem.message}" for problem in wrong
        )
        return Converted(problems=tuple(unusable(file, message) for message in messages))
    return Converted(
        text=text,
        resources=tuple(resource.name for resource in draft.resources if not resource.withheld),
        withheld={
            resource.name: resource.withheld for resource in draft.resources if resource.withheld
        },
    )


def _configs(document: Part, peer: str, draft: ConfigDraft) -> list[Part]:
    """Return the configs in a document; report parts that are not configs."""
    plugin = PEERS[peer]
    found = list(find(document, plugin.is_config, plugin.MARKERS))
    if is_object(document):
        for part in find(document, _is_of_nodes, ()):
            draft.left += part.quotation(f"{_NODES}, of {called(document)}")
    if found:
        paths = (shown_path(part.source.within or part.path) for part in found)
        shown = dict.fromkeys(path.removeprefix(".") for path in paths)
        if document.shown not in shown:
            draft.left.append(f"Of {called(document)}, only {', '.join(shown)} was converted.")
    elif any(find(document, _is_ours, ("kind",))):
        document.fail("this is a config of genericdp already", "check it with 'genericdp validate'")
    elif is_object(document):
        why = f"it has no config of {plugin.PLUGIN}"
        draft.left.append(f"Not converted, {called(document)}: {why}.")
    elif not document.source.problems:
        wrong = f"this is not a config of {plugin.PLUGIN}: {plugin.MARKERS[0]} is missing"
        document.fail(wrong, _hint(document, peer))
    return found


def _is_of_nodes(part: Part) -> bool:
    """Return whether it says which nodes a plugin's pods run on."""
    return part.path[-1:] in _OF_NODES and bool(part.node.items)


def _is_ours(part: Part) -> bool:
    return is_object(part) and part.keys().take("kind").node.scalar == CONFIG


def _hint(document: Part, asked: str) -> str:
    """Return the option for the plugin whose config this is, or an empty string."""
    before = len(document.source.problems)
    found = [
        f"it looks like a config of {other.PLUGIN}: --from {name}"
        for name, other in PEERS.items()
        if name != asked and any(find(document, other.is_config, other.MARKERS))
    ]
    del document.source.problems[before:]
    return found[0] if found else ""


def _nothing(file: str, draft: ConfigDraft) -> Problem:
    reasons = [f"{resource.name}: {resource.withheld}" for resource in draft.resources]
    left = [line for resource in draft.resources for line in resource.left] + draft.left
    reasons += [line for line in left if not line.startswith(" ")]
    why = "".join(f"\n    {reason}" for reason in reasons)
    shown = [resource for resource in draft.resources if resource.match][:_MAX_SHOWN]
    begun = "".join(f"\n    {line}" for resource in shown for line in resource_lines(resource))
    start = f"\n    What it has become so far:{begun}" if begun else ""
    return unusable(file, f"nothing in it can be converted{':' if why else ''}{why}{start}")
