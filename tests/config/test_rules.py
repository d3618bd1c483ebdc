"""What is wrong with a config that is YAML; most mistakes are files in tests/configs, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from tests.config.loading import FUSE, HEAD, loaded, problems, said, warnings

if TYPE_CHECKING:
    from pathlib import Path


def test_all_problems_of_a_resource_are_told_at_once() -> None:
    """C10: ``validate`` tells all; stopping after the schema's problems brings it back."""
    body = "  - name: fuse\n    match: [{path: fuse}]\n    replicas: x\n    inject: {env: {A: 1}}\n"
    assert [problem.split(":")[0] for problem in problems(body)] == [
        ".resources[0].name",
        ".resources[0].match[0].path",
        ".resources[0].replicas",
        ".resources[0].inject.env.A",
    ]


CLOSE = FUSE + "    values: {hive: {text: x}}\n    closeness: {value: hive}\n"


def test_closeness_names_a_value_that_is_declared() -> None:
    assert problems(CLOSE.replace("value: hive", "value: hvie")) == [
        ".resources[0].closeness.value: undeclared value 'hvie' (did you mean 'hive'?)"
    ]
    assert problems(FUSE + "    closeness: {}\n") == [
        ".resources[0].closeness: the key 'value' is required"
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
    found = [one.message for one in loaded(HEAD + CLOSE + keys).warnings]
    assert found == ([] if why is None else [f"'closeness' has no effect: prefer is {why}"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  - {name: a/b, mtach: [{path: /dev/a}]}\n", "unknown key 'mtach'"),
        ("  - {name: a/b, match: [{pth: /dev/a}]}\n", "unknown key 'pth'"),
        ("  - !x {name: 5}\n", "the tag '!x' is not allowed"),
        ("  - {name: a/b, match: [{path: /dev/a}], values: {on: {text: a}}, id: $(value.on)}\n",
         "the key on is read as true or false by some YAML parsers"),
        ("  - {name: a/b, match: [{path: /a}], values: {y: {text: a}, x: {text: $(value.y)}}}\n",
         "the key y is read as true or false by some YAML parsers"),
        ("  - {name: a/b, match: [{path: /dev/a}], values: [a], id: $(value.a)$(value.b)}\n",
         "expected a mapping, not a list"),
        ("  - {name: a/b, match: [{path: /dev/a}], values: {a: {txt: x}}, id: $(value.a)}\n",
         "unknown key 'txt'"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_problem(body: str, message: str) -> None:
    """C1: a misspelt key does not count as missing, nor a value as undeclared, as well."""
    assert [one.message for one in loaded(HEAD + body).problems] == [message]


def test_two_selectors_with_the_same_mistake_are_not_also_the_same_selector() -> None:
    body = "  - {name: a/b, match: [{usb: {vendor: 0403}}, {usb: {vendor: 0403}}]}\n"
    assert [one.hint for one in loaded(HEAD + body).problems] == ["write '0403'"] * 2


def test_a_wrong_value_does_not_also_count_as_missing() -> None:
    body = "  - name: a/b\n    match: [{path: 5}]\n    values: {a: {file: [x]}}\n"
    assert len(problems(body)) == 2


@pytest.mark.parametrize("resource", ["name: 5", "match: [{r: 1e0}]", "values: []"])
def test_of_a_document_of_another_kind_nothing_else_is_looked_at(resource: str) -> None:
    """Found by fuzzing: its values were of any type, and rules failed on them."""
    found = loaded(f"apiVersion: a\nkind: D\nresources:\n  - {resource}\n").problems
    assert [problem.path for problem in found] == [".apiVersion", ".kind"]


@pytest.mark.parametrize(
    ("permissions", "good"),
    [
        *((one, True) for one in ("r", "rw", "rwm", "mr", "wr", "w", "mwr", "m", "wrm")),
        *((one, False) for one in ("xyz", "rr", "rwx", "rwmr", '"rw\\n"', "''")),
    ],
)
def test_permissions_are_r_w_and_m_each_at_most_once(permissions: str, good: bool) -> None:
    """C3: ``xyz`` breaks the container."""
    entry = f"{{path: /dev/a, permissions: {permissions}}}"
    assert (problems(FUSE + f"    inject: {{devices: [{entry}]}}\n") == []) is good


def test_equal_names_are_fine_where_both_have_node_names() -> None:
    """C4."""
    one, other = (FUSE + f"    nodeNames: [{name}]\n" for name in "ab")
    assert problems(one + other) == []
    assert len(problems(one + other + FUSE)) == 1
    assert len(problems(FUSE + one + other)) == 2


def test_problems_are_sorted_by_file_line_and_column(tmp_path: Path) -> None:
    bad = "  - {replicas: 0, name: x}\n"
    for name in ("b", "a"):
        text = HEAD + FUSE.replace("a/", f"{name}/") + bad
        (tmp_path / f"{name}.yaml").write_text(text)
    places = [(one.file, one.line, one.column) for one in load([tmp_path]).problems]
    assert places == sorted(places)
    assert len({file for file, _, _ in places}) == 2


@pytest.mark.parametrize(
    ("inject", "warned"),
    [
        ("{env: {A: $(device.id)}}", True),
        ("{env: {A: same}}", False),
        ("{annotations: {a: $(device.id)}}", True),
        ("{devices: [{path: /dev/$(device.name), containerPath: /dev/x}]}", True),
        ("{devices: [{path: /dev/$(device.name), containerPath: /dev/x/}]}", False),
        (
            "{devices: [{path: /dev/$(device.name), containerPath: /dev/x$(allocation.index)}]}",
            False,
        ),
    ],
)
def test_what_one_container_would_lose_of_two_resources_is_warned_of(
    inject: str, warned: bool
) -> None:
    """ALL-6: the kubelet keeps either one of two equal keys."""
    for one in (
        FUSE + f"    inject: {inject}\n",
        FUSE.replace("{path: /dev/fuse}", f"{{path: /dev/fuse, inject: {inject}}}") + "\n",
    ):
        found = warnings(one + one.replace("fuse", "kvm"))
        assert bool(found) is warned
        assert all("the other one: <stdin>:" in warning for warning in found)


def test_hooks_of_shared_devices_are_warned_of() -> None:
    hooks = "    hooks: {preStart: {exec: {command: [/bin/true]}}}\n"
    assert warnings(FUSE + hooks) == []
    (warning,) = warnings(FUSE + hooks + "    replicas: 2\n")
    assert ".resources[0].hooks: " in warning


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
        ("match: [{net: {}, inject: {env: {A: $(net.name)}}}]", None),
        ("match: [{net: {}, inject: {env: {}}}]", "a network interface has no device file"),
        ("match: [{path: /a}, {net: {}, inject: {devices: [{path: $(device.path)}]}}]",
         "cannot give its"),
        ("match: [{path: /a}, {net: {}}]\n    inject: {devices: [{path: $(device.path)}]}", None),
        ("match: [{path: /x, type: [file, directory]}]", "a file or folder has no device file"),
    ],
)  # fmt: skip
def test_candidates_without_a_device_file_need_something_to_inject(
    entry: str, problem: str | None
) -> None:
    found = problems(f"  - name: a/b\n    {entry}\n")
    assert [(problem or "") in one for one in found] == ([True] if problem else [])


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
    assert len(problems(FUSE + f"    inject: {{devices: {devices}}}\n")) == count


LONG_DOMAIN = ".".join(["d" * 60] * 4)
"""243 characters."""


@pytest.mark.parametrize(
    "name",
    ["a/b", "x/A_b.c", f"{LONG_DOMAIN}d/a", "example.com/" + "x" * 63, "0.1-a.b/0", "a/9._-Z"],
)
def test_names_that_the_kubelet_takes_are_fine(name: str) -> None:
    """REG-5: the names that a kubelet was seen to take."""
    assert problems(f"  - {{name: {name}, match: [{{path: /dev/a}}]}}\n") == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a", "no '/'"),
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
        ('"example.com/x\\n"', "letter or digit at both ends"),
        ("example.com/é", "letter or digit at both ends"),
        ("example.com/" + "x" * 64, "64 characters, at most 63"),
        (f"{LONG_DOMAIN}dd/a", "245 characters, at most 244"),
    ],
)
def test_names_that_the_kubelet_refuses_say_why(name: str, problem: str) -> None:
    """REG-5: each rule has its message."""
    (found,) = problems(f"  - {{name: {name}, match: [{{path: /dev/a}}]}}\n")
    assert problem in found


