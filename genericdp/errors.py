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
"""What taking a damaged document apart raises: each is a fault of the document, not of ours."""

_MAX_SHOWN = 200
_MAX_API_TEXT = 2000
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


def why_damaged(error: Exception) -> str:
    """Return what is wrong with a document, for one of DAMAGE: never what is in it."""
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
    """Return whether a resource was lacking: the request may have been carried out in part."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


def reason_of(error: Exception) -> str:
    """Return what is wrong in the system's words, without Python's around them."""
    return getattr(error, "strerror", None) or str(error)


KeyPath = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""


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
    """Where in the document, as ``.resources[1].replicas``; empty for the document itself."""
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
    """What it wrote: the first and last 32 KiB. Unprintable characters are escaped, which can make
    it several times longer.
    """
    seconds: float = 0.0
    digest: bytes = b""
    """Of the content that a probe of a file has read, if that must change."""

    @property
    def ok(self) -> bool:
        """Return whether it succeeded."""
        return not self.reason


class GenericdpError(Exception):
    """A failure that a person can understand and mend: shown as a message, without a traceback."""

    exit_code = 1


class HostError(Exception):
    """The host cannot be read just now: nothing at all can be concluded; its text says why.

    No OSError: those are answers about one path.
    """


class UsageError(GenericdpError):
    """A flag, argument or directory that cannot be used."""

    exit_code = 2


class ConfigError(GenericdpError):
    """A config that cannot be used; its text has a line for each problem.

    ``advice``: what follows from it, and what to do, for readers who see only the last line.
    """

    exit_code = 2

    def __init__(self, problems: Iterable[object], *, advice: str = "") -> None:
        super().__init__("\n".join(map(str, problems)))
        self.advice = advice


class KubeletError(GenericdpError):
    """The kubelet, its directory or its answer is not as it must be."""


class CallError(GenericdpError):
    """A call of the kubelet that fails, with the message for it and the device concerned."""

    def __init__(self, message: str, *, device: str = "") -> None:
        super().__init__(message)
        self.device = device


class InvalidCallError(CallError):
    """A call that names what does not exist."""


class UnusableDeviceError(CallError):
    """A device that cannot be given to a container now."""


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
        """Of the Status: ``Conflict``, ``AlreadyExists`` or ``Expired``, say; may be empty."""
        self.retry_after = retry_after
        """Seconds to wait before the next request; 0: the server did not say."""
        self.is_lost = is_lost
        """Whether the connection failed or was lost: the server sent nothing wrong."""


class ApiAccessError(ApiError):
    """Access to the API server is missing, or cannot be used as it is described."""


@asynccontextmanager
async def ungrouped() -> AsyncIterator[None]:
    """Take an error of ours out of a task group's group: one message is enough for a person."""
    try:
        yield
    except BaseExceptionGroup as group:
        own, others = group.split(GenericdpError)
        if own is None or others is not None:
            raise
        error: BaseException = own
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        # Not within except*: what is raised there is put into a group again.
        raise error from None
