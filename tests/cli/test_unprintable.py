"""What hardware, configs and paths are called reaches a terminal only as printable characters."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "K\x1b]0;owned\x07\u202egnp\x9b31m\u2066"
ESCAPED = "K\\x1b]0;owned\\x07\\u202egnp\\x9b31m\\u2066"

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/evil
    match:
      - udev:
          subsystem: tty
        values:
          model: "*"
    values:
      model:
        file: $(device.syspath)/model
    inject:
      devices:
        - path: $(device.path)
      env:
        MODEL: $(value.model)
      annotations:
        example.com/model: $(value.model)
"""


@pytest.fixture
def host(tmp_path: Path) -> list[str]:
    """Arguments for a host whose hardware has a hostile name."""
    tree = Tree(tmp_path / "host")
    device = "sys/devices/virtual/tty/ttyE0"
    tree.write(f"{device}/uevent", "MAJOR=188\nMINOR=0\nDEVNAME=ttyE0\n")
    tree.write(f"{device}/model", f"{EVIL}\n")
    tree.link(f"{device}/subsystem", "../../../../class/tty")
    tree.link("sys/class/tty/ttyE0", "../../devices/virtual/tty/ttyE0")
    tree.link("sys/dev/char/188:0", "../../devices/virtual/tty/ttyE0")
    tree.write("dev/ttyE0", "")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    return ["--config", str(config), "--root", str(tmp_path / "host"), "--node-name", "n"]


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what was printed, which holds nothing unprintable."""
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert [one for one in text if one != "\n" and not one.isprintable()] == []
    return text


def test_allocate_escapes_what_a_container_would_get(
    host: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["allocate", *host, "example.com/evil=1"]) == 0
    assert f"MODEL={ESCAPED}" in printed(capsys)


def test_json_holds_the_very_texts(host: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", *host, "example.com/evil=1", "-o", "json"]) == 0
    answer = json.loads(printed(capsys))
    assert answer["example.com/evil"]["env"]["MODEL"] == EVIL


@pytest.mark.parametrize(
    "command",
    [
        ["discover"],
        ["hardware"],
        ["explain", "ttyE0"],
        ["explain", "\x1b[31mttyE9\u202e"],
        ["probe"],
        ["allocate", "example.com/\u202eevil=1"],
        ["allocate", "example.com/evil=2"],
        ["allocate", "example.com/evil=1", "--id", "\x1b[31m"],
    ],
    ids=shlex.join,
)
def test_no_command_prints_what_moves_a_cursor_or_turns_text_around(
    command: list[str], host: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = host[2:4] if command == ["hardware"] else host
    main([*command, *given])
    assert printed(capsys)


@pytest.mark.parametrize("output", ["text", "json"])
def test_validate_escapes_what_a_config_writes_as_an_escape(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG + '    "\\u202egnp": 1\n')
    assert main(["validate", str(config), "-o", output]) == 2
    assert '.resources[0][\\"\\u202egnp' in printed(capsys).replace('["', '[\\"')


def test_a_file_name_is_escaped_wherever_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "a\u202eb\x1b.yaml"
    config.write_text("resources: [")
    for command in (["validate"], ["discover", "--config"], ["convert", "--from", "squat"]):
        assert main([*command, str(config)]) == 2
        assert "a\\u202eb\\x1b.yaml" in printed(capsys)
    assert main(["init", str(config)]) == 2
    printed(capsys)


def test_what_the_command_line_holds_is_escaped_in_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["discover", "--\u202eevil\x1b[31m"]) == 2
    assert "--\\u202eevil\\x1b[31m" in printed(capsys)
