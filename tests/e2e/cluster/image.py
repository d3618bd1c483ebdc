"""Packs a directory as a one-layer image, so that containers run without an image registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """Return the architecture of this machine, as images name it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def pack(archive: Path, name: str, rootfs: Path, command: Sequence[str]) -> None:
    """Write an archive that ``ctr images import`` takes."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as packed:
        packed.add(rootfs, arcname=".")
    layer_digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = _encoded(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": list(command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_digest}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]
    with tarfile.open(archive, "w") as packed:
        _add(packed, config_name, config)
        _add(packed, layer_name, layer.getvalue())
        _add(packed, "manifest.json", _encoded(manifest))


def _encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
