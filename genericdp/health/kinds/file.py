"""``file``: a file whose content must be as expected."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from genericdp.devices.paths import file_to_read
from genericdp.errors import Finding, Outcome, reason_of
from genericdp.glob import is_glob
from genericdp.health import ThreadCheck
from genericdp.model import TextT, number
from genericdp.printing import printable, shortened
from genericdp.regex import TextTooLongError, search
from genericdp.template import UnusableValueError, expand, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.devices.device import Device
    from genericdp.host.root import Root
    from genericdp.template import Lookup, Template

LimitT = TypeVar("LimitT")

MAX_BYTES = 1024 * 1024
MAX_SHOWN = 60
"""Limit on the characters of the content that a message quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileCheck(ThreadCheck, Generic[TextT, LimitT]):
    """Conditions on a file's stripped content; all conditions must hold."""

    kind = "file"
    only_reads = True
    files = ("path",)
    path: TextT
    regex: str | None = None
    equals: TextT | None = None
    min: LimitT | None = None
    max: LimitT | None = None
    changes: bool = False
    """Whether the content must differ from the previous content."""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> FileCheck[Template, Template]:
        """Return the check of a validated mapping of the config."""
        keys = written.keys() & {"path", "equals", "min", "max"}
        return FileCheck(**{**written, **{key: _template(written[key]) for key in keys}})

    @classmethod
    def mistakes(cls, written: Mapping[str, Any], *, several: bool) -> Iterator[Finding]:  # noqa: ARG003
        """Find conditions that can never hold, check nothing, or are probably a mistake."""
        if is_glob(written.get("path") or ""):
            yield Finding(("path",), "wildcards are literal here: one file is read", warning=True)
        low, high, changes = (written.get(key) for key in ("min", "max", "changes"))
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            yield Finding(("min",), f"no number is at least {low} and at most {high}")
        if changes is False and written.keys() <= {"path", "changes"}:
            hint = "write changes: true, or regex, equals, min or max"
            yield Finding(("changes",), "this alone demands nothing of the content", hint)
        if changes and written.get("equals") is not None:
            why = "what equals one text does not change: of two runs in a row one fails"
            hint = "omit changes or equals"
            yield Finding(("changes",), why, hint, of_key=True, warning=True)

    def bind(self: FileCheck[Template, Template], lookup: Lookup) -> FileCheck[str, float]:
        """Expand the templates, of which ``min`` and ``max`` must be numbers in order."""
        low, high = _limit(self.min, lookup), _limit(self.max, lookup)
        if low is not None and high is not None and low > high:
            why = f"{low:.15g}, which is more than {high:.15g} of max '{self.max}'"
            raise UnusableValueError(f"min '{self.min}' gives {why}")
        return FileCheck(
            path=expand(self.path, lookup, path=True),
            regex=self.regex,
            equals=None if self.equals is None else expand(self.equals, lookup),
            min=low,
            max=high,
            changes=self.changes,
        )

    @property
    def label(self) -> str:
        """The kind and the file."""
        return f"file {self.path}"

    def activity(self, device: Device) -> str:  # noqa: ARG002
        """Name the file."""
        return f"reading {printable(str(self.path))}"

    def look(
        self: FileCheck[str, float], device: Device, root: Root, before: bytes = b""
    ) -> Outcome:
        """Read the file and return whether it is as expected, as ``check_content``."""
        path = printable(self.path)
        try:
            found = file_to_read(device.policy, self.path, root.target)
            if found.refusal:
                return Outcome(reason=printable(found.refusal))
            data = root.read_bytes(found.target, limit=MAX_BYTES + 1, follow_symlinks=False)
            if len(data) > MAX_BYTES:
                return Outcome(reason=f"{path} has more than 1 MiB")
            return check_content(self, data.decode(errors="backslashreplace"), before)
        except (FileNotFoundError, NotADirectoryError):
            reason = f"{path} does not exist"
        except BlockingIOError:
            reason = f"{path} has nothing to read"
        except OSError as error:
            reason = f"{path} cannot be read: {reason_of(error)}"
        except TextTooLongError as error:
            reason = f"{path}: {error}"
        except ValueError:  # the only other possible cause
            reason = f"{path} cannot be read: a path holds no NUL"
        return Outcome(reason=reason)


def _template(value: str | float) -> Template:
    return parse(value if isinstance(value, str) else str(value).removesuffix(".0"))


def _limit(template: Template | None, lookup: Lookup) -> float | None:
    text = "" if template is None else expand(template, lookup)
    limit = number(text)
    if template is not None and limit is None:
        raise UnusableValueError(f"'{template}' gives {shortened(text)!r}, which is not a number")
    return limit


def check_content(check: FileCheck[str, float], content: str, before: bytes = b"") -> Outcome:
    """Return whether the content meets all conditions.

    If it must change, the outcome has its digest, and ``before`` is that of an earlier content of
    this file; it is empty for the first content, which need not differ.
    """
    content = content.strip()
    digest, wrong = b"", ""
    if check.changes:  # of the content of this file only
        text = f"{check.path}\0{content}"
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    if check.equals is not None and content != check.equals:
        wrong = f"not {quote(check.equals)}"
    elif check.regex is not None and search(check.regex, content) is None:
        wrong = f"not matching {quote(check.regex)}"
    elif check.min is not None or check.max is not None:
        wrong = _out_of_range(check, content)
    if digest and digest == before and not wrong:
        wrong = "as when it was last read (it must change)"
    reason = f"{printable(check.path)} is {quote(content)}, {wrong}" if wrong else ""
    return Outcome(reason=reason, digest=digest)


def _out_of_range(check: FileCheck[str, float], content: str) -> str:
    value = number(content)
    if value is None:
        return "which is not a number"
    if check.min is not None and value < check.min:
        return f"less than {check.min:.15g}"
    if check.max is not None and value > check.max:
        return f"more than {check.max:.15g}"
    return ""


def quote(text: str) -> str:
    """Quote a string for a message: escape unprintable characters, truncate a long string."""
    quoted = printable(text[: MAX_SHOWN + 1])
    return f"'{quoted}'" if len(quoted) <= MAX_SHOWN else f"'{quoted[:MAX_SHOWN]}…'"
