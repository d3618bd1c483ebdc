"""In processes of their own: here asyncio is imported already."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = "import sys\nfrom genericdp import lean\n"
AFTER = "lean.import_asyncio()\nimport asyncio\n"


def last_line(program: str) -> str:
    """What a program says last."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param(
            "print('_ssl' in sys.modules, 'ssl' in sys.modules)", "False False", id="none"
        ),
        pytest.param("import ssl; print(ssl.OPENSSL_VERSION[:7])", "OpenSSL", id="later"),
        pytest.param(
            "async def go():\n"
            "    process = await asyncio.create_subprocess_exec('true')\n"
            "    server = await asyncio.start_server(print, '127.0.0.1', 0)\n"
            "    port = server.sockets[0].getsockname()[1]\n"
            "    _, writer = await asyncio.open_connection('127.0.0.1', port)\n"
            "    writer.close(); server.close()\n"
            "    print(await process.wait())\n"
            "asyncio.run(go())",
            "0",
            id="all-else-works",
        ),
    ],
)
def test_asyncio_copes_without_and_others_get_it(program: str, said: str) -> None:
    assert last_line(BEGIN + AFTER + program) == said


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param(
            "print([one for one in sys.modules if one == 'typing_extensions'])", "[]", id="none"
        ),
        pytest.param(
            "import typing_extensions as real; print(real.__file__.rpartition('/')[2])",
            "typing_extensions.py",
            id="later",
        ),
        pytest.param(
            "import asyncio, grpc.aio\n"
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
def test_grpc_copes_without_the_names_and_others_get_them(program: str, said: str) -> None:
    assert last_line(f"import sys\nimport genericdp.kubelet\n{program}") == said


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
