"""squat/generic-device-plugin: its config, its flags, and what deploys it with either of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.convert.output import (
    ANOTHER,
    DIRECTORIES,
    CommentedValue,
    ConfigDraft,
    ConvertedResource,
    any_of,
    exactly,
)
from genericdp.convert.sharing import share_hardware
from genericdp.glob import escape, has_wildcard, is_glob, path_problem, unescape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.convert.document import Part
    from genericdp.convert.output import Values

PLUGIN = "squat/generic-device-plugin"
MARKER = "groups"
MARKERS: tuple[str, ...] = (MARKER,)
MAX_PATHS = 256
"""Groups of a device, and paths or USB devices of a group."""
_DOMAIN = "devic.es"
_KEY = "$(value.key)"
"""In a path: the text in which the paths of one device differ from those of another."""
_FLAG = re.compile(r"--?(?P<name>[a-z-]+)(?:=(?P<value>.*))?", re.DOTALL)
HEAD: tuple[str, ...] = (
    "Permissions are those of the plugin: rwm for device files of paths, unless the config says"
    " otherwise, and rw for USB devices.",
)
_NO_DOMAIN = (
    f"The config does not give a domain: {_DOMAIN} is the plugin's default since 0.2.0 (April"
    " 2026), before that it was squat.ai. Resources must have the names that pods request."
)
_REASONS = {
    "listen": "see the option --listen of genericdp run",
    "log-level": "see the option --log-level of genericdp run",
    "plugin-directory": "see the option --kubelet-dir of genericdp run",
    "config": "it names a file of the plugin",
    "count": "the plugin takes it in a group only",
    "permissions": "the plugin takes it for device files only",
}
_ALL_EXIST = "Offered if all its paths exist, except optional ones, as in the plugin."
_PAIRED = (
    "Paths belong together if their stars stand for the same text. The plugin pairs them by"
    " position in two sorted lists, so that controlC1 may come with pcmC10D0c."
)
_NOT_PAIRED = (
    "several patterns belong together only if each has one * and no other wildcard; say with"
    " groupBy what belongs together"
)
_LIMIT = (
    "limit: {limit} of {path} has no counterpart: the plugin offers at most that many devices with"
    " this path, here every device comes with it."
)
_NEEDED = "{path} is optional in the plugin, but must exist here."
_ONE_PLACE = (
    "A container can have only one of them, since all are at one path there: to give it several,"
    " use $(allocation.index) in containerPath."
)
_SAME_NAME = (
    "{name} in the plugin, too, as above. If the two are for different nodes, convert each for"
    " itself, or give both nodeNames and the same name; else pods must request this name."
)
_UNSEEN = (
    "Mount {path} into the daemon's pod, too: it sees only /dev, /sys, /run/udev and the kubelet's"
    " directory."
)
_SEEN = ("/dev/", "/sys/", "/run/udev/")
_EACH = (
    "Equal USB devices are a device each. The plugin makes one of them all, whose ID changes"
    " whenever one is plugged in."
)
_UNQUOTED = (
    "An ID is not quoted in the config, so that the plugin may read another number. Here it is"
    " taken as written."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPath:
    """One path of a group."""

    glob: str
    mount_path: str = ""
    permissions: str = "rwm"
    is_mount: bool = False
    read_only: bool = False
    limit: int = 1
    optional: bool = False

    @property
    def is_pattern(self) -> bool:
        """Return whether it can match several files."""
        return has_wildcard(self.glob)

    @property
    def manner(self) -> tuple[object, ...]:
        """Return the properties that must be equal for paths in one entry of ``inject``."""
        directory = self.glob if self.glob in DIRECTORIES else ""
        return (self.is_mount, self.read_only, self.permissions, self.optional, directory)


Row = tuple[GroupPath, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SquatGroup:
    """One entry of ``groups``: all of its paths or USB devices are one device."""

    count: int
    paths: Row = ()
    usb: tuple[CommentedValue, ...] = ()

    def is_like(self, others: Sequence[SquatGroup]) -> bool:
        """Return whether one resource can offer this group together with others."""
        first = others[0]
        sizes = {(group.count, len(group.paths), len(group.usb)) for group in (self, first)}
        if len(sizes) > 1:
            return False
        if len(self.paths) == 1:
            mine, other = self.paths[0], first.paths[0]
            return (mine.manner, mine.mount_path) == (other.manner, other.mount_path)
        if self.paths:
            return _series([*(other.paths for other in others), self.paths]) is not None
        return len(self.usb) == 1


def listed(content: bytes) -> bytes:
    """Return arguments as of a command line as a YAML list, and anything else as it is."""
    text = content.decode("utf-8", "replace").replace("\\\n", " ").strip()
    if not re.match(r"['\"]?--?(device|domain)[= ]", text):
        return content
    words = re.split(r"(?<!\s)\s+(?=['\"]?--?[a-z][a-z-]*(?:[= ]|$))", text)
    return json.dumps([_unquoted(word) for word in words]).encode()


def _unquoted(word: str) -> str:
    """Return an argument as --name=value, without the quotes of a shell around it or its value."""
    whole = re.fullmatch(r"(['\"])(.*)\1", word, re.DOTALL)
    found = re.fullmatch(r"([a-z-]+)[=\s]\s*(['\"]?)(.*)\2", whole[2] if whole else word, re.DOTALL)
    return f"{found[1]}={found[3]}" if found else word


def is_config(part: Part) -> bool:
    """Return whether it is a config, a list of arguments or devices, or sets the domain."""
    if part.node.entries is not None:
        return any(
            _is_device(child) or _flag(child) in {"device", "domain"} for child in part.children()
        )
    if part.has("devices", "device"):
        keys = part.keys()
        found = (*keys.take("devices").children(), *keys.take("device").children())
        return not part.path or any(map(_is_device, found))
    return _is_device(part) or part.has("DOMAIN") or _is_domain(part)


def _is_device(part: Part) -> bool:
    if isinstance(part.node.scalar, str):
        return re.match(r"\s*\{.*\bgroups\b|name:.*\bgroups:", part.text(), re.DOTALL) is not None
    return part.has(MARKER)


def _is_domain(part: Part) -> bool:
    """Return whether it is an entry of a container's env for the domain."""
    return part.has("name") and part.has("value") and part.keys().take("name").text() == "DOMAIN"


