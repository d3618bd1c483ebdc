"""The daemon, which asks sooner and more often what pods hold: ``python -m tests.e2e.prompt run``.

Only the timing differs from ``genericdp run``: the daemon believes after 7 s that no pod holds a
device, and not after 70 s.
"""

from __future__ import annotations

import sys

from genericdp import daemon, logs
from genericdp.cli.command_line import parse
from genericdp.kubelet.podresources import PodResourcesTiming
from genericdp.settings import Settings

_TIMING = PodResourcesTiming(period=1.0, refresh=2.0, pods_known=6.0)
"""A kubelet that starts knows its pods, which it reads from files, within 2 s."""


def main() -> None:
    """Run until SIGTERM, with the options of ``genericdp run``."""
    arguments = parse(sys.argv[1:])
    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    daemon.run(
        Settings(
            configs=tuple(arguments.config),
            kubelet_directory=arguments.kubelet_dir,
            cdi_directory=arguments.cdi_dir,
            root=arguments.root,
            node_name=arguments.node_name,
            state_dir=arguments.state_dir,
            pod_resources=arguments.pod_resources,
            pod_resources_timing=_TIMING,
            listen=arguments.listen,
        )
    )


if __name__ == "__main__":
    main()
