from __future__ import annotations

import pytest

from genericdp.config.texts import Context, named_groups, path_findings, regex_findings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/dev/a", None),
        ("/dev/[a-c]*", None),
        ("$(device.path)", None),
        ("$(device.path).lock", None),
        ("$(property.DEVNAME:-/dev/a)", None),
        ("/dev/$(device.name)/x", None),
        ("/dev/[$(device.name)]", None),
        ("$(device.name)", "cannot give an absolute path"),
        ("dev/$(device.name)", "is not an absolute path"),
        ("/dev/$(device.name)/../x", "holds '..'"),
        ("/dev/**", "holds '**'"),
        ("/dev/[", "is not closed"),
        ("/dev//a", "holds '//'"),
        ("/dev/a/", "ends in '/'"),
        ("/dev/./a", "'/./'"),
        ("", "is not an absolute path"),
        ("/a\nb", "NUL or a newline"),
    ],
)
def test_a_path_of_a_template_is_absolute_whatever_is_inserted(
    text: str, problem: str | None
) -> None:
    found = [finding.message for finding in path_findings((), text, Context(), glob=True)]
    assert [problem in message for message in found if problem] == ([True] if problem else [])


def test_a_path_that_is_no_glob_may_hold_its_characters_and_end_as_a_folder() -> None:
    assert list(path_findings((), "/dev/a[*", Context())) == []
    assert list(path_findings((), "/dev/a/", Context(), folder=True)) == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=x)", r"(a)\1", "a{5000}", "*", "(?P<a"])
def test_a_broken_regular_expression_is_told_in_one_place_only(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (finding,) = regex_findings((), pattern)
    assert "is no regular expression" in finding.message
    assert capfd.readouterr() == ("", "")


def test_named_groups_are_those_of_the_expression() -> None:
    assert named_groups(r"(?P<a>x)(y)(?P<b>z)") == frozenset({"a", "b"})
    assert named_groups("(") is None
