"""The page for people: plain HTML of the state, which refreshes itself and asks nobody else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from genericdp.status.choosing import chosen
from genericdp.status.markup import Markup, ago, element, joined, pill, time_of
from genericdp.status.sections import (
    config_section,
    events_section,
    kubelet_section,
    lines_of,
    resource_section,
)
from genericdp.status.wording import absolute, is_refused, plural, span, summary, unhealthy, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.status.model import Status

_FOLDER = Path(__file__).parent
_STYLE = _FOLDER.joinpath("page.css").read_text("utf-8")
_SCRIPT = _FOLDER.joinpath("page.js").read_text("utf-8")
_RELOAD_SECONDS = 10
"""Without scripts, where a reload closes what was opened."""


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " connect-src 'self'; img-src data:;"
    f" style-src 'sha256-{_hash(_STYLE)}'; script-src 'sha256-{_hash(_SCRIPT)}'"
)
"""The value of that header: this style and script run, and nothing that a text might smuggle in."""
_EDITION = _hash(_STYLE + _SCRIPT)[:12]
"""A page of another one, after an update of the daemon, loads itself anew."""


def render(status: Status) -> str:
    """Return the page, complete; about 0.6 MB at most but for texts of unusual length."""
    sick = sum(len(unhealthy(one)) for one in status.resources)
    head, body = element("head", *_head(status, sick)), element("body", *_body(status, sick))
    return "<!doctype html>" + element("html", head, body, lang="en")


def _head(status: Status, sick: int) -> Iterator[Markup]:
    refresh = element("meta", http_equiv="refresh", content=str(_RELOAD_SECONDS))
    yield element("meta", charset="utf-8")
    yield element("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield element("meta", name="color-scheme", content="light dark")
    yield element("meta", name="robots", content="noindex")
    yield element("title", f"{_title(status, sick)} · {visible(status.node, 60)} · genericdp")
    yield element("link", rel="icon", href=_icon(status, sick))
    yield element("noscript", refresh)
    yield element("style", Markup(_STYLE))


def _title(status: Status, sick: int) -> str:
    state = "Ready" if status.ready else "Not ready"
    return f"{state}, {sick:,} Unhealthy" if sick else state


def _icon(status: Status, sick: int) -> str:
    colour = "#cf222e" if not status.ready else "#bf8700" if sick else "#1a7f37"
    dot = f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{dot}</svg>'
    return f"data:image/svg+xml,{quote(drawing)}"


def _body(status: Status, sick: int) -> Iterator[Markup]:
    yield element("a", "Skip to resources", href="#resources", class_="skip")
    # What the script says itself stands outside of what it replaces.
    yield element("p", id="gone", role="status", aria_live="polite", hidden=True)
    yield element("div", *_parts(status, sick), id="page", data_edition=_EDITION)
    yield element("script", Markup(_SCRIPT))


def _parts(status: Status, sick: int) -> Iterator[Markup]:
    yield _banner(status, sick)
    yield element(
        "main",
        *_trouble(status),
        element(
            "div",
            _resources(status),
            element("div", config_section(status), kubelet_section(status), class_="side"),
            class_="columns",
        ),
        events_section(status),
    )
    yield _footer(status)


def _banner(status: Status, sick: int) -> Markup:
    return element(
        "header",
        element("p", "genericdp ", status.version, class_="product"),
        element("div", element("h1", status.node), *_pills(status, sick), class_="node"),
        # A screen reader says it when it changes: nothing in it may change with time alone.
        element("p", summary(status), id="summary", role="status", aria_live="polite"),
        class_="banner",
    )


def _pills(status: Status, sick: int) -> Iterator[Markup]:
    yield pill("Ready", "good") if status.ready else pill("Not ready", "bad")
    if sick:
        yield pill(f"{sick:,} Unhealthy", "odd")
    if is_refused(status):
        yield pill("Config on disk refused", "odd")


def _trouble(status: Status) -> Iterator[Markup]:
    if status.not_ready:
        yield element(
            "section",
            element("h2", "Why it is not ready", id="not-ready"),
            lines_of(status.not_ready),
            class_="card alert bad",
            aria_labelledby="not-ready",
            data_key="not-ready",
        )
    config = status.config
    if is_refused(status):
        yield element(
            "section",
            element("h2", "The config on disk is refused", id="refused"),
            element("p", *_refusal(status)),
            lines_of(config.problems),
            class_="card alert bad",
            aria_labelledby="refused",
            data_key="refused",
        )


def _refusal(status: Status) -> Iterator[str]:
    config = status.config
    if config.problems:
        yield f"{plural(len(config.problems), 'problem')}. "
    if config.differs_since is not None:
        yield joined(["First refused ", ago(config.differs_since, status.time), ". "])
    if config.in_force:
        yield "What is in force goes on, untouched, until all of this is mended."
    else:
        yield "Nothing is served until all of this is mended."


def _resources(status: Status) -> Markup:
    shown = chosen(status.resources)
    cards = [resource_section(at, one, status.time) for at, one in enumerate(shown)]
    if more := len(status.resources) - len(shown):
        link = element("a", "/status", href="status")
        cards.append(element("p", f"{plural(more, 'more resource')}: ", link, class_="more"))
    none = element("p", "Nothing is offered on this node.", class_="card none")
    heading = element("h2", "Resources", id="resources", tabindex="-1")
    return element(
        "section", heading, *(cards or [none]), class_="resources", aria_labelledby="resources"
    )


def _footer(status: Status) -> Markup:
    links = (element("a", f"/{name}", href=name) for name in ("status", "metrics", "readyz"))
    return element(
        "footer",
        element(
            "p",
            joined(
                ["As of ", time_of(status.time, absolute(status.time)), ", refreshed by itself. "]
            ),
            f"Running for {span(status.time - status.started)}.",
        ),
        element("nav", joined(joined([one, " "]) for one in links), aria_label="For machines"),
    )
