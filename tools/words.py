"""Check how the project speaks: a part of ``make lint``; ``python -m tools.words FILE…``.

Docs, help texts, messages, comments, docstrings and names are read by people to whom English is a
second language, and by people who read a message at three in the morning. So a word has one
meaning here, and a sentence names who does what. Words of the table below come with what to write
instead. Code in Markdown is not checked: it quotes what programs print.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
TABLE = {
    r"folders?": "directory",
    r"in force": "active",
    r"vanish\w*": "disappear, unplugged, missing",
    r"nobody|anybody|somebody|whoever": "name the actor, or use the passive",
    r"(?:tells?|told|hears of)(?!\b[^.]{0,60}\bapart\b)": "report, show, log, say",
    r"look(?:s|ed|ing)? at|a look": "read, scan, check",
    r"sits? on": "parent, child, is attached to",
    r"ask(?:s|ed)? for": "request",
    r"(?<!there )(?:is|are|was|were) no(?!\s+(?:longer|more)\b)(?=\s)": "is not a",
    r"(?<!there )(?:is|are) (?-i:none)": "is not a",
    r"so (?:long|many)(?! as)": "this long, this many",
    r"stand-ins?": "simulated",
    r"texts|a text": "string",
    r"for people": "human-readable",
    r"anew": "again, from scratch",
    r"wary": "strict",
    r"doubts?": "uncertain, unknown",
    r"goes on|going on": "continue",
    r"to be had": "available",
    r"(?:is|are|was|were) gone": "missing",
    r"beside": "next to, in addition to",
}
"""By a regular expression: what to write."""
NAMES = {
    "one": "the noun of what it is",
    "it": "the noun of what it is",
    "its": "the noun of what it is",
    "told": "the noun of what it is",
    "folder": "directory",
    "folders": "directories",
}
"""Names of variables, parameters, attributes, functions and modules, or parts of them."""
ALLOWED = {
    "tools/words.py": "it names the words",
}
"""Files that are not checked, with the reason."""
_QUOTED = re.compile(
    "tests/(?:convert/(?:peers|expected)|hosts/[^/]+/files|configs)/|requirements/|genericdp/.*/api/"
)
"""Configs of peers, files of recorded machines, mistakes that users make, and generated code."""
MAX_SUBJECT = 60
MIN_EXPLAINED = 30
"""Changed lines from which on a commit has to explain itself."""
_EXPRESSION = re.compile("|".join(rf"\b({pattern})\b" for pattern in TABLE), re.IGNORECASE)
_QUESTION = re.compile(r"(?:What|How|Whether|Why|Which|Who|When|Where|Of|Those that)\b")


class Problem(NamedTuple):
    """A place that breaks a rule."""

    line: int
    found: str
    write: str


def of_prose(text: str, first: int = 1) -> Iterator[Problem]:
    """Yield the words of the table in a text, whose first line has this number."""
    for match in _EXPRESSION.finditer(text):
        write = list(TABLE.values())[(match.lastindex or 1) - 1]
        number = first + text.count("\n", 0, match.start())
        yield Problem(number, " ".join(match[0].split()), write)


def of_markdown(text: str) -> Iterator[Problem]:
    """Yield what is wrong in a page, but for its code."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    prose = re.sub(r"^```.*?^```|^ {4}.*?$|`[^`\n]+`", blank, text, flags=re.DOTALL | re.MULTILINE)
    yield from of_prose(prose)


def of_python(code: str) -> Iterator[Problem]:
    """Yield what is wrong in names, docstrings, comments and messages."""
    for node in ast.walk(ast.parse(code)):
        yield from _of_names(node)
        yield from _of_docstring(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from of_prose(node.value, node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield from of_prose(token.string, token.start[0])


def _of_names(node: ast.AST) -> Iterator[Problem]:
    for name in _bound(node):
        words = name.strip("_").lower().split("_")
        for word in NAMES.keys() & set(words):
            if word == name or word.startswith("folder"):
                yield Problem(getattr(node, "lineno", 1), f"the name {name}", NAMES[word])


def _of_docstring(node: ast.AST) -> Iterator[Problem]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        text = ast.get_docstring(node) or ""
        if _QUESTION.match(text):
            first = node.body[0].lineno
            yield Problem(first, text.partition(" ")[0], "Return …, Yield …, or what it is")


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
        case _:
            pass


def of_json(text: str) -> Iterator[Problem]:
    """Yield what is wrong in the descriptions of a schema."""
    for description in _described(json.loads(text)):
        for problem in of_prose(description):
            line = text[: text.find(json.dumps(description, ensure_ascii=False))].count("\n") + 1
            yield problem._replace(line=line)


def _described(part: object) -> Iterator[str]:
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if isinstance(part, dict) and isinstance(text := part.get("description"), str):
        yield text
    for child in children:
        yield from _described(child)


def of_comments(text: str) -> Iterator[Problem]:
    """Yield what is wrong in the comments of YAML, shell and the like."""
    comments = (re.search(r"(?:^|\s)#.*", line) for line in text.split("\n"))
    yield from of_prose("\n".join(comment[0] if comment else "" for comment in comments))


def of_case(text: str) -> Iterator[Problem]:
    """Yield what is wrong in the sentence of a case; the rest is what commands print."""
    yield from of_comments(text.partition("\n$")[0])


def of_commit(message: str, changed: int) -> Iterator[Problem]:
    """Yield what is wrong in the message of a commit that changes this many lines."""
    subject, _, body = message.partition("\n")
    if not re.fullmatch(r"[a-z0-9][\w./-]*: [^A-Z;]\S*[^;]*[^.;]", subject):
        yield Problem(1, subject, "area: imperative summary")
    if len(subject) > MAX_SUBJECT:
        yield Problem(1, subject, f"a summary of at most {MAX_SUBJECT} characters")
    if changed > MIN_EXPLAINED and not body.strip():
        yield Problem(1, subject, "a body that says why, and what was rejected")
    yield from of_prose(message)


_KINDS = {
    ".md": of_markdown,
    ".py": of_python,
    ".json": of_json,
    ".html": of_prose,
    **dict.fromkeys((".yaml", ".sh", ".toml", ".service", ".conf"), of_comments),
}


def problems(files: Iterable[str]) -> Iterator[tuple[str, Problem]]:
    """Yield the problems of files, named from the root of the project."""
    for name in files:
        check = of_case if name.endswith("/expect.txt") else _KINDS[Path(name).suffix]
        for problem in sorted(set(check((ROOT / name).read_text()))):
            yield f"{name}:{problem.line}", problem


def problems_of_commits() -> Iterator[tuple[str, Problem]]:
    """Yield the problems of the commits that a branch adds to ``main``."""
    for base in ("origin/main", "main"):
        if _git("rev-parse", "--verify", "--quiet", base):
            break
    else:
        return
    for commit in _git("rev-list", "--no-merges", f"{base}..HEAD").split():
        numbers = _git("show", "--format=", "--numstat", commit)
        counts = re.findall(r"^(\d+)\t(\d+)", numbers, re.MULTILINE)
        changed = sum(int(added) + int(removed) for added, removed in counts)
        for problem in of_commit(_git("show", "-s", "--format=%B", commit).strip(), changed):
            yield f"commit {commit[:8]}", problem


def main() -> int:
    """Print each problem with its place; return 1 if there is one."""
    found = 0
    checked = sys.argv[1:]
    for place, problem in (
        *problems(checked or _files()),
        *(() if checked else problems_of_commits()),
    ):
        print(f"{place}: {problem.found!r}: write {problem.write}")
        found += 1
    if found:
        print(f"{found} problems; the table of words is in tools/words.py", file=sys.stderr)
    return 1 if found else 0


def _files() -> Iterator[str]:
    for name in _git("ls-files", "-z").split("\0"):
        is_known = Path(name).suffix in _KINDS or name.endswith("/expect.txt")
        if is_known and name not in ALLOWED and not _QUOTED.match(name):
            yield name


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
