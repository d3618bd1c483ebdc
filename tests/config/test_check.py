from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.check import check
from genericdp.config.read import read

if TYPE_CHECKING:
    from genericdp.config.tree import Document
    from genericdp.errors import Problem

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
FUSE = "  - name: a/fuse\n    match: [{path: /dev/fuse}]\n"


def _documents(text: str, file: str = "f") -> list[Document]:
    documents, problems = read(file, text.encode())
    assert problems == []
    return documents


def _problems(body: str) -> list[str]:
    problems, _ = check(_documents(HEAD + body))
    return [f"{problem.path} {problem.message}" for problem in problems]


def _warnings(*bodies: str) -> list[Problem]:
    documents = [
        document
        for i, body in enumerate(bodies)
        for document in _documents(HEAD + body, file=f"f{i}")
    ]
    problems, warnings = check(documents)
    assert problems == []
    return warnings


def test_all_problems_of_a_resource_are_told_at_once() -> None:
    """C10: ``validate`` tells all; stopping after the schema's problems brings it back."""
    body = "  - name: fuse\n    match: [{path: fuse}]\n    replicas: x\n    inject: {env: {A: 1}}\n"
    assert [problem.split(" ")[0] for problem in _problems(body)] == [
        ".resources[0].name",
        ".resources[0].match[0].path",
        ".resources[0].replicas",
        ".resources[0].inject.env.A",
    ]


CLOSE = FUSE + "    values: {hive: {text: x}}\n    closeness: {value: hive}\n"


def test_closeness_names_a_value_that_is_declared() -> None:
    problems, _ = check(_documents(HEAD + CLOSE.replace("value: hive", "value: hvie")))
    assert [str(problem) for problem in problems] == [
        "f:7:24: .resources[0].closeness.value: there is no value 'hvie' (did you mean 'hive'?)"
    ]
    assert _problems(FUSE + "    closeness: {}\n") == [
        ".resources[0].closeness the key 'value' is required"
    ]


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("", None),
        ("    prefer: closest\n    replicas: 2\n", None),
        ("    replicas: 2\n", "auto and replicas more than 1, so shares are spread"),
        *((f"    prefer: {word}\n", word) for word in ("none", "spread", "packed")),
    ],
)
def test_closeness_without_effect_is_a_warning(keys: str, why: str | None) -> None:
    wanted = [] if why is None else [f"'closeness' has no effect: prefer is {why}"]
    assert [warning.message for warning in _warnings(CLOSE + keys)] == wanted


def test_a_misspelt_key_does_not_also_count_as_missing() -> None:
    """C1: one problem with the right word; ``misspelt = False`` in ``_missing`` makes it two."""
    problems, _ = check(_documents(HEAD + "  - {name: a/b, mtach: [{path: /dev/a}]}\n"))
    assert [(problem.message, problem.hint) for problem in problems] == [
        ("unknown key 'mtach'", "did you mean 'match'?")
    ]


def test_a_wrong_value_does_not_also_count_as_missing() -> None:
    body = "  - name: a/b\n    match: [{path: 5}]\n    values: {a: {file: [x]}}\n"
    assert len(_problems(body)) == 2


@pytest.mark.parametrize("resource", ["name: 5", "match: [{r: 1e0}]", "values: []"])
def test_of_a_document_of_another_kind_nothing_else_is_looked_at(resource: str) -> None:
    """Found by fuzzing: its values were of any type, and rules failed on them."""
    problems, _ = check(_documents(f"apiVersion: a\nkind: D\nresources:\n  - {resource}\n"))
    assert [problem.path for problem in problems] == [".apiVersion", ".kind"]


def test_an_unquoted_id_is_shown_as_it_should_be_written() -> None:
    """C2: dropping the hint of ``_wrong_scalar`` brings back that nobody knows what to do."""
    problems, _ = check(_documents(HEAD + "  - {name: a/b, match: [{usb: {vendor: 0403}}]}\n"))
    assert [problem.hint for problem in problems] == ["write '0403'"]


@pytest.mark.parametrize(
    ("permissions", "good"),
    [("rwm", True), ("mr", True), ("w", True), ("xyz", False), ("rr", False), ("rwx", False)],
)
def test_permissions_are_r_w_and_m_each_at_most_once(permissions: str, good: bool) -> None:
    """C3: ``xyz`` breaks the container."""
    entry = f"{{path: /dev/a, permissions: {permissions}}}"
    assert (_problems(FUSE + f"    inject: {{devices: [{entry}]}}\n") == []) is good


