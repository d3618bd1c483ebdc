from __future__ import annotations

import posixpath
from itertools import product

import pytest
from genericdp.glob import escape, matches
from genericdp.template import (
    TemplateSyntaxError,
    UnusableValueError,
    bind,
    expand,
    literal,
    parse,
)
from hypothesis import example, given
from hypothesis import strategies as st

VALUES = {
    ("device", "path"): "/dev/serial/by-id/a b",
    ("device", "name"): "ttyUSB0",
    ("usb", "serial"): "*",
    ("property", "DEVLINK"): "/dev/x",
    ("usb", "vendor"): "",
    ("device", "syspath"): "/sys/devices/pci0/usb1/1-1/1-1:1.0",
    ("value", "port"): "/sys/devices/pci0/usb1/1-1",
    ("value", "bus"): "pci0/usb1",
    ("value", "plain"): "/data",
    ("constant", "plain"): "/data",
}


def _lookup(scope: str, name: str) -> str | None:
    return VALUES.get((scope, name))


@given(st.text(alphabet="$()ab.:-", max_size=30) | st.text(max_size=30))
@example("$$(x $(device.path:-$$(x))$$(")
def test_any_text_is_a_template_or_says_why_not(text: str) -> None:
    try:
        template = parse(text)
    except TemplateSyntaxError as error:
        assert 0 <= error.offset < len(text)
        return
    assert str(template) == text
    for reference in template.references:
        assert text.startswith(f"$({reference.scope}.{reference.name}", reference.offset)


@given(st.text(max_size=20))
def test_a_literal_survives_when_its_references_are_escaped(text: str) -> None:
    if not text.endswith("$"):
        assert expand(parse(literal(text)), _lookup) == text


@pytest.mark.parametrize(
    ("path", "expansions"),
    [
        (
            False,
            {
                "$(device.name).lock": "ttyUSB0.lock",
                "$(net.name:-none)": "none",
                "$(usb.vendor:-none)": "",
                "$$(device.name)": "$(device.name)",
                "$$$(x) $5 $": "$$(x) $5 $",
                "$(device.name)$$(x": "ttyUSB0$(x",
                "$(net.name:-)": "",
                "$(net.name:-a:-b)": "a:-b",
                "$(net.name:-$$(A))": "$(A)",
                "$(net.name:-$(usb.none:-$$(x)))!": "$(x)!",
                "$(net.name:-$(device.name))": "ttyUSB0",
                "$(usb.serial)": "*",
            },
        ),
        (
            True,
            {
                # Whole paths come from the device, from absolute properties and from the config.
                "$(device.path)": "/dev/serial/by-id/a b",
                "/host$(device.path)": "/host/dev/serial/by-id/a b",
                "/host/$(device.path)": "/host/dev/serial/by-id/a b",
                "$(property.DEVLINK)": "/dev/x",
                "/x/$(property.DEVLINK)": "/x/dev/x",
                "/x/$(device.name)/": "/x/ttyUSB0/",
                "/x$(usb.vendor)/y": "/x/y",
                "/": "/",
                "$(value.none:-/data/default)": "/data/default",
                "$(value.none:-/data)/$(device.name)": "/data/ttyUSB0",
                "$(value.plain)/$(device.name)": "/data/ttyUSB0",
                # A value that is cut from the syspath may be several directories.
                "$(value.port)/power/control": "/sys/devices/pci0/usb1/1-1/power/control",
                "/sys/x/$(value.bus)/y": "/sys/x/pci0/usb1/y",
                "/x/$(value.none:-usb1/1-1)": "/x/usb1/1-1",
            },
        ),
    ],
    ids=["plain", "a path"],
)
def test_references_are_replaced_by_what_the_device_has(
    path: bool, expansions: dict[str, str]
) -> None:
    found = {text: expand(parse(text), _lookup, path=path) for text in expansions}
    assert found == expansions


@pytest.mark.parametrize("text", ["line\nbreak", "nul\0", "can\udcff"])
def test_what_is_not_one_line_of_text_is_not_inserted(text: str) -> None:
    with pytest.raises(UnusableValueError):
        expand(parse("$(usb.serial)"), lambda _, __: text)