def _flag(part: Part) -> str:
    found = _FLAG.fullmatch(part.node.scalar) if isinstance(part.node.scalar, str) else None
    return found["name"] if found else ""


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resources of all configs."""
    domain = next(filter(None, map(_domain, configs)), "")
    for config in configs:
        if config.node.entries is not None:
            _add_arguments(config, domain or _DOMAIN, draft)
        elif config.has("devices", "device"):
            _add_config(config, domain, draft)
        elif config.has(MARKER):
            _add_device(config, domain or _DOMAIN, draft)
    share_hardware(draft.resources)
    is_default = any(resource.name.startswith(f"{_DOMAIN}/") for resource in draft.resources)
    if is_default and not domain and _NO_DOMAIN not in draft.head:
        draft.head.append(_NO_DOMAIN)


def _domain(part: Part) -> str:
    """Return the domain that a flag or an environment variable sets, which counts first."""
    if part.node.entries is not None:
        return next((text for name, _, text in _flags(part) if name == "domain"), "")
    if part.has("devices", "device", MARKER):
        return ""
    return part.keys().take("DOMAIN" if part.has("DOMAIN") else "value").text()


def _flags(part: Part) -> Iterator[tuple[str, Part, str]]:
    """Yield the name of each flag, the word that has its value, and the value."""
    waiting = ""
    for word in part.children():
        text = "" if word.node.items or word.node.entries else word.text()
        found = _FLAG.fullmatch(text)
        if waiting:
            yield waiting, word, text
            waiting = ""
        elif not text or _is_device(word):
            # A separate value.
            yield "device", word, text
        elif found is not None and found["value"] is None:
            waiting = found["name"]
        elif found is not None:
            yield found["name"], word, found["value"]


def _add_arguments(part: Part, domain: str, draft: ConfigDraft) -> None:
    for name, word, text in _flags(part):
        if name == "device" and not text:
            _add_device(word, domain, draft)
        elif name == "device":
            _add_text(text, word, domain, draft)
        elif name != "domain":
            why = _REASONS.get(name, "the plugin has no such option")
            draft.left.append(f"Not converted, --{name} {text}: {why}.")


def _add_text(text: str, word: Part, domain: str, draft: ConfigDraft) -> None:
    """Add the device of an argument: YAML or JSON, or NAME,PATH,... of the first versions."""
    for part in word.embedded(text):
        if part.children():
            _add_device(part, domain, draft)
        elif "," in part.text():
            name, *globs = (word.strip() for word in part.text().split(","))
            paths = (GroupPath(glob=_glob(glob, part)) for glob in globs)
            groups = [SquatGroup(count=1, paths=(path,)) for path in paths]
            _add_resources(f"{domain}/{name}", part, groups, draft)
        else:
            word.fail("a device is a mapping with name and groups, or NAME,PATH,...")


def _add_config(part: Part, domain: str, draft: ConfigDraft) -> None:
    keys = part.keys()
    is_microshift = part.is_placed("squat")
    own, default = keys.take("domain").text(), "device.microshift.io" if is_microshift else _DOMAIN
    before = len(draft.resources)
    for key in ("devices", "device"):
        for device in keys.take(key).entries():
            _add_device(device, domain or own or default, draft)
    if is_microshift and keys.take("status").text() != "Enabled":
        for resource in draft.resources[before:]:
            resource.withheld = "genericDevicePlugin.status is not Enabled"
    draft.left += keys.rest(PLUGIN, _REASONS)


def _add_device(part: Part, domain: str, draft: ConfigDraft) -> None:
    keys = part.keys()
    name = keys.take("name").text().strip()
    groups = [group for entry in keys.take(MARKER).entries() for group in _groups(entry, draft)]
    _add_resources(name if "/" in name else f"{domain}/{name}", part, groups, draft)
    draft.left += keys.rest(PLUGIN, _REASONS)


def _groups(entry: Part, draft: ConfigDraft) -> Iterator[SquatGroup]:
    """Yield the groups of an entry; one with both paths and usb makes two separate groups."""
    keys = entry.keys()
    count = keys.take("count").number(1) or 1
    if paths := tuple(_path(part, draft) for part in keys.take("paths").entries()):
        yield SquatGroup(count=count, paths=paths)
    # MicroShift calls it usbs.
    usb = (*keys.take("usb").entries(), *keys.take("usbs").entries())
    if usb:
        yield SquatGroup(count=count, usb=tuple(_usb(part, draft) for part in usb))
    draft.left += keys.rest(PLUGIN, _REASONS)


def _path(part: Part, draft: ConfigDraft) -> GroupPath:
    keys = part.keys()
    kind, inside = keys.take("type"), keys.take("mountPath")
    if kind.text() not in {"", "Device", "Mount"}:
        kind.fail("expected Device or Mount")
    is_mount = kind.text() == "Mount"
    letters = keys.take("permissions").text() if not is_mount else ""
    if not set(letters) <= set("rwm"):
        part.fail(f"permissions are letters of rwm, not {letters[:40]!r}")
    mount_path = inside.text().strip()
    if mount_path and ("$(" in mount_path or path_problem(escape(mount_path)) is not None):
        inside.fail(f"{mount_path[:80]!r} is not an absolute path in a container")
    path = GroupPath(
        glob=_glob(keys.take("path").text(), part),
        mount_path=mount_path,
        permissions="".join(letter for letter in "rwm" if letter in letters) or "rwm",
        is_mount=is_mount,
        read_only=keys.take("readOnly").is_true() and is_mount,
        limit=keys.take("limit").number(1) or 1,
        optional=keys.take("optional").is_true(),
    )
    draft.left += keys.rest(PLUGIN, _REASONS)
    return path


def _glob(text: str, part: Part) -> str:
    """Return the same glob: those of Go have backslashes, [^...], and stars that can be doubled."""
    text = text.strip()
    made = re.sub(r"\\(.)", lambda found: escape(found[1]), text)
    made = re.sub(r"\*+", "*", made).replace("[^", "[!").rstrip("/")
    is_odd = "[!" in text or "$(" in text or re.search(r"\[[^\]]*\\", text) is not None
    if is_odd or path_problem(made) is not None:
        part.fail(f"path {text[:80]!r} is not an absolute path or glob that can be converted")
        return "/dev/null"
    return made


def _usb(part: Part, draft: ConfigDraft) -> CommentedValue:
    keys = part.keys()
    entry = CommentedValue({"usb": {}})
    for key in ("vendor", "product"):
        given = keys.take(key)
        found = re.fullmatch(r"(?:0[xX])?([0-9A-Fa-f]{1,4})", given.text() or "0")
        if found is None:
            given.fail(f"expected a USB ID of up to four hexadecimal digits, not {given.text()!r}")
            continue
        if not given.is_null and not isinstance(given.node.scalar, str):
            entry.comments = [_UNQUOTED]
        entry.value["usb"][key] = found[1].lower().rjust(4, "0")
    if serial := keys.take("serial").text():
        entry.value["usb"]["serial"] = exactly(serial)
    draft.left += keys.rest(PLUGIN)
    return entry


def _add_resources(name: str, part: Part, groups: Sequence[SquatGroup], draft: ConfigDraft) -> None:
    """Add the resources for one device of the config."""
    part.resource_name(name)
    if max([len(groups), *(len(group.paths) + len(group.usb) for group in groups)]) > MAX_PATHS:
        part.fail(f"more than {MAX_PATHS} groups, or paths or USB devices of a group")
        return
    if not groups:
        draft.left.append(f"Not converted, {name}: it has no groups, so it offers nothing.")
    kinds: list[list[SquatGroup]] = []
    for group in groups:
        alike = next((others for others in kinds if group.is_like(others)), None)
        if alike is None:
            kinds.append([group])
        else:
            alike.append(group)
    for i, alike in enumerate(kinds):
        resource = ConvertedResource(name=draft.unused_name(name))
        if resource.name != name:
            resource.comments.append((ANOTHER if i else _SAME_NAME).format(name=name))
        resource.share(alike[0].count, "count")
        if alike[0].usb:
            _add_usb(resource, alike)
        else:
            _add_paths(resource, [group.paths for group in alike])
        draft.resources.append(resource)


def _add_usb(resource: ConvertedResource, groups: Sequence[SquatGroup]) -> None:
    for entry in (selector for group in groups for selector in group.usb):
        if all(entry.value != other.value for other in resource.match):
            resource.match.append(entry)
    if len(groups[0].usb) > 1:
        resource.group_by = "all"
        resource.comments.append("All of these are one device, as in the plugin.")
    elif any("serial" not in entry.value["usb"] for entry in resource.match):
        resource.comments.append(_EACH)


def _add_paths(resource: ConvertedResource, rows: Sequence[Row]) -> None:
    """Fill a resource: one path finds the devices, each comes with the others."""
    row = rows[0]
    templates = _series(rows) if len(rows) > 1 < len(row) else _stars(row)
    anchor = 0 if templates is None else _anchor(row, templates)
    if templates is None or (row[anchor].is_mount and len(row) > 1):
        resource.withheld = _NOT_PAIRED if templates is None else "no device file finds the devices"
        resource.comments += [f"  path: {path.glob}" for path in row]
        return
    globs = any_of(row[anchor].glob for row in rows)
    selector: Values = {"path": globs}
    resource.match, resource.devices = [CommentedValue(selector)], []
    if around := templates[anchor]:
        texts = (
            re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", literal) for literal in around.split(_KEY)
        )
        regex = f"^{'(.*)'.join(texts)}$"
        resource.values["key"] = CommentedValue({"text": "$(device.path)", "regex": regex})
    for i, (path, template) in enumerate(zip(row, templates, strict=True)):
        place, glob = _place([row[i] for row in rows]) or path.mount_path, template or path.glob
        _give(resource, path, "$(device.path)" if i == anchor else glob, place)
        if i != anchor and not path.optional:
            resource.values[f"path{i + 1}"] = CommentedValue({"link": glob})
            selector.setdefault("values", {})[f"path{i + 1}"] = "*"
    if row[anchor].is_mount:
        selector["type"] = ["char", "block", "directory", "file"]
    elif row[anchor].glob in DIRECTORIES:
        selector["type"] = "directory"
    _remark(resource, rows, row[anchor])


def _remark(resource: ConvertedResource, rows: Sequence[Row], anchor: GroupPath) -> None:
    """Add a comment about differences."""
    if anchor.mount_path and (len(rows) > 1 or anchor.is_pattern):
        resource.comments.append(_ONE_PLACE)
    resource.comments += [_NEEDED.format(path=anchor.glob)] if anchor.optional else []
    patterns = [path for path in rows[0] if path.is_pattern]
    resource.comments += [_ALL_EXIST] if len(rows[0]) > 1 else []
    resource.comments += [_PAIRED] if len(patterns) > 1 else []
    for glob in dict.fromkeys(path.glob for row in rows for path in row):
        if not f"{glob}/".startswith(_SEEN):
            resource.comments.append(_UNSEEN.format(path=glob))
    for path in dict.fromkeys(path for row in rows for path in row):
        if path.limit > 1 or (patterns and not path.is_pattern):
            resource.comments.append(_LIMIT.format(limit=path.limit, path=path.glob))


def _series(rows: Sequence[Row]) -> list[str] | None:
    """Return each path with a key for the number in which rows differ; empty if it has none.

    Returns None if they differ in anything else.
    """
    templates = []
    numbers: set[tuple[str, ...]] = set()
    for column in zip(*rows, strict=True):
        texts = [re.split(r"(\d+)", path.glob) for path in column]
        manners = {
            (path.manner, path.is_pattern, len(text))
            for path, text in zip(column, texts, strict=True)
        }
        if len(manners) > 1 or column[0].is_pattern or _place(column) is None:
            return None
        differing = [i for i, ones in enumerate(zip(*texts, strict=True)) if len(set(ones)) > 1]
        if len(differing) > 1 or any(i % 2 == 0 for i in differing):
            return None
        if differing:
            numbers.add(tuple(text[differing[0]] for text in texts))
            texts[0][differing[0]] = _KEY
        templates.append("".join(texts[0]) if differing else "")
    return templates if len(numbers) == 1 and len(set(*numbers)) == len(rows) else None


def _place(column: Sequence[GroupPath]) -> str | None:
    """Return the path in the container; empty for that of the host; None if there are several."""
    if not any(path.mount_path for path in column):
        return ""
    places = {path.mount_path or path.glob for path in column}
    return places.pop() if len(places) == 1 else None


def _stars(row: Row) -> list[str] | None:
    """Return each pattern with a key for its star, if there are several; empty for other paths.

    Returns None if one of several patterns has another wildcard than one star.
    """
    patterns = [path.glob for path in row if path.is_pattern]
    if len(patterns) <= 1:
        return [""] * len(row)
    if any("*" not in pattern or is_glob(pattern.replace("*", "", 1)) for pattern in patterns):
        return None
    return [path.glob.replace("*", _KEY) if path.is_pattern else "" for path in row]


def _anchor(row: Row, templates: Sequence[str]) -> int:
    """Choose the path that finds the devices: if possible one that varies and must exist."""
    ranks = [
        (not (path.is_pattern or template), path.is_mount, path.optional)
        for path, template in zip(row, templates, strict=True)
    ]
    return ranks.index(min(ranks))


def _give(resource: ConvertedResource, path: GroupPath, glob: str, place: str) -> None:
    """Give a container a path, by a template."""
    optional = {"optional": True} if path.optional and glob != "$(device.path)" else {}
    if path.is_mount:
        host = unescape(glob)
        mount = {"hostPath": host, "containerPath": place or host, "readOnly": path.read_only}
        resource.mounts.append(CommentedValue({**mount, **optional}))
        return
    if path.glob in DIRECTORIES:
        directory = {"containerPath": f"{place.rstrip('/')}/"} if place else {}
        resource.add_directory(path.glob, **directory, permissions=path.permissions)
        return
    inside = {"containerPath": place} if place else {}
    value = {"path": glob, **inside, "permissions": path.permissions, **optional}
    resource.devices = [*(resource.devices or ()), CommentedValue(value)]
