from __future__ import annotations

from typing import Any

import pytest
import yaml
from genericdp.health.kinds.file import FileCheck
from genericdp.scalars import single_quoted, yaml_flow, yaml_text
from hypothesis import given
from hypothesis import strategies as st

from tests.config.loading import FUSE, HEAD, loaded

TEXTS = [
    "ttyUSB*", "10c4", "0bda", "1-1.4", "0000:3b:00.0", "a", "ff", "/dev/fuse", "v1", "1.2.3",
    "e10", "truely", "none", "Nein", "o", "rw", "x1", "1-2-3", "edge-*", "...", "é",
]  # fmt: skip


def messages(source: str) -> list[str]:
    """Return what is wrong with it as the value of a variable."""
    return [
        problem.message
        for problem in loaded(f"{HEAD}{FUSE}    inject: {{env: {{A: {source} }}}}").problems
    ]


def test_what_every_yaml_reads_as_a_text_is_one() -> None:
    env = "\n".join(f"        A{i}: {source}" for i, source in enumerate(TEXTS))
    (resource,) = loaded(f"{HEAD}{FUSE}    inject:\n      env:\n{env}").resources
    assert [str(entry.value) for entry in resource.inject.env.values()] == TEXTS


@pytest.mark.parametrize(
    ("source", "value"), [("1.5", "1.5"), ("-0.25", "-0.25"), ("-12", "-12"), ("90.0", "90")]
)
def test_a_number_is_what_every_yaml_reads(source: str, value: str) -> None:
    (resource,) = loaded(
        f"{HEAD}{FUSE}    health: [{{file: {{path: /x, min: {source}}}}}]"
    ).resources
    check = resource.health[0].check
    assert isinstance(check, FileCheck)
    assert str(check.min) == value


@given(st.text(alphabet="0123456789abefnoxyTZ:._+-<=~", max_size=12))
def test_a_text_is_one_to_pyyaml_too(source: str) -> None:
    if source and not messages(source):
        loader: Any = yaml.SafeLoader("")
        tag = loader.resolve(yaml.ScalarNode, source, (True, False))
        assert tag == "tag:yaml.org,2002:str"


@given(st.text(alphabet="a1'\"#:-", min_size=1, max_size=12))
def test_what_is_suggested_is_the_text_in_quotes(source: str) -> None:
    assert yaml.safe_load(single_quoted(source)) == source


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("tty", "tty"),
        ("ttyUSB*", "ttyUSB*"),
        ("ttyS?", '"ttyS?"'),
        ("0403", '"0403"'),
        ("No", '"No"'),
        ("1e10", '"1e10"'),
    ],
)
def test_a_text_is_quoted_where_yaml_would_read_something_else(text: str, written: str) -> None:
    assert yaml_text(text) == written


ANY = st.text(st.characters(exclude_categories=()))


@given(st.dictionaries(ANY, st.lists(st.text("ab0?*$(:-# "))))
def test_any_texts_can_be_read_from_yaml_again(texts: dict[str, list[str]]) -> None:
    assert yaml.safe_load(yaml_flow(texts)) == texts
