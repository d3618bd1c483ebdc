"""Checks each string of a config that the schema gives a ``format``: template, glob, path, regex.

The formats are specific to this language; other validators ignore them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp import template
from genericdp.config.schema import part_of, resource_schema
from genericdp.devices.attributes import value_of
from genericdp.devices.capacity import WANTED, whole
from genericdp.devices.hardware import BUSES, KINDS
from genericdp.devices.resourcenames import name_problem
from genericdp.glob import has_wildcard, is_glob, path_problem, pattern_problem
from genericdp.model import Attribute, AttributeType, is_cdi_name
from genericdp.printing import MAX_QUOTED, lookalike_hint, quoted, shortened, suggestion
from genericdp.regex import PatternError, compiled
from genericdp.scalars import plain, yaml_flow
from genericdp.template import Reference, may_be_absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from genericdp.config.document import Field
    from genericdp.config.schema import Schema
    from genericdp.errors import KeyPath
    from genericdp.template import Template

MAX_LEVELS = 16
"""Limit of the levels with wildcards in a path: each may match a whole directory of directories."""

_DEVICE = "path name syspath subsystem devtype driver major minor numa id share"

_OF_CLAIM = frozenset({"name", "request", "parameters.NAME", "capacity.NAME"})
SCOPES: dict[str, frozenset[str] | None] = {
    "device": frozenset(_DEVICE.split()),
    "property": None,
    "attribute": None,
    **{bus: frozenset(KINDS[bus].keys) for bus in BUSES},
    "value": None,
    "node": frozenset({"name"}),
    "allocation": frozenset({"index"}),
    "claim": _OF_CLAIM,
}
"""The names of each scope; None if the hardware or the config decides which exist. The resource
declares what can stand for NAME.
"""

_WITH_ID = {"attributes", "capacity", "inject", "health", "hooks"}
"""Keys whose templates may use the device's ID."""

_ONLY_IN = {
    "device.share": (
        {"containerPath", "hostPath", "env", "annotations"},
        "only in containerPath, env, annotations and mounts",
    ),
    "allocation": (
        {"containerPath", "env", "annotations"},
        "only in containerPath, env and annotations",
    ),
    "claim": ({"containerPath", "env"}, "only in containerPath and env"),
    "claim.parameters.NAME": (
        {"containerPath", "env", "hooks"},
        "only in containerPath and env of inject, and in hooks",
    ),
}
"""The keys, alone or below inject, whose templates may use a scope or name, and a hint."""

# All of these are linear in the input, which may be long.
_FOREIGN = re.compile(
    rf"\$\{{[^{{}}$]*\}}|\{{\{{[^{{}}]*\}}\}}|\$(?:{'|'.join(SCOPES)})\.\w+|(?<!\$)\$[A-Z][A-Z0-9_]+\b"
)
_OF_A_SCOPE = re.compile(rf"\$\{{(?:{'|'.join(SCOPES)})\.[^{{}}$]*\}}")
_BRACES = re.compile(r"\{(?=[^{}]*(?:,|\.\.))[^{}]*\}")
_OF_REGEX = re.compile(r"\\[dws]|\]\+|\([^()]*\|[^()]*\)|^\^|(?<=[\w*+?\])])\$$")
"""Syntax that is common in regular expressions, but not in paths: a class, a count, alternatives,
an anchor.
"""
_COUNTED_CLASS = re.compile(r"(?:\\[dws]|\[[^]]*\])\+|(?<=[A-Za-z])\.[*+]")
_LISTED = re.compile(r",\s*/")
_WILDCARD = re.compile(r"\[[^]]*\]|[*?]")
_GLOB_CLASS = re.compile(r"\[[^][]+\]")
_NOT_IN_CLASS = re.compile(r"^\[\^|[0-9]-[0-9]{2}")
"""A negation of regular expressions, and a range of numbers rather than of digits."""
_OTHER_DEFAULT = re.compile(
    r"(?P<name>[a-z]+\.[\w.@+-]+)\s*(?::?[=?+]|\|\s*default\b)\s*(?P<default>.*)"
)
"""A default as shells and Helm write it."""
_BARE = re.compile(rf"(?:{'|'.join(SCOPES)})\.\w+")
_IN_SYSFS = re.compile(r"/sys/(?:class|bus)/(?P<subsystem>\w+)/(?:devices/)?(?P<name>[^/]+)")
_NO_NODE_NAME = re.compile(r"^!|^[^$]*[^-a-z0-9.*?!\[\]$]")
_USB_NUMBERS = {("usb", "bus"), ("usb", "number")}
_SHELL = {"&&", "||", "|", ";", ">", ">>", "<", "2>&1"}
_OF_UDEV = re.compile(r"(?P<kind>\$env|%E|\$attr|\$sysfs|%s)\{(?P<name>[^{}]*)\}")
"""A substitution in the rules of udev."""
_KERNEL_NAME = re.compile(r"%k|\$kernel\b")
_OF_PERL = re.compile(r"\(\?<?[=!]|\\[1-9]")
_COUNT = re.compile(r"\{[0-9]")
_SYNTAX = "templates are written $(device.path)"
_OF_PARENTS = "a value can cut a path: {text: $(device.syspath), regex: '(.*)/[^/]*'}"


