"""Configs that would have the daemon look at far more than a node has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genericdp.cli import main
from tests.config.loading import FUSE, loaded
from tests.config.loading import HEAD as RESOURCES

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAD = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/x
    match: [{path: /dev/tty*}]
    exclude:
"""


def test_15000_entries_of_exclude_are_one_problem_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They delayed the devices of all other resources by 20 s."""
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "".join(f"      - path: /dev/x{n}*\n" for n in range(15_000)))
    assert main(["validate", str(config)]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{config}:8:7: .resources[0].exclude: the list has 15000 entries: at most 256 are allowed"
        " (one selector takes a list of globs, and one glob covers many paths, as /dev/ttyUSB*)",
        "1 problem in 1 file",
    ]


def test_what_is_wrong_in_a_list_that_is_too_long_is_not_said_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "      - pth: 3\n" * 300)
    assert main(["validate", str(config)]) == 2
    told, count = capsys.readouterr().out.splitlines()
    assert "the list has 300 entries" in told
    assert count == "1 problem in 1 file"


def test_long_texts_full_of_braces_are_checked_at_once() -> None:
    text = "{" * 10_000 + "${" * 10_000 + "{,.." * 5_000
    body = f"    inject: {{env: {{A: '{text}'}}}}\n    nodeNames: ['{text}']\n"
    begun = time.process_time()
    assert loaded(f"{RESOURCES}{FUSE}{body}").warnings == ()
    assert time.process_time() - begun < 5
