"""In processes of their own: here asyncio and gRPC are imported already."""

from __future__ import annotations

import pytest

from tests.programs import last_line

ASYNCIO = "import sys\nfrom genericdp import lean\nlean.import_asyncio()\nimport asyncio\n"
GRPC = "import sys\nimport asyncio, genericdp.kubelet\n"


@pytest.mark.parametrize(
    ("library", "program", "said"),
    [
        pytest.param(
            ASYNCIO,
            "print('_ssl' in sys.modules, 'ssl' in sys.modules)",
            "False False",
            id="no-openssl",
        ),
        pytest.param(
            ASYNCIO, "import ssl; print(ssl.OPENSSL_VERSION[:7])", "OpenSSL", id="openssl-later"
        ),
        pytest.param(
            ASYNCIO,
            "async def go():\n"
            "    process = await asyncio.create_subprocess_exec('true')\n"
            "    server = await asyncio.start_server(print, '127.0.0.1', 0)\n"
            "    port = server.sockets[0].getsockname()[1]\n"
            "    _, writer = await asyncio.open_connection('127.0.0.1', port)\n"
            "    writer.close(); server.close()\n"
            "    print(await process.wait())\n"
            "asyncio.run(go())",
            "0",
            id="asyncio-works",
        ),
        pytest.param(
            GRPC,
            "print([one for one in sys.modules if one == 'typing_extensions'])",
            "[]",
            id="no-typing-extensions",
        ),
        pytest.param(
            GRPC,
            "import typing_extensions as real; print(real.__file__.rpartition('/')[2])",
            "typing_extensions.py",
            id="typing-extensions-later",
        ),
        pytest.param(
            GRPC,
            "import grpc.aio\n"
            "async def go():\n"
            "    server = grpc.aio.server()\n"
            "    await server.start(); await server.stop(None)\n"
            "    print(len(grpc.aio.Metadata(('a', 'b')) + grpc.aio.Metadata()))\n"
            "asyncio.run(go())",
            "1",
            id="grpc-works",
        ),
    ],
)
def test_it_copes_without_and_others_get_it(library: str, program: str, said: str) -> None:
    assert last_line(library + program) == said


def test_a_grpc_that_wants_other_names_gets_the_real_ones() -> None:
    program = (
        "import sys\n"
        "class Newer:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'grpc':\n"
        "            from typing_extensions import TypedDict, Self, override\n"
        "sys.meta_path.insert(0, Newer())\n"
        "import genericdp.kubelet, grpc.aio\n"
        "print(sys.modules['typing_extensions'].TypedDict.__module__)\n"
    )
    assert last_line(program) == "typing_extensions"
