"""The page: all that it is told is shown as text, and no more of it than fits."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from itertools import product
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.config.loaded import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.status import page
from genericdp.status.choosing import MOST_DEVICES, MOST_OF_ONE
from genericdp.status.model import (
    DeviceStatus,
    Event,
    NotOfferedStatus,
    ResourceStatus,
    Status,
)
from genericdp.status.page import CONTENT_SECURITY_POLICY, render
from genericdp.status.wording import visible
from tests.status.reading import Reader
from tests.status.samples import EMPTY, NOW, RICH, SCRIPT, device, many

_PARTS = Path(page.__file__).parent
PAGE_STYLE = (_PARTS / "page.css").read_text()
PAGE_SCRIPT = (_PARTS / "page.js").read_text()
NASTY = (
    "<script>",
    "</style>",
    "</title><b>",
    '" onload="x',
    "&amp;",
    "<!--",
    "\u202e",
    "\0",
    "\n",
)
TEXT = st.one_of(st.sampled_from(NASTY), st.text(max_size=40))
TIME = st.one_of(st.sampled_from([nan, inf, -inf, 1e300, 0.0]), st.floats(NOW - 1e6, NOW))
SOME_TEXTS = st.lists(TEXT, max_size=3).map(tuple)
DEVICES = st.builds(
    DeviceStatus,
    id=TEXT,
    healthy=st.booleans(),
    path=TEXT,
    reason=TEXT,
    since=st.none() | TIME,
    shares=st.integers(1, 10),
    numa_nodes=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    nodes=SOME_TEXTS,
)
ASIDE = st.builds(NotOfferedStatus, path=TEXT, reason=TEXT)
RESOURCES = st.builds(
    ResourceStatus,
    name=TEXT,
    registered=st.booleans(),
    reason=TEXT,
    since=st.none() | TIME,
    contested=TEXT,
    devices=st.lists(DEVICES, max_size=3).map(tuple),
    not_offered=st.lists(ASIDE, max_size=2).map(tuple),
)
STATES = st.builds(
    Status,
    version=TEXT,
    node=TEXT,
    time=TIME,
    started=TIME,
    kubelet_folder=TEXT,
    kubelet_present=st.booleans(),
    kubelet_reason=TEXT,
    not_ready=SOME_TEXTS,
    config=st.builds(
        ConfigState,
        digest=TEXT,
        since=st.none() | TIME,
        files=SOME_TEXTS,
        policy=TEXT,
        policy_digest=TEXT,
        warnings=SOME_TEXTS,
        differs_since=st.none() | TIME,
        problems=SOME_TEXTS,
        pinned=SOME_TEXTS,
    ),
    descriptors=st.none() | st.just(Supply(used=1000, most=1001)),
    resources=st.lists(RESOURCES, max_size=3).map(tuple),
    events=st.lists(
        st.builds(Event, time=TIME, level=TEXT, message=TEXT, resource=TEXT, device=TEXT),
        max_size=3,
    ).map(tuple),
)
TAGS = {
    *("html", "head", "meta", "title", "link", "noscript", "style", "body", "a", "p", "div"),
    *("script", "header", "main", "section", "article", "footer", "nav", "h1", "h2", "h3"),
    *("span", "dl", "dt", "dd", "ul", "li", "code", "time", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}


def texts_of(status: Status) -> list[str]:
    kubelet = status.kubelet_folder if status.kubelet_present else status.kubelet_reason
    found = [status.node, status.version, kubelet, *status.not_ready]
    config = status.config
    found += [config.policy if config.in_force else "", config.policy_digest[:12]] * bool(
        config.in_force and config.policy
    )
    found += [*config.files, *config.warnings, *config.problems, *config.pinned]
    for one in status.resources:
        found += [one.name, one.contested, "" if one.registered else one.reason]
        for each in one.devices:
            found += [each.id, each.reason, *each.nodes]
        found += [text for aside in one.not_offered for text in (aside.path, aside.reason)]
    for event in status.events:
        found += [event.level, event.message, event.resource, event.device]
    return found


@given(STATES)
def test_any_text_in_any_field_is_shown_as_text(status: Status) -> None:
    text = render(status)
    read = Reader(text)
    assert {one.tag for one in read.elements} <= TAGS
    assert not [name for one in read.elements for name in one.attributes if name.startswith("on")]
    assert [one.text for one in read.all("script")] == [PAGE_SCRIPT]
    assert [one.text for one in read.all("style")] == [PAGE_STYLE]
    shown = read.one("div", id="page").text
    assert [one for one in texts_of(status) if visible(one) not in shown] == []
    bare = text.replace(PAGE_SCRIPT, "").replace(PAGE_STYLE, "")
    assert bare.isprintable()


def test_a_serial_number_that_is_a_script_is_one_in_a_cell() -> None:
    ids = [one.text for one in Reader(render(RICH)).all("th", "id")]
    assert SCRIPT in ids


def test_no_text_fills_the_page() -> None:
    loud = device(0, healthy=False, reason="x" * 1_000_000)
    resource = ResourceStatus(name="example.com/a", registered=True, devices=(loud,))
    text = render(replace(EMPTY, resources=(resource,)))
    assert "… (998,000 more characters)" in text
    assert len(text) < 50_000


def test_at_most_2000_devices_are_shown_and_all_unhealthy_ones_are_among_them() -> None:
    status = many(10, 1000)
    text = render(status)
    read = Reader(text)
    rows = [one.text for one in read.all("td", "state")]
    assert len(rows) == MOST_DEVICES
    assert sum(one.startswith("Unhealthy") for one in rows) == 10 * 1000 / 50
    left = [int(one.replace(",", "")) for one in re.findall(r">([\d,]+) more devices?:", text)]
    assert sum(left) == 10_000 - MOST_DEVICES
    assert len(text) < 1_000_000


def test_at_most_500_of_one_resource_are_shown() -> None:
    read = Reader(render(many(1, 5000)))
    assert len(read.all("td", "state")) == MOST_OF_ONE
    assert any(one.text == "400 of 4,900 Healthy devices" for one in read.all("summary"))
    assert any("4,500 more devices: /status" in one.text for one in read.all("p", "more"))


def test_what_is_not_offered_and_not_shown_is_counted() -> None:
    """Found by a reader: "200 more that are not offereds"."""
    aside = tuple(NotOfferedStatus(path=f"/dev/x{n}", reason="odd") for n in range(700))
    resource = ResourceStatus(name="example.com/a", registered=True, not_offered=aside)
    read = Reader(render(replace(EMPTY, resources=(resource,))))
    assert "200 more paths: /status" in [one.text for one in read.all("p", "more")]


@pytest.mark.parametrize(
    ("status", "pills", "colour"),
    [
        (RICH, ["Not ready", "4 Unhealthy"], "cf222e"),
        (EMPTY, ["Not ready"], "cf222e"),
        (many(40, 1250), ["Ready", "1,000 Unhealthy"], "bf8700"),
        (many(1, 0), ["Ready"], "1a7f37"),
    ],
)
def test_how_many_are_unhealthy_is_told_at_a_glance(
    status: Status, pills: list[str], colour: str
) -> None:
    read = Reader(render(status))
    assert read.one("title").text.startswith(f"{', '.join(pills)} · ")
    told = read.one("div", **{"class": "node"}).text
    assert told.removesuffix("Config on disk refused") == "".join([status.node, *pills])
    assert f"%23{colour}" in read.one("link").attributes["href"]


def test_what_needs_attention_comes_first() -> None:
    names = [one.text for one in Reader(render(RICH)).all("article") for one in [one]]
    order = [next(r.name for r in RICH.resources if name.startswith(r.name)) for name in names]
    assert order == [f"{end}" for end in _named("infiniband", "serial", "fuse", "loop", "gpu")]
    states = [one.text for one in Reader(render(RICH)).all("td", "state")]
    assert [one.split(":")[0][:9] for one in states[:4]] == ["Unhealthy"] * 3 + ["Healthy"]


def _named(*parts: str) -> list[str]:
    return [one.name for part in parts for one in RICH.resources if part in one.name]


def test_a_refused_config_is_told_before_all_resources() -> None:
    text = render(RICH)
    (alert,) = (one for one in Reader(text).all("section") if "is refused" in one.text)
    assert "2 problems" in alert.text
    assert all(problem in alert.text for problem in RICH.config.problems)
    assert "What is in force goes on" in alert.text
    assert text.index("The config on disk is refused") < text.index("<article")
    assert "Nothing is served until" in render(EMPTY)


def test_time_alone_changes_nothing_that_a_screen_reader_says() -> None:
    said = [
        Reader(render(replace(RICH, time=RICH.time + seconds))).one("p", id="summary")
        for seconds in (0, 1, 3600, 86_400)
    ]
    assert said[0].attributes["aria-live"] == "polite"
    assert len({one.text for one in said}) == 1
    mended = replace(RICH, resources=RICH.resources[:1])
    assert Reader(render(mended)).one("p", id="summary").text != said[0].text


def test_tables_have_captions_and_headings_with_scope() -> None:
    read = Reader(render(RICH))
    assert len(read.all("caption")) == len(read.all("table")) > 5
    assert all(one.text for one in read.all("caption"))
    assert {one.attributes.get("scope") for one in read.all("th")} == {"col", "row"}
    assert len({one.attributes["id"] for one in read.elements if "id" in one.attributes}) == len(
        [one for one in read.elements if "id" in one.attributes]
    )
    labels = {one.attributes.get("aria-labelledby", "") for one in read.elements} - {""}
    assert labels <= {one.attributes.get("id") for one in read.elements}


def test_the_policy_allows_this_script_and_style_and_nothing_else() -> None:
    read = Reader(render(RICH))
    for tag in ("script", "style"):
        digest = hashlib.sha256(read.one(tag).text.encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert not any("style" in one.attributes for one in read.elements)
    leads = {one.attributes.get(name, "") for one in read.elements for name in ("href", "src")}
    assert {one for one in leads if ":" in one} == {read.one("link").attributes["href"]}
    assert read.one("link").attributes["href"].startswith("data:")


PAIRS = [
    *product(("text", "muted", "link"), ("ground", "card", "faint")),
    *((name, f"{name}-ground") for name in ("good", "bad", "odd", "plain")),
    ("bad", "card"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_on_its_ground(scheme: str) -> None:
    """WCAG 2 AA: a contrast of 4.5."""
    rules = re.findall(r":root \{(.*?)\}", PAGE_STYLE, re.DOTALL)[scheme == "dark"]
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", rules))
    poor = {
        pair: ratio
        for pair in PAIRS
        if (ratio := _contrast(*(colours[name] for name in pair))) < 4.5
    }
    assert poor == {}


def _contrast(one: str, other: str) -> float:
    low, high = sorted(_luminance(each) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
