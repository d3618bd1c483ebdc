"""What a converted config offers on a machine, and the golden files of conversions.

python -m tests.converting.offering    # writes the golden files anew, to be looked at
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli import main
from genericdp.converting.conversion import PEERS, convert
from tests.testbeds import loading

if TYPE_CHECKING:
    from genericdp.converting.conversion import Converted

FOLDER = Path(__file__).parent
INPUTS = FOLDER / "peers"
GOLDENS = FOLDER / "expected"
Offer = dict[str, list[list[str]]]
"""For each resource the nodes of each device."""


def inputs_of(peer: str) -> list[Path]:
    """Give a peer's configs: what it has published, in our form."""
    return sorted((INPUTS / peer).iterdir())


def golden_of(config: Path) -> Path:
    """Give what a config must become."""
    return GOLDENS / config.parent.name / f"{config.stem}.yaml"


def converted(peer: str, text: str) -> Converted:
    """Convert a text."""
    return convert(peer, "config", text.encode())


def text_of(peer: str, text: str) -> str:
    """Convert a text that has no problems."""
    done = converted(peer, text)
    assert not done.problems
    return done.text


def prose_of(peer: str, text: str) -> str:
    """Convert a text, and give it with its comments' lines joined."""
    return re.sub(r"\n\s*# ", " ", text_of(peer, text))


def problems_of(peer: str, text: str) -> list[str]:
    """Give the problems of a text, a line each."""
    done = converted(peer, text)
    assert not done.text
    return [str(problem) for problem in done.problems]


def offers(config: Path, machine: Path, folder: Path) -> Offer:
    """Give what a config of ours offers on a machine of umockdev's text."""
    root = folder / "root"
    loading.build(machine, root)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        arguments = ["--root", str(root), "--node-name", "node-1", "-o", "json"]
        assert main(["discover", "--config", str(config), *arguments]) == 0
    resources = json.loads(out.getvalue())["resources"]
    return {
        name: sorted(sorted(device["nodes"]) for device in one["devices"])
        for name, one in resources.items()
        if one["devices"]
    }


def offers_of(peer: str, text: str, machine: Path, folder: Path) -> Offer:
    """Give what a peer's text offers when it is converted."""
    config = folder / "converted.yaml"
    config.write_text(text_of(peer, text))
    return offers(config, machine, folder)


def write_goldens() -> None:
    """Write all of them anew."""
    for peer in PEERS:
        for config in inputs_of(peer):
            golden_of(config).parent.mkdir(parents=True, exist_ok=True)
            done = convert(peer, str(config), config.read_bytes())
            golden_of(config).write_text(done.text)


if __name__ == "__main__":
    write_goldens()
