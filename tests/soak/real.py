"""Real kubelets for the soak: those that the end-to-end tests have built, if there are any."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.cluster.node import Binaries, Node
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.versions import CONTAINERD, KUBELETS
from tests.soak.sides import RealSide

_EACH_SECONDS = 45.0
"""A version needs this long to be worth its start."""


def versions(seed: int, seconds: float) -> tuple[tuple[str, ...], str]:
    """Give those that are to be used, or why there are not."""
    if os.geteuid() != 0:
        return (), "not root"
    if not shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
        return (), "runc is not installed"
    if not (_cache() / f"containerd-{CONTAINERD}").is_dir():
        return (), f"no containerd in {_cache()}: make e2e builds it"
    built = [version for version in KUBELETS if (_cache() / f"kubelet-{version}").is_dir()]
    if not built:
        return (), f"none in {_cache()}: make e2e builds them"
    if DEVICE_PLUGINS.is_dir() and any(DEVICE_PLUGINS.iterdir()):
        return (), f"another one uses {DEVICE_PLUGINS}"
    number = max(1, min(2, int(seconds * 0.2 / _EACH_SECONDS)))
    return tuple(random.Random(seed).sample(built, min(number, len(built)))), ""


@asynccontextmanager
async def side(version: str, directory: Path) -> AsyncIterator[RealSide]:
    binaries = Binaries(
        version=version,
        kubelet=_cache() / f"kubelet-{version}",
        containerd=_cache() / f"containerd-{CONTAINERD}",
    )
    node = Node(directory, binaries)
    await asyncio.to_thread(node.__enter__)
    try:
        found = RealSide(node)
        found.starts[f"{version}, real"] += 1
        yield found
    finally:
        await asyncio.to_thread(node.__exit__)


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("GENERICDP_E2E_CACHE", default / "genericdp-cluster"))