def formatted(field: Field, part: Schema) -> Iterator[tuple[Field, str]]:
    """Yield each string at or below a value whose schema has a format, with the format."""
    if field.text is not None and "format" in part:
        yield field, part["format"]
    for inner in field:
        yield from formatted(inner, part_of(part, inner.path[-1]))


def check_texts(resource: Field) -> None:
    """Check each string of a resource that has a format."""
    declared = declared_values(resource)
    for field, form in formatted(resource, resource_schema()):
        check_text(field, form, declared)


def declared_values(resource: Field) -> Set[str] | None:
    """Return the names of the values that a resource declares, including those with mistakes.

    None if they are unknown, because it is not a mapping.
    """
    values = resource["values"]
    is_wrong = "values" in resource.written() and not isinstance(values.value, dict)
    return None if is_wrong else values.written()


def place_of(field: Field) -> KeyPath:
    """Return the path within a resource; an ``inject`` in ``match`` counts like that of the
    resource.
    """
    inner = field.path[2:]  # below .resources[i]
    return inner[2:] if inner[0] == "match" and "inject" in inner[2:3] else inner


def check_text(field: Field, form: str, values: Set[str] | None) -> None:
    """Find mistakes in a string of a resource; ``values`` are those that the resource declares.

    ``values`` is None if they are unknown, because they are invalid.
    """
    text, found = str(field.text), len(field.findings)
    if form == "value-name":
        check_declared(field, text, values)
    elif form in _TEXT_FORMATS:
        _TEXT_FORMATS[form](field, text)
    elif (parsed := _parsed(field, text, values)) is not None:
        _TEMPLATE_FORMATS[form](field, text, parsed)
    if len(field.findings) == found and form != "re2":
        _warn_of_literal(field, text, form)


def _warn_of_literal(field: Field, text: str, form: str) -> None:
    """Warn of syntax that has a meaning elsewhere, except variables in a shell script."""
    warning = (_literal_in_glob(text) if "glob" in form else None) or _meant_otherwise(
        field, text, form
    )
    if warning is None and (found := (_OF_A_SCOPE if is_script(field) else _FOREIGN).search(text)):
        hint = _SYNTAX if "template" in form else "templates are not allowed here"
        warning = f"{quoted(found[0])} is not a template and is used literally", hint
    if warning is not None:
        field.warn(*warning)


def is_script(field: Field) -> bool:
    """Return whether a string is what a shell runs: an argument after ``-c``."""
    *above, at = field.path
    before = field.document.node((*above, at - 1)) if isinstance(at, int) and at > 0 else None
    return before is not None and re.fullmatch("-[a-z]*c", str(before.scalar)) is not None


