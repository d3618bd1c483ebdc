"""``-o``: each command prints what the schema of output says, as JSON and as YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli.commands import COMMANDS
from genericdp.cli.output import yaml_document
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.config.loading import HEAD
from tests.hosts.hosts import Host
from tests.printed import output_schema, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.asking import Ask

    Printed = Callable[..., Any]

pytestmark = pytest.mark.slow

CONFIG = f"""\
{HEAD}\
  - name: example.com/ftdi
    match: [{{udev: {{subsystem: tty}}, hardware: {{usb: {{vendor: "0403"}}}}}}]
    exclude: [{{usb: {{serial: DN05FSZ9}}}}]
    replicas: 2
    health: [{{file: {{path: $(device.syspath)/uevent, regex: DEVNAME=ttyUSB0}}}}]
    inject: {{mounts: [{{hostPath: /dev/none, containerPath: /none}}]}}
  - {{name: example.com/serial, match: [{{path: "/dev/ttyUSB*"}}], id: $(usb.serial)}}
  - name: example.com/claimed
    match: [{{usb: {{vendor: "1a86"}}}}]
    servedBy: dra
    attributes: {{port: $(usb.port), lacking: "$(usb.serial:-)"}}
  - {{name: example.com/hub, match: [{{usb: {{class: "09"}}}}], id: $(device.name)}}
  - {{name: example.com/none, match: [{{path: /dev/ttyACM*}}, {{usb: {{vendor: ffff}}}}]}}
"""
WRONG = CONFIG.replace("replicas: 2", "replica: 2")
SQUAT = next((Path(__file__).parents[1] / "convert/peers/squat").glob("*.yaml"))


@pytest.fixture
def printed(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """Return the document that a command prints for a recorded machine."""
    ask.write("config.yaml", CONFIG)
    ask.write("wrong.yaml", WRONG)
    for name, text in {"CONFIG": "config.yaml", "NODE_NAME": "node-1"}.items():
        monkeypatch.setenv(f"GENERICDP_{name}", text)
    monkeypatch.setenv("GENERICDP_ROOT", str(Host("usb-serial").build(ask.directory)))

    def printed(words: str, output: str = "json") -> Any:
        code = 2 if words == "validate wrong.yaml" or "--diff wrong" in words else 0
        code = 1 if words in {"probe", "explain /dev/none"} else code
        said = ask(f"{words} --output={output}", code=code)
        return said.data if output == "json" else yaml.safe_load(said.out)

    return printed


@pytest.mark.parametrize(
    "words",
    [
        "discover",
        *(f"explain {device}" for device in ("/dev/ttyUSB0", "1-1.4", "/dev/none")),
        "probe",
        "simulate --once",
        "simulate --once --allocate=example.com/ftdi=1",
        "allocate example.com/ftdi=1 example.com/serial=1",
        "hardware",
        "init",
        "validate",
        "validate wrong.yaml",
        "validate --diff wrong.yaml config.yaml",
        f"convert --from=squat {SQUAT}",
    ],
    ids=lambda words: words.replace(str(SQUAT), SQUAT.name),
)
def test_data_is_what_the_schema_says_as_json_and_as_yaml(words: str, printed: Printed) -> None:
    document = printed(words)
    command = "diff" if "--diff" in words else words.split()[0]
    assert violations(command, document) == []
    as_yaml = printed(words, "yaml")
    if command == "probe":
        for found in (document, as_yaml):
            for resource in found["resources"]:
                for device in resource["devices"]:
                    assert all(probe.pop("seconds") >= 0 for probe in device["probes"])
    assert as_yaml == document


def test_a_device_is_the_same_to_all_commands(printed: Printed) -> None:
    """``shares`` was a list to one, a number to another, and a sum to a third."""
    discovered, probed, simulated = (
        {resource["name"]: resource["devices"] for resource in printed(words)["resources"]}
        for words in ("discover", "probe", "simulate --once")
    )
    (stick,) = discovered["example.com/claimed"]
    assert probed["example.com/claimed"] == [stick]
    assert simulated["example.com/claimed"] == [stick]
    explained = {
        resource["name"]: resource["device"] for resource in printed("explain 1-1.4")["resources"]
    }
    assert explained["example.com/claimed"] == stick
    assert stick["shares"] == 1


def test_the_schema_allows_what_later_versions_add_and_uses_all_of_its_parts(ask: Ask) -> None:
    schema = ask("schema --kind output").data
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"resources": [], "later": 1})
    assert not validator.is_valid({"resources": {}})
    strict = output_schema()
    documents = {part["$ref"].rpartition("/")[2] for part in strict["anyOf"]}
    assert documents - {"diff", "cdiList"} <= COMMANDS.keys()
    text = json.dumps(strict)
    assert [name for name in strict["$defs"] if f'"#/$defs/{name}"' not in text] == []


TEXT = st.text(st.characters(exclude_categories=())) | st.lists(st.text("a #:-\n ")).map("\n".join)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | NUMBER | TEXT


@example({"\x85": None})
@given(st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_any_document_can_be_read_from_its_yaml_again(value: object) -> None:
    assert yaml.safe_load(yaml_document({"value": value})) == {"value": value}


@pytest.mark.parametrize("text", ["0403", "1e10", "0o17", "on", "0000:03:00.0"])
def test_what_some_version_of_yaml_takes_for_a_number_is_quoted(text: str) -> None:
    assert yaml_document({"id": text}).strip() in (f'id: "{text}"', f"id: '{text}'")