def test_an_equal_name_is_told_with_both_places() -> None:
    """C4: a message without ``other.file`` and its mark brings it back."""
    problems, _ = check(_documents(HEAD + FUSE + FUSE))
    assert [str(problem) for problem in problems] == [
        "f:6:11: .resources[1].name: 'a/fuse' is already the name of .resources[0] at f:4:11"
        " (names may be equal only where both resources have nodeNames)"
    ]


def test_equal_names_are_fine_where_both_have_node_names() -> None:
    one, other = (FUSE + f"    nodeNames: [{name}]\n" for name in "ab")
    assert _problems(one + other) == []
    assert len(_problems(one + other + FUSE)) == 1
    assert len(_problems(FUSE + one + other)) == 2


def test_problems_are_sorted_by_file_line_and_column() -> None:
    bad = "  - {replicas: 0, name: x}\n"
    documents = [
        document
        for file in ("b", "a")
        for document in _documents(HEAD + FUSE.replace("a/", f"{file}/") + bad, file=file)
    ]
    problems, _ = check(documents)
    places = [(problem.file, problem.line, problem.column) for problem in problems]
    assert places == sorted(places)
    assert {file for file, _, _ in places} == {"a", "b"}


def test_a_document_of_another_kind_is_told_by_its_kind_alone() -> None:
    problems, _ = check(_documents("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n"))
    assert [problem.path for problem in problems] == [".apiVersion", ".kind"]


def test_values_with_a_problem_of_their_own_are_not_judged_twice() -> None:
    documents, problems = read("f", (HEAD + "  - !x {name: 5}\n").encode())
    assert len(problems) == 1
    assert check(documents) == ([], [])


@pytest.mark.parametrize(
    ("inject", "warned"),
    [
        ("{env: {A: $(device.id)}}", True),
        ("{env: {A: same}}", False),
        ("{annotations: {a: $(device.id)}}", True),
        ("{devices: [{path: $(device.path), containerPath: /dev/x}]}", True),
        ("{devices: [{path: $(device.path), containerPath: /dev/x/}]}", False),
        ("{devices: [{path: $(device.path), containerPath: /dev/x$(allocation.index)}]}", False),
    ],
)
def test_what_one_container_would_lose_of_two_resources_is_warned_of(
    inject: str, warned: bool
) -> None:
    """ALL-6: the kubelet keeps either one of two equal keys."""
    one = FUSE + f"    inject: {inject}\n"
    warnings = _warnings(one, one.replace("fuse", "kvm"))
    assert bool(warnings) is warned
    if warned:
        assert (warnings[0].file, "f0:6:" in warnings[0].hint) == ("f1", True)


def test_hooks_of_shared_devices_are_warned_of() -> None:
    hooks = "    hooks: {preStart: {exec: {command: [/bin/true]}}}\n"
    assert _warnings(FUSE + hooks) == []
    (warning,) = _warnings(FUSE + hooks + "    replicas: 2\n")
    assert warning.path == ".resources[0].hooks"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("match: [{usb: {}}]", None),
        ("match: [{path: /dev/vfio/1}, {pci: {}}]\n    groupBy: x", None),
        ("match: [{pci: {}}]", "a PCI function has no device file"),
        ("match: [{udev: {subsystem: net}}]", "a network interface has no device file"),
        ("match: [{net: {}}]\n    inject: {env: {A: $(net.name)}}", None),
        ("match: [{net: {}}]\n    inject: {devices: [{path: $(device.path)}]}", "cannot give its"),
        ("match: [{path: /x, type: file}]\n    inject: {devices: [{path: $(device.path)}]}",
         "cannot give its"),
        ("match: [{path: /x, type: [file, char]}]", None),
        ("match: [{path: /x, type: [file, directory]}]", "a file or folder has no device file"),
    ],
)  # fmt: skip
def test_candidates_without_a_device_file_need_something_to_inject(
    entry: str, problem: str | None
) -> None:
    problems = _problems(f"  - name: a/b\n    {entry}\n")
    assert [(problem or "") in found for found in problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ("[{path: /dev/a, containerPath: /dev/x}, {path: /dev/b, containerPath: /dev/x}]", 1),
        ("[{path: /dev/a}, {path: /dev/b, containerPath: /dev/a}]", 1),
        ("[{path: /dev/a}, {path: /dev/a, permissions: r}]", 0),
        ("[{path: /dev/a}, {path: /dev/b, containerPath: /dev/a, optional: true}]", 0),
        ("[{path: /dev/a*}, {path: /dev/b*, containerPath: /dev/}]", 0),
    ],
)
def test_two_different_nodes_at_one_path_of_the_container_are_a_problem(
    devices: str, count: int
) -> None:
    assert len(_problems(FUSE + f"    inject: {{devices: {devices}}}\n")) == count