def _literal_in_glob(text: str) -> tuple[str, str] | None:
    """Return what is literal in a glob, and what to write."""
    if found := _BRACES.search(text):
        return f"{quoted(found[0])} is literal in a glob", "write a list of globs"
    if found := _OF_REGEX.search(text):
        message = f"{quoted(found[0])} is literal in a glob, which is not a regular expression"
        return message, _meant_glob(text)
    classes = (found for found in _GLOB_CLASS.finditer(text) if _NOT_IN_CLASS.search(found[0]))
    if found := next(classes, None):
        is_negated = found[0].startswith("[^")
        what = "is one of these characters" if is_negated else "is one character"
        hint = quoted(text.replace("[^", "[!")) if is_negated else _meant_numbers(text)
        return f"{quoted(found[0])} {what} in a glob", f"write {hint}"
    if found := _LISTED.search(text):
        listed = yaml_flow([part.strip() for part in text.split(",")])
        return f"{quoted(found[0])} is literal in a glob", f"write a list: {listed}"
    return None


def _meant_otherwise(field: Field, text: str, form: str) -> tuple[str, str] | None:
    """Return what a string was hardly meant to be, and what to write."""
    forms = {*form.split("-")}
    if {"glob", "path"} & forms and (hint := lookalike_hint(text)):
        return f"{quoted(text)} is used literally", hint
    if "path" in forms and text != text.strip():
        return f"{quoted(text)} ends with a space", "remove it"
    if field.path[-2:-1] == ("nodeNames",) and _NO_NODE_NAME.search(text):
        listed = yaml_flow([part.strip() for part in text.split(",")])
        is_list = "," in text and len(text) < MAX_QUOTED
        hint = listed if is_list else "names or globs in lower case, as in 'edge-*'"
        return f"{quoted(text)} matches no name that a node can have", f"write {hint}"
    if field.path[-2:] in _USB_NUMBERS and re.fullmatch("0+[0-9]+", text):
        return f"{quoted(text)} has zeros that the kernel does not write", f"write '{int(text)}'"
    if field.path[-2:-1] == ("command",) and text in _SHELL:
        return f"{text!r} is an argument: no shell runs", "write [/bin/sh, -c, '...']"
    if "template" in forms and (meant := _meant_as_template(field, text)):
        what, hint = meant
        return f"{quoted(what)} is not a template and is used literally", f"write '{hint}'"
    return None


def _meant_numbers(text: str) -> str:
    """Return globs for a range of numbers that was written as one of digits."""
    found = re.search(r"\[([0-9])-([1-9])([0-9])\]", text)
    if found is None:
        return "a list of globs, as in ['/dev/ttyUSB[0-9]', '/dev/ttyUSB1[0-5]']"
    first, tens, ones = found.groups()
    classes = [f"[{first}-9]", *(f"{ten}[0-9]" for ten in range(1, int(tens))), f"{tens}[0-{ones}]"]
    return yaml_flow([text.replace(found[0], digits) for digits in classes])


def _meant_as_template(field: Field, text: str) -> tuple[str, str] | None:
    """Return a literal, and the template that it was probably meant as."""
    if name := _bare_name(field, text):
        return text, f"$({name})"
    if found := _OF_UDEV.search(text):
        scope = "property" if found["kind"] in {"$env", "%E"} else "attribute"
        return found[0], f"$({scope}.{found['name']})"
    if field.key == "containerPath" and "%n" in text:
        return "%n", "$(allocation.index)"
    in_names = field.key in {"id", "groupBy", "containerPath", "path"}
    if in_names and (found := _KERNEL_NAME.search(text)):
        return found[0], "$(device.name)"
    for reference in template.parse(text).references:
        default = reference.default or ""
        if _BARE.fullmatch(default) and _is_known(default):
            scope, _, name = default.partition(".")
            meant = Reference(scope=scope, name=name)
            return default, str(replace(reference, default=None, fallback=meant))
    return None


def _bare_name(field: Field, text: str) -> str:
    """Return the name in a template that was written without ``$(``, or an empty string."""
    if _BARE.fullmatch(text) and _is_known(text):
        return text
    scopes = SCOPES.items() if field.key in {"id", "groupBy"} else ()
    return next((f"{scope}.{text}" for scope, names in scopes if text in (names or ())), "")


