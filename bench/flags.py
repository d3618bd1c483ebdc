"""What the command lines of the benchmarks share."""

from __future__ import annotations

import argparse
import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def between(least: float, most: float, kind: type = float) -> Callable[[str], float]:
    """Give a type for a flag that takes a number within these bounds."""

    def number(text: str) -> float:
        try:
            value: float = kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from error
        if math.isnan(value) or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"from {least:g} to {most:g}, not {text}")
        return value

    return number


def writable_file(text: str) -> Path:
    """Give a path that can be written: minutes later would be too late to find out."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def end_as_by_hand() -> None:
    """Have SIGTERM do what Ctrl-C does, so that processes and nodes are removed."""
    # A shell without a terminal has what it starts with ``&`` ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
