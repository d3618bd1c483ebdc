from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"


def _unbuilt(tmp_path: Path, body: str) -> list[str]:
    (tmp_path / "a.yaml").write_text(HEAD + "  - name: a/b\n" + body)
    loaded = load([tmp_path / "a.yaml"])
    assert loaded.problems == ()
    return [str(use).replace(f"{tmp_path}/", "") for use in loaded.unbuilt]


MATCH = "    match: [{path: /dev/a}]\n"


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        (MATCH, []),
        (MATCH + "    id: $(device.name)-$(node.name)\n    forgetAfterSeconds: 5\n", []),
        (MATCH + "    prefer: auto\n    topology: none\n    health: []\n", []),
        (MATCH + "    values: {}\n    hooks: {}\n", []),
        (MATCH + "    groupBy: x\n    groupNeeds: 1\n",
         ["groupBy at a.yaml:6", "groupNeeds at a.yaml:7"]),
        ("    match:\n    - udev: {name: a}\n      hardware: {usb: {}}\n    - usb: {}\n"
         "    inject: {env: {A: $(usb.serial)}}\n", []),
    ],
)  # fmt: skip
def test_every_use_of_what_is_not_carried_out_is_named(
    tmp_path: Path, body: str, uses: list[str]
) -> None:
    assert _unbuilt(tmp_path, body) == [f"not implemented yet: {use}" for use in uses]