def _is_known(name: str) -> bool:
    scope, _, inner = name.partition(".")
    names = SCOPES.get(scope)
    return names is None or inner in names


def _syntax_hint(inner: str) -> str:
    """Return how to write what stands in the parentheses of a template that cannot be read."""
    if found := _OTHER_DEFAULT.fullmatch(inner):
        default = found["default"].strip("\"' ")
        return f"write '$({found['name']}:-{default})'"
    name = inner.partition(":")[0]
    if name == "NODE_NAME":
        return "write '$(node.name)'"
    if re.fullmatch("[A-Z][A-Z0-9_]+", name):
        return f"write '$(property.{inner})' for a property of udev"
    if name in SCOPES:
        return ""
    choices = [f"'$({scope}.{inner})'" for scope, names in SCOPES.items() if name in (names or ())]
    return f"write {' or '.join(choices)}" if choices else ""


def _meant_glob(text: str) -> str:
    """Return a hint with the glob that the user of a regular expression probably meant."""
    choices = re.search(r"\(([^()]*\|[^()]*)\)", text)
    several = (
        [text.replace(choices[0], word) for word in choices[1].split("|")] if choices else [text]
    )
    globs = [_COUNTED_CLASS.sub("*", glob.strip("^$")).replace("\\d", "[0-9]") for glob in several]
    if any(_OF_REGEX.search(glob) for glob in globs):
        return "* matches any characters, ? one, and [0-9] one of a range"
    return f"write {yaml_flow(globs) if choices else quoted(globs[0])}"


def complaint(
    reference: Reference, place: KeyPath, values: Set[str] | None
) -> tuple[str, str] | None:
    """Return the mistake in a reference at this place, and a hint, if there is one."""
    scope, name = reference.scope, reference.name
    key, *inner = place
    if scope not in SCOPES:
        is_of_claim = f"{scope}.NAME" in _OF_CLAIM
        hint = f"write '$(claim.{scope}.{name})'" if is_of_claim else suggestion(scope, SCOPES)
        return f"unknown scope {scope!r} in '{reference}'", hint
    known = values if scope == "value" else SCOPES[scope]
    kind = f"{name.partition('.')[0]}.NAME" if scope == "claim" and "." in name else name
    if known is not None and kind not in known:
        hint = suggestion(name, known) if known else "declare it under values"
        if name.partition(":")[0] in known:
            hint = _default_hint(reference)
        return f"unknown name {name!r} in '{reference}'", hint
    if scope == "attribute" and (name.startswith("/") or ".." in name.split("/")):
        return (
            f"'{reference}' does not lie below the device",
            "name a file below its sysfs directory",
        )
    if (scope, name) == ("device", "id") and key not in _WITH_ID:
        return (
            "'$(device.id)' cannot be used here",
            "only in attributes, capacity, inject, health and hooks",
        )
    parts, hint = _ONLY_IN.get(f"{scope}.{kind}", _ONLY_IN.get(scope, (None, "")))
    if parts is not None and parts.isdisjoint(map(str, inner) if key == "inject" else (key,)):
        return f"'$({scope}.{name})' cannot be used here", hint
    return None


def _default_hint(reference: Reference) -> str:
    """Return a hint with the correct syntax for the probable default of a reference."""
    name, _, default = reference.name.partition(":")
    return f"write '{replace(reference, name=name, default=default)}'"


def _parsed(field: Field, text: str, values: Set[str] | None) -> Template | None:
    """Return the template if it is valid."""
    try:
        parsed = template.parse(text)
    except template.TemplateSyntaxError as error:
        field.refuse(str(error), _syntax_hint(error.inner))
        return None
    place = place_of(field)
    found = [problem for part in parsed.references if (problem := complaint(part, place, values))]
    for message, hint in found:
        field.refuse(message, hint)
    for part in parsed.references:
        if part.scope == "property" and ":" in part.name:
            message = f"'{part}' is the property with this name, ':' included"
            field.warn(message, _default_hint(part))
    return None if found else parsed