@pytest.mark.parametrize(
    ("key", "is_fine"),
    [
        ("a", True), ("example.com/a", True), ("UP.com/a", True), ("A.b_c-d", True),
        ("''", False), ("a/b/c", False), ("/a", False), ("-a", False), ("a" * 64, False),
        ("a b", False), ('"a\\n"', False), ("d" * 254 + "/" + "a" * 63, False),
        (("d" * 50 + ".") * 4 + "x/a", True),
    ],
)  # fmt: skip
def test_annotation_keys_are_those_of_kubernetes(key: str, is_fine: bool) -> None:
    found = problems(FUSE + f"    inject: {{annotations: {{{key}: x}}}}\n")
    assert len(found) == (0 if is_fine else 1)


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [("A", True), ("_a1", True), ("a.b-c", True), ("1A", False), ("''", False), ("A=B", False),
     ('"A\\n"', False)],
)  # fmt: skip
def test_names_of_variables_are_those_of_kubernetes(name: str, is_fine: bool) -> None:
    exec_ = f"health: [{{exec: {{command: [/bin/a], env: {{{name}: x}}}}}}]"
    for part in (f"inject: {{env: {{{name}: x}}}}", exec_):
        assert len(problems(f"{FUSE}    {part}\n")) == (0 if is_fine else 1)


