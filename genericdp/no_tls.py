"""asyncio without TLS, which nothing here speaks."""

import sys
from typing import Any


def import_asyncio() -> None:
    """Have asyncio find no OpenSSL; call it before anything else imports it.

    It copes, as where Python is built without. Whoever imports ``ssl`` later gets it: four
    megabytes, if nothing else has loaded OpenSSL.
    """
    modules: dict[str, Any] = sys.modules
    if "asyncio" in modules or "ssl" in modules:
        return
    modules["ssl"] = None  # what is None there cannot be imported
    try:
        import asyncio  # noqa: F401
    finally:
        del modules["ssl"]
