"""FILE in place of ``--config FILE``, next to the other arguments of a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main
from genericdp.cli.command_line import parse

if TYPE_CHECKING:
    import argparse

FUSE = str(Path(__file__).parents[2] / "examples/configs/fuse.yaml")


def taken(arguments: argparse.Namespace) -> tuple[list[str], object]:
    """Return the config of a command line, and what else its arguments are."""
    given = vars(arguments)
    key = {"explain": "device", "probe": "resource"}.get(given["command"], "amounts")
    return [str(path) for path in given["config"]], given.get(key)


@pytest.mark.parametrize(
    ("line", "config", "other"),
    [
        ("run c.yaml", ["c.yaml"], None),
        ("discover - --root /x", ["-"], None),
        ("cdi generate --static c.yaml", ["c.yaml"], None),
        ("cdi watch c.yaml", ["c.yaml"], None),
        ("deviceclasses c.yaml", ["c.yaml"], None),
        ("simulate c.yaml --once", ["c.yaml"], ()),
        ("explain c.yaml /dev/fuse", ["c.yaml"], "/dev/fuse"),
        ("explain c.yaml --root /x /dev/fuse", ["c.yaml"], "/dev/fuse"),
        ("explain --config c.yaml /dev/fuse", ["c.yaml"], "/dev/fuse"),
        ("explain /dev/fuse --config c.yaml", ["c.yaml"], "/dev/fuse"),
        ("probe c.yaml", ["c.yaml"], None),
        ("probe c.yaml a/b", ["c.yaml"], "a/b"),
        ("probe c.yaml -o json a/b", ["c.yaml"], "a/b"),
        ("probe a/b --config c.yaml", ["c.yaml"], "a/b"),
        ("allocate c.yaml a/b=1 c/d=2", ["c.yaml"], ["a/b=1", "c/d=2"]),
        ("allocate c.yaml --root /x a/b=1", ["c.yaml"], ["a/b=1"]),
        ("allocate a/b=1 c/d=2 --config c.yaml", ["c.yaml"], ["a/b=1", "c/d=2"]),
        ("allocate a/b=1 --config c.yaml c/d=2", ["c.yaml"], ["a/b=1", "c/d=2"]),
    ],
)
def test_the_first_argument_is_the_config_where_no_other_is_given(
    line: str, config: list[str], other: object
) -> None:
    assert taken(parse(line.split())) == (config, other)


@pytest.mark.parametrize(
    ("line", "config", "other"),
    [
        ("discover", ["v.yaml"], None),
        ("discover c.yaml", ["c.yaml"], None),
        ("explain /dev/fuse", ["v.yaml"], "/dev/fuse"),
        ("explain c.yaml /dev/fuse", ["c.yaml"], "/dev/fuse"),
        ("probe a/b", ["v.yaml"], "a/b"),
        ("probe c.yaml a/b", ["c.yaml"], "a/b"),
        ("allocate a/b=1 c/d=2", ["v.yaml"], ["a/b=1", "c/d=2"]),
    ],
)
def test_a_config_of_the_variable_is_replaced_where_one_argument_is_left(
    line: str, config: list[str], other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERICDP_CONFIG", "v.yaml")
    assert taken(parse(line.split())) == (config, other)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("discover", "genericdp: a config is required: FILE or --config (see genericdp discover"),
        ("explain /dev/fuse", "genericdp: a config is required: FILE DEVICE, or --config PATH"),
        ("simulate no.yaml", "no.yaml"),
        ("run -", "genericdp: run takes no config from stdin"),
    ],
)
def test_what_is_no_config_is_told(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert said in capsys.readouterr().err


def test_a_file_gives_what_the_option_gives(capsys: pytest.CaptureFixture[str]) -> None:
    main(["discover", "--config", FUSE])
    expected = capsys.readouterr()
    main(["discover", FUSE])
    assert capsys.readouterr() == expected