_NAMES = ["..", ".", "", "sys", "devices", "a", "b", "a..", "x"]
_DIRECTORIES = st.lists(st.sampled_from(_NAMES), max_size=5).map("/".join)
_TEXTS = _DIRECTORIES | _DIRECTORIES.map("/{}".format) | st.text(alphabet="/.a", max_size=5)
_SYSPATHS = st.lists(st.sampled_from("abx"), min_size=1, max_size=4).map(
    lambda names: "/".join(["/sys/devices", *names])
)
_OF_HARDWARE = ["value.v", "attribute.v", "property.V", "usb.serial"]


def _path(text: str, texts: dict[str, str]) -> str | None:
    """Return the path that a template gives, at once and in two steps; None: it is refused."""

    def lookup(scope: str, name: str) -> str | None:
        return texts.get(f"{scope}.{name}")

    try:
        bound = bind(parse(text), lookup, path=True, later=("allocation",))
    except UnusableValueError:
        with pytest.raises(UnusableValueError):
            expand(parse(text), lookup, path=True)
        return None
    path = expand(bound, lookup, path=True)
    assert path == expand(parse(text), lookup, path=True)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("usb.serial", "/y"), ("usb.serial", "a/b"), ("property.V", "a/b"), ("value.v", "a/b")),
        *(("value.v", "b1/1-1"), ("value.v", "pci0/us"), ("value.v", "pci0/1-1")),
    ],
)
def test_only_a_value_adds_directories_and_only_those_of_its_device(name: str, text: str) -> None:
    texts = {"device.syspath": "/sys/devices/pci0/usb1/1-1", name: text}
    assert _path(f"/x/$({name})", texts) is None


@given(st.sampled_from(_OF_HARDWARE), _TEXTS, st.sampled_from(_OF_HARDWARE), _TEXTS, _SYSPATHS)
@example("value.v", "/", "usb.serial", "", "/sys/devices/a")
@example("value.v", "a/b", "usb.serial", "x", "/sys/devices/a/b/x")
@example("property.V", "/.", "attribute.v", ".", "/sys/devices/a")
def test_no_text_of_hardware_leads_out_of_the_directory_before_it_or_is_that_directory(
    name: str, text: str, other: str, further: str, syspath: str
) -> None:
    texts = {"device.syspath": syspath, name: text, other: further, "allocation.index": "0"}
    befores = ("/one/two/", "/one/two/.", "/one/two/x", f"/one/two/$({other})")
    afters = ("", "/", ".", "/x", "-$(allocation.index)/", f"$({other})", f"/$({other})")
    for before, after in product(befores, afters):
        path = _path(f"{before}$({name}){after}", texts)
        if path is not None:
            assert path.startswith("/one/two/")
            assert posixpath.normpath(path) == path.removesuffix("/") != "/one/two"


@given(st.sampled_from(_OF_HARDWARE), _TEXTS, _SYSPATHS, st.sampled_from(["", "/x"]))
@example("value.v", "/", "/sys/devices/a", "")
@example("value.v", "/sys", "/sys/devices/a", "/x")
def test_a_path_that_hardware_begins_is_not_the_root_and_with_a_value_not_beside_the_syspath(
    name: str, text: str, syspath: str, after: str
) -> None:
    path = _path(f"$({name}){after}", {"device.syspath": syspath, name: text})
    if path is not None:
        assert posixpath.normpath(path) == path != "/"
        directory = path.removesuffix(after)
        assert name != "value.v" or f"{syspath}/".startswith(f"{directory}/")
        assert name != "value.v" or directory.startswith("/sys/devices/")


@given(st.text(alphabet="*?[]!a-z", max_size=8), st.text(alphabet="*?[]!a-z", max_size=8))
def test_inserted_text_is_never_a_pattern(serial: str, other: str) -> None:
    pattern = expand(parse("/dev/$(usb.serial).*"), lambda _, __: serial, quote=escape)
    assert matches(pattern, f"/dev/{serial}.x")
    assert matches(pattern, f"/dev/{other}.x") is (serial == other)
