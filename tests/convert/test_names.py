"""Names stay what pods request, and wrappers and old formats of other plugins are read or named."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.convert.offering import converted, offers_of, problems_of, prose_of, text_of
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("regex", "resources"),
    [
        ("^net/tun$", ["net_tun"]),
        ("^(fuse|kvm|net/tun)$", ["fuse", "kvm", "net_tun"]),
        ("^fuse$|^kvm$", ["fuse", "kvm"]),
        ("^video[0-29]$", ["video0", "video1", "video2", "video9"]),
        (r"^a\.b$", ["a.b"]),
        ("^ttyA?$", ["$(value.tty)"]),
        ("^ttyA+$", ["$(value.ttyA)"]),
        ("^video[0-9][0-9]$", ["$(value.video)"]),
        ("^i2c-[0-9]*$", ["$(value.i2c)"]),
        ("^sd[a-z]$", ["$(value.sd)"]),
        ("^0d[a-z]$", ["$(value._0d)"]),
        ("^snd/timer[a-z]?$", ["snd_$(value.snd_timer)"]),
        ("kvm", ["$(value.kvm:-kvm)"]),
        ("^snd/", ["$(value.snd:-snd)"]),
        (".*", ["$(value.devices:-devices)"]),
    ],
)
def test_names_of_files_are_written_out_or_a_template(regex: str, resources: list[str]) -> None:
    text = text_of("smarter", f"[{{devicematch: '{regex}', nummaxdevices: 3}}]")
    found = re.findall(r'  - name: "?smarter-devices/(.*?)"?\n', text)
    assert found == resources


@pytest.mark.parametrize(
    ("regexes", "offered"),
    [
        (["^video[0-9]*$"], {"video0": ["video0"], "video1": ["video1"]}),
        (["^video", "^(video1|kvm)$"], {"video0": ["video0"], "video1": ["video1"]}),
        (["^video1$", "^video"], {"video0": ["video0"], "video1": ["video1"]}),
        (["^video[0]*$", "^video[0-9]*$"], {"video0": ["video0"], "video1": ["video1"]}),
        (["^snd/pcm[^x]*$"], {"snd_pcmC1D0c": ["snd/pcmC1D0c"]}),
        ([r"^snd/pcmC\d+"], {"snd_pcmC1D0c": ["snd/pcmC1D0c"]}),
        # A directory that the expression does not name.
        (["pcm"], {"pcm": ["snd/pcmC1D0c"]}),
    ],
)
def test_pods_find_each_file_under_its_name(
    regexes: list[str], offered: dict[str, list[str]], tmp_path: Path
) -> None:
    config = json.dumps([{"devicematch": regex, "nummaxdevices": 3} for regex in regexes])
    expected = {
        f"smarter-devices/{name}": [[f"/dev/{node}" for node in nodes]]
        for name, nodes in offered.items()
    }
    assert offers_of("smarter", config, path_of("webcam"), tmp_path) == expected


def test_a_name_that_is_given_to_other_files_too_has_a_comment() -> None:
    said = "Files in directories below /dev/ are devices of one resource, smarter-devices/pcm"
    assert said in prose_of("smarter", "[{devicematch: pcm, nummaxdevices: 1}]")
    assert "below /dev/" not in prose_of("smarter", "[{devicematch: '^a[b]?$', nummaxdevices: 1}]")


def test_an_entry_for_a_name_that_is_taken_is_a_comment() -> None:
    text = prose_of("smarter", str([{"devicematch": "^kvm$", "nummaxdevices": 1}] * 2))
    assert "Not converted, smarter-devices/kvm of [1].devicematch: an entry above has" in text
    assert "kvm-2" not in text


@pytest.mark.parametrize(
    "values",
    [
        "{deviceDomain: acme.io, config: [{devicematch: ^kvm$, nummaxdevices: 1}]}",
        "{config: [{devicematch: ^kvm$, nummaxdevices: 1}], deviceDomain: acme.io}",
        '{deviceDomain: acme.io, config: "- devicematch: ^kvm$\\n  nummaxdevices: 1"}',
        "{spec: {values: {a: {deviceDomain: acme.io, config: [{devicematch: ^kvm$,"
        " nummaxdevices: 1}]}}}}",
    ],
)
def test_the_domain_of_a_chart_is_that_of_the_names(values: str) -> None:
    assert "name: acme.io/kvm\n" in text_of("smarter", values)


def configuration(*rules: str, **details: object) -> str:
    """Make a Configuration of udev rules."""
    wanted = json.dumps({"udevRules": rules, **details})
    handler = {"name": "udev", "discoveryDetails": wanted}
    spec = {"discoveryHandler": handler, "capacity": 1}
    head = {"apiVersion": "akri.sh/v0", "kind": "Configuration", "metadata": {"name": "c"}}
    return json.dumps({**head, "spec": spec})


@pytest.mark.parametrize("rule", ['KERNEL=="video[0-9]*|media0"', 'SUBSYSTEM=="tty"'])
def test_group_recursive_has_no_effect_where_nothing_is_below(rule: str) -> None:
    text = prose_of("akri", configuration(rule, groupRecursive=True))
    assert "groupRecursive has no effect here" in text
    assert "\n  - name: akri.sh/c\n" in text


def test_the_format_before_0_4_is_converted_and_named() -> None:
    details = {"udevRules": ['KERNEL=="video[0-9]*"'], "colour": "red"}
    spec = {"protocol": {"udev": details}, "properties": {"BAUD": "9600"}, "capacity": 2}
    head = {"apiVersion": "akri.sh/v0", "kind": "Configuration", "metadata": {"name": "c"}}
    text = prose_of("akri", json.dumps({**head, "spec": spec}))
    assert "the format before akri 0.4" in text
    assert '- udev: {name: "video[0-9]*"}' in text
    assert "replicas: 2" in text
    assert 'BAUD: "9600"' in text
    assert text.count("colour: red") == 1


def shared(**more: object) -> str:
    """Make a config of one resource."""
    return json.dumps({"configList": [{"resourceName": "r", "rdmaHcaMax": 2, **more}]})


def resources_of(config: str) -> object:
    """Convert a config, and return the resources."""
    return yaml.safe_load(text_of("rdma", config))["resources"]


_ENTRY = {"rdmaHcaMax": 2, "selectors": {"vendors": ["15b3"]}}


@pytest.mark.parametrize(
    "config",
    [
        [{"resourceName": "r", **_ENTRY}],
        {"rdmaSharedDevicePlugin": {"resources": [{"name": "r", **_ENTRY}]}},
        {
            "rdmaSharedDevicePlugin": {
                "resources": [{"name": "r", "rdmaHcaMax": 2, "vendors": ["15b3"]}]
            }
        },
    ],
)
def test_lists_alone_and_of_a_chart_are_the_same(config: object) -> None:
    text = json.dumps(config)
    expected = resources_of(shared(selectors={"vendors": ["15b3"]}))
    assert resources_of(text) == expected
    # As in an Application of Argo CD.
    assert resources_of(json.dumps({"spec": {"values": text}})) == expected


DOMAIN = "devic.es"


def device(*groups: str) -> str:
    """Make a device of groups."""
    return f"{{name: s, groups: [{', '.join(groups)}]}}"


def paths(*texts: str) -> str:
    """Make a device of one group of paths."""
    return device(f"{{paths: [{', '.join(f'{{path: {text}}}' for text in texts)}]}}")


def test_a_resource_of_another_daemonset_that_is_renamed_has_a_comment() -> None:
    manifests = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name},
            "spec": {"nodeSelector": {"for": name}, "args": ["--device", f"serial,/dev/{name}"]},
        }
        for name in ("one", "two")
    ]
    text = prose_of("squat", "\n---\n".join(map(json.dumps, manifests)))
    assert f"{DOMAIN}/serial in the plugin, too, as above." in text
    assert "convert each for itself, or give both nodeNames" in text
    assert "nodeNames, of DaemonSet one." in text
    assert "nodeSelector:       for: two" in text


@pytest.mark.parametrize(
    ("path", "is_seen"),
    [("/dev/x", True), ("/sys/x", True), ("/etc/x, type: Mount", False), ("/device", False)],
)
def test_a_path_that_the_daemon_does_not_see_has_a_comment(path: str, is_seen: bool) -> None:
    said = f"Mount {path.partition(',')[0]} into the daemon's pod, too: it sees only /dev"
    assert (said not in prose_of("squat", paths(path))) is is_seen


@pytest.mark.parametrize(
    "line",
    [
        '--device={"name":"x","groups":[{"paths":[{"path":"/dev/x"}]}]}',
        '--device={"name": "x", "groups": [{"paths": [{"path": "/dev/x"}]}]}',
        """--device '{"name": "x", "groups": [{"paths": [{"path": "/dev/x"}]}]}'""",
        """'--device={"name": "x", "groups": [{"paths": [{"path": "/dev/x"}]}]}'""",
        "--domain devic.es \\\n --device '{name: x, groups: [{paths: [{path: /dev/x}]}]}' \\\n",
        "--device=x,/dev/x",
    ],
)
def test_a_line_of_a_shell_is_read(line: str) -> None:
    text = text_of("squat", line)
    assert f"- name: {DOMAIN}/x\n    match:\n      - path: /dev/x\n" in text


def pool(*selectors: dict[str, Any], **more: object) -> str:
    """Make a config of one resource."""
    return json.dumps({"resourceList": [{"resourceName": "r", "selectors": selectors, **more}]})


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ([{"resourceName": "a", "selectors": {"vendors": ["8086"]}}], "intel.com/a"),
        (
            {"sriovDevicePlugin": {"resources": [{"name": "a", "vendors": ["8086"]}]}},
            "nvidia.com/a",
        ),
    ],
)
def test_lists_alone_and_of_a_chart_are_converted(config: object, name: str) -> None:
    for text in (json.dumps(config), json.dumps({"values": json.dumps(config)})):
        assert converted("sriov", text).resources == (name,)


def version_2(**keys: Any) -> str:
    """Make a config of the format before v3."""
    entry = {"resourceName": "a", "rootDevices": ["3b:00.0"], **keys}
    return json.dumps({"resourceList": [entry]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (version_2(sriovMode=True), pool({"rootDevices": ["3b:00.0"]}, resourceName="a")),
        (
            version_2(sriovMode=True, deviceType="vfio"),
            pool({"rootDevices": ["3b:00.0"], "drivers": ["vfio-pci"]}, resourceName="a"),
        ),
        (
            version_2(sriovMode=False, deviceType="netdevice"),
            pool({"pciAddresses": ["3b:00.0"]}, resourceName="a"),
        ),
    ],
)
def test_the_format_before_version_3_is_converted_and_named(old: str, new: str) -> None:
    resources = [yaml.safe_load(text_of("sriov", text))["resources"] for text in (old, new)]
    assert resources[0] == resources[1]
    assert "the format before v3 of the plugin" in prose_of("sriov", old)
    (said,) = problems_of("sriov", version_2(deviceType="rdma"))
    assert "this is the format before v3, but it has deviceType 'rdma' (write selectors: " in said
