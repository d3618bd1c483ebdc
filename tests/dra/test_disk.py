"""Disks that take no record and no CDI spec: full, read-only, limited."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cdi.test_faults import NOT_MOUNTED, make_room, raise_limit
from tests.dra.node import NAME, OTHER, POOL, USB0, DraNode, by_dra
from tests.test_daemon import Daemon, Place
from tests.test_faults import MOUNT_NAMESPACE
from tests.world import config, resource

pytestmark = pytest.mark.slow

FULL = """
mount -t tmpfs -o size=16k tmpfs "$1"
head -c 16384 /dev/zero > "$1/full"
shift
exec "$0" "$@"
"""
READ_ONLY = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
shift
exec "$0" "$@"
"""
FULL_DISK, LIMIT = "no space left on device", "file too large"


async def more_room(daemon: Daemon, directory: Path) -> None:
    make_room(daemon, directory)


async def no_limit(daemon: Daemon, directory: Path) -> None:
    raise_limit(daemon, directory)


async def remount(daemon: Daemon, directory: Path) -> None:
    inside = ("nsenter", "--mount", f"-t{daemon.process.pid}")
    command = (*inside, "mount", "-o", "remount,bind,rw", str(directory))
    assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0


@pytest.mark.parametrize(
    ("what", "launch", "why", "mend"),
    [
        pytest.param("claims", (*MOUNT_NAMESPACE, FULL), FULL_DISK, more_room,
                     marks=NOT_MOUNTED, id="full, records"),
        pytest.param("cdi", (*MOUNT_NAMESPACE, READ_ONLY), "read-only file system", remount,
                     marks=NOT_MOUNTED, id="read-only, specs"),
        pytest.param("claims", ("sh", "-c", 'ulimit -Sf 0; shift; exec "$0" "$@"'), LIMIT,
                     no_limit, id="limited"),
    ],
)  # fmt: skip
async def test_a_claim_waits_for_a_disk_that_takes_its_record_and_its_spec(
    node: DraNode,
    what: str,
    launch: tuple[str, ...],
    why: str,
    mend: Callable[[Daemon, Path], Awaitable[None]],
) -> None:
    place = Place(node.world.directory / "p")
    place.host.plug("ttyACM0", major=166)
    place.config.write_text(config(by_dra(), resource(OTHER, "/dev/ttyACM*")))
    node.settings.claims_directory.mkdir(parents=True)
    node.settings.served_file.write_text(json.dumps({"version": 1, "resources": [NAME]}))
    directory = node.settings.claims_directory if what == "claims" else node.cdi_directory
    async with place.daemon(
        *node.options, launch=(*launch, sys.executable, str(directory))
    ) as daemon:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        refusal = (await node.refusal(claim)).lower()
        assert why in refusal
        assert str(directory) in refusal
        assert why in (await daemon.says("claim default/claim cannot be prepared")).lower()
        await node.world.container(modem=1)
        await mend(daemon, directory)
        await node.prepare(claim)
        inside = f"/proc/{daemon.process.pid}/root{directory}"
        assert [name for name in os.listdir(inside) if claim.uid in name]
        assert await node.unprepare(claim) == ""
        assert os.listdir(inside) == []
        daemon.process.terminate()
        assert await daemon.ends() == 0
