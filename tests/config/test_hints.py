"""Mistakes that people make, and what they are told to write instead."""

from __future__ import annotations

import time

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
        ("'403'", "write '0403'"),
        ("'0403:6001'", "write '0403', and product: '6001'"),
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
        assert hints(body % hint.removeprefix("write ").replace(", and", ",")) == []


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
        ("    health: [{exec: {command: /bin/ls -l}}]", ""),
        ("    replicas: 5m", ""),
        ("    permissions: rw", "it belongs below 'inject.devices': check the indentation"),
        ("    inject: {devices: [{hostPath: /dev/x}]}", "did you mean 'path'?"),
        ("    exclude: [{udev: {SUBSYSTEM: tty}}]", "did you mean 'subsystem'?"),
        ("    exclude: [{udev: {ID_VENDOR_ID: '0403'}}]",
         "it belongs below 'properties': check the indentation"),
        ("    nodeSelector: {a: b}", "did you mean 'nodeNames'?"),
        ("    shares: 4", "did you mean 'replicas'?"),
        ("    count: 4", "did you mean 'replicas'?"),
        ("    exclude: [{udev: {subsystem: tty}, usb: {vendor: '0403'}}]",
         "one of path, udev, net, usb, pci; what the device sits on goes below 'hardware'"),
        ("    inject: {mounts: [{hostPath: $device.path, containerPath: /x}]}",
         "templates are written $(device.path)"),
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
        ("    prefer: Spread", "did you mean 'spread'?"),
        ("    servedBy: DRA", "did you mean 'dra'?"),
        ("    inject: {devices: [{path: /x, permissions: RW}]}", "write 'rw'"),
        ("    inject: {ENV: {}}", "did you mean 'env'?"),
        ("    exclude: [{pci: {class: '0302'}}]", "write '0302*'"),
        ("    exclude: [{pci: {class: '0x03'}}]", "write '03*'"),
        ("    exclude: [{pci: {class: '30200'}}]", "write '030200'"),
        ("    exclude: [{usb: {class: '8'}}]", "write '08'"),
        ("    exclude: [{pci: {vendor: '10de:2204'}}]", "write '10de', and device: '2204'"),
        ("    exclude: [{udev: {ATTRS: {idVendor: '0403'}}}]",
         "what a device sits on is selected by 'hardware', beside 'udev'"),
        ("    exclude: [{'DRIVERS{x}': usb}]",
         "what a device sits on is selected by 'hardware', beside 'udev'"),
        ("    exclude: [{udev: {ATTR: {size: '0'}}}]", "did you mean 'attributes'?"),
        ("    exclude: [{udev: {'ENV{ID_X}': a}}]", "did you mean 'properties'?"),
        ("    exclude: [{udev: {KERNEL: tty*}}]", "did you mean 'name'?"),
        ("    inject: {env: {A: '$(device.name:x) b'}}", "write '$(device.name:-x)'"),
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
        ("devices: [{name: serial, groups: [{paths: [{path: /dev/ttyUSB*}]}]}]\n",
         "convert it: genericdp convert --from squat FILE"),
        ("- {devicematch: ^snd$, nummaxdevices: 20}\n",
         "convert it: genericdp convert --from smarter FILE"),
        ("%YAML 9.9\n---\na: b\n", "omit this line: YAML 1.1 and 1.2 are read"),
    ],
)  # fmt: skip
def test_what_is_no_config_says_what_to_do_with_it(text: str, hint: str) -> None:
    (problem,) = loaded(text).problems
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("resources", "hint"),
    [
        ("{a/b: {match: [{path: /x}]}}", "begin each entry with '- name: a/b'"),
        ("{serial: {name: a/b, match: [{path: /x}]}}", "begin each entry with '- name: a/b'"),
        ("{name: a/b, match: [{path: /x}]}", "begin each entry with '- '"),
    ],
)
def test_resources_by_name_are_to_be_a_list(resources: str, hint: str) -> None:
    (problem,) = loaded(HEAD.replace("resources:\n", f"resources: {resources}\n")).problems
    assert problem.hint == hint


