"""Configs, paths and arguments reach a terminal only as printable characters.

Of what hardware is called: tests/cases/hardware/escaped.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from genericdp.cli import main

from tests.cli.explain_output import HEAD

EVIL = "a\u202eb\x1b.yaml"
CONFIG = "  - {name: example.com/evil, match: [{path: /dev/null}]"


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["explain", "c.yaml", "\x1b[31mttyE9\u202e"], r"\x1b[31mttyE9\u202e is not offered"),
        (["allocate", "c.yaml", "example.com/\u202eevil=1"], r"example.com/\u202eevil"),
        (["allocate", "c.yaml", "example.com/evil=1", "--id", "\x1b[31m"], r"\x1b[31m"),
        (["discover", "--\u202eevil\x1b[31m"], r"--\u202eevil\x1b[31m"),
        (["validate", "key.yaml"], r'.resources[0]["\u202egnp'),
        (["validate", "key.yaml", "-o", "json"], r".resources[0][\"\u202egnp"),
        (["validate", EVIL], r"a\u202eb\x1b.yaml"),
        (["discover", "--config", EVIL], r"a\u202eb\x1b.yaml"),
        (["convert", "--from", "squat", EVIL], r"a\u202eb\x1b.yaml"),
        (["init", EVIL], r"a\u202eb\x1b.yaml"),
    ],
    ids=lambda value: ascii(shlex.join(value)) if isinstance(value, list) else "",
)
def test_no_command_prints_what_moves_a_cursor_or_turns_text_around(
    words: list[str],
    reported: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(f"{HEAD}{CONFIG}}}\n")
    Path("key.yaml").write_text(f'{HEAD}{CONFIG}, "\\u202egnp": 1}}\n')
    Path(EVIL).write_text("resources: [")
    assert main(words) in (1, 2)
    printed = "".join(capsys.readouterr())
    assert reported in printed
    assert printed.replace("\n", "").isprintable()
