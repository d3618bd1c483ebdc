"""What of the host wakes the daemon though it changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genericdp.inotify import FolderWatch

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_is_written_counts_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """Else each program that closes /dev/null wakes a daemon whose config lies below /dev."""
    told: asyncio.Queue[str | None] = asyncio.Queue()
    watch = FolderWatch(lambda: None, what="test folders", entry=told.put_nowait, contents=True)
    folders = [tmp_path / name for name in ("passed", "held")]
    try:
        for folder in folders:
            folder.mkdir()
            (folder / "file").touch()
        watch.set_folders([str(one) for one in folders], written=[str(folders[1])])
        for folder in folders:
            (folder / "file").write_text("x")
        async with asyncio.timeout(60):
            assert await told.get() == f"{folders[1]}/file"
        assert told.empty()
    finally:
        watch.close()
