"""In processes of their own: here much has been imported already."""

from __future__ import annotations

import pytest

from tests.programs import last_line


def test_the_client_brings_neither_openssl_nor_servers() -> None:
    program = (
        "import sys\n"
        "import genericdp.status.prometheus\n"
        "unused = {'_ssl', '_hashlib', 'ssl', 'http.server', 'urllib.request', 'wsgiref'}\n"
        "print(sorted(unused & set(sys.modules)))\n"
    )
    assert last_line(program) == "[]"


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("import ssl; print(ssl.OPENSSL_VERSION[:7])", "OpenSSL"),
        ("import http.server; print(http.server.HTTPServer.allow_reuse_address)", "1"),
        ("import urllib.request; print(urllib.request.Request('http://node').host)", "node"),
    ],
)
def test_who_imports_them_later_gets_them(use: str, line: str) -> None:
    assert last_line(f"import genericdp.status.prometheus\n{use}") == line


def test_what_is_there_already_stays() -> None:
    program = (
        "import http.server, ssl\n"
        "import genericdp.status.prometheus, prometheus_client.exposition as made\n"
        "print(made.ssl is ssl and issubclass(made.MetricsHandler, "
        "http.server.BaseHTTPRequestHandler))\n"
    )
    assert last_line(program) == "True"


def test_a_version_that_does_more_with_them_is_imported_with_all_of_it() -> None:
    """It comes as the installed one does, after a use of what only the real ssl has."""
    program = (
        "import importlib.util, sys\n"
        "class Newer:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'prometheus_client':\n"
        "            import ssl\n"
        "            print('uses', ssl.Purpose.CLIENT_AUTH.shortname)\n"
        "sys.meta_path.insert(0, Newer())\n"
        "import genericdp.status.prometheus\n"
        "print('_ssl' in sys.modules)\n"
    )
    assert last_line(program) == "True"
