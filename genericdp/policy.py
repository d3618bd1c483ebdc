"""The policy of an administrator for configs; refusals name its line.

Plain text is checked when a config is loaded (``config/rules/policy.py``). The results of templates
are checked as soon as they are known: at discovery, before a probe or hook, and at Allocate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.glob import is_within, segments_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CDI_ANNOTATION = "cdi.k8s.io/"
"""Prefix of annotations in which runtimes expect names of CDI devices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing that is allowed: a path with everything below it, a program, or a glob of names."""

    text: str
    place: str
    """Its place in the policy, as ``FILE:LINE``."""
    read_only: bool = True
    """For a mount: whether it is read-only."""
    sha256: str = ""
    """For a program: the required digest of its file, in lower-case hexadecimal digits; empty
    for any.
    """
    env: tuple[str, ...] = ()
    """For a program: the variables that a config may set for it, as globs."""

    @property
    def says_read_only(self) -> str:
        """Return the line that the refusal of a writable mount cites."""
        return f"policy {self.place} says hostPath: {self.text} without readOnly: false"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Everything that is allowed of one kind."""

    says: str
    """The text that a refusal cites."""
    rules: tuple[Rule, ...] = ()

    def rules_for(self, path: str) -> list[Rule]:
        """Return the rules that allow a path."""
        return [rule for rule in self.rules if is_within(path, segments_of(rule.text))]

    def allows_name(self, name: str) -> bool:
        """Return whether containers may get a name."""
        return any(glob.matches(rule.text, name) for rule in self.rules)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The rules for the configs of a node. Each ``…_refusal`` returns a reason or ""."""

    file: str
    """The name of its file in messages."""
    devices: Section
    mounts: Section
    files: Section
    commands: Section
    env: Section
    annotations: Section
    cdi: Section
    block: bool = False
    """Whether ``devices`` allows block devices."""
    block_says: str = ""
    """The text that a refusal of a block device cites."""
    sha256: str = ""
    """The digest of its file, in lower-case hexadecimal digits."""

    def node_refusal(self, path: str, target: str, *, block: bool) -> str:
        """Return why containers must not get a device node.

        ``path`` is the path in the config, ``target`` where that leads: both must be allowed.
        """
        if refusal := _path_refusal(self.devices, "device nodes", path, target):
            return refusal
        return f"{path} is a block device ({self.block_says})" if block and not self.block else ""

    def mount_refusal(self, path: str, target: str, *, read_only: bool) -> str:
        """Return why a path must not be mounted."""
        if refusal := _path_refusal(self.mounts, "mounts", path, target):
            return refusal
        for checked in () if read_only else (path, target):
            rules = self.mounts.rules_for(checked)
            if all(rule.read_only for rule in rules):
                return f"{checked} may be mounted only for reading ({rules[0].says_read_only})"
        return ""

    def file_refusal(self, path: str, target: str) -> str:
        """Return why a file must not be read for a config."""
        return _path_refusal(self.files, "files", path, target)

    def command_rule(self, program: str) -> Rule | None:
        """Return the rule that allows a program, or None."""
        return next((rule for rule in self.commands.rules if rule.text == program), None)

    def cdi_refusal(self, names: str) -> str:
        """Return why containers must not get CDI names, which are separated by commas."""
        for kind in (name.partition("=")[0] for name in names.split(",")):
            if not self.cdi.allows_name(kind):
                return f"{kind!r} is not allowed ({self.cdi.says})"
        return ""

    def annotation_refusal(self, key: str, text: str) -> str:
        """Return why an annotation must not have a value: runtimes read some as CDI names."""
        refusal = self.cdi_refusal(text) if key.startswith(CDI_ANNOTATION) else ""
        return f"{key}: {refusal}" if refusal else ""


def _path_refusal(section: Section, what: str, *paths: str) -> str:
    for path in paths:
        if not section.rules_for(path):
            return f"{path} is not among the {what} that are allowed ({section.says})"
    return ""


SECTIONS = ("devices", "mounts", "files", "commands", "env", "annotations", "cdi")


def from_plain(plain: Mapping[str, Any]) -> Policy:
    """Return a policy from the result of ``dataclasses.asdict``; raises KeyError or TypeError."""
    return Policy(**{**plain, **{key: _section(plain[key]) for key in SECTIONS}})


def _section(plain: Mapping[str, Any]) -> Section:
    rules = tuple(Rule(**{**rule, "env": tuple(rule["env"])}) for rule in plain["rules"])
    return Section(**{**plain, "rules": rules})
