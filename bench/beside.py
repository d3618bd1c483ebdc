"""Programs that run beside the benchmark, so that what it does itself is not what they measure."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

_REPOSITORY = Path(__file__).parent.parent


@asynccontextmanager
async def beside(module: str, path: Path) -> AsyncIterator[Process]:
    """Run a module of the benchmark that is given a path; it is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, os.fspath(path)),
        cwd=_REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def output(process: Process) -> StreamReader:
    """Give what it prints."""
    if process.stdout is None:
        raise AssertionError
    return process.stdout


async def ask(process: Process, line: str) -> bytes:
    """Say a line to it, and give the one that it answers; raises TimeoutError after a minute."""
    if process.stdin is None:
        raise AssertionError
    process.stdin.write(f"{line}\n".encode())
    await process.stdin.drain()
    async with asyncio.timeout(60):
        return await output(process).readline()
