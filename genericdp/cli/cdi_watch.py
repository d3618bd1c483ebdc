"""``genericdp cdi watch``: CDI specs of a config, kept up to date without a kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.root import node_name_of
from genericdp.cli.run import refuse_for_daemon
from genericdp.daemon import run as run_daemon
from genericdp.settings import KUBELET_DIRECTORY, Settings

if TYPE_CHECKING:
    import argparse

EXAMPLE = (
    "  sudo genericdp cdi watch examples/configs/fuse.yaml\n"
    "  podman run --rm --device example.com/fuse=fuse IMAGE ls -l /dev/fuse"
)


def execute(arguments: argparse.Namespace) -> int:
    """Watch until SIGTERM or SIGINT."""
    refuse_for_daemon(arguments)
    run_daemon(
        Settings(
            configs=tuple(arguments.config),
            policy=arguments.policy,
            kubelet_directory=KUBELET_DIRECTORY,
            without_kubelet=True,
            cdi_directory=arguments.cdi_dir.absolute(),
            root=arguments.root,
            node_name=node_name_of(arguments),
        )
    )
    return 0
