"""Sound cards: each has a control node, some have a capture node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from genericdp.model import ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.making import decide, node, refusals, resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.devices.device import ContainerEdits
    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Inject, Resource

CARD = ValueSource(
    kind=ValueKind.TEXT, source=parse("$(device.path)"), regex=r"(?:controlC|pcmC)(\d+)"
)
CONTROLS = [node(f"/dev/snd/controlC{n}", (116, n)) for n in (0, 1, 2, 10)]
CAPTURES = [node(f"/dev/snd/pcmC{n}D0c", (116, 100 + n)) for n in (0, 2, 10)]


def sound(
    *,
    needs: int | str | None = None,
    given: Inject | None = None,
    id: str | None = None,  # noqa: A002  # the key's name
    replicas: int = 1,
    forget_after_seconds: int = 300,
) -> Resource:
    """A sound card: its control node with its capture nodes."""
    return resource(
        "sound",
        "/dev/snd/controlC*",
        "/dev/snd/pcmC*",
        id=id,
        values={"card": CARD},
        group_by=parse("card$(value.card)"),
        group_needs=needs,
        given=given,
        replicas=replicas,
        forget_after_seconds=forget_after_seconds,
    )


def given_for(device_id: str, one: Resource, files: Iterable[FoundFile]) -> ContainerEdits:
    """What a container gets for a device."""
    offers = decide([one], files)
    assert refusals(offers, "sound") == {}
    return edits([offers[one.name].devices[device_id].device])


def paths(answer: ContainerEdits) -> list[str]:
    """The nodes of an answer."""
    return [one.host_path for one in answer.devices]
