from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from genericdp.config.scalars import Unclear, meant_boolean, plain, quoted, reading

TEXTS = [
    "ttyUSB*", "10c4", "0bda", "1-1.4", "0000:3b:00.0", "a", "ff", "/dev/fuse", "v1", "1.2.3",
    "e10", "truely", "none", "Nein", "o", "rw", "-", "x1", "1-2-3", "edge-*", "...", "é",
]  # fmt: skip
UNCLEAR = [
    "0403", "00", "+1", "-0", "1_000", "0x10", "0b1", "0o17", "1e10", "1E-3", "1.", ".5", "+1.5",
    "0000:03:00.0", "12:30", "12:30:45", "190:20:30.15", ".inf", "-.INF", ".nan", "01.5",
    "yes", "No", "on", "OFF", "y", "N", "True", "FALSE", "2024-01-01", "2024-1-1T12:00:00Z",
    "2024-01-01 12:00:00.5 +1:00", "<<", "=", "99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("source", TEXTS)
def test_what_every_yaml_reads_as_a_text_is_one(source: str) -> None:
    assert plain(source) == source


@pytest.mark.parametrize("source", UNCLEAR)
def test_what_some_yaml_reads_otherwise_is_unclear(source: str) -> None:
    """C2: ``0403`` would become 259 or 403; letting ``plain`` give ``source`` brings it back."""
    assert plain(source) == Unclear(source)
    assert reading(source) is not None


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("0", 0), ("7", 7), ("-12", -12), ("1.5", 1.5), ("-0.25", -0.25), ("true", True),
        ("false", False), ("null", None), ("~", None), ("", None), ("Null", None),
    ],
)  # fmt: skip
def test_what_is_the_same_in_every_yaml_has_its_value(source: str, value: object) -> None:
    assert plain(source) == value
    assert type(plain(source)) is type(value)


@given(st.text(alphabet="0123456789abefnoxyTZ:._+-<=~ ", max_size=12))
def test_a_text_is_one_to_pyyaml_too(source: str) -> None:
    if isinstance(plain(source), str):
        loader: Any = yaml.SafeLoader("")
        tag = loader.resolve(yaml.ScalarNode, source, (True, False))
        assert tag == "tag:yaml.org,2002:str"


@given(st.text(alphabet="a'\" #:-", max_size=12))
def test_a_quoted_text_is_read_as_it_was(source: str) -> None:
    assert yaml.safe_load(quoted(source)) == source


@pytest.mark.parametrize(
    ("source", "meant"), [("yes", True), ("Off", False), ("TRUE", True), ("x", None)]
)
def test_words_for_true_and_false_are_known(source: str, meant: bool | None) -> None:
    assert meant_boolean(source) is meant
