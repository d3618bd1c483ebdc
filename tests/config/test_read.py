from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.config.check import check
from genericdp.config.compose import MAX_ALIASED_NODES, MAX_DEPTH
from genericdp.config.read import read
from genericdp.config.tree import Path as TreePath
from genericdp.config.tree import shown_path
from tests.budget import examples

CONFIGS = Path(__file__).parent.parent / "configs"
ALL_OF_IT = (CONFIGS / "valid/all-of-it.yaml").read_text()


def _data(text: str) -> Any:
    (document,), problems = read("f", text.encode())
    assert problems == []
    return document.data


def _messages(text: str | bytes) -> list[str]:
    _, problems = read("f", text if isinstance(text, bytes) else text.encode())
    return [f"{problem.line}:{problem.column} {problem.message}" for problem in problems]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: {b: [c, 1, true, null]}", {"a": {"b": ["c", 1, True, None]}}),
        ("a: '1'\nb: \"x\\ty\"\nc: |\n  z\n", {"a": "1", "b": "x\ty", "c": "z\n"}),
        ("a: !!str 0403\nb: ! 1", {"a": "0403", "b": "1"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("x-a: &x {b: c}\nd: *x", {"d": {"b": "c"}}),
        ("{a: , b: }", {"a": None, "b": None}),
        ("a:\n- b\n-\n", {"a": ["b", None]}),
        ("\ufeffa: b", {"a": "b"}),
        ("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
        ("# c\n---\n---\na: b\n...\n---\n", {"a": "b"}),
    ],
)
def test_a_document_gives_its_values(text: str, data: Any) -> None:
    assert _data(text) == data


TEXT = """\
a:
  - b: 'ä€😀'   # a comment
    c: [x, {d: 1}]
"e f": &anchor
  g: h
i: *anchor
j:
"""


@pytest.mark.parametrize(
    ("path", "of_key", "place"),
    [
        ((), False, (1, 1)),
        (("a",), True, (1, 1)),
        (("a",), False, (2, 3)),
        (("a", 0), False, (2, 5)),
        (("a", 0, "b"), False, (2, 8)),
        (("a", 0, "c", 0), False, (3, 9)),
        (("a", 0, "c", 1, "d"), True, (3, 13)),
        (("e f",), False, (4, 8)),
        (("i", "g"), False, (5, 6)),
        (("j",), False, (7, 1)),
        (("a", 0, "missing"), False, (2, 5)),
        (("a", 7, "missing"), False, (2, 3)),
    ],
)
def test_every_value_and_key_has_its_place(
    path: TreePath, of_key: bool, place: tuple[int, int]
) -> None:
    (document,), _ = read("f", TEXT.encode())
    mark = document.mark(path, of_key=of_key)
    assert (mark.line, mark.column) == place


def test_columns_count_characters_not_bytes() -> None:
    (document,), _ = read("f", "{'ä€😀': x, b: y}".encode())
    assert document.mark(("b",)).column == 15


@pytest.mark.parametrize("name", sorted(path.name for path in (CONFIGS / "valid").glob("*.yaml")))
def test_the_parser_in_python_gives_the_same_as_the_one_in_c(name: str) -> None:
    text = (CONFIGS / "valid" / name).read_bytes()
    assert read("f", text, loader=yaml.SafeLoader) == read("f", text, loader=yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["1:1 it is empty"]),
        (" \n\n", ["1:1 it is empty"]),
        ("# only\n", ["1:1 it holds no document"]),
        ("a\0b", ["1:2 the character U+0000 cannot stand in YAML: is this a text file?"]),
        ("a: b\n\x1b", ["2:1 the character U+001B cannot stand in YAML: is this a text file?"]),
        (b"a: \xff", ["1:4 it is not UTF-8 text: byte 0xff"]),
        ("a: b".encode("utf-16"), ["1:1 it is UTF-16 text, not UTF-8"]),
        ("a: 1\na: 2", ["2:1 the key 'a' is given twice, first in line 1"]),
        ("a: *x\nb: *y", [
            "1:4 the alias '*x' has no anchor '&x' before it",
            "2:4 the alias '*y' has no anchor '&y' before it",
        ]),
        ("a: &x {b: *x}", ["1:11 the alias '*x' stands inside of its own anchor"]),
        ("a: !!binary eA==", ["1:4 the tag 'tag:yaml.org,2002:binary' is not taken"]),
        ("!x {a: b}", ["1:1 the tag '!x' is not taken"]),
        ('a: "\\0"', ["1:4 a text cannot hold a NUL or half of a surrogate pair"]),
        ("{? : a}", ["1:4 a key is missing before ':'"]),
        ("on: a", ["1:1 the key on is read as true or false by some YAML"]),
        ("a: b\n---\nc: [\n", [
            "3:4 not YAML: did not find expected node content while parsing a flow node",
        ]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place(text: str | bytes, messages: list[str]) -> None:
    assert _messages(text) == messages


def test_documents_before_a_broken_one_are_kept() -> None:
    documents, problems = read("f", b"a: b\n---\nc: d\n---\n}")
    assert [document.data for document in documents] == [{"a": "b"}, {"c": "d"}]
    assert len(problems) == 1


def test_the_depth_is_limited_also_where_it_would_crash_a_parser() -> None:
    assert _messages("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)) == []
    (message,) = _messages("[" * 500_000)
    assert message == f"1:{MAX_DEPTH + 1} nested deeper than 32 levels"
    (message,) = _messages("a:\n" + "".join(" " * i + "- \n" for i in range(1, 100)))
    assert "nested deeper" in message


def test_what_aliases_repeat_is_limited() -> None:
    rows = ["a: &a [x]"] + [f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in _pairs()]
    (message,) = _messages("\n".join(rows))
    assert "aliases repeat more than 10000 values" in message
    many = "a: &a x\nb: [" + ", ".join(["*a"] * MAX_ALIASED_NODES)
    assert _messages(many + "]") == []
    assert "aliases repeat more" in _messages(many + ", *a]")[0]
    (message,) = _messages(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 2000)}]")
    assert "more than 1 MiB of text" in message


def _pairs() -> list[tuple[str, str]]:
    return list(zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "- " * 20_000,
        "{a: " * 20_000,
        "a: &b {c: *b}\n" * 1000,
        "'" + "x\n" * 200_000,
        "? " * 20_000,
        "&a " * 20_000,
        "resources:\n" + "- {}\n" * 5_000,
        "k: v\n" * 20_000,
        "\n".join(f"key{i}: v" for i in range(20_000)),
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_of_any_shape_is_answered_soon(text: str) -> None:
    """The bound is far above what it takes: it tells linear from quadratic."""
    begin = time.thread_time()
    documents, problems = read("f", text.encode())
    found, _ = check(documents)
    assert problems or found
    assert time.thread_time() - begin < 10


@given(st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"%#,? \n\t0", max_size=60))
@settings(max_examples=examples(60))
def test_any_text_gives_documents_or_problems(text: str) -> None:
    documents, problems = read("f", text.encode("utf-8", "surrogatepass"))
    assert documents or problems
    found, _ = check(documents)
    assert found or problems


@given(st.binary(max_size=100))
@settings(max_examples=examples(30))
def test_any_bytes_give_documents_or_problems(content: bytes) -> None:
    documents, problems = read("f", content)
    assert documents or problems


SCRAPS = st.sampled_from(
    ["", "x", "1", "0403", "*", "[", "]", "{", "}", "'", "$(", ")", "~", "- ", ": ", "\n", "#", "/",
     "$(usb.serial)", "..", "(", "null", "on", "[a, 1]", "{a: b}", "&a ", "*a", "<<: ", "!!str "]
)  # fmt: skip


@given(st.integers(0, len(ALL_OF_IT)), st.integers(0, 40), SCRAPS)
@settings(max_examples=examples(60))
def test_a_good_config_with_a_scrap_in_it_never_breaks_the_check(
    at: int, length: int, scrap: str
) -> None:
    text = ALL_OF_IT[:at] + scrap + ALL_OF_IT[at + length :]
    documents, problems = read("f", text.encode())
    found, warnings = check(documents)
    lines = text.splitlines() or [""]
    for problem in problems + found + warnings:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@pytest.mark.parametrize(
    ("path", "text"),
    [((), ""), (("a", 1, "b-c"), ".a[1].b-c"), (("a b", 'c"'), '["a b"]["c\\""]')],
)
def test_a_path_is_written_as_it_would_be_in_code(path: TreePath, text: str) -> None:
    assert shown_path(path) == text
