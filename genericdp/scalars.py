"""YAML scalars: an unquoted one is a string only where every version of YAML reads one."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}")

_NUMBERS = re.compile(
    r"""[-+]?(
        0b[01_]+ | 0o?[0-7_]+ | 0x[0-9a-fA-F_]+                # 1.1 and 1.2: other bases
      | [0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?               # 1.1: base 60
      | ([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?
      | \.(inf|Inf|INF)
    ) | \.(nan|NaN|NAN)""",
    re.VERBOSE | re.ASCII,
)
_DATE = re.compile(
    r"""[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}
        (([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?
         ([ \t]*(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?)?
    """,
    re.VERBOSE | re.ASCII,
)
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_SAFE = re.compile(r"[A-Za-z/$][A-Za-z0-9_/.$()*-]*")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


class Unclear(NamedTuple):
    """An unquoted scalar that versions of YAML, or their users, read in different ways."""

    source: str


Scalar = str | int | float | bool | Unclear | None


def plain(source: str) -> Scalar:
    """Return the value of an unquoted scalar."""
    if source in _NOTHING:
        return None
    if source in {"true", "false"}:
        return source == "true"
    if _INTEGER.fullmatch(source):
        return int(source)
    if _DECIMAL.fullmatch(source):
        return float(source)
    return source if reading(source) is None else Unclear(source)


def reading(source: str) -> str | None:
    """Return the type that some version of YAML reads for an unquoted scalar; None if all read a
    string.
    """
    if source in _NOTHING:
        return "nothing"
    if source in _TRUE | _FALSE:
        return "true or false"
    if _NUMBERS.fullmatch(source):
        return "a number"
    if _DATE.fullmatch(source):
        return "a date"
    return {"<<": "a merge of mappings", "=": "a default value"}.get(source)


def single_quoted(source: str) -> str:
    """Return a string as YAML in single quotes."""
    return "'" + source.replace("'", "''") + "'"


def meant_boolean(source: str) -> bool | None:
    """Return the boolean that a word stands for in YAML 1.1, or None."""
    return True if source in _TRUE else False if source in _FALSE else None


def meant_numbers(source: str) -> list[int | float]:
    """Return the numbers that an unquoted scalar may stand for: two if versions of YAML differ.

    Those that cannot be written in decimal digits are left out.
    """
    digits = source.replace("_", "") if reading(source) == "a number" else ""
    numbers: list[int | float] = [int(digits, 8)] if _OCTAL.fullmatch(digits) else []
    for read in (lambda: int(digits, 0), lambda: float(digits)):
        with suppress(ValueError):
            number = read()
            numbers.append(int(number) if isfinite(number) and number == int(number) else number)
            break
    return [number for number in numbers if isinstance(plain(str(number)), int | float)]


def yaml_text(text: str) -> str:
    """Return a scalar that every version of YAML reads as this text."""
    if _SAFE.fullmatch(text) and reading(text) is None:
        return text
    if not text.isprintable():
        return '"' + "".join(map(_escaped, text)) + '"'
    if '"' in text or "\\" in text:
        return single_quoted(text)
    return f'"{text}"'


def _escaped(character: str) -> str:
    """Return a character as it is written between double quotes."""
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"


def yaml_flow(value: object) -> str:
    """Return nested mappings and lists of strings, numbers and booleans as YAML on one line."""
    if isinstance(value, dict):
        return f"{{{yaml_mapping(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml_flow, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return yaml_text(str(value))


def yaml_mapping(keys: Mapping[str, object]) -> str:
    """Return a mapping as ``yaml_flow`` does, without the outer braces."""
    return ", ".join(f"{yaml_text(key)}: {yaml_flow(value)}" for key, value in keys.items())
