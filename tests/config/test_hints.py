"""Mistakes that people make, and what they are told to write instead."""

from __future__ import annotations

import pytest

from tests.config.loading import FUSE, HEAD, loaded

SERIAL = "  - name: a/serial\n    match: [{path: /dev/ttyUSB*}]\n"


def hints(body: str) -> list[str]:
    return [problem.hint for problem in loaded(HEAD + body).problems]


@pytest.mark.parametrize(
    ("vendor", "hint"),
    [
        ("0403", "write '0403'"),
        ("0xea60", "write 'ea60'"),
        ("'0x403'", "write '0403'"),
        ("403", "write four hexadecimal digits or a glob, in quotes"),
        ("1e10", "write '1e10'"),
        ("$(usb.vendor)", "templates are not allowed here"),
    ],
)
def test_what_is_suggested_for_an_id_is_accepted(vendor: str, hint: str) -> None:
    """C2: an unquoted id is shown as it should be written."""
    body = "  - {name: a/b, match: [{usb: {vendor: %s}}]}\n"
    assert hint in hints(body % vendor)
    if hint.endswith("'"):
        assert hints(body % hint.removeprefix("write ")) == []


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("    health: [{open: {}, intervalSeconds: 5}]", "did you mean 'periodSeconds'?"),
        ("    devices: [{path: /dev/x}]", "it belongs below 'inject': check the indentation"),
        ("    path: /dev/x", "it belongs below 'match' or 'exclude': check the indentation"),
        ("    exclude: [{path: /x, replicas: 2}]",
         "it belongs beside 'exclude': check the indentation"),
        ("    inject: {groupBy: x}", "it belongs beside 'inject': check the indentation"),
        ("    exclude: [{vendor: '0403'}]",
         "it belongs below 'usb' or 'pci': check the indentation"),
        ("    exclude:\n      -path: /dev/x", "begin each entry with '- '"),
        ("    exclude: [path:/dev/x]", "write a space after the ':' of a key"),
        ("    exclude: [/dev/ttyUSB0]", "as in {path: /dev/ttyUSB*}"),
        ("    nodeNames: edge-1", "write [edge-1]"),
        ("    exclude: {path: /dev/x}", "begin each entry with '- '"),
        ("    health: [{exec: cat /x}]", "as in {command: [/usr/bin/check, $(device.path)]}"),
        ("    health: [{exec: {command: /bin/x}}]", "write [/bin/x]"),
        ("    health: [open]", "as in {open: {}}"),
        ("    inject: {env: [A=b]}", "as in {DEVICE: $(device.path)}"),
        ("    inject: {mounts: [/opt]}",
         "as in {hostPath: /opt/driver, containerPath: /opt/driver}"),
        ("    inject: {mounts: [{hostPath: '${device.path}', containerPath: /x}]}",
         "templates are written $(device.path)"),
        ("    inject: {devices: [{path: '{{ .Path }}'}]}", "templates are written $(device.path)"),
        ("    id: {{ .Path }}",
         "a template is $(device.path), in quotes where it begins with '{'"),
        ("    inject: {devices: /dev/x}", "as in [{path: $(device.path)}]"),
        ("    inject: {env: {A: ${device.path}}}", "templates are written $(device.path)"),
        ("    inject: {mounts: [{source: /a, target: /b}]}", "did you mean 'hostPath'?"),
        ("    prefer: closet", "did you mean 'closest'?"),
        ("    replicas: '4'", "write 4 without quotes"),
        ("    inject: {devices: [{path: /x, optional: yes}]}", "write true"),
    ],
)  # fmt: skip
def test_a_mistake_has_the_right_form_as_a_hint(body: str, hint: str) -> None:
    assert hint in hints(f"{SERIAL}{body}\n")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("apiVersion: v1\nkind: List\nitems: []\n",
         "give each of its items as a document of its own"),
        ("apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n",
         "this is a policy: give it with --policy"),
        ("%YAML 9.9\n---\na: b\n", "omit this line: YAML 1.1 and 1.2 are read"),
    ],
)  # fmt: skip
def test_what_is_no_config_says_what_to_do_with_it(text: str, hint: str) -> None:
    (problem,) = loaded(text).problems
    assert problem.hint == hint


def test_a_resource_at_the_top_level_belongs_below_resources() -> None:
    text = f"{HEAD}{FUSE}match:\n  - path: /dev/x\n"
    (problem,) = loaded(text).problems
    assert problem.hint == "it belongs below 'resources': check the indentation"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fuse", "as in 'example.com/fuse'"),
        ("Example.com/fuse", "as in 'example.com/fuse'"),
        ("/fuse", "as in 'example.com/fuse'"),
        ("my_lab/fuse", "as in 'my-lab/fuse'"),
        ("kubernetes.io/fuse", ""),
    ],
)
def test_a_name_that_the_kubelet_refuses_has_one_that_it_takes_as_a_hint(
    name: str, hint: str
) -> None:
    assert hints(f"  - {{name: {name}, match: [{{path: /dev/fuse}}]}}\n") == [hint]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    inject: {env: {A: '${device.path}'}}",
         "'${device.path}' is not a template and is used literally"),
        ("    inject: {env: {A: '{{ .Path }}'}}",
         "'{{ .Path }}' is not a template and is used literally"),
        ("    inject: {env: {A: '${HOME}'}}", None),
        ("    inject: {mounts: [{hostPath: /, containerPath: /host}]}",
         "this is every file of the host"),
        ("    inject: {mounts: [{hostPath: /etc, containerPath: /host}]}", None),
    ],
)  # fmt: skip
def test_what_is_hardly_meant_is_warned_of(body: str, message: str | None) -> None:
    found = loaded(f"{HEAD}{SERIAL}{body}\n")
    assert found.problems == ()
    assert [one.message for one in found.warnings] == ([message] if message else [])


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("{path: /dev/*}", "this is every device of the machine"),
        ("{path: [/dev/mem]}", "/dev/mem gives access to all of the machine's memory"),
        ("{path: /dev/sd*}", "the system's disk may be among these"),
        ("{path: /dev/sd*}]\n    exclude: [{path: /dev/sda*}", None),
        ("{path: '/dev/sd[b-z]'}", None),
        ("{path: /dev/sda}", None),
        ("{path: /dev/sd*, type: char}", None),
        ("{path: '/dev/{kvm,fuse}'}", "'{kvm,fuse}' is literal in a glob"),
        ("{path: /dev/tty*}", None),
    ],
)
def test_a_selector_that_is_hardly_meant_is_warned_of(match: str, message: str | None) -> None:
    found = loaded(f"{HEAD}  - name: a/b\n    match: [{match}]\n")
    assert found.problems == ()
    assert [one.message for one in found.warnings] == ([message] if message else [])
