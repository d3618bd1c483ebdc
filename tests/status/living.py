"""Endpoints of a supervisor that really runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.config.state import ConfigState
from genericdp.observed import Observed
from genericdp.status.endpoints import Endpoints
from genericdp.status.events import Events
from genericdp.status.looking import Parts
from genericdp.status.requests import Request
from genericdp.tally import Tally

if TYPE_CHECKING:
    from genericdp.status.requests import Answer
    from genericdp.supervisor import Supervisor

IN_FORCE = ConfigState(digest="ab" * 32, since=1.0, files=("test.yaml",), resources=1)


def endpoints_of(
    supervisor: Supervisor, *, config: ConfigState = IN_FORCE, **keys: Any
) -> Endpoints:
    parts = Parts(
        node="node-1",
        supervisor=supervisor,
        config=Observed(config),
        descriptors=Observed(None),
        events=Events(),
        started=1.0,
    )
    return Endpoints(parts, tally=Tally(), **keys)


async def asked(endpoints: Endpoints, path: str, *, accept: str = "") -> Answer:
    return await endpoints.answer(Request(path=path, accept=accept))


async def said(endpoints: Endpoints, path: str) -> tuple[int, list[str]]:
    """The status and the lines of an answer."""
    answer = await asked(endpoints, path)
    return answer.status, answer.body.decode().splitlines()
