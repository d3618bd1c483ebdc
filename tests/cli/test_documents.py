"""What each command prints with ``-o json`` is what the schema of output says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from genericdp.cli import main
from genericdp.cli.commands import COMMANDS
from tests.hosts.hosts import Host
from tests.printed import output_schema, violations
from tests.programs import quiet_grpc

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Printed = Callable[..., Any]

pytestmark = pytest.mark.slow

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
CONFIG = f"""\
{HEAD}\
  - name: example.com/ftdi
    match: [{{udev: {{subsystem: tty}}, hardware: {{usb: {{vendor: "0403"}}}}}}]
    exclude: [{{usb: {{serial: DN05FSZ9}}}}]
    replicas: 2
    health: [{{file: {{path: $(device.syspath)/uevent, regex: DEVNAME=ttyUSB0}}}}]
    inject: {{mounts: [{{hostPath: /dev/none, containerPath: /none}}]}}
  - name: example.com/serial
    match: [{{path: "/dev/ttyUSB*"}}]
    id: $(usb.serial)
  - name: example.com/claimed
    match: [{{usb: {{vendor: "1a86"}}}}]
    servedBy: dra
    attributes: {{port: $(usb.port), lacking: "$(usb.serial:-)"}}
  - name: example.com/hub
    match: [{{usb: {{class: "09"}}}}]
    id: $(device.name)
  - name: example.com/none
    match: [{{path: /dev/ttyACM*}}, {{usb: {{vendor: ffff}}}}]
"""


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return the document that a command prints for a recorded machine."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    root = Host("usb-serial").build(tmp_path)

    def ask(command: str, *words: str, config: Path | None = config) -> Any:
        options = [f"--root={root}", "--output=json"]
        options += [] if config is None else [f"--config={config}", "--node-name=node-1"]
        with quiet_grpc():
            main([command, *options, *words])
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("discover", ()),
        ("explain", ("/dev/ttyUSB0",)),
        ("explain", ("/dev/ttyUSB3",)),
        ("explain", ("1-1.4",)),
        ("explain", ("/dev/none",)),
        ("probe", ()),
        ("simulate", ("--once",)),
        ("simulate", ("--once", "--allocate=example.com/ftdi=1")),
        ("allocate", ("example.com/ftdi=1", "example.com/serial=1")),
    ],
)
def test_a_command_that_applies_a_config_prints_what_the_schema_says(
    command: str, words: tuple[str, ...], printed: Printed
) -> None:
    assert violations(command, printed(command, *words)) == []


def test_the_hardware_of_a_machine_and_its_first_config_are_what_the_schema_says(
    printed: Printed,
) -> None:
    assert violations("hardware", printed("hardware", config=None)) == []
    assert violations("init", printed("init", config=None)) == []


def test_a_config_is_valid_or_not_in_the_words_of_the_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    for text in (CONFIG, CONFIG.replace("replicas: 2", "replica: 2")):
        config.write_text(text)
        main(["validate", "-o", "json", str(config)])
        assert violations("validate", json.loads(capsys.readouterr().out)) == []


def test_a_device_is_the_same_to_all_commands(printed: Printed) -> None:
    """``shares`` was a list to one, a number to another, and a sum to a third."""
    discovered, probed, simulated = (
        {resource["name"]: resource["devices"] for resource in printed(*words)["resources"]}
        for words in (("discover",), ("probe",), ("simulate", "--once"))
    )
    (stick,) = discovered["example.com/claimed"]
    assert probed["example.com/claimed"] == [stick]
    read = ("model", "serial", "driver")  # what `simulate` does not read
    assert simulated["example.com/claimed"] == [{**stick, **dict.fromkeys(read, "")}]
    (explained,) = (
        resource["device"]
        for resource in printed("explain", "1-1.4")["resources"]
        if resource["name"] == "example.com/claimed"
    )
    assert explained == stick
    assert stick["shares"] == 1


def test_the_schema_is_printed_and_allows_what_later_versions_add(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema", "--kind", "output"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"resources": [], "later": 1})
    assert not validator.is_valid({"resources": {}})


def test_the_schema_names_commands_and_uses_all_of_its_parts() -> None:
    schema = output_schema()
    documents = {part["$ref"].rpartition("/")[2] for part in schema["anyOf"]}
    assert documents - {"diff", "cdiList"} <= COMMANDS.keys()
    text = json.dumps(schema)
    assert [name for name in schema["$defs"] if f'"#/$defs/{name}"' not in text] == []
