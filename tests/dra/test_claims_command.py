"""``genericdp claims`` with a daemon that has prepared a claim."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from genericdp.devices.resourcenames import label
from tests.dra.node import POOL, by_dra
from tests.polling import ask_until
from tests.world import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.dra.node import DraNode


USB0 = label("ttyUSB0")


async def run(node: DraNode, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", "claims", *words, f"--kubelet-root={node.root}"),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def test_a_prepared_claim_is_listed_and_released(node: DraNode) -> None:
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0, name="stick")
        await node.prepare(claim)
        code, printed = await run(node, "-o", "json")
        (found,) = json.loads(printed)["claims"]
        assert (code, found["uid"], found["name"]) == (0, claim.uid, "stick")
        assert found["devices"] == [{"resource": "example.com/serial", "share": "ttyUSB0"}]
        code, printed = await run(node, "release", claim.uid, "--yes")
        assert printed.splitlines()[-1] == "Released."
        assert code == 0
        assert json.loads((await run(node, "-o", "json"))[1]) == {"claims": []}
        other = node.allocate(USB0, name="other")

        async def prepared() -> bool:
            answer = (await node.kubelet.prepare("genericdp.io", other))[other.uid]
            return not isinstance(answer, str)

        await ask_until(prepared, bool, seconds=PATIENCE_SECONDS)
