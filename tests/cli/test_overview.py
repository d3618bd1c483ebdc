"""The state in a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given

from genericdp.cli.overview import lines
from genericdp.config.loaded import ConfigState
from genericdp.status.wording import visible
from tests.status.samples import EMPTY, NOW, RICH, SCRIPT, many
from tests.status.test_page import STATES, texts_of

if TYPE_CHECKING:
    from genericdp.status.model import Status


def plain(status: Status) -> list[str]:
    return list(lines(status, colours=False))


@given(STATES)
def test_any_text_in_any_field_is_shown_and_moves_no_cursor(status: Status) -> None:
    shown = plain(status)
    assert all(one.isprintable() for one in shown)
    text = "\n".join(shown)
    assert [one for one in texts_of(status) if visible(one).rstrip() not in text] == []


def test_what_is_wrong_comes_first() -> None:
    shown = plain(RICH)
    assert shown[0] == "edge-worker-07.rack-2.example.com: NOT READY"
    titles = [one for one in shown if one.endswith(":") and not one.startswith(" ")]
    assert titles == [
        "Not ready:",
        "The config on disk is REFUSED since 2026-11-21 18:58:25 UTC:",
        "Warnings of the config:",
        "Never reloaded:",
        "Resources:",
        "Devices:",
        "Matched, but not offered:",
        "Last events (UTC):",
    ]
    rows = shown[shown.index("Devices:") + 1 :][:75]
    assert [one.split()[1] for one in rows[:5]] == ["ID", "ttyUSB1", "ttyUSB2", "ttyUSB5", "loop40"]
    assert "/dev/ttyUSB2 does not exist" in rows[2]
    assert any(SCRIPT in one for one in rows)


def test_without_any_config_it_is_short() -> None:
    assert plain(EMPTY) == [
        "edge-1: NOT READY",
        "No config is in force: nothing is served. The config on disk is refused.",
        "",
        "Not ready:",
        "  no config is in force",
        "  there is no kubelet.sock",
        "",
        "The config on disk is REFUSED since 2026-11-21 18:59:49 UTC:",
        "  /etc/genericdp/devices.yaml:1:1: it does not exist",
        "",
        "Daemon:   genericdp 0.1.0, for 12 s",
        "Config:   none is in force",
        "Kubelet:  MISSING: there is no /var/lib/kubelet/device-plugins/kubelet.sock",
    ]


def test_where_all_is_well_there_is_no_column_of_reasons() -> None:
    (one,) = many(1, 2).resources
    well = replace(one, devices=one.devices[1:])
    shown = plain(replace(many(1, 2), resources=(well,)))
    assert shown[0] == "edge-1: ready"
    assert "WHY" not in "\n".join(shown)
    old = ConfigState(digest="ab" * 32, since=NOW, files=("/etc/a.yaml",), from_state_dir=True)
    assert "the last good one of the state folder (abababababab; /etc/a.yaml)" in "\n".join(
        plain(replace(EMPTY, config=old))
    )


def test_whether_a_policy_bounds_the_config_is_said() -> None:
    bounded = "Policy:   /etc/genericdp-policy/policy.yaml (4fb8a80745d3)"
    assert bounded in plain(RICH)
    assert "Policy:   none: nothing bounds the config" in plain(many(1, 1))


def test_colours_are_beside_the_text_and_never_instead() -> None:
    coloured = list(lines(RICH, colours=True))
    assert [re.sub(r"\033\[[\d;]*m", "", one) for one in coloured] == plain(RICH)
    sick = [one for one in coloured if "Unhealthy " in one and "ttyUSB2" in one]
    assert all(one.startswith("\033[1;31m") and one.endswith("\033[0m") for one in sick)