def test_a_default_without_its_minus_is_warned_of_where_any_name_is_allowed() -> None:
    body = "    inject: {env: {A: '$(property.ID_X:x)', B: '$(attribute.a:b)'}}\n"
    found = loaded(f"{HEAD}{SERIAL}{body}")
    assert found.problems == ()
    assert [(warning.message, warning.hint) for warning in found.warnings] == [
        (
            "'$(property.ID_X:x)' is the property with this name, ':' included",
            "write '$(property.ID_X:-x)'",
        )
    ]


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


FOREIGN = "%r is not a template and is used literally"
SCRIPT = "    hooks: {allocate: {exec: {command: [/bin/sh, -ec, '%s']}}}"
DISKS = "containers that write to one disk at the same time destroy its filesystem"
MEMORY = "/dev/%s gives access to all of the machine"
BY_DRA = (
    "    servedBy: dra\n    inject: {devices: [{path: $(device.path), containerPath: '/dev/%s'}]}"
)
EVERY_FILE = "this gives access to every file of the host"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    inject: {env: {A: '${device.path}'}}", FOREIGN % "${device.path}"),
        (
            "    inject: {mounts: [{hostPath: /opt/*, containerPath: /o}]}",
            "wildcards are literal here",
        ),
        ("    inject: {env: {A: '{{ .Path }}'}}", FOREIGN % "{{ .Path }}"),
        ("    inject: {env: {A: '/x:${HOME}'}}", FOREIGN % "${HOME}"),
        ("    inject: {env: {A: '$HOME $(device.name) {} {a}'}}", None),
        ("    inject: {env: {A: $usb.serial}}", FOREIGN % "$usb.serial"),
        ("    inject: {env: {A: $devices.path $usb}}", None),
        ("    nodeNames: [$node.name]", FOREIGN % "$node.name"),
        (SCRIPT % "echo $value.txt", None),
        ("    health: [{exec: {command: [/bin/ls -l]}}]", "'/bin/ls -l' contains a space"),
        ("    inject: {env: {A: {value: x, prefix: '${HOME}/'}}}", FOREIGN % "${HOME}"),
        ("    inject: {env: {A: {value: x, prefix: '{', suffix: '}'}}}", None),
        ("    inject: {annotations: {a/b: '${A:-${B}}'}}", FOREIGN % "${B}"),
        ("    inject: {mounts: [{hostPath: '/opt/${V}', containerPath: /v}]}", FOREIGN % "${V}"),
        ("    inject: {mounts: [{hostPath: /v, containerPath: '/{{.V}}'}]}", FOREIGN % "{{.V}}"),
        ("    inject: {devices: [{path: '/dev/${V}'}]}", FOREIGN % "${V}"),
        ("    id: '${ID}'", FOREIGN % "${ID}"),
        ("    groupBy: '{{.ID}}'", FOREIGN % "{{.ID}}"),
        ("    nodeNames: ['${NODE}']", FOREIGN % "${NODE}"),
        ("    values: {a: {text: '${A}', regex: '(\\$?{{2}})${1}'}}", FOREIGN % "${A}"),
        ("    values: {a: {text: a, regex: 'x{{1}} ${2}'}}", None),
        ("    health: [{exec: {command: [/bin/x, '${DEVICE}']}}]", FOREIGN % "${DEVICE}"),
        ("    health: [{exec: {command: [/bin/x], env: {A: '${B}'}}}]", FOREIGN % "${B}"),
        ("    health: [{file: {path: '/sys/${A}', equals: x}}]", FOREIGN % "${A}"),
        (SCRIPT % "echo ${A} {{b}}", None),
        (SCRIPT % "echo ${device.path}", FOREIGN % "${device.path}"),
        ("    inject: {mounts: [{hostPath: /, containerPath: /host}]}", EVERY_FILE),
        ("    inject: {mounts: [{hostPath: //, containerPath: /host}]}", EVERY_FILE),
        ("    inject: {mounts: [{hostPath: /etc, containerPath: /host}]}", None),
        ("    inject: {mounts: [{hostPath: /run/containerd/containerd.sock, containerPath: /s}]}",
         EVERY_FILE),
        ("    inject: {mounts: [{hostPath: /var/run/docker.sock, containerPath: /s}]}", EVERY_FILE),
        ("    inject: {mounts: [{hostPath: /run/dbus/system_bus_socket, containerPath: /s}]}",
         None),
        ("    inject: {devices: [{path: /dev/*}]}", "this is every device of the machine"),
        ("    inject: {devices: [{path: /dev/mem}]}",
         MEMORY % "mem"),
        ("    inject: {devices: [{path: /dev/kvm}, {path: /dev/sd*}]}",
         "the system's disk may be among these"),
        ("    inject: {devices: [{path: '/dev/[$(device.name)]da'}]}", None),
        ("    inject: {devices: [{path: '/dev/{a,b}'}]}", "'{a,b}' is literal in a glob"),
        ("    inject: {devices: [{subsystem: drm, name: 'card{0,1}'}]}",
         "'{0,1}' is literal in a glob"),
        ("    nodeNames: ['edge-{1..9}']", "'{1..9}' is literal in a glob"),
        ("    exclude: [{udev: {subsystem: tty, name: '{a,b}'}}]", "'{a,b}' is literal in a glob"),
        ("    health: [{kernelLog: {regex: '(?P<a>x)', where: {a: x}, ignore: {a: '{1,2}'}}}]",
         None),
        (BY_DRA % "s$(allocation.index)", "'$(allocation.index)' begins at 0 in each claim of a"
         " container"),
        (BY_DRA % "s$(allocation.index)-$(usb.port)", None),
        (BY_DRA % "s$(usb.port)", None),
        ("    health: [{kernelLog: {regex: '(?P<a>x)', where: {a: x}, ignore: {a: '${A}'}}}]",
         FOREIGN % "${A}"),
    ],
)  # fmt: skip
def test_what_is_hardly_meant_is_warned_of(body: str, message: str | None) -> None:
    found = loaded(f"{HEAD}{SERIAL}{body}\n")
    assert found.problems == ()
    assert [one.message for one in found.warnings] == ([message] if message else [])
    assert all(one.hint and one.line >= 4 for one in found.warnings)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("{path: /dev/*}", "this is every device of the machine"),
        ("{path: /dev/*, hardware: {usb: {vendor: '0403'}}}", None),
        ("{path: [/dev/mem]}", MEMORY % "mem"),
        ("{path: /dev/kmem}", MEMORY % "kmem"),
        ("{path: '/dev/por?'}", MEMORY % "port"),
        ("{path: '/dev/me[dm]*'}]\n    exclude: [{path: /dev/mem}", None),
        ("{path: /dev/m*, type: block}", "the system's disk may be among these"),
        ("{path: /dev/sd*}", "the system's disk may be among these"),
        ("{path: /dev/sd*}]\n    exclude: [{path: /dev/sda*}", None),
        ("{path: /dev/sd*, hardware: {usb: {vendor: '0403'}}}", None),
        ("{path: '/dev/sd[b-z]'}", None),
        ("{path: /dev/sda}", None),
        ("{path: /dev/sd*, type: char}", None),
        ("{path: '/dev/{kvm,fuse}'}", "'{kvm,fuse}' is literal in a glob"),
        ("{path: '/dev/ttyUSB{0..3}'}", "'{0..3}' is literal in a glob"),
        ("{path: '/dev/{kvm}'}", None),
        ("{path: '/dev/${NAME}'}", FOREIGN % "${NAME}"),
        ("{udev: {subsystem: tty, name: '{ttyUSB,ttyACM}*'}}",
         "'{ttyUSB,ttyACM}' is literal in a glob"),
        ("{udev: {subsystem: tty, properties: {ID_MODEL: '{{.Model}}'}}}", FOREIGN % "{{.Model}}"),
        ("{usb: {vendor: '04{03,04}*'}}", "'{03,04}' is literal in a glob"),
        ("{path: /dev/tty*}", None),
        ("{path: /dev/kvm, inject: {devices: [{path: /dev/mem}]}}", MEMORY % "mem"),
        ("{path: /dev/kvm, inject: {mounts: [{hostPath: /, containerPath: /s}]}}", EVERY_FILE),
        ("{path: /dev/kvm, inject: {env: {A: '${B}'}}}", FOREIGN % "${B}"),
        ("{path: /dev/kvm, inject: {devices: [{path: $(device.path), permissions: r}]}}",
         "this node is given beside, with rw"),
    ],
)  # fmt: skip
def test_a_selector_that_is_hardly_meant_is_warned_of(match: str, message: str | None) -> None:
    found = loaded(f"{HEAD}  - name: a/b\n    match: [{match}]\n")
    assert found.problems == ()
    assert [one.message for one in found.warnings] == ([message] if message else [])
    assert all(one.hint and one.line >= 5 for one in found.warnings)