def _check_path(
    field: Field, text: str, parsed: Template, *, glob: bool = False, directory: bool = False
) -> None:
    """Find mistakes in a template of an absolute path.

    With ``glob`` the text outside of references is a pattern; a ``directory`` may end in ``/``.
    """
    first = parsed.parts[0] if parsed.parts else ""
    if not isinstance(first, str) and not may_be_absolute(first):
        message = f"'{first}' cannot give an absolute path"
        field.refuse(message, "begin with '/' or $(device.path)")
        return
    # A possible result: references are replaced by a name or a whole path.
    shape = "".join(
        part if isinstance(part, str) else "/x" if i == 0 and may_be_absolute(part) else "x"
        for i, part in enumerate(parsed.parts)
    )
    if directory and shape != "/":
        shape = shape.removesuffix("/")
    if not glob:
        shape = shape.translate(dict.fromkeys(map(ord, "*?[]"), "x"))
    if (problem := path_problem(shape, shortened(text, MAX_QUOTED))) is not None:
        hint = _SYNTAX if _FOREIGN.match(text) else ""
        field.refuse(problem, _OF_PARENTS if "$(device.syspath)/.." in text else hint)
    elif glob:
        _check_wildcards(field, shape, text)


def _check_wildcards(field: Field, pattern: str, text: str) -> None:
    levels = pattern.strip("/").count("/") + 1
    if levels > MAX_LEVELS and has_wildcard(pattern):
        message = f"{quoted(text)} has {levels} levels: at most {MAX_LEVELS} are allowed in a glob"
        field.refuse(message, "write a path without wildcards, or select by udev, usb or pci")


def _check_glob(field: Field, text: str, *, path: bool = False) -> None:
    problem_of = path_problem if path else pattern_problem
    if "$(" in text:
        message = f"templates are not allowed here: {quoted(text)}"
        hint = "only in name, values, groupBy, id, attributes, capacity, inject, health and hooks"
        field.refuse(message, hint)
    elif problem := problem_of(text, shortened(text, MAX_QUOTED)):
        is_regex = text.lstrip("^").startswith("/") and _OF_REGEX.search(text)
        regex_hint = _meant_glob(text) if is_regex else ""
        foreign_hint = "templates are not allowed here" if _FOREIGN.search(text) else ""
        field.refuse(problem, lookalike_hint(text) or regex_hint or foreign_hint)
    elif path:
        _check_wildcards(field, text, text)
        if found := _IN_SYSFS.fullmatch(text):
            selector = yaml_flow({"udev": {"subsystem": found["subsystem"], "name": found["name"]}})
            field.warn(f"{quoted(text)} is a directory, not a device file", f"write {selector}")


def _check_regex(field: Field, text: str) -> None:
    try:
        compiled(text)
    except PatternError as error:
        hint = ""
        if _OF_PERL.search(text):
            hint = "RE2 has neither look-around nor back-references"
        elif _COUNT.search(text):
            hint = "use smaller counts in {…}, and narrower classes than \\pL and ."
        field.refuse(f"{quoted(text)} is not a valid regular expression: {error}", hint)


def _check_resource_name(field: Field, text: str, parsed: Template) -> None:
    if (problem := name_problem(_shape(parsed))) is not None:
        field.refuse(f"{quoted(text)}: {problem}", _name_hint(text))


def _name_hint(name: str) -> str:
    """Return a resource name that the kubelet accepts, as a hint for one that it refuses."""
    if hint := lookalike_hint(name):
        return hint
    domain, slash, rest = name.rpartition("/")
    domain = domain.lower().replace("_", "-") if slash and domain else "example.com"
    meant = f"{domain}/{rest}"
    return f"as in {meant!r}" if name_problem(meant) is None else ""


def _check_resource_names(field: Field, text: str) -> None:
    """Find mistakes in a glob of the full names of resources."""
    if "$(" in text or pattern_problem(text):
        _check_glob(field, text)
    elif has_wildcard(text.partition("/")[0]):
        field.refuse(f"{quoted(text)} has a wildcard in the domain", "as in 'example.com/a*'")
    elif problem := name_problem(_WILDCARD.sub("x", text)):
        field.refuse(f"{quoted(text)}: {problem}", _name_hint(text))


