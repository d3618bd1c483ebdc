"""The state as JSON and back."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.status.codec import UnreadableStatusError, decode, encode
from tests.status import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.status.model import Status


@pytest.mark.parametrize("status", [samples.RICH, samples.EMPTY, samples.many(3, 4)])
def test_what_is_written_is_read_again_to_the_millisecond(status: Status) -> None:
    events = tuple(replace(one, time=round(one.time, 3)) for one in status.events)
    status = replace(status, events=events)
    assert decode(encode(status)) == status


def test_the_fields_and_their_types_are_those_of_the_documentation() -> None:
    """Whatever the codec gains or loses belongs into docs/status.md, too."""
    table = Path(__file__).parents[2].joinpath("docs/status.md").read_text().partition("## As JSON")
    told = dict(re.findall(r"^\| `([\w.\[\]]+)` \| ([\w, ]+) \|", table[2], re.MULTILINE))
    fields = list(_fields(json.loads(encode(samples.RICH)), ""))
    assert list(told) == list(dict.fromkeys(field for field, _ in fields))
    for field, value in fields:
        kinds = told[field].split(", ")
        assert any(_IS[kind](value) for kind in kinds), (field, value)


_OF_OBJECTS = ("resources", "devices", "notOffered", "events")


def _fields(value: Any, place: str) -> Iterator[tuple[str, object]]:
    """Give each field of a document with its place, and with each value that it has."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _fields(one, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and place.endswith(_OF_OBJECTS):
        for one in value:
            yield from _fields(one, f"{place}[]")
    else:
        yield place, value


def _all(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(type(one) is kind for one in value)


_IS: dict[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str),
    "texts": _all(str),
    "number": lambda value: type(value) is int,
    "numbers": _all(int),
    "boolean": lambda value: isinstance(value, bool),
    "time": lambda value: isinstance(value, str) and value.endswith("+00:00"),
    "null": lambda value: value is None,
}


def test_what_a_newer_daemon_says_beside_it_is_left_out() -> None:
    document = json.loads(encode(samples.EMPTY))
    document["later"] = document["kubelet"]["later"] = {"a": 1}
    assert decode(json.dumps(document).encode()) == samples.EMPTY


def test_what_an_older_daemon_says_is_read() -> None:
    """``former.json`` is never changed: a key that it lacks is a new one."""
    former = json.loads(Path(__file__).with_name("former.json").read_text())
    status = decode(json.dumps(former).encode())
    assert (status.config.policy, status.config.policy_digest) == ("", "")
    assert status.kubelet_reason == ""
    now = dict(_fields(json.loads(encode(status)), ""))
    for field, value in _fields(former, ""):
        assert now[field] == value, field


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("version",), 1, ".version is not a string"),
        (("config", "policy"), None, ".config.policy is not a string"),
        (("kubelet", "present"), "yes", ".kubelet.present is not true or false"),
        (("kubelet",), [], ".kubelet is not an object"),
        (("time",), "2026-01-01T00:00:00", ".time is not a time with its zone"),
        (("resources", 0, "capacity"), -1, ".resources[0].capacity is not a whole number"),
        (("resources", 0, "capacity"), True, ".resources[0].capacity is not a whole number"),
        (("resources", 0, "devices"), {}, ".resources[0].devices is not a list"),
        (("resources", 0, "devices", 0, "state"), "well", ".state is none of: Healthy, Unhealthy"),
        (("resources", 0, "devices", 0, "nodes"), [1], ".devices[0].nodes[0] is not a string"),
        (("events", 0, "level"), "debug", ".events[0].level is none of: info, warning, error"),
    ],
)
def test_what_is_not_as_it_must_be_is_named(
    place: tuple[str | int, ...], value: object, reason: str
) -> None:
    document = part = json.loads(encode(samples.RICH))
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    with pytest.raises(UnreadableStatusError) as caught:
        decode(json.dumps(document).encode())
    assert reason in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000, b"[]", b"null", b"{}"])
def test_what_is_no_state_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableStatusError):
        decode(body)


_ODD: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([])
)


@given(st.lists(st.integers(min_value=0), min_size=1, max_size=6), _ODD)
def test_whatever_is_changed_in_it_is_read_or_refused(way: list[int], odd: object) -> None:
    """Nothing else is ever raised."""
    document: Any = json.loads(encode(samples.RICH))
    part, holder, key = document, document, "version"
    for step in way:
        if not isinstance(part, (dict, list)) or not part:
            break
        keys: list[Any] = list(part) if isinstance(part, dict) else list(range(len(part)))
        holder, key = part, keys[step % len(keys)]
        part = part[key]
    holder[key] = odd
    with suppress(UnreadableStatusError):
        decode(json.dumps(document).encode())
