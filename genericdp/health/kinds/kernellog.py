"""``kernelLog``: the kernel's log, which must have no matching line about the device.

``health/kernellog.py`` follows the log, and determines which devices a line is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from genericdp.errors import Finding
from genericdp.model import Check, TextT, globs
from genericdp.printing import quoted, suggestion
from genericdp.regex import PatternError, compiled
from genericdp.template import expand, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.template import Lookup, Template


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelLogCheck(Check, Generic[TextT]):
    """Checks that no line of the kernel's log is about the device."""

    kind = "kernelLog"
    is_run = False
    regex: str
    where: Mapping[str, TextT] = field(default_factory=dict)
    """Named group of the regex to the text it must equal."""
    ignore: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Named group to strings with which a line does not count."""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> KernelLogCheck[Template]:
        """Return the check of a validated mapping of the config."""
        ignore = written.get("ignore", {})
        return KernelLogCheck(
            regex=written["regex"],
            where={group: parse(text) for group, text in written.get("where", {}).items()},
            ignore={group: globs(texts) for group, texts in ignore.items()},
        )

    @classmethod
    def mistakes(cls, written: Mapping[str, Any], *, several: bool) -> Iterator[Finding]:
        """Find groups that the regex lacks, and lines that are about every device."""
        groups = _named_groups(written.get("regex"))
        for key in ("where", "ignore"):
            for group, text in (written.get(key) or {}).items():
                if groups is not None and text is not None and group not in groups:
                    message = f"the regex has no group {quoted(group)}"
                    hint = suggestion(group, groups) if groups else "name it: (?P<name>...)"
                    yield Finding((key, group), message, hint, of_key=True)
        # A value that is None here is invalid, and has a problem already: it is not missing.
        if several and written.get("where", {}) == {}:
            message = (
                "without 'where' every matching line makes all devices of the resource Unhealthy"
            )
            hint = "write where: {name: $(device.name)}, and (?P<name>...) into the regex"
            yield Finding((), message, hint, of_key=True, warning=True)

    def bind(self: KernelLogCheck[Template], lookup: Lookup) -> KernelLogCheck[str]:
        """Expand the strings that a line must contain."""
        where = {group: expand(text, lookup) for group, text in self.where.items()}
        return KernelLogCheck(regex=self.regex, where=where, ignore=self.ignore)


def _named_groups(pattern: str | None) -> frozenset[str] | None:
    try:
        return None if pattern is None else frozenset(compiled(pattern).groupindex)
    except PatternError:  # a separate problem
        return None