def _shape(template: Template) -> str:
    """Return an example of a template's result."""
    return "".join(part if isinstance(part, str) else "x" for part in template.parts)


def _check_cdi_name(field: Field, text: str, parsed: Template) -> None:
    literal = "".join(part for part in parsed.parts if isinstance(part, str))
    # The result of a reference may contain the vendor or the class.
    is_whole = not parsed.references or ("/" in literal and "=" in literal)
    if is_whole and not is_cdi_name(_shape(parsed)):
        field.refuse(f"{quoted(text)} is not a CDI device name, vendor/class=name")


def check_declared(
    field: Field, name: str, values: Set[str] | None, *, of_key: bool = False
) -> None:
    """Find the name of a value that the resource does not declare."""
    if values is not None and name not in values:
        hint = suggestion(name, values) if values else "declare it under values"
        field.refuse(f"undeclared value {quoted(name)}", hint, of_key=of_key)


def _check_number(field: Field, text: str, parsed: Template) -> None:
    """Find a string without references: a number is written without quotes."""
    if not parsed.references:
        is_number = type(plain(text)) in {int, float}
        hint = f"write {text} without quotes" if is_number else "as in 90, or $(value.limit)"
        field.refuse(f"expected a number or a template, not the string {quoted(text)}", hint)


def _check_attribute(field: Field, _: str, parsed: Template, *, kind: AttributeType) -> None:
    """Refuse a constant that is not a value of this type."""
    attribute = Attribute(type=kind, value=parsed)
    if not parsed.references and (why := value_of(attribute, lambda *_: None).note):
        field.refuse(why.removeprefix("cut: "))


def _check_quantity(field: Field, text: str, parsed: Template | None = None) -> None:
    """Refuse a constant that is not an amount of a capacity."""
    if not (parsed and parsed.references) and whole(text.strip()) is None:
        field.refuse(f"{quoted(text)} is not {WANTED}")


def _check_program(field: Field, text: str) -> None:
    if "$(" in text:
        field.refuse(f"the program cannot be a template: {quoted(text)}")
    else:
        _check_path(field, text, template.parse(text))
    if " " in text:
        field.warn(f"{quoted(text)} contains a space", "write each argument as an entry of its own")


def _check_policy_path(field: Field, text: str) -> None:
    if "$(" in text:
        field.refuse(f"a policy takes no templates: {quoted(text)}")
    elif problem := path_problem(text):
        field.refuse(problem)


def _check_policy_command(field: Field, text: str) -> None:
    if is_glob(text) and "$(" not in text and path_problem(text) is None:
        field.refuse(f"a command is named in full, without wildcards: {quoted(text)}")
    else:
        _check_policy_path(field, text)


def _check_policy_name(field: Field, text: str) -> None:
    if problem := pattern_problem(text):
        field.refuse(problem)


_TEXT_FORMATS: dict[str, Callable[[Field, str], None]] = {
    "glob": _check_glob,
    "path-glob": partial(_check_glob, path=True),
    "re2": _check_regex,
    "resource-names": _check_resource_names,
    "literal": lambda *_: None,
    "program": _check_program,
    "quantity": _check_quantity,
    "policy-path": _check_policy_path,
    "policy-command": _check_policy_command,
    "policy-name": _check_policy_name,
}
_TEMPLATE_FORMATS: dict[str, Callable[[Field, str, Template], None]] = {
    "template": lambda *_: None,
    "path-template": _check_path,
    "directory-template": partial(_check_path, directory=True),
    "path-glob-template": partial(_check_path, glob=True),
    "resource-name": _check_resource_name,
    "cdi-name-template": _check_cdi_name,
    "number-template": _check_number,
    "quantity-template": _check_quantity,
    **{f"{kind}-template": partial(_check_attribute, kind=kind) for kind in AttributeType},
}
