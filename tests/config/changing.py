"""Configs on disk, changed as people and kubelets change them."""

from __future__ import annotations

import os
import shutil
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
BAD = HEAD + "  - name: example.com/bad\n    matches: [{path: /dev/null}]\n"


def config(*names: str, **keys: object) -> str:
    """Give a config of path selectors: ``ttyUSB0`` becomes the resource example.com/ttyUSB0."""
    more = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    return HEAD + "".join(
        f"  - name: example.com/{name}\n    match: [{{path: /dev/{name}}}]\n{more}"
        for name in names
    )


class ConfigMap:
    """A volume as the kubelet's atomic writer keeps it (pkg/volume/util/atomic_writer.go)."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self._versions = count(1)
        self.update(files)

    def update(self, files: Mapping[str, str]) -> None:
        """Write a new version next to the old one, swap the link, then mend the visible names."""
        version = f"..2026_11_21_14_00_00.{next(self._versions)}"
        (self.directory / version).mkdir()
        for name, text in files.items():
            (self.directory / version / name).write_text(text)
        data, fresh = self.directory / "..data", self.directory / "..data_tmp"
        old = data.resolve() if data.is_symlink() else None
        fresh.symlink_to(version)
        fresh.rename(data)
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        for path in self.directory.iterdir():
            if not path.name.startswith("..") and path.name not in files:
                path.unlink()
        if old is not None:
            shutil.rmtree(old)


def write(path: Path, text: str) -> None:
    """Write over a file, as ``cp`` and ``>`` do."""
    path.write_text(text)


def rename(path: Path, text: str) -> None:
    """Write a file next to it and rename that, as vim and sed -i do."""
    other = path.with_name(f".{path.name}.swp")
    other.write_text(text)
    other.rename(path)


def move_away_first(path: Path, text: str) -> None:
    """Keep the old one as a backup, as emacs does."""
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text(text)


def delete_and_write(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def replace_directory(path: Path, text: str) -> None:
    """Put another directory in the place of the file's."""
    other = path.parent.with_name("other")
    other.mkdir()
    (other / path.name).write_text(text)
    path.parent.rename(path.parent.with_name("old"))
    other.rename(path.parent)


def link_elsewhere(path: Path, text: str) -> None:
    """Turn the file into a link to one in another directory."""
    other = path.parent.with_name("elsewhere") / "real.yaml"
    other.parent.mkdir()
    other.write_text(text)
    fresh = path.with_name("fresh")
    fresh.symlink_to(other)
    fresh.rename(path)


def write_keeping_times(path: Path, text: str) -> None:
    """Write over a file and give it its old time of change, as ``cp -p`` or an archive would."""
    status = path.stat()
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


WAYS = (
    *(write, rename, move_away_first, delete_and_write, replace_directory, link_elsewhere),
    write_keeping_times,
)
