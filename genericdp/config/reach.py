"""Where a path with templates can lead, as far as its text tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.config.containment import bracket_end
from genericdp.template import Reference, Template, may_bring_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.glob import Segments


def reach(template: Template, *, pattern: bool, device_path: Sequence[str] = ()) -> list[Segments]:
    """Give globs so that each path that the template can give is one of theirs or lies below.

    A reference may stand for any text that a path takes: what follows it within a folder of its
    own tells nothing. In a ``pattern`` the text outside of references is a glob. ``device_path``
    are globs for what ``$(device.path)`` can be where the template begins with it.
    """
    first = template.parts[0] if template.parts else ""
    if not isinstance(first, Reference):
        return [_Walk().through(template.parts, pattern=pattern)]
    match first.scope, first.name:
        case "device", "path":
            rest = template.parts[1:]
            return [_Walk(one).through(rest, pattern=pattern) for one in device_path]
        case "device", "syspath":
            return [("sys", "devices")]
        case _:
            return [()]


class _Walk:
    """Collects the parts of a path as long as they are known."""

    def __init__(self, start: str = "") -> None:
        self._known: list[str] = []
        self._current = ""
        self._open = False
        """Whether a reference is part of the current one."""
        self._rest = False
        """Whether the current one has ended in what may be anything."""
        self._ended = False
        self._add_text(start)

    def through(self, parts: Sequence[str | Reference], *, pattern: bool) -> Segments:
        """Go on through the rest of a path, and give what is known of it."""
        for part in parts:
            if isinstance(part, str):
                self._add_text(part if pattern else glob.escape(part))
            else:
                self._add_unknown(folders=may_bring_folders(part))
        self._close()
        return tuple(self._known)

    def _add_text(self, text: str) -> None:
        first, *others = text.split("/")
        self._extend(first)
        for one in others:
            self._close()
            self._extend(one)

    def _extend(self, text: str) -> None:
        if not self._rest:
            self._current += text

    def _add_unknown(self, *, folders: bool) -> None:
        # What a bracket takes is not known if a part of it is not.
        at = _unclosed_bracket(self._current)
        if at is not None:
            self._current, self._rest = self._current[:at] + "*", True
        elif folders:
            self._current, self._rest = self._current + "*", True
        elif not self._rest:
            self._current += "*"
        self._open = True
        if folders:
            self._close()
            self._ended = True

    def _close(self) -> None:
        written = self._current.replace("*", "") if self._open else self._current
        if self._ended or (not self._open and written in {"", "."}):
            pass
        elif written == "..":
            self._known, self._ended = [], True
        elif self._open and set(written) <= {"."}:
            # Its text may be empty or a dot: then the path is one of the folder above.
            self._ended = True
        else:
            self._known.append(self._current)
        self._current, self._open, self._rest = "", False, False


def _unclosed_bracket(text: str) -> int | None:
    at = 0
    while (at := text.find("[", at)) != -1:
        end = bracket_end(text, at)
        if not end:
            return at
        at = end + 1
    return None
