"""``genericdp run``: the daemon."""

from __future__ import annotations

import asyncio
import logging
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from genericdp.cli.options import listen_of
from genericdp.cli.parser import argument, flag, path_option
from genericdp.cli.root import node_name_of, root_mode, root_of
from genericdp.config.files import STDIN
from genericdp.daemon import run as run_daemon
from genericdp.errors import UsageError, reason_of
from genericdp.host.workers import HangingError, in_worker
from genericdp.settings import KUBELET_DIRECTORY, KUBELET_ROOT, DraSettings, Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

EXAMPLE = "  genericdp run /etc/genericdp"
ARGUMENTS = {
    "--kubelet-dir": path_option("the directory of kubelet.sock", default=KUBELET_DIRECTORY),
    "--state-dir": path_option(
        "directory for the last valid config, used if the config is invalid at startup"
    ),
    "--pod-resources": path_option(
        "keep a missing device listed, however long, while a pod holds it: ask the kubelet at this"
        " socket, usually /var/lib/kubelet/pod-resources/kubelet.sock (default: disabled)",
        "SOCKET",
    ),
    "--kubelet-root": path_option(
        "for servedBy: dra: the kubelet's --root-dir, with plugins/ and plugins_registry/",
        default=KUBELET_ROOT,
    ),
    "--kubeconfig": path_option(
        "for servedBy: dra: how to reach the API server (default: by the service account of this"
        " pod)",
        "FILE",
    ),
    "--listen": argument(
        "serve /metrics, /livez, /readyz, /status and a status page at HOST:PORT, [IPV6]:PORT"
        " or :PORT, without encryption (default: disabled)",
        metavar="ADDRESS",
        type=listen_of,
    ),
    "--no-status": flag(
        "do not serve / and /status or per-device metrics, which expose serial numbers"
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    refuse_for_daemon(arguments)
    pod_resources = arguments.pod_resources and arguments.pod_resources.absolute()
    if pod_resources:
        # Few daemons ask the kubelet, and the import would delay the start of the others.
        from genericdp.kubelet.directory import check_length

        check_length(pod_resources, "reach it under a shorter one")
    _check(_check_state_dir, arguments.state_dir)
    _check(_check_kubelet_root, arguments.kubelet_root)
    _check(_check_socket, pod_resources)
    run_daemon(
        Settings(
            configs=tuple(arguments.config),
            policy=arguments.policy,
            kubelet_directory=arguments.kubelet_dir.absolute(),
            cdi_directory=arguments.cdi_dir.absolute(),
            dra=DraSettings(
                driver=arguments.dra_driver,
                kubelet_root=arguments.kubelet_root.absolute(),
                kubeconfig=arguments.kubeconfig,
            ),
            root=arguments.root,
            node_name=node_name_of(arguments),
            state_dir=arguments.state_dir,
            pod_resources=pod_resources,
            listen=arguments.listen,
            shows_status=not arguments.no_status,
        )
    )
    return 0


def refuse_for_daemon(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a config that cannot be read a second time, or a root that is not a
    machine.
    """
    if STDIN in arguments.config:
        raise UsageError(f"{arguments.command} takes no config from stdin: it is read again")
    if stat.S_ISREG(root_mode(arguments.root)):
        raise UsageError(
            f"--root {arguments.root} is a snapshot, whose devices are not this machine's (see"
            " genericdp simulate, and genericdp cdi generate for CDI specs)"
        )
    root_of(arguments)


def _check(check: Callable[[Path], None], path: Path | None) -> None:
    """Check the path of an option, if it has one; afterward it is known whether it hangs."""
    if path is not None:
        with suppress(HangingError):  # which is logged
            asyncio.run(in_worker(partial(check, path), path))


def _check_state_dir(directory: Path) -> None:
    """Warn if ``--state-dir`` is not a directory, or if users other than its owner can write to
    it.
    """
    try:
        mode = directory.stat().st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        log.error("--state-dir: %s is not a directory: nothing can be kept there", directory)
    elif mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "anybody" if mode & stat.S_IWOTH else "its group"
        log.warning(
            "--state-dir: %s can write to %s, and so take away or hinder the last good config that"
            " is kept there (chmod go-w)",
            who,
            directory,
        )


def _check_kubelet_root(directory: Path) -> None:
    """Warn if ``--kubelet-root`` is not a directory."""
    with suppress(OSError):
        if not stat.S_ISDIR(directory.stat().st_mode):
            log.error("--kubelet-root: %s is not a directory: DRA serves nothing", directory)


def _check_socket(socket: Path) -> None:
    """Warn if ``--pod-resources`` is not a socket."""
    try:
        if not socket.is_socket() and socket.stat():
            log.warning(
                "--pod-resources: %s is not a socket: the kubelet cannot be asked there", socket
            )
    except FileNotFoundError:
        log.info(
            "--pod-resources: %s does not exist yet: the kubelet is asked there once it does",
            socket,
        )
    except OSError as error:
        log.warning("--pod-resources: %s: %s", socket, reason_of(error).lower())
