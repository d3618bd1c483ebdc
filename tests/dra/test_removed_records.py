"""Records of prepared claims that disappear with their directory."""

from __future__ import annotations

import shutil

from tests.dra.node import OTHER, USB0, DraNode, by_dra, refused


async def test_a_claim_is_held_although_its_record_cannot_be_written_again(node: DraNode) -> None:
    state, moved = node.state_directory, node.directory / "moved"
    async with node.serving(by_dra()) as daemon:
        claim = await node.claim()
        record = node.record(claim)
        state.rename(moved)
        state.mkdir()
        (state / "claims").touch()  # in the way of the directory
        shutil.rmtree(moved)
        await daemon.log.says("the record of claim default/claim cannot be written again: ")
        await daemon.takes(by_dra(OTHER))
        await daemon.shows(OTHER, refused("claim default/claim has it as ttyUSB0"))
        await daemon.takes(by_dra())
        (state / "claims").unlink()
        await node.until(lambda: node.record(claim) == record)
        await node.is_held(USB0)
        assert await node.unprepare(claim) == ""
        assert node.record(claim) is None
