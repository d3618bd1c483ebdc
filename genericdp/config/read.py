"""YAML text into documents that know the place of everything in them.

The events of the parser are used directly: PyYAML's own composer crashes on deep nesting and
follows cycles, and its constructor stops at the first scalar it does not like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from genericdp.config.compose import Composer, StoppedError
from genericdp.config.tree import Document, plain_data
from genericdp.errors import Problem

if TYPE_CHECKING:
    from genericdp.config.tree import YamlNode

Loader = Any  # a class of PyYAML; the C one has no types
LOADER: Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_IF_EMPTY = "see 'genericdp schema'"

# What YAML calls printable, less U+FEFF, which stands only at the start of a file.
_SINGLE = "\t\n\r\x85"
_RANGES = (
    (" ", "~"),
    ("\xa0", "\ud7ff"),
    ("\ue000", "\ufefe"),
    ("\uff00", "\ufffd"),
    ("\U00010000", "\U0010ffff"),
)
"""No regular expression: to compile that takes longer than to parse most configs."""


def read(
    file: str, content: bytes, *, loader: Loader = LOADER, if_empty: str = _IF_EMPTY
) -> tuple[list[Document], list[Problem]]:
    """Take a file's bytes apart into its documents, with every problem on the way.

    ``if_empty`` is the hint for a file that holds none.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [_not_utf8(file, content, error)]
    if unprintable := {one for one in set(text) if not _is_printable(one)}:
        at = min(map(text.index, unprintable))
        message = f"the character U+{ord(text[at]):04X} cannot stand in YAML: is this a text file?"
        return [], [_problem_at(file, text, at, message)]
    composer = Composer(file, text)
    roots: list[YamlNode] = []
    try:
        for root in composer.documents(yaml.parse(text, Loader=loader)):
            roots.append(root)  # noqa: PERF402  what came before an error is kept
    except StoppedError:
        pass
    except yaml.YAMLError as error:
        composer.problems.append(_syntax_problem(file, text, error))
    except (ValueError, OverflowError) as error:
        # The pure loader lets these through for escapes such as "\UFFFFFFFF".
        composer.problems.append(_problem_at(file, text, 0, f"not YAML: {error}"))
    written = [root for root in roots if root.source != ""]
    if not written and not composer.problems:
        what = "it is empty" if not text.strip() else "it holds no document"
        composer.problems.append(_problem_at(file, text, 0, what, if_empty))
    return [_document(file, root) for root in written], composer.problems


def _is_printable(character: str) -> bool:
    return character in _SINGLE or any(first <= character <= last for first, last in _RANGES)


def _document(file: str, root: YamlNode) -> Document:
    data = plain_data(root)
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if not key.startswith("x-")}
    return Document(file=file, root=root, data=data)


def _not_utf8(file: str, content: bytes, error: UnicodeDecodeError) -> Problem:
    before = content[: error.start].decode("utf-8-sig", "replace")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "it is UTF-16 text, not UTF-8"
    else:
        message = f"it is not UTF-8 text: byte 0x{content[error.start]:02x}"
    return _problem_at(file, before, len(before), message, "a config is saved as UTF-8")


def _problem_at(file: str, text: str, at: int, message: str, hint: str = "") -> Problem:
    before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
    line, column = before.count("\n") + 1, at - (text[:at].rfind("\n") + 1) + 1
    return Problem(file=file, line=line, column=column, path="", message=message, hint=hint)


def _syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    context_mark = getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    context = getattr(error, "context", None)
    lines = text.splitlines()
    hint = ""
    if mark is not None and mark.line < len(lines) and _tab_indents(lines[mark.line], mark.column):
        problem, context = "a tab cannot indent", None
        hint = "use spaces"
    where = f" {context}" if context else ""
    if context and context_mark is not None and context_mark.line != getattr(mark, "line", None):
        where += f" that begins at line {context_mark.line + 1}"
    # At the end of the file there is nothing to point to; where it began there is.
    if mark is not None and mark.line >= len(lines) and context_mark is not None:
        mark = context_mark
    if mark is not None and mark.line >= len(lines):
        mark = None
    place = (mark.line + 1, mark.column + 1) if mark is not None else _last_character(text)
    message = f"not YAML: {problem}{where}"
    return Problem(file=file, line=place[0], column=place[1], path="", message=message, hint=hint)


def _last_character(text: str) -> tuple[int, int]:
    lines = text.rstrip().splitlines() or [""]
    return len(lines), max(1, len(lines[-1]))


def _tab_indents(line: str, column: int) -> bool:
    return line[column : column + 1] == "\t" and not line[:column].strip(" \t-")
