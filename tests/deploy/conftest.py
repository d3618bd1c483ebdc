"""All that is shipped, rendered once; and an API server for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy.apiserver import serving
from tests.deploy.rendering import everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.deploy.apiserver import ApiServer
    from tests.deploy.rendering import Manifest


@pytest.fixture(scope="package")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    """Give it by the titles of its entries."""
    return everything(tmp_path_factory.mktemp("components"))


@pytest.fixture(scope="package")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run a server with the namespace of the daemon, and accounts in it and in ``default``."""
    with serving(tmp_path_factory.mktemp("api")) as server:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "genericdp"}}
        accounts = [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": where},
            }
            for name, where in (("genericdp", "genericdp"), ("default", "default"))
        ]
        assert server.refusals([namespace, *accounts]) == ""
        yield server
