"""In processes of their own: here asyncio is imported already."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = "import sys\nfrom genericdp import no_tls\n"
AFTER = "no_tls.import_asyncio()\nimport asyncio\n"


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
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + AFTER + program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip().splitlines()[-1] == said
