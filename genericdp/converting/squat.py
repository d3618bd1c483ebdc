"""squat/generic-device-plugin: its config file, its --device flags, and manifests with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.converting.draft import Draft
from genericdp.converting.manifests import (
    containers,
    is_manifest,
    kind_of,
    objects,
    texts_of,
)
from genericdp.converting.overlapping import tell
from genericdp.converting.parts import Part, Source, parts
from genericdp.converting.recognizing import looks_like
from genericdp.converting.squatgroups import Group, Usb, add_resources
from genericdp.converting.squatpaths import paths_of, short_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DOMAIN = "squat.ai"
_FLAGS = {
    "listen": "genericdp takes it as its flag --listen",
    "log-level": "genericdp takes it as its flag --log-level",
    "plugin-directory": "genericdp takes it as its flag --kubelet-dir",
    "config": "this is the name of squat's own file",
    "version": "genericdp has the command version",
}
_UNKNOWN = "squat has no such key and ignores it"
_FLAG = re.compile(r"--?(?P<name>[a-z-]+)(?:=(?P<value>.*))?", re.DOTALL)


def convert(documents: tuple[Part, ...]) -> Draft:
    """Make a config of what squat reads."""
    draft = Draft(
        head=[
            "A device file of paths may be read, written and made anew (rwm) by squat's"
            " containers unless its permissions say otherwise, one of usb read and written"
            " (rw): so it is here."
        ]
    )
    for document in documents:
        for one in objects(document):
            _convert_one(one, draft)
    tell(draft, "squat")
    return draft


def _convert_one(document: Part, draft: Draft) -> None:
    if document.node.entries is not None:
        _convert_list(document, draft)
    elif document.node.items is None:
        wrong = "this is no config of squat: a mapping or a list is expected"
        document.fail(wrong, looks_like(document, "squat"))
    elif kind_of(document) == "ConfigMap":
        _convert_config_map(document, draft)
    elif is_manifest(document):
        _convert_pods(document, draft)
    elif document.keys().has("groups"):
        _convert_devices([document], _DOMAIN, draft)
    else:
        _convert_file(document, draft)


def _convert_config_map(document: Part, draft: Draft) -> None:
    for _, texts in texts_of(document):
        for text in texts:
            if is_manifest(text):
                text.fail("an object of Kubernetes in a ConfigMap")
            else:
                _convert_one(text, draft)


def _convert_list(document: Part, draft: Draft) -> None:
    entries = document.entries()
    if any(part.node.items is None for part in entries):
        _convert_flags(entries, draft)
    elif entries and not any(part.keys().has("name", "groups") for part in entries):
        wrong = "this is no config of squat: no entry has a name or groups"
        document.fail(wrong, looks_like(document, "squat"))
    else:
        _convert_devices(entries, _DOMAIN, draft)


def _convert_file(document: Part, draft: Draft) -> None:
    keys = document.keys()
    domain = keys.text("domain", _DOMAIN)
    devices = keys.take("devices") or keys.take("device")
    if devices is None:
        document.fail(
            "this is no config of squat: it has no devices", looks_like(document, "squat")
        )
        return
    _convert_devices(devices.entries(), domain, draft)
    draft.left += keys.kept(_FLAGS, _UNKNOWN)


def _convert_pods(document: Part, draft: Draft) -> None:
    found = False
    for container in containers(document):
        keys = container.keys()
        words = [
            word
            for key in ("command", "args")
            if (part := keys.take(key)) is not None
            for word in part.entries()
        ]
        if any(word.text().lstrip("-").startswith("device") for word in words):
            found = True
            _convert_flags(words, draft)
    if not found:
        kind = kind_of(document)
        draft.left.append(f"Not converted, the {kind}: none of its containers has --device.")


def _convert_flags(words: Iterable[Part], draft: Draft) -> None:
    domain, devices = _DOMAIN, []
    for name, value in _flags(words):
        if name == "device":
            devices.append(value)
        elif name == "domain":
            domain = value.text().partition("=")[2] or value.text()
        else:
            why = _FLAGS.get(name, _UNKNOWN)
            word = value.text()
            shown = word if word.startswith("-") else f"--{name} {word}"
            draft.left.append(f"Not converted, {shown}: {why}")
    for value in devices:
        text = re.sub(r"\A--?device=", "", value.text())
        _convert_devices([value], domain, draft) if value.node.items else _text(
            text, value, domain, draft
        )


def _flags(words: Iterable[Part]) -> Iterator[tuple[str, Part]]:
    """Give each flag with the word that holds its value."""
    waiting = ""
    for word in words:
        text = "" if word.node.items is not None else word.text()
        found = _FLAG.fullmatch(text)
        if waiting:
            yield waiting, word
            waiting = ""
        elif found is None:
            # The program itself, or a device as it stands after --device.
            if text.lstrip()[:1] == "{" or "name:" in text:
                yield "device", word
        elif found["value"] is None and found["name"] != "version":
            waiting = found["name"]
        else:
            yield found["name"], word


def _text(text: str, value: Part, domain: str, draft: Draft) -> None:
    """Take one value of --device: YAML or JSON, or the short form of old versions."""
    label = f"{value.source.file} (--device in line {value.node.mark.line})"
    source = Source(file=label, problems=value.source.problems)
    inner = parts(source, text.encode("utf-8", "replace"))
    for one in inner:
        if one.node.items is None and "," in one.text():
            name, *paths = (word.strip() for word in one.text().split(","))
            group = Group(part=one, paths=short_paths(paths, one), count=1)
            add_resources(f"{domain}/{name}", one, [group], draft, together=False)
        elif one.node.items is None:
            value.fail("a device is a mapping with name and groups, or NAME,PATH,...")
        else:
            _convert_devices([one], domain, draft)


def _convert_devices(devices: Iterable[Part], domain: str, draft: Draft) -> None:
    for device in devices:
        if device.node.items is None and not device.is_null:
            _text(device.text(), device, domain, draft)
            continue
        keys = device.keys()
        name = keys.text("name")
        found = keys.take("groups")
        entries = found.entries() if found is not None else ()
        groups = [group for entry in entries for group in _groups(entry, draft)]
        full = name if "/" in name else f"{domain}/{name}"
        add_resources(full, device, groups, draft, together=True)
        draft.left += keys.kept({"count": "squat takes it in a group only"}, _UNKNOWN)


def _groups(entry: Part, draft: Draft) -> Iterator[Group]:
    """Give what a group offers; one with paths and usb offers both, each for itself."""
    keys = entry.keys()
    count = keys.number("count", 1) or 1
    paths, usb = keys.take("paths"), keys.take("usb")
    if paths is not None and paths.entries():
        yield Group(part=entry, paths=paths_of(paths, draft), count=count)
    if usb is not None and usb.entries():
        yield Group(part=entry, usb=tuple(_usb(one, draft) for one in usb.entries()), count=count)
    draft.left += keys.kept({}, _UNKNOWN)


def _usb(one: Part, draft: Draft) -> Usb:
    keys = one.keys()
    usb = Usb(
        vendor=_hexadecimal(keys.take("vendor")),
        product=_hexadecimal(keys.take("product")),
        serial=keys.text("serial"),
    )
    draft.left += keys.kept({}, _UNKNOWN)
    return usb


def _hexadecimal(part: Part | None) -> tuple[str, bool]:
    """Give four digits, and whether squat may read another number there."""
    if part is None:
        return "0000", False
    text = part.text()
    if not re.fullmatch(r"[0-9A-Fa-f]{1,4}", text):
        part.fail(f"a USB id of up to four hexadecimal digits is expected here, not {text[:40]!r}")
        return "0000", False
    doubtful = not isinstance(part.node.scalar, str)
    return text.lower().rjust(4, "0"), doubtful