@pytest.mark.parametrize(("name", "is_fine"), [("a_1-b", True), ("'1'", False), ("a.b", False)])
def test_names_of_values_can_stand_in_templates(name: str, is_fine: bool) -> None:
    assert len(problems(f"{FUSE}    values: {{{name}: {{text: x}}}}\n")) == (0 if is_fine else 1)


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        ("vendor.com/class=x", True), ("v/c=0", True), ("v/c_d-e=a:b.c", True),
        ("vendor.com/class", False), ("class=x", False), ("v/c=", False), ("v/c/d=x", False),
        ("1v/c=x", False), ("v/c=x-", False), ("$(device.name)", True), ("v/c$(usb.bus)=", False),
        ("my_vendor/gpu=0", True), ("v/c.d=x", True), ("v/1c=x", False), ("v_/c=x", False),
    ],
)  # fmt: skip
def test_cdi_names_have_a_vendor_a_class_and_a_name(name: str, is_fine: bool) -> None:
    assert len(problems(f"{FUSE}    inject: {{cdi: [{name}]}}\n")) == (0 if is_fine else 1)


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
        ("$(value.v)/x", None),
        ("x/$(value.v)", "is not an absolute path"),
        ("$(device.name)", "cannot give an absolute path"),
        ("dev/$(device.name)", "is not an absolute path"),
        ("/dev/$(device.name)/../x", "holds '..'"),
        ("/dev/**", "holds '**'"),
        ("/dev/[", "is not closed"),
        ("/dev//a", "holds '//'"),
        ("/dev/a/", "ends in '/'"),
        ("/dev/./a", "'/./'"),
        ("/a\\nb", "NUL or a newline"),
    ],
)
def test_a_path_of_a_template_is_absolute_whatever_is_inserted(
    text: str, problem: str | None
) -> None:
    found = problems(
        f'{FUSE}    values: {{v: {{text: a}}}}\n    inject: {{devices: [{{path: "{text}"}}]}}\n'
    )
    assert [problem in message for message in found if problem] == ([True] if problem else [])


