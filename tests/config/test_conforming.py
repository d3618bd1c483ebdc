"""The quick look at a document says the same as jsonschema: of right ones, and of spoilt ones."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from genericdp.config.conforming import conforms
from genericdp.config.read import read
from genericdp.config.schema import CONFIG, POLICY, schema
from tests.budget import examples

REPOSITORY = Path(__file__).parent.parent.parent
FILES = {
    CONFIG: [
        *sorted((REPOSITORY / "tests/configs/valid").rglob("*.yaml")),
        *sorted((REPOSITORY / "tests/configs/invalid").rglob("*.yaml")),
        *sorted((REPOSITORY / "examples/configs").rglob("*.yaml")),
    ],
    POLICY: sorted((REPOSITORY / "tests/policies").rglob("*.yaml")),
}
WRITTEN: list[tuple[str, Any]] = [
    (kind, document.data)
    for kind, files in FILES.items()
    for file in files
    for document in read(file.name, file.read_bytes())[0]
]
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 1.0, 1e9, "", "x", "Healthy", "genericdp.io/v1alpha1"])
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(["name", "path", "x-y", "exec", "env", "min", "match", "udev", "optional"])


INTEGERS = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, it: type(it) is int)
"""To jsonschema by itself 1.0 is an integer."""
STRICT = extend(Draft202012Validator, type_checker=INTEGERS)  # type: ignore[no-untyped-call]
VALIDATORS = {kind: STRICT(schema(kind)) for kind in FILES}


def _errors(kind: str, data: Any) -> list[Any]:
    return [error.message for error in VALIDATORS[kind].iter_errors(data)]


@pytest.mark.parametrize("kind", FILES)
def test_of_what_is_written_it_says_what_jsonschema_says(kind: str) -> None:
    documents = [data for of, data in WRITTEN if of == kind]
    said = [conforms(data, schema(kind)) for data in documents]
    assert said == [not _errors(kind, data) for data in documents]
    assert True in said


@settings(max_examples=examples(120))
@given(data=st.data())
def test_of_what_is_spoilt_it_says_what_jsonschema_says(data: st.DataObject) -> None:
    """Bites if any keyword takes too much: that would let a mistake through."""
    kind, right = data.draw(st.sampled_from(WRITTEN), label="document")
    document = copy.deepcopy(right)
    for _ in range(data.draw(st.integers(1, 2), label="times")):
        document = _spoilt(document, data)
    assert conforms(document, schema(kind)) is not bool(_errors(kind, document))


def _spoilt(value: Any, data: st.DataObject) -> Any:
    """Change one thing at any depth."""
    inner = list(value) if isinstance(value, dict) else None
    if isinstance(value, list):
        inner = list(range(len(value)))
    deeper = bool(inner) and data.draw(st.integers(0, 4), label="deeper") > 0
    if deeper and inner:
        key = data.draw(st.sampled_from(inner), label="key")
        value[key] = _spoilt(value[key], data)
        return value
    how = data.draw(st.sampled_from(["replace", "add", "remove", "again"]), label="how")
    if how == "replace" or not isinstance(value, (dict, list)):
        return data.draw(PLAIN, label="value")
    if how == "remove" and inner:
        del value[data.draw(st.sampled_from(inner), label="removed")]
    elif isinstance(value, dict):
        value[data.draw(KEYS | st.text(max_size=2), label="new")] = data.draw(PLAIN, label="value")
    elif how == "again" and value:
        value.append(copy.deepcopy(data.draw(st.sampled_from(value), label="again")))
    else:
        value.append(data.draw(PLAIN, label="value"))
    return value


@pytest.mark.parametrize(
    ("value", "unknown"),
    [
        ("1.2.3.4", {"format": "ipv4"}),
        (None, {"type": "null"}),
        ({"a": 1}, {"properties": {"a": {"oneOf": [True]}}}),
        (1, {"$ref": "#/elsewhere"}),
        (1, {"$ref": "#/$defs/missing"}),
        (1, {"enum": [1]}),
        (None, {"const": None}),
        ([1, 2], {"uniqueItems": True}),
    ],
)
def test_of_what_it_does_not_know_it_is_not_sure(value: Any, unknown: dict[str, Any]) -> None:
    """Then jsonschema is asked: a new keyword of a schema costs time, and is never passed over."""
    assert not conforms(value, unknown)


def test_what_loads_a_right_config_does_not_import_jsonschema() -> None:
    """Bites if ``check`` imports it: that takes half of the time until a config is in force."""
    config = REPOSITORY / "tests/configs/valid/inject.yaml"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "genericdp.config", config],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )
    names = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert names.isdisjoint({"jsonschema", "referencing", "attr", "rpds"})
