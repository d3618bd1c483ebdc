"""Opaque parameters, which anyone who may create a claim can write."""

from __future__ import annotations

from typing import Any

import pytest
from genericdp.devices.parameters import ParameterError, given_by
from genericdp.model import Parameter, ParameterType
from hypothesis import given
from hypothesis import strategies as st

HEAD = {"apiVersion": "genericdp.io/v1alpha1", "kind": "DeviceParameters"}
DECLARED = {
    "count": Parameter(type=ParameterType.INT, min=-5, max=5),
    "flag": Parameter(type=ParameterType.BOOL),
    "label": Parameter(type=ParameterType.TEXT, pattern="(?s).*"),
}
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
parameters = st.dictionaries(st.sampled_from([*DECLARED, "other"]), values)


@given(values | st.builds(lambda inner: {**HEAD, "parameters": inner}, parameters))
def test_whatever_is_written_gives_one_line_of_text_or_an_error(written: Any) -> None:
    try:
        found = given_by(written, DECLARED, DECLARED)
    except ParameterError as error:
        assert str(error).isprintable()
        return
    assert found.keys() <= DECLARED.keys()
    assert all(text.isprintable() for text in found.values())
    assert int(found.get("count", "0")) in range(-5, 6)
    assert found.get("flag", "true") in {"true", "false"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 6), ("count", -6), ("count", True), ("flag", 1), ("label", "a\nb"), ("label", 1)],
)
def test_what_is_not_allowed_is_refused(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=f"parameter {name}: "):
        given_by({**HEAD, "parameters": {name: value}}, DECLARED, DECLARED)


@given(st.integers(-5, 5), st.booleans(), st.text())
def test_what_is_allowed_is_given_as_it_is_written(count: int, flag: bool, label: str) -> None:
    given_values = {
        "count": count,
        "flag": flag,
        **({"label": label} if label.isprintable() else {}),
    }
    found = given_by({**HEAD, "parameters": given_values}, DECLARED, DECLARED)
    assert found == {name: str(value) for name, value in given_values.items()} | {
        "flag": str(flag).lower()
    }
