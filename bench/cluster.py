"""An API server and the DRA side of a kubelet: ``python -m bench.cluster FOLDER``.

It writes ``FOLDER/kubeconfig`` and serves ``FOLDER/kubelet``. For each line on stdin the kubelet
restarts, which deletes the node's ResourceSlices.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.apiserver.server import ApiServer, make_certificates
from tests.dra.kubelet import DraKubelet

NODE = "node-1"


async def _serve(folder: Path) -> None:
    async with (
        ApiServer(certificates=make_certificates(folder)) as server,
        DraKubelet(folder / "kubelet", wipe=lambda one: server.wipe(NODE, driver=one)) as kubelet,
    ):
        server.add_node(NODE)
        server.kubeconfig(folder / "kubeconfig")
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            await kubelet.restart()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
