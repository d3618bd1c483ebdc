"""All output of commands, to stdout unless stated otherwise, or to a file."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from genericdp.errors import GenericdpError, UsageError, reason_of
from genericdp.printing import printable
from genericdp.process.signals import deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

DATA = ("json", "yaml")
"""The values of ``-o`` that print_data accepts."""
WITH_WIDE = ("text", "wide", *DATA)


_QUIET_SECONDS = 2.0
"""Operations that take longer report their progress."""


class StdoutError(GenericdpError):
    """Stdout cannot be written; exit code 0 if it is a pipe whose reader has exited (``|
    head``).
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"stdout cannot be written: {reason_of(error).lower()}")
        self.exit_code = 0 if isinstance(error, BrokenPipeError) else 1


def check_stdout() -> None:
    """Raise GenericdpError if stdout is closed, because ``print`` itself ignores that."""
    if sys.stdout is None:
        raise GenericdpError("stdout is closed: there is nowhere to print to")


def _print(text: str, file: TextIO | None = None, *, end: str = "\n") -> None:
    try:
        print(text, file=file, end=end, flush=True)
    except OSError as error:
        if file in {None, sys.stdout}:
            raise StdoutError(error) from error
        raise


def print_lines(lines: Iterable[str], *, file: TextIO | None = None) -> None:
    """Print lines, escaped as ``printable`` does; to stdout unless ``file`` is given."""
    _print("\n".join(map(printable, lines)), file)


def print_warning(sentence: str) -> None:
    """Print a warning to stderr."""
    print_lines([f"warning: {sentence}"], file=sys.stderr)


@contextmanager
def progress(
    sentence: Callable[[], str], *, quiet_seconds: float = _QUIET_SECONDS
) -> Iterator[None]:
    """Print the progress of a slow operation to stderr, after 2 s and ever more rarely.

    A thread prints the sentence, so that the operation itself may block.
    """
    over = threading.Event()

    def report() -> None:
        pause = quiet_seconds
        while not over.wait(pause):
            with suppress(OSError):  # stderr cannot be written
                print_lines([sentence()], file=sys.stderr)
            pause *= 2

    reporter = threading.Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()


def print_data(
    value: object, output: str, *, file: TextIO | None = None, is_stream: bool = False
) -> None:
    """Print a value as ``output`` says: ``json``, or the same document in ``yaml``.

    Both formats escape strings themselves. In a stream, each value is a line of JSON, or a document
    of YAML.
    """
    if output == "json":
        _print(json.dumps(value, indent=None if is_stream else 2), file)
    else:
        _print(yaml_document(value, has_start=is_stream).removesuffix("\n"), file)


def print_result(
    data: object, lines: Iterable[str], output: str, *, file: TextIO | None = None
) -> None:
    """Print the result of a command as ``output`` says: as data, or as human-readable lines."""
    if output in DATA:
        print_data(data, output, file=file)
    else:
        print_lines(lines, file=file)


def yaml_document(value: object, *, has_start: bool = False) -> str:
    """Return a JSON value as YAML that YAML 1.1 and 1.2 parsers read alike.

    ``has_start`` puts ``---`` before it.
    """
    # Here, since most commands print no YAML.
    import yaml

    from genericdp.scalars import reading

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: object) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None
        if not value.replace("\n", "").isprintable() or (reading(value) and "\n" not in value):
            # which escapes everything, even characters that only YAML reads as the end of a line
            style = '"'
        elif "\n" in value:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)

    Dumper.add_representer(str, text)
    document = json.loads(json.dumps(value))  # with enumerations and tuples converted as in JSON
    return yaml.dump(
        document, Dumper=Dumper, sort_keys=False, allow_unicode=True, explicit_start=has_start
    )


def shell_words(words: Iterable[str]) -> str:
    """Return words quoted for a shell, those with unprintable characters as ``$'...'``.

    bash, zsh, ksh and busybox support that form; dash does not, and reads a ``$`` before the word.
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else _dollar_quoted(word) for word in words
    )


def _dollar_quoted(word: str) -> str:
    plain = set(range(0x20, 0x7F)) - {*b"\\'"}
    content = word.encode(errors="surrogateescape")
    quoted = "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in content)
    return f"$'{quoted}'"


def print_document(text: str) -> None:
    """Print a trusted text without escaping it: YAML, a schema, colors."""
    _print(text, end="" if text.endswith("\n") else "\n")


def print_bytes(content: bytes) -> None:
    """Print binary data."""
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise StdoutError(error) from error


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns, escaped; empty cells are shown as ``-``."""
    texts = [tuple(printable(cell) or "-" for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def write_new(file: Path, content: bytes) -> None:
    """Write a new file, all or nothing; raises UsageError if it exists, and GenericdpError."""
    try:
        with deferred(), file.open("xb") as out:
            try:
                out.write(content)
                out.flush()
            except BaseException:
                file.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise UsageError(f"{file} already exists and is not overwritten") from None
    except OSError as error:
        raise GenericdpError(f"{file} cannot be written: {reason_of(error).lower()}") from error