def test_a_path_that_is_no_glob_may_hold_its_characters_and_end_as_a_folder() -> None:
    mount = "{hostPath: '/dev/a[*', containerPath: /dev/a/}"
    assert problems(f"{FUSE}    inject: {{mounts: [{mount}]}}\n") == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=x)", r"(a)\1", "a{5000}", "*", "(?P<a"])
def test_a_broken_regular_expression_is_told_in_one_place_only(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (found,) = problems(f"{FUSE}    values: {{a: {{text: x, regex: '{pattern}'}}}}\n")
    assert "is not a valid regular expression" in found
    assert capfd.readouterr() == ("", "")


LOG = "{regex: 'gpu (?P<name>[a-z0-9]+) failed', where: {name: $(device.name)}}"


def probe_warnings(probe: str, match: str = "{path: /dev/gpu*}") -> list[str]:
    """Return what is warned of, without the path to the probe."""
    body = f"  - name: a/gpu\n    match: [{match}]\n    health: [{{{probe}}}]\n"
    return [one.partition(": ")[2].removeprefix(".resources[0].health[0]") for one in (
        f"x: {warning}" for warning in warnings(body)
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("probe", "hint"),
    [
        ("open: {}", None),
        ("open: {}, periodSeconds: 1", None),
        ("open: {}, timeoutSeconds: 10", None),
        ("open: {}, timeoutSeconds: 11", "periodSeconds is 10 by default"),
        ("open: {}, timeoutSeconds: 5, periodSeconds: 5", None),
        ("exec: {command: [/bin/a]}, timeoutSeconds: 6, periodSeconds: 5", "periodSeconds is 5"),
    ],
)
def test_a_timeout_that_is_longer_than_the_period_is_warned_of(
    probe: str, hint: str | None
) -> None:
    seconds = probe.partition("timeoutSeconds: ")[2].partition(",")[0]
    message = f".timeoutSeconds: while it hangs it is done only every {seconds} s ({hint})"
    assert probe_warnings(probe) == ([] if hint is None else [message])


@pytest.mark.parametrize(
    "key",
    [
        *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
        *("failureThreshold", "successThreshold"),
    ],
)
def test_what_does_nothing_beside_the_kernels_log_is_warned_of(key: str) -> None:
    message = f".{key}: '{key}' does nothing beside 'kernelLog', whose lines count as they come"
    assert probe_warnings(f"kernelLog: {LOG}, {key}: 60, recoverAfterSeconds: 60") == [message]
    assert probe_warnings(f"open: {{}}, {key}: 3") == []


@pytest.mark.parametrize(
    ("where", "match", "warned"),
    [
        ("", "{path: /dev/gpu*}", True),
        (", where: {}", "{path: /dev/gpu*}", True),
        (", where: {name: $(device.name)}", "{path: /dev/gpu*}", False),
        ("", "{path: /dev/gpu0}", False),
        ("", "{path: '/dev/gpu[[]0]'}", False),
        ("", "{path: [/dev/gpu0, /dev/gpu1]}", True),
        ("", "{path: /dev/gpu0}, {path: /dev/gpu1}", True),
        ("", "{udev: {subsystem: tty}}", True),
        ("", "{udev: {subsystem: tty, name: ttyS0}}", False),
        ("", "{udev: {name: ttyS0}}", True),
        ("", "{udev: {subsystem: tty, name: ttyS*}}", True),
        ("", "{usb: {vendor: '0403'}}", True),
        ("", "{usb: {port: 1-1.4}}", False),
        ("", "{pci: {class: '0300*'}}, {pci: {address: '0000:03:00.0'}}", True),
    ],
)
def test_lines_that_strike_all_devices_are_warned_of(where: str, match: str, warned: bool) -> None:
    message = (
        ".kernelLog: without 'where' every matching line makes all devices of the resource"
        " Unhealthy (write where: {name: $(device.name)}, and (?P<name>...) into the regex)"
    )
    regex = "regex: 'gpu (?P<name>[a-z0-9]+) failed'"
    match = f"{match}]\n    inject: {{env: {{A: b}}}}\n    exclude: [{{path: /dev/x}}"
    found = probe_warnings(f"kernelLog: {{{regex}{where}}}", match)
    assert found == ([message] if warned else [])


@pytest.mark.parametrize("where", ["where: {name: 5}", "where: 5", "where: {5: name}"])
def test_a_mistake_in_where_is_no_lack_of_it(where: str) -> None:
    body = (
        "  - name: a/gpu\n    match: [{path: /dev/gpu*}]\n"
        f"    health: [{{kernelLog: {{regex: '(?P<name>.)', {where}}}}}]\n"
    )
    found = loaded(HEAD + body)
    assert len(found.problems) == 1
    assert found.warnings == ()


def test_a_period_that_is_wrong_is_not_compared_with() -> None:
    probe = "{open: {}, periodSeconds: 0, timeoutSeconds: 20}"
    found = loaded(f"{HEAD}{FUSE}    health: [{probe}]\n")
    assert [one.path for one in found.problems] == [".resources[0].health[0].periodSeconds"]
    assert found.warnings == ()


def test_a_wildcard_in_the_path_of_a_file_is_warned_of() -> None:
    message = ".file.path: wildcards are literal here: one file is read"
    assert probe_warnings("file: {path: /sys/*/x, equals: '1'}") == [message]
    assert probe_warnings("file: {path: /sys/x, equals: '1'}") == []


@pytest.mark.parametrize("name", ["RESOURCE", "DEVICE_ID", "DEVICE_PATHS"])
def test_what_the_daemon_gives_cannot_be_declared(name: str) -> None:
    probe = f"{{exec: {{command: [/bin/a], env: {{GENERICDP_{name}: x}}}}}}"
    assert [one.message for one in loaded(f"{HEAD}{FUSE}    health: [{probe}]\n").problems] == [
        f"every command is given 'GENERICDP_{name}' by the daemon"
    ]


def test_a_long_list_of_types_is_one_problem() -> None:
    """To look for equal entries takes quadratic time where they cannot be sorted."""
    types = ", ".join(["char", "block", "char", "file", "file"])
    found = said(
        loaded(f"{HEAD}  - {{name: a/b, match: [{{path: /x, type: [{types}]}}]}}").problems
    )
    assert found == [".resources[0].match[0].type: the list has 5 entries: at most 4 are allowed"]
