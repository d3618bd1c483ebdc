from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genericdp import glob
from genericdp.config.containment import lies_within
from genericdp.config.reach import reach
from genericdp.glob import is_within, segments_of
from genericdp.template import TemplateSyntaxError, UnusableValueError, expand, parse
from tests.budget import examples

NAMES = ["a", "b", "ab", "[a", "a]", "x"]
PATHS = [segments_of("/".join(one)) for n in range(4) for one in itertools.product(NAMES, repeat=n)]
REFERENCES = ["$(value.v)", "$(value.w:-b)", "$(property.P)", "$(device.path)"]
LITERALS = ["/", "a", "b", ".", "[", "]", "*", "[ab]"]
INSERTED = ["", ".", "..", "a", "*", "]", "!a", "/a/b", "/x", "/a", "a/b"]
BOUNDS = ["/a", "/a/b", "/*/b", "/a*", "/[ab]/*", "/x/a", "/[!x]", "/a/*/b", "/a/[ab]"]
STARTS = st.sampled_from(["/a", "/a/", "/a/b", "/a/b/", "/", "/x/a", "$(device.path)"])
PIECES = st.lists(st.sampled_from(LITERALS * 2 + REFERENCES), max_size=5).map("".join)
OWN = ["/a/b", "/a/ab", "/a"]


@settings(max_examples=examples(400))
@example("/", "[$(value.v)]", True)
@given(STARTS, PIECES, st.booleans())
def test_what_may_not_lead_outside_never_does(start: str, rest: str, pattern: bool) -> None:
    """Against all that expansion gives, but for a dot that an inserted text begins a part with.

    Of that ``is_within`` tells on the host.
    """
    try:
        template = parse(start + rest)
    except TemplateSyntaxError:
        return
    ways = reach(template, pattern=pattern, device_path=OWN)
    inside = [
        segments_of(bound)
        for bound in BOUNDS
        if all(lies_within(way, segments_of(bound)) for way in ways)
    ]
    if not inside:
        return
    names = sorted({one.name for one in template.references})[:3]
    for values in itertools.product(INSERTED, repeat=len(names)):
        given = {"P": "", "v": "a", "w": ""} | dict(zip(names, values, strict=True))
        if given.get("path", OWN[0]) not in OWN:
            continue
        for found in _found(template, given, pattern=pattern):
            if any(map(_brings_a_dot, itertools.repeat(found), ways)):
                continue
            for bound in inside:
                assert is_within("/" + "/".join(found), bound), (ways, given, found)


def _brings_a_dot(found: tuple[str, ...], way: tuple[str, ...]) -> bool:
    return any(
        part.startswith(".") and known.startswith("*")
        for part, known in zip(found, way, strict=False)
    )


def _found(template: object, given: dict[str, str], *, pattern: bool) -> list[tuple[str, ...]]:
    """Give what the host would be asked for; names of files are those of a small world."""
    quote = glob.escape if pattern else str
    try:
        text = expand(template, lambda _, name: given.get(name, OWN[0]), path=True, quote=quote)  # type: ignore[arg-type]
    except UnusableValueError:
        return []
    if not text.startswith("/"):
        return []
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if not pattern:
        return [tuple(parts)]
    return [
        path for path in PATHS if len(path) == len(parts) and all(map(glob.matches, parts, path))
    ]


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        pytest.param("/dev/tty*", True, [("dev", "tty*")], id="a-glob"),
        pytest.param("/opt/a*", False, [("opt", "a[*]")], id="no-glob-but-a-name"),
        pytest.param("/dev/tty$(value.x)", True, [("dev", "tty*")], id="the-rest-of-a-name"),
        pytest.param("/opt/$(value.x)/lib", False, [("opt",)], id="a-part-that-may-be-empty"),
        pytest.param("/opt/.$(value.x)", False, [("opt",)], id="a-part-that-may-be-a-dot"),
        pytest.param("/opt/a$(property.P)/b", False, [("opt", "a*")], id="folders-of-its-own"),
        pytest.param("/dev/a[$(value.x)]", True, [("dev", "a*")], id="a-bracket-of-unknowns"),
        pytest.param("$(property.P)/x", False, [()], id="anywhere"),
        pytest.param("$(device.syspath)/x", False, [("sys", "devices")], id="in-sysfs"),
        pytest.param(
            "$(device.path)/x", True, [("dev", "t*", "x"), ("dev", "*", "x")], id="as-matched"
        ),
        pytest.param("/opt/../etc", False, [()], id="above-is-nowhere-known"),
    ],
)
def test_a_path_is_known_as_far_as_its_text_tells(
    text: str, pattern: bool, expected: list[tuple[str, ...]]
) -> None:
    ways = reach(parse(text), pattern=pattern, device_path=("/dev/t*", "/dev/*"))
    assert ways == expected
