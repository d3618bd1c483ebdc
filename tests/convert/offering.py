"""The devices that a converted config offers on a machine, and the golden files of conversions.

python -m tests.convert.offering    # writes the golden files again, to be read
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.cli import main
from genericdp.convert.conversion import PEERS, convert

from tests.printed import resources_in
from tests.testbeds import loading

if TYPE_CHECKING:
    pass

DIRECTORY = Path(__file__).parent
FUNCTIONS = DIRECTORY / "functions.umockdev"
CONFIGS = sorted((DIRECTORY / "peers").glob("*/*"))
"""What the other plugins publish, in our form."""
Offer = dict[str, list[list[str]]]
"""For each resource the nodes of each device."""


def golden_of(config: Path) -> Path:
    """Return what a config must become."""
    return DIRECTORY / "expected" / config.parent.name / f"{config.stem}.yaml"


def text_of(peer: str, text: str) -> str:
    """Convert a string that has no problems."""
    done = convert(peer, "config", text.encode())
    assert not done.problems
    return done.text


def prose_of(text: str) -> str:
    """Return a config with the lines of comments joined."""
    return re.sub(r"\n\s*# ", " ", text)


def problems_of(peer: str, text: str) -> list[str]:
    """Return the problems of a string, a line each."""
    done = convert(peer, "config", text.encode())
    assert not done.text
    return [str(problem) for problem in done.problems]


def discovered(config: str, machine: Path, directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the devices of each resource that has some, as ``discover`` prints them."""
    root = directory / "root"
    loading.build(machine, root)
    for link in root.glob("sys/devices/pci*/*/iommu_group"):
        devices = link.resolve() / "devices"
        devices.mkdir(exist_ok=True)
        (devices / link.parent.name).symlink_to(os.path.relpath(link.parent, devices))
    file = directory / "converted.yaml"
    file.write_text(config)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        arguments = ["--root", str(root), "--node-name", "node-1", "-o", "json"]
        assert main(["discover", "--config", str(file), *arguments]) == 0
    resources = resources_in(out.getvalue())
    return {
        name: resource["devices"] for name, resource in resources.items() if resource["devices"]
    }


def offers(config: str, machine: Path, directory: Path) -> Offer:
    """Return what a config of ours offers on a machine of umockdev's text."""
    return {
        name: sorted(sorted(device["nodes"]) for device in devices)
        for name, devices in discovered(config, machine, directory).items()
    }


def write_goldens() -> None:
    """Write all of them again."""
    for config in CONFIGS:
        golden_of(config).parent.mkdir(parents=True, exist_ok=True)
        done = convert(config.parent.name, config.name, config.read_bytes())
        golden_of(config).write_text(done.text)
    assert {config.parent.name for config in CONFIGS} == set(PEERS)


if __name__ == "__main__":
    write_goldens()
