"""``-o``: the same document as JSON and as YAML, and tables with more columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from genericdp.cli import main
from genericdp.cli.output import yaml_document
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]
LAPTOP = f"--root={REPOSITORY / 'tests/fixtures/laptop'}"
EXAMPLE = REPOSITORY / "examples/configs/this-machine.yaml"
FUSE = REPOSITORY / "examples/configs/fuse.yaml"
SQUAT = REPOSITORY / "tests/convert/peers/squat"
USB = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{udev: {subsystem: tty}, hardware: {udev: {subsystem: usb}}}]
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text("apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresource: []\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["schema"],
        ["schema"],
        ["schema", "--kind=policy"],
        ["init", LAPTOP],
        ["discover", f"--config={EXAMPLE}", LAPTOP],
        ["hardware", LAPTOP],
        ["probe", f"--config={EXAMPLE}", LAPTOP],
        ["explain", f"--config={EXAMPLE}", LAPTOP, "/dev/video0"],
        ["explain", f"--config={EXAMPLE}", LAPTOP, "/dev/nothing"],
        ["allocate", f"--config={FUSE}", LAPTOP, "example.com/fuse=1"],
        ["validate", str(EXAMPLE)],
        ["validate", "--diff", str(FUSE), str(EXAMPLE), LAPTOP],
        ["convert", "--from=squat", str(next(SQUAT.glob("*.yaml")))],
    ],
    ids=lambda words: " ".join(words[:2]).replace(str(REPOSITORY), ""),
)
def test_yaml_is_the_document_that_json_is(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ended = main([*words, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert main([*words, "-o", "yaml"]) == ended
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_problems_are_data_too(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(broken), "-o", "yaml"]) == 2
    found = yaml.safe_load(capsys.readouterr().out)
    assert found["valid"] is False
    assert {one["file"] for one in found["problems"]} == {str(broken)}


def test_discover_wide_tells_one_stick_from_another(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(USB)
    words = ["discover", f"--config={config}", f"--root={testbed('serial-adapters')}"]
    assert main([*words, "-o", "wide"]) == 0
    wide = capsys.readouterr().out.splitlines()
    assert main(words) == 0
    plain = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in wide] == [line.split()[:2] for line in plain]
    assert wide[0].split() == [*plain[0].split(), "PATH", "MODEL", "SERIAL", "DRIVER"]
    assert main([*words, "-o", "json"]) == 0
    devices = resources_in(capsys.readouterr().out)["example.com/serial"]["devices"]
    for row, one in zip(wide[1:], devices, strict=False):
        assert [row[wide[0].index(key.upper()) :].startswith(one[key] or "-")
                for key in ("path", "model", "serial", "driver")] == [True] * 4  # fmt: skip
    assert len({one["serial"] for one in devices if one["serial"]}) > 1


def test_a_variable_asks_only_commands_with_a_table_to_be_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "wide")
    assert main(["discover", f"--config={FUSE}", LAPTOP]) == 0
    assert "DRIVER" in capsys.readouterr().out.splitlines()[0]
    assert main(["schema"]) == 2
    expected = "genericdp: GENERICDP_OUTPUT is 'wide', but must be one of: text, json, yaml\n"
    assert capsys.readouterr().err == expected


TEXT = st.text(st.characters(exclude_categories=())) | st.lists(st.text("a #:-\n ")).map("\n".join)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)


@example({"\x85": None})
@given(st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_any_document_can_be_read_from_its_yaml_again(value: object) -> None:
    assert yaml.safe_load(yaml_document({"value": value})) == {"value": value}


@pytest.mark.parametrize("text", ["0403", "1e10", "0o17", "on", "0000:03:00.0"])
def test_what_some_version_of_yaml_takes_for_a_number_is_quoted(text: str) -> None:
    assert yaml_document({"id": text}).strip() in (f'id: "{text}"', f"id: '{text}'")
