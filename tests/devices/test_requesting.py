"""Nodes that ``inject.devices`` asks for and that must not be handed out or cannot be looked at."""

from __future__ import annotations

import pytest

from tests.devices.making import decide, inject, node, nodes, resource, unhealthy


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/bad*", "/dev/bad\\n: its name holds a control character"),
        ("/mnt/slow/x", "looking at /mnt/slow/x does not end"),
    ],
)
def test_what_is_not_there_makes_the_device_unhealthy(path: str, reason: str) -> None:
    files = [
        node("/dev/gpu0", (195, 0)),
        node("/dev/bad\n", (1, 1), refusal="its name holds a control character"),
    ]
    one = resource("gpu", "/dev/gpu0", given=inject(nodes("$(device.path)"), nodes(path)))
    offers = decide([one], files, hanging=["/mnt/slow/x"])
    assert unhealthy(offers, "gpu") == {"gpu0": reason}