@pytest.mark.parametrize(
    ("keys", "is_warned"),
    [
        ("match: [{path: /dev/x, type: block}]", True),
        ("match: [{path: /dev/x, type: [char, block]}]", False),
        ("match: [{udev: {subsystem: block, name: 'dm-*'}}]", True),
        ("match: [{udev: {subsystem: ['block', 'tty']}}]", False),
        ("match: [{path: '/dev/sd[b-z]'}]", True),
        ("match: [{path: /dev/sdb}]", True),
        ("match: [{path: /dev/vdec}]", False),
        ("match: [{path: '/dev/nvme[1-9]n*'}]", True),
        ("match: [{path: '/dev/nvme[0-9]'}]", False),
        ("match: [{path: /dev/nvme-fabrics}]", False),
        ("match: [{path: /dev/mmcblk1}]", True),
        ("match: [{path: /dev/disk/by-id/ata-*}]", True),
        ("match: [{path: '/dev/sd[b-z]', type: char}]", False),
        ("match: [{path: /dev/kvm}]", False),
        ("match: [{path: /dev/sdb}], inject: {devices: []}", False),
        ("match: [{path: /dev/sdb}], inject: {devices: [{path: $(device.path)}]}", True),
        ("match: [{path: /dev/sdb}], inject: {devices: [{path: $(device.path), permissions: r}]}",
         False),
        ("match: [{path: /dev/sdb}], inject: {devices: [{path: /dev/kvm}]}", False),
        ("match: [{path: /dev/kvm}], inject: {devices: [{path: /dev/sdb}]}", True),
        ("match: [{usb: {vendor: '0403'}}], inject: {devices: [{subsystem: block}]}", True),
        ("match: [{path: /dev/kvm, inject: {devices: [{path: /dev/sdb}]}}]", True),
        ("match: [{path: /dev/sdb, inject: {devices: [{path: $(device.path)}]}}],"
         " inject: {devices: []}", True),
        ("match: [{path: /dev/sdb}, {path: /dev/kvm, inject: {devices: [{path: $(device.path)}]}}],"
         " inject: {devices: []}", False),
    ],
)  # fmt: skip
def test_shares_of_a_disk_are_warned_of(keys: str, is_warned: bool) -> None:
    found = loaded(f"{HEAD}  - {{name: a/b, replicas: 2, {keys}}}\n")
    assert found.problems == ()
    assert [(one.message, one.column) for one in found.warnings] == (
        [(DISKS, 27)] if is_warned else []
    )
    assert loaded(f"{HEAD}  - {{name: a/b, {keys}}}\n").warnings == ()


def test_long_texts_full_of_braces_are_checked_at_once() -> None:
    text = "{" * 10_000 + "${" * 10_000 + "{,.." * 5_000
    body = f"    inject: {{env: {{A: '{text}'}}}}\n    nodeNames: ['{text}']\n"
    begun = time.process_time()
    assert loaded(f"{HEAD}{SERIAL}{body}").warnings == ()
    assert time.process_time() - begun < 5
