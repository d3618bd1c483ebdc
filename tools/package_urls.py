"""Hatchling hook: sets the package's URLs from ``[tool.genericdp]``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackageUrls(MetadataHookInterface):
    """Omits the URLs of empty settings."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs."""
        settings = tomllib.loads(Path(self.root, "pyproject.toml").read_text())["tool"]["genericdp"]
        repository, site = settings["repository"].rstrip("/"), settings["site"]
        urls = {
            "Documentation": site,
            "Source": repository,
            "Issues": repository and f"{repository}/issues",
        }
        metadata["urls"] = {name: url for name, url in urls.items() if url}
