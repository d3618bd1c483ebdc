from __future__ import annotations

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genericdp.config.texts import Context, complaint
from genericdp.glob import escape, matches
from genericdp.template import (
    Reference,
    Template,
    TemplateSyntaxError,
    UnusableValueError,
    bind,
    expand,
    literal,
    parse,
)

VALUES = {
    ("device", "path"): "/dev/serial/by-id/a b",
    ("device", "name"): "ttyUSB0",
    ("usb", "serial"): "*",
    ("property", "DEVLINK"): "/dev/x",
    ("property", "EVIL"): "/dev/../etc",
    ("property", "RELATIVE"): "a/b",
    ("usb", "port"): "a/b",
    ("usb", "product"): "line\nbreak",
    ("usb", "vendor"): "",
    ("value", "up"): "..",
    ("device", "syspath"): "/sys/devices/pci0/usb1/1-1/1-1:1.0",
    ("value", "port"): "/sys/devices/pci0/usb1/1-1",
    ("value", "bus"): "pci0/usb1",
    ("value", "empty"): "",
    ("value", "other"): "/sys/devices/pci1",
    ("value", "joined"): "pci0/1-1",
    ("attribute", "odd"): "can\udcff",
}


def _lookup(scope: str, name: str) -> str | None:
    return VALUES.get((scope, name))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain $5 $", ("plain $5 $",)),
        ("$(device.path)", (Reference(scope="device", name="path"),)),
        ("a$(usb.port)b", ("a", Reference(scope="usb", name="port", offset=1), "b")),
        ("$(usb.serial:-none)", (Reference(scope="usb", name="serial", default="none"),)),
        ("$(usb.serial:-)", (Reference(scope="usb", name="serial", default=""),)),
        ("$(usb.serial:-$$(A))", (Reference(scope="usb", name="serial", default="$(A)"),)),
        ("$(property.A:-a:-b)", (Reference(scope="property", name="A", default="a:-b"),)),
        ("$$(device.path)", ("$(device.path)",)),
        ("$$$(x)", ("$$(x)",)),
        ("$(device.name)$$(x", (Reference(scope="device", name="name"), "$(x")),
        ("$(attribute.device/vendor)", (Reference(scope="attribute", name="device/vendor"),)),
        ("$(a.b)$(c.d)",
         (Reference(scope="a", name="b"), Reference(scope="c", name="d", offset=6))),
    ],
)  # fmt: skip
def test_a_text_is_taken_apart(text: str, parts: tuple[str | Reference, ...]) -> None:
    assert parse(text) == Template(parts)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("a$(device.path", 1, "not closed"),
        ("$()", 0, "not of the form"),
        ("$(device)", 0, "not of the form"),
        ("$(.path)", 0, "not of the form"),
        ("$(device.)", 0, "not of the form"),
        ("$(device.a b)", 0, "not of the form"),
        ("xy$(a.b:-$(c.d))", 2, "cannot hold another"),
    ],
)
def test_what_is_no_template_says_where(text: str, offset: int, message: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=message) as caught:
        parse(text)
    assert caught.value.offset == offset


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
    ("text", "expanded"),
    [
        ("$(device.name).lock", "ttyUSB0.lock"),
        ("$(net.name:-none)", "none"),
        ("$(usb.vendor:-none)", ""),
        ("$$(device.name)", "$(device.name)"),
        ("$(usb.serial)", "*"),
    ],
)
def test_references_are_replaced_by_what_the_device_has(text: str, expanded: str) -> None:
    assert expand(parse(text), _lookup) == expanded


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("$(net.name)", False, "it has no '$(net.name)'"),
        ("$(usb.product)", False, "holds a newline or NUL"),
        ("$(attribute.odd)", False, r"is 'can\udcff', which is not valid UTF-8"),
        ("/dev/$(usb.port)", True, "cannot be part of a path"),
        ("$(property.EVIL)", True, "cannot be part of a path"),
        ("/x/$(property.RELATIVE)", True, "cannot be part of a path"),
        ("/dev/$(value.up)/x", True, "holds '..'"),
        ("/dev/$(net.name:-a/b)", True, "cannot be part of a path"),
        ("$(value.other)/x", True, "is '/sys/devices/pci1', which cannot be part of a path"),
        ("/x/$(value.joined)", True, "cannot be part of a path"),
        ("/x/$(usb.port:-pci0/usb1)", True, "cannot be part of a path"),
        ("$(value.bus)/x", True, "gives 'pci0/usb1/x', which is not an absolute path"),
        ("$(property.RELATIVE)", True, "cannot be part of a path"),
        ("$(value.empty)/dev/x", True, "'$(value.empty)' is empty, which is not an absolute path"),
        ("$(device.name)", True, "gives 'ttyUSB0', which is not an absolute path"),
    ],
)
def test_what_cannot_be_inserted_says_why(text: str, path: bool, reason: str) -> None:
    with pytest.raises(UnusableValueError) as caught:
        expand(parse(text), _lookup, path=path)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["$(device.path)", "$(property.DEVLINK)", "/x/$(device.name)"])
