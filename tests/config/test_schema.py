from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pytest
from genericdp import model
from genericdp.config.schema import KINDS, schema, schema_text
from genericdp.devices import hardware
from genericdp.health import kinds as probes
from genericdp.health.kinds.file import FileCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator

CLASSES: dict[str, type] = {
    "resource": model.Resource,
    "deviceNodes": model.DeviceNodeSelector,
    "mount": model.Mount,
    "envVar": model.EnvVar,
    "inject": model.Inject,
    "exec": model.Command,
    "openCheck": OpenCheck,
    "fileCheck": FileCheck,
    "kernelLog": KernelLogCheck,
    "probe": model.Probe,
}
OTHERWISE = {"command": "argv"}
NOT_FIELDS = {"probe": {*probes.KINDS}}


def _nested(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for value in part.values():
            yield from _nested(value)
    elif isinstance(part, list):
        for value in part:
            yield from _nested(value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_one(kind: str) -> None:
    Draft202012Validator.check_schema(schema(kind))
    assert json.loads(schema_text(kind)) == schema(kind)
    assert schema(kind)["properties"]["kind"]["const"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_described_and_no_other_is_taken(kind: str) -> None:
    mappings = [
        part
        for part in _nested(schema(kind))
        if "object" in part.get("type", ()) and "properties" in part
    ]
    assert mappings
    for mapping in mappings:
        assert mapping["additionalProperties"] is False
        assert mapping["description"]
        for key, value in mapping["properties"].items():
            assert value.get("description", "").endswith("."), key


@pytest.mark.parametrize("kind", KINDS)
def test_what_messages_and_hints_take_from_it_is_there_and_conforms(kind: str) -> None:
    validator = Draft202012Validator(schema(kind))
    for part in _nested(schema(kind)):
        if isinstance(part.get("pattern"), str) and part.keys() - {"pattern"}:
            assert part["title"]
        for example in part.get("examples", ()):
            assert list(validator.evolve(schema=part).iter_errors(example)) == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_model_has_every_key_and_its_default(name: str) -> None:
    """Defaults live in the dataclasses; the schema shows them, and shows the truth."""
    fields = {field.name: field for field in dataclasses.fields(CLASSES[name])}
    definition = schema()["$defs"][name]
    for key, value in definition["properties"].items():
        if key in NOT_FIELDS.get(name, ()):
            continue
        field = fields[OTHERWISE.get(key) or _snake(key)]
        required = key in definition.get("required", ())
        assert required is (field.default is _MISSING and field.default_factory is _MISSING), key
        if "default" in value:
            assert value["default"] == _default(field), key
        elif not required:
            assert not _default(field), f"{name}.{key} has a default that the schema lacks"


_MISSING = dataclasses.MISSING


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def _default(field: dataclasses.Field[Any]) -> Any:
    made: Any = field.default_factory
    value = field.default if made is _MISSING else made()
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    if isinstance(value, model.Inject):
        return {} if value == type(value)() else value
    return value


@pytest.mark.parametrize("name", hardware.KINDS)
def test_all_that_a_selector_can_ask_of_a_kind_of_hardware_is_read(name: str) -> None:
    asked = schema()["$defs"][name]["properties"].keys() - {"properties", "attributes"}
    assert asked == hardware.KINDS[name].keys.keys()
