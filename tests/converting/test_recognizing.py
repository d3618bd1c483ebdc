"""Another plugin's config is refused in one line that says whose it is."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.converting.offering import problems_of

_OWN = {
    "squat": "{devices: [{name: a, groups: [{paths: [{path: /dev/a}]}]}]}",
    "smarter": "{config: [{devicematch: a}, {devicematch: b}]}",
    "akri": "{udev: {configuration: {discoveryDetails: {udevRules: []}}}}",
    "sriov": "{resourceList: [{resourceName: a}]}",
    "rdma": "{configList: [{resourceName: a}]}",
}


@pytest.mark.parametrize(("owner", "asked"), tuple(permutations(_OWN, 2)))
def test_a_file_of_another_plugin_is_recognized(owner: str, asked: str) -> None:
    problems = problems_of(asked, _OWN[owner])
    assert len(problems) == 1
    assert "this is no" in problems[0]
    assert f"(it looks like that of {owner}: --from {owner})" in problems[0]


@pytest.mark.parametrize(
    ("owner", "asked", "entry"),
    [("smarter", "squat", "{devicematch: a}"), ("squat", "smarter", "{name: a, groups: []}")],
)
def test_a_long_list_of_another_plugin_is_one_problem(owner: str, asked: str, entry: str) -> None:
    problems = problems_of(asked, f"[{', '.join([entry] * 100)}]")
    assert len(problems) == 1
    assert f"--from {owner}" in problems[0]


def test_nothing_is_said_of_what_is_like_no_plugins() -> None:
    assert "--from" not in problems_of("squat", "{listen: x}")[0]