def test_whole_paths_come_from_the_device_or_absolute_properties(text: str) -> None:
    assert expand(parse(text), _lookup, path=True).startswith("/")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(value.port)/power/control", "/sys/devices/pci0/usb1/1-1/power/control"),
        ("/sys/x/$(value.bus)/y", "/sys/x/pci0/usb1/y"),
        ("/x/$(value.none:-usb1/1-1)", "/x/usb1/1-1"),
    ],
)
def test_a_value_cut_from_the_syspath_may_be_several_folders(text: str, expanded: str) -> None:
    assert expand(parse(text), _lookup, path=True) == expanded


_FOLDERS = st.lists(st.sampled_from(["..", ".", "", "sys", "a..", "..b", "x"]), max_size=6)


@given(_FOLDERS.map("/".join) | st.text(alphabet="/.a", max_size=9), _FOLDERS.map("/".join))
@example("../b", "/sys/a../b")
@example("/", "/sys/a")
def test_no_value_leads_out_of_a_folder_unless_it_is_part_of_the_syspath(
    value: str, syspath: str
) -> None:
    texts = {("value", "v"): value, ("device", "syspath"): syspath}
    for text in ("/one/two/$(value.v)", "/one/two/$(value.v)/x", "/one/two.$(value.v)x"):
        try:
            path = expand(parse(text), lambda *key: texts.get(key), path=True)
        except UnusableValueError:
            continue
        assert posixpath.normpath(path).startswith("/one/two")
        assert "/" not in value or value in syspath
    try:
        path = expand(parse("$(value.v)/x"), lambda *key: texts.get(key), path=True)
    except UnusableValueError:
        return
    assert value in syspath
    assert ".." not in path.split("/")


@given(st.text(alphabet="*?[]!a-z", max_size=8), st.text(alphabet="*?[]!a-z", max_size=8))
def test_inserted_text_is_never_a_pattern(serial: str, other: str) -> None:
    pattern = expand(parse("/dev/$(usb.serial).*"), lambda _, __: serial, quote=escape)
    assert matches(pattern, f"/dev/{serial}.x")
    assert matches(pattern, f"/dev/{other}.x") is (serial == other)


def test_what_is_known_later_stays_a_reference() -> None:
    template = bind(
        parse("a$(device.name)b$(allocation.index)c$$("), _lookup, later=("allocation",)
    )
    index = Reference(scope="allocation", name="index", offset=16)
    assert template == Template(("attyUSB0b", index, "c$("))
    assert expand(template, lambda _, __: "3") == "attyUSB0b3c$("


INSIDE = Context(device_id=True, allocation=True, values=frozenset({"slot"}))


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("$(device.path) $(node.name) $(property.ANY) $(attribute.a/b)", Context(), []),
        ("$(device.id) $(allocation.index) $(value.slot)", INSIDE, []),
        ("$(devcie.path)", Context(), ["did you mean 'device'?"]),
        ("$(foo.path)", Context(), ["known: allocation, attribute, device, net, node, pci, "
                                    "property, usb, value"]),
        ("$(usb.serail)", Context(), ["did you mean 'serial'?"]),
        ("$(node.zone)", Context(), ["known: name"]),
        ("$(device.id)", Context(), ["only in inject, health and hooks"]),
        ("$(allocation.index)", Context(), ["only in containerPath, env and annotations"]),
        ("$(value.slot)", Context(), ["declare it under values"]),
        ("$(value.slt)", INSIDE, ["did you mean 'slot'?"]),
        ("$(attribute./etc/x) $(attribute.../x)", Context(),
         ["name a file below its sysfs folder"] * 2),
    ],
)  # fmt: skip
def test_names_that_cannot_exist_are_told_with_a_hint(
    text: str, context: Context, expected: list[str]
) -> None:
    found = [complaint(reference, context) for reference in parse(text).references]
    assert [one[1] for one in found if one is not None] == expected
