"""genericdp.config.probes: what is allowed and hardly meant; mistakes are in tests/configs."""

from __future__ import annotations

import pytest

from genericdp.config.check import check
from genericdp.config.read import read

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
LOG = "{regex: 'gpu (?P<name>[a-z0-9]+) failed', where: {name: $(device.name)}}"


def warnings(probe: str, match: str = "{path: /dev/gpu*}") -> list[str]:
    """What is warned of, without the path to the probe."""
    body = f"  - name: a/gpu\n    match: [{match}]\n    health: [{{{probe}}}]\n"
    documents, problems = read("f", (HEAD + body).encode())
    found, warned = check(documents)
    assert problems + found == []
    at = ".resources[0].health[0]"
    return [str(one).partition(": ")[2].removeprefix(at) for one in warned]


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
    said = f".timeoutSeconds: while it hangs it is done only every {seconds} s ({hint})"
    assert warnings(probe) == ([] if hint is None else [said])


@pytest.mark.parametrize(
    "key",
    [
        *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
        *("failureThreshold", "successThreshold"),
    ],
)
def test_what_does_nothing_beside_the_kernels_log_is_warned_of(key: str) -> None:
    said = f".{key}: '{key}' does nothing beside 'kernelLog', whose lines count as they come"
    assert warnings(f"kernelLog: {LOG}, {key}: 60, recoverAfterSeconds: 60") == [said]
    assert warnings(f"open: {{}}, {key}: 3") == []


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
    said = (
        ".kernelLog: without 'where' every line makes all devices of the resource Unhealthy"
        " (write where: {name: $(device.name)}, and (?P<name>...) into the regex)"
    )
    regex = "regex: 'gpu (?P<name>[a-z0-9]+) failed'"
    match = f"{match}]\n    inject: {{env: {{A: b}}}}\n    exclude: [{{path: /dev/x}}"
    assert warnings(f"kernelLog: {{{regex}{where}}}", match) == ([said] if warned else [])


@pytest.mark.parametrize("where", ["where: {name: 5}", "where: 5", "where: {5: name}"])
def test_a_mistake_in_where_is_no_lack_of_it(where: str) -> None:
    body = (
        "  - name: a/gpu\n    match: [{path: /dev/gpu*}]\n"
        f"    health: [{{kernelLog: {{regex: '(?P<name>.)', {where}}}}}]\n"
    )
    documents, problems = read("f", (HEAD + body).encode())
    found, warned = check(documents)
    assert len(problems + found) == 1
    assert warned == []


def test_a_period_that_is_wrong_is_not_compared_with() -> None:
    body = "  - name: a/gpu\n    match: [{path: /dev/gpu*}]\n    health: [{open: {}, "
    documents, _ = read("f", (HEAD + body + "periodSeconds: 0, timeoutSeconds: 20}]\n").encode())
    found, warned = check(documents)
    assert [one.path for one in found] == [".resources[0].health[0].periodSeconds"]
    assert warned == []


def test_a_wildcard_in_the_path_of_a_file_is_warned_of() -> None:
    said = ".file.path: one file is read: a wildcard stands for itself here"
    assert warnings("file: {path: /sys/*/x, equals: '1'}") == [said]
    assert warnings("file: {path: /sys/x, equals: '1'}") == []


@pytest.mark.parametrize("name", ["RESOURCE", "DEVICE_ID", "DEVICE_PATHS"])
def test_what_the_daemon_gives_cannot_be_declared(name: str) -> None:
    probe = f"exec: {{command: [/bin/a], env: {{GENERICDP_{name}: x}}}}"
    body = f"  - name: a/gpu\n    match: [{{path: /dev/gpu}}]\n    health: [{{{probe}}}]\n"
    documents, _ = read("f", (HEAD + body).encode())
    found, _ = check(documents)
    assert [one.message for one in found] == [
        f"every command is given 'GENERICDP_{name}' by the daemon"
    ]
