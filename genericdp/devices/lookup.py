"""Template variables of one candidate, and the values that a resource declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import BUSES, nearest, source_device, text_of, why_unread
from genericdp.devices.paths import file_to_read, is_kernels_own
from genericdp.devices.topology import spot_of
from genericdp.model import ValueKind
from genericdp.printing import shortened
from genericdp.reasons import Code
from genericdp.regex import TextTooLongError, extract
from genericdp.template import (
    MAX_TEXT,
    TOO_LONG,
    AmbiguousValueError,
    LackingValueError,
    UnusableValueError,
    byte_length,
    expand,
    is_utf8,
)

if TYPE_CHECKING:
    from genericdp.devices.inventory import Candidate, Inventory, Look
    from genericdp.model import Resource, ValueSource

MAX_SEARCHED_BYTES = 1024 * 1024
"""Maximum size of a file that an expression searches, in bytes."""
_MAX_KEPT = 1024
"""Longer values are computed again for each use: there may be many of them."""


class Names:
    """The variables of one candidate; each is computed when it is first used."""

    def __init__(
        self,
        candidate: Candidate,
        *,
        resource: Resource,
        inventory: Inventory,
        is_selecting: bool = False,
    ) -> None:
        self.device_id: str | None = None
        """Known only once the id has been made."""
        self._candidate = candidate
        self._resource = resource
        self._host = inventory.host
        self._node_name = inventory.node_name
        self._is_selecting = is_selecting
        """Whether the lookup is for a selector: then an unknown value is an error, whatever the
        default.
        """
        syspath = candidate.device.syspath if candidate.device else ""
        surely, by_default = (
            inventory.values.setdefault((resource.name, candidate.path, syspath, sure), {})
            for sure in (True, False)
        )
        self._kept = surely if is_selecting else by_default
        self._values: dict[str, str | UnusableValueError | None] = {**surely, **self._kept}
        """Values that are already known, including errors."""

    def get_text(self, scope: str, name: str) -> str | None:
        """Return the text, or None if this candidate lacks it; as ``template.Lookup``."""
        match scope:
            case "node":
                return self._node_name
            case "value":
                return self._value(name)
            case "constant":
                source = self._resource.values[name]
                is_constant = source.kind is ValueKind.TEXT and not source.source.references
                return self._value(name) if is_constant else None
            case "device" if name in {"subsystem", "devtype", "driver"}:
                return self._of_sysfs("udev", name)
            case "device":
                return self._of_candidate(name)
            case "property":
                return self._of_sysfs("udev", f"properties.{name}")
            case "attribute":
                return self._of_sysfs("udev", f"attributes.{name}")
            case _:
                return self._of_sysfs(scope, name)

    def _of_sysfs(self, kind: str, key: str) -> str | None:
        """Return the value that a selector of this kind would compare with its key."""
        if (sitting := self._candidate.device) is None:
            return None
        device = nearest(sitting, self._host, BUSES[kind]) if kind in BUSES else sitting
        text, why = None, ""
        if device is not None:
            asked = source_device(kind, device, key, self._host, sitting)
            text = text_of(kind, asked, key, self._host)
            if self._is_selecting:
                why = why_unread(kind, key, asked, self._host)
        elif self._is_selecting:
            why = why_unread(kind, "", sitting, self._host, above=True)
        if why:
            raise UnusableValueError(why, Code.UNREADABLE)
        return text

    def _of_candidate(self, name: str) -> str | None:
        candidate, device = self._candidate, self._candidate.device
        number, syspath = candidate.file.identity.device_number, candidate.file.identity.syspath
        match name:
            case "id":
                return self.device_id
            case "path":
                return None if syspath == candidate.path else candidate.path
            case "name":
                return device.name if device else candidate.file.kernel_name
            case "major" | "minor":
                return None if number is None else str(number[name == "minor"])
            case "syspath":
                return syspath
            case "numa" if device is not None:
                nodes = spot_of((device,), self._host).numa_nodes
                return ",".join(map(str, nodes)) or None
            case _:
                return None

    def _value(self, name: str) -> str | None:
        if name not in self._resource.values:
            return None
        if name not in self._values:
            found = self._values[name] = self._computed(name)
            if isinstance(found, str) and len(found) <= _MAX_KEPT:
                self._kept[name] = found
        found = self._values[name]
        if isinstance(found, UnusableValueError):
            raise found.with_traceback(None)
        return found

    def _computed(self, name: str) -> str | UnusableValueError | None:
        """Return a declared value, None if this candidate has none, or the error.

        A LackingValueError means that it has none, too, with more to say.
        """
        # The config has been checked: no value needs itself, nor too many others.
        source, what = self._resource.values[name], ""
        is_glob = source.kind in {ValueKind.LINK, ValueKind.LINKED_BY}
        try:
            given = expand(
                source.source,
                self.get_text,
                path=source.kind is not ValueKind.TEXT,
                quote=glob.escape if is_glob else str,
            )
            what = f"the value {name!r}: "
            text = self._read(source, given)
            return None if text is None else _extracted(source.regex, text)
        except UnusableValueError as error:
            error.args = (f"{what}{error}",)
            is_unknown = self._is_selecting and isinstance(error, AmbiguousValueError)
            return UnusableValueError(str(error)) if is_unknown else error

    def _read(self, source: ValueSource, given: str) -> str | None:
        match source.kind:
            case ValueKind.TEXT:
                return given
            case ValueKind.FILE:
                limit = MAX_TEXT if source.regex is None else MAX_SEARCHED_BYTES
                return self._content(given, limit)
            case ValueKind.LINK:
                return self._link(given)
            case ValueKind.LINKED_BY:
                return self._linked_by(given)

    def _content(self, path: str, limit: int) -> str:
        target = self._allowed(path)
        text = self._host.text(target, limit=limit)
        if text is not None:
            return text
        if why := self._host.why_unreadable(target):
            raise UnusableValueError(f"{path}: {why}", Code.UNREADABLE)
        if self._look(glob.escape(path)).dangling:
            raise AmbiguousValueError(f"{path} is a link that leads nowhere")
        raise LackingValueError(f"{path}: it does not exist")

    def _link(self, pattern: str) -> str | None:
        dangling = self._look(pattern).dangling
        paths = (*self._host.paths(pattern), *dangling)
        if not paths:
            raise LackingValueError(f"{glob.unescape(pattern)} finds nothing, wanted one")
        if (count := len(paths)) > 1:
            raise AmbiguousValueError(f"{glob.unescape(pattern)} finds {count} paths, wanted one")
        if dangling:
            raise AmbiguousValueError(f"{dangling[0]} is a link that leads nowhere")
        target = self._allowed_link(paths[0])
        path = self._host.realpath(target)
        if path is None and (why := self._host.why_unreadable(target)):
            raise UnusableValueError(f"{paths[0]}: {why}", Code.UNREADABLE)
        return path and path.rpartition("/")[2]

    def _linked_by(self, pattern: str) -> str:
        """Return the name of the only link to a directory among those that a glob finds."""
        if not (syspath := self._candidate.file.identity.syspath):
            raise LackingValueError("it has no directory in sysfs")
        directory, _, name = pattern.rpartition("/")
        # Each of 256 functions has its own path to their card. With links resolved, these are one
        # directory, which is read once; but a policy allows the path as the config writes it.
        real = (
            None if glob.has_wildcard(directory) else self._host.realpath(glob.unescape(directory))
        )
        look = self._look(pattern if real is None else f"{glob.escape(real)}/{name}")
        if look.dangling:
            raise AmbiguousValueError(f"{look.dangling[0]} is a link that leads nowhere")
        if (untrusted := look.untrusted) is not None:
            why = f"{untrusted.path} must not be read: {untrusted.mount_refusal}"
            raise UnusableValueError(why, Code.FORBIDDEN)
        paths = [file.path for file in look.by_target.get(syspath, ()) if file.is_link]
        if not paths:
            raise LackingValueError(f"no link among {glob.unescape(pattern)} leads to {syspath}")
        if (count := len(paths)) > 1:
            several = f"{count} links among {glob.unescape(pattern)} lead to {syspath}, wanted one"
            raise AmbiguousValueError(several)
        found = paths[0].rpartition("/")[2]
        self._allowed_link(paths[0] if real is None else f"{glob.unescape(directory)}/{found}")
        return found

    def _look(self, pattern: str) -> Look:
        """Return everything that a glob finds; raises UnusableValueError if there may be more."""
        look = self._host.look(pattern)
        if look is None or look.unreadable:
            raise UnusableValueError(self._host.why_unreadable(pattern), Code.UNREADABLE)
        return look

    def _allowed_link(self, path: str) -> str:
        """Return the target of a link; the directory in which it really is must be allowed, too."""
        directory, _, name = path.rpartition("/")
        real = None if is_kernels_own(path) else self._host.realpath(directory)
        if real is not None and real != directory:
            self._allowed(f"{real}/{name}")
        return self._allowed(path)

    def _allowed(self, path: str) -> str:
        found = file_to_read(self._resource.policy, path, self._host.target)
        if found.refusal:
            raise UnusableValueError(found.refusal, Code.FORBIDDEN)
        return found.target


def _extracted(regex: str | None, text: str) -> str:
    if not is_utf8(text):
        raise UnusableValueError(f"{shortened(text)!r} is not valid UTF-8")
    found: str | None = text
    if regex is not None:
        try:
            found = extract(regex, text)
        except TextTooLongError as error:
            raise UnusableValueError(str(error)) from error
    if found is None:
        raise LackingValueError(f"{regex!r} is not found in {shortened(text, 61)!r}")
    if byte_length(found) > MAX_TEXT:
        raise UnusableValueError(f"it is {TOO_LONG}")
    return found
