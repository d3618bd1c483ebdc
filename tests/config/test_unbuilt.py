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
        (MATCH + "    prefer: auto\n", ["prefer at a.yaml:6"]),
        (MATCH + "    topology: auto\n    health: []\n",
         ["topology at a.yaml:6", "health at a.yaml:7"]),
        (MATCH + "    values: {}\n    hooks: {}\n", ["values at a.yaml:6", "hooks at a.yaml:7"]),
        (MATCH + "    groupBy: x\n    groupNeeds: 1\n",
         ["groupBy at a.yaml:6", "groupNeeds at a.yaml:7"]),
        ("    match:\n    - udev: {name: a}\n      hardware: {usb: {}}\n    - usb: {}\n",
         ["match[].udev at a.yaml:6", "match[].hardware at a.yaml:7", "match[].usb at a.yaml:8"]),
        (MATCH + "    exclude: [{pci: {}}, {net: {}}]\n",
         ["exclude[].pci at a.yaml:6", "exclude[].net at a.yaml:6"]),
        ("    match: [{path: /dev/a, values: {}}]\n", ["match[].values at a.yaml:5"]),
        (MATCH + "    inject: {devices: [{subsystem: drm}]}\n",
         ["inject.devices[].subsystem at a.yaml:6"]),
        (MATCH + "    id: $(device.driver)-$(usb.port:-x)\n",
         ["$(device.driver) at a.yaml:6", "$(usb.port) at a.yaml:6"]),
        (MATCH + "    inject:\n      env: {A: $(property.X), B: {value: $(device.numa)}}\n"
         "      annotations: {a: $(attribute.x)}\n      cdi: [a/b=$(net.name)]\n",
         ["$(property.X) at a.yaml:7", "$(device.numa) at a.yaml:7",
          "$(attribute.x) at a.yaml:8", "$(net.name) at a.yaml:9"]),
        (MATCH + "    inject:\n      devices: [{path: /dev/$(device.subsystem)}]\n"
         "      mounts: [{hostPath: $(device.syspath), containerPath: /x}]\n",
         ["$(device.subsystem) at a.yaml:7", "$(device.syspath) at a.yaml:8"]),
        (MATCH + "    inject: {env: {A: $(device.major)$(device.minor)$(device.path)$(device.id)"
         "$(allocation.index)}}\n", []),
        (MATCH + "    inject: {env: {A: $$(usb.serial)}}\n", []),
    ],
)  # fmt: skip
def test_every_use_of_what_is_not_carried_out_is_named(
    tmp_path: Path, body: str, uses: list[str]
) -> None:
    assert _unbuilt(tmp_path, body) == [f"not implemented yet: {use}" for use in uses]
