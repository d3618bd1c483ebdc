"""Go's filepath.Glob in our globs."""

from __future__ import annotations

import re

from genericdp.glob import escape, path_problem

MAX_LENGTH = 4096
"""The kernel takes no longer path."""
_CLASS = re.compile(r"\[(\^?)((?:[^\]\\-]|\\.)(?:-(?:[^\]\\-]|\\.))?(?:[^\]\\]|\\.)*)\]")


def glob_of(pattern: str) -> str | None:
    """Give the same glob in our dialect, or None where that cannot be said in it."""
    if len(pattern) > MAX_LENGTH:
        return None
    made, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            made += escape(pattern[at + 1 : at + 2])
            at += 2
        elif character == "[":
            found = _CLASS.match(pattern, at)
            if found is None or "\\" in found[2]:
                return None
            members = found[2]
            # An exclamation mark is no negation there, but it is one here.
            if not found[1] and members.startswith("!"):
                members = members[1:] + "!"
            made += f"[{'!' if found[1] else ''}{members}]"
            at = found.end()
        else:
            made += character
            at += 1
    # Several stars in a row are one there.
    made = re.sub(r"\*{2,}", "*", made)
    return made if path_problem(made) is None else None
