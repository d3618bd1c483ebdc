"""Policies and configs for tests of bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.load import load

if TYPE_CHECKING:
    from genericdp.policy import Policy

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
NARROW = Path(__file__).parent.parent / "policies/narrow.yaml"


def policy_of(directory: Path, text: str) -> Policy:
    """Load a policy that must be a good one; it is at p.yaml."""
    path = directory / "p.yaml"
    path.write_text(HEAD + text)
    loaded = load([], policy=path)
    assert loaded.policy is not None, loaded.problems
    return loaded.policy
