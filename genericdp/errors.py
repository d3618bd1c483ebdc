"""Errors caused by a user's mistake or the host's state, each with an exit code."""

from __future__ import annotations

import errno
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from genericdp.printing import printable, shortened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

DAMAGE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The exceptions from parsing a damaged document: each is a fault of the document, not a bug."""

_MAX_SHOWN = 200
_MAX_API_TEXT = 2000
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


def why_damaged(error: Exception) -> str:
    """Return why a document is damaged, for one of DAMAGE, without quoting it."""
    match error:
        case UnicodeDecodeError():
            return "it is not text"
        case json.JSONDecodeError():
            return f"it is not JSON at line {error.lineno}"
        case KeyError():
            return f"it has no {str(error)[:_MAX_SHOWN]}"
        case _:
            return f"{type(error).__name__}: {str(error)[:_MAX_SHOWN]}"


def is_shortage(error: BaseException) -> bool:
    """Return whether a shortage caused the error, so that the request may have been carried out
    in part.
    """
    return isinstance(error, OSError) and error.errno in _SHORTAGES


def reason_of(error: Exception) -> str:
    """Return the system's message, without Python's additions."""
    return getattr(error, "strerror", None) or str(error)


KeyPath = tuple[str | int, ...]
"""The path to a value: keys of mappings and indices of lists."""


class Finding(NamedTuple):
    """One mistake, or a warning, at the value or the key that a path leads to."""

    path: KeyPath
    message: str
    hint: str = ""
    of_key: bool = False
    warning: bool = False


class Problem(NamedTuple):
    """One mistake in a config: lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int
    path: str
    """The path in the document, such as ``.resources[1].replicas``; empty for the document
    itself.
    """
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        path = f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{path}{self.message}{hint}"


class Outcome(NamedTuple):
    """The outcome of one run of a command, probe or hook."""

    reason: str = ""
    """Why it failed, human-readable; empty if it did not."""
    output: str = ""
    """The first and last 32 KiB of its output. Unprintable characters are escaped, which can make
    it several times longer.
    """
    seconds: float = 0.0
    digest: bytes = b""
    """The digest of the content that a file probe has read, if that must change."""

    @property
    def ok(self) -> bool:
        """Return whether it succeeded."""
        return not self.reason


class GenericdpError(Exception):
    """A failure that a user can understand and correct: shown as a message, without a traceback."""

    exit_code = 1


class HostError(Exception):
    """The host cannot be read now, so nothing can be concluded; the text says why.

    Not an OSError, which is an answer about one path.
    """


class UsageError(GenericdpError):
    """A flag, argument or directory that cannot be used."""

    exit_code = 2


class ConfigError(GenericdpError):
    """A config that cannot be used; its text has a line for each problem.

    ``advice`` has the consequences, and what to do, for readers who see only the last line.
    """

    exit_code = 2

    def __init__(self, problems: Iterable[object], *, advice: str = "") -> None:
        super().__init__("\n".join(map(str, problems)))
        self.advice = advice


class KubeletError(GenericdpError):
    """The kubelet, its directory or its answer is unusable."""


class CallError(GenericdpError):
    """A call of the kubelet that fails, with the message for it and the device concerned."""

    def __init__(self, message: str, *, device: str = "") -> None:
        super().__init__(message)
        self.device = device


class InvalidCallError(CallError):
    """A call about something that does not exist."""


class UnusableDeviceError(CallError):
    """A device that no container can get now."""


class OverdueCallError(CallError):
    """A call that could not be answered in time."""


class ApiError(GenericdpError):
    """A request to the API server has failed; the text says why, and what to do.

    It is escaped and shortened, since much of it comes from the server.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        retry_after: float = 0.0,
        is_lost: bool = False,
    ) -> None:
        super().__init__(printable(shortened(message, _MAX_API_TEXT)))
        self.status = status
        """The HTTP status; None without an answer that can be read."""
        self.reason = reason
        """The reason in the Status, such as ``Conflict``, ``AlreadyExists`` or ``Expired``; may
        be empty.
        """
        self.retry_after = retry_after
        """Seconds to wait before the next request; 0 if the server did not say."""
        self.is_lost = is_lost
        """Whether the connection failed or was lost, so that the server's answer is not at
        fault.
        """


class ApiAccessError(ApiError):
    """Access to the API server is missing or unusable."""


@asynccontextmanager
async def ungrouped() -> AsyncIterator[None]:
    """Take a GenericdpError or OSError out of an exception group: one message is enough for a
    user.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        own, others = group.split((GenericdpError, OSError))
        if own is None or others is not None:
            raise
        error: BaseException = own
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        # Not within except*: an error that is raised there is put into a group again.
        raise error from None
