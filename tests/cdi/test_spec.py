"""Laws of specs and their files; what is in them: tests/cases/cdi."""

from __future__ import annotations

import json

import yaml
from genericdp.cdi import file_name, kind_of_ours, rendered
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PART = st.from_regex(r"[a-z]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
TYPE = st.from_regex(r"[A-Za-z]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?", fullmatch=True)
KIND = st.builds("{}/{}".format, PART, TYPE)


@given(KIND, st.lists(st.tuples(TEXT, TEXT), min_size=1, unique_by=lambda entry: entry[0]))
def test_what_we_write_is_ours(kind: str, devices: list[tuple[str, str]]) -> None:
    entries = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path}]}}
        for name, path in devices
    ]
    content = rendered({"cdiVersion": "0.3.0", "kind": kind, "devices": entries})
    assert kind_of_ours(content) == kind
    assert json.loads(content)["devices"] == entries
    # Container runtimes read it as YAML.
    assert yaml.safe_load(content)["devices"] == entries
    assert kind_of_ours(json.dumps(json.loads(content)).encode()) == ""


@given(KIND, KIND)
def test_two_kinds_never_have_one_file(first: str, other: str) -> None:
    assert (file_name(first) == file_name(other)) == (first == other)
    assert "/" not in file_name(first)
