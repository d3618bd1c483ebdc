from __future__ import annotations

import pytest

from genericdp.config.names import (
    annotation_problem,
    env_problem,
    is_cdi_name,
    name_problem,
    value_name_problem,
)

LONG_DOMAIN = ".".join(["d" * 60] * 4)
"""243 characters."""


@pytest.mark.parametrize(
    "name",
    ["a/b", "x/A_b.c", f"{LONG_DOMAIN}d/a", "example.com/" + "x" * 63, "0.1-a.b/0", "a/9._-Z"],
)
def test_names_that_the_kubelet_takes_are_fine(name: str) -> None:
    """REG-5: the names that a kubelet was seen to take."""
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a", "no '/'"),
        ("", "no '/'"),
        ("example.com/", "type after '/' is empty"),
        ("kubernetes.io/a", "kubernetes.io"),
        ("foo.kubernetes.io/a", "kubernetes.io"),
        ("requests.example.com/a", "requests."),
        ("Example.com/a", "lower-case"),
        ("example_x.com/a", "lower-case"),
        ("-a.com/a", "lower-case"),
        ("a..b/a", "lower-case"),
        ("a.b-/a", "lower-case"),
        ("a/b/c", "more than one '/'"),
        ("/a", "domain before '/' is empty"),
        ("example.com/-x", "letter or digit at both ends"),
        ("example.com/x.", "letter or digit at both ends"),
        ("example.com/x y", "letter or digit at both ends"),
        ("example.com/x\n", "letter or digit at both ends"),
        ("example.com/é", "letter or digit at both ends"),
        ("example.com/" + "x" * 64, "64 characters, at most 63"),
        (f"{LONG_DOMAIN}dd/a", "245 characters, at most 244"),
    ],
)
def test_names_that_the_kubelet_refuses_say_why(name: str, problem: str) -> None:
    """REG-5: each rule has its message."""
    assert problem in (name_problem(name) or "")


@pytest.mark.parametrize(
    ("key", "is_fine"),
    [
        ("a", True), ("example.com/a", True), ("UP.com/a", True), ("A.b_c-d", True),
        ("", False), ("a/b/c", False), ("/a", False), ("-a", False), ("a" * 64, False),
        ("a b", False), ("d" * 254 + "/a", False), (("d" * 50 + ".") * 4 + "x/a", True),
    ],
)  # fmt: skip
def test_annotation_keys_are_those_of_kubernetes(key: str, is_fine: bool) -> None:
    assert (annotation_problem(key) is None) is is_fine


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [("A", True), ("_a1", True), ("a.b-c", True), ("1A", False), ("", False), ("A=B", False)],
)
def test_names_of_variables_are_those_of_kubernetes(name: str, is_fine: bool) -> None:
    assert (env_problem(name) is None) is is_fine


@pytest.mark.parametrize(("name", "is_fine"), [("a_1-b", True), ("1", False), ("a.b", False)])
def test_names_of_values_can_stand_in_templates(name: str, is_fine: bool) -> None:
    assert (value_name_problem(name) is None) is is_fine


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        ("vendor.com/class=x", True), ("v/c=0", True), ("v/c_d-e=a:b.c", True),
        ("vendor.com/class", False), ("class=x", False), ("v/c=", False), ("v/c/d=x", False),
        ("1v/c=x", False), ("v/c=x-", False),
    ],
)  # fmt: skip
def test_cdi_names_have_a_vendor_a_class_and_a_name(name: str, is_fine: bool) -> None:
    assert is_cdi_name(name) is is_fine
