"""The table of commands: the source for signals, help, variables, completion and the docs.

It imports nothing, since it is read before signals are handled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Command:
    """A command; its module is in this directory: ``cdi_list`` for ``cdi list``.

    The module has ``EXAMPLE`` (command lines that work as they stand), ``execute(arguments)``,
    which returns the exit code, and ``ARGUMENTS``: the keywords for argparse of each argument that
    is not declared in ``options.py``.
    """

    def __init__(
        self, about: str, arguments: str, *, until_signaled: bool = False, is_daemon: bool = False
    ) -> None:
        self.about = about
        self.arguments = arguments.split()
        """Options by their long names, and positional arguments, in the order of the help."""
        self.until_signaled = until_signaled
        """Whether it runs until a signal, which is a successful end, and has a log."""
        self.is_daemon = is_daemon
        """Whether it also reloads its config, even at SIGHUP, and prints nothing."""


_SERVED = "FILE --config --policy"
_CONFIG = "FILE --config --config-map --policy"
_HOST = "--root --node-name"
_LOG = "--log-format --log-level"
_RECORDS = "--kubelet-root --dra-driver"

COMMANDS = {
    "run": Command(
        "serve the devices of a config to the kubelet of this node",
        f"{_SERVED} --kubelet-dir --state-dir --cdi-dir --pod-resources --dra-driver"
        f" --kubelet-root --kubeconfig --listen --no-status {_HOST} {_LOG}",
        until_signaled=True,
        is_daemon=True,
    ),
    "validate": Command(
        "report every problem of configs, or what a reload would change",
        f"PATH --config --config-map --policy --strict --diff {_HOST} --dra-driver --output",
    ),
    "discover": Command(
        "show which devices a config offers on this machine, and why others are not offered",
        f"{_CONFIG} --all {_HOST} --output",
    ),
    "explain": Command(
        "say why a device is offered or not, for each resource of a config",
        f"{_CONFIG} DEVICE {_HOST} --output",
    ),
    "allocate": Command(
        "show what a container that requests devices would get",
        f"{_CONFIG} RESOURCE=N --id {_HOST} --output",
    ),
    "probe": Command(
        "run the health probes of a config once, now, and print what each says",
        f"{_CONFIG} RESOURCE --device {_HOST} --output",
    ),
    "simulate": Command(
        "run the daemon with a simulated kubelet and show the node",
        f"{_CONFIG} --once --allocate --dra-driver {_HOST} {_LOG} --output",
        until_signaled=True,
    ),
    "hardware": Command(
        "list the hardware of this machine, each with a selector to copy into a config",
        "--root --output",
    ),
    "init": Command(
        "print a config to start from, for the hardware of this machine",
        "FILE --root --output",
    ),
    "snapshot": Command(
        "write what configs see of this machine into a file, to use elsewhere",
        "FILE.tar.gz --root --output",
    ),
    "convert": Command(
        "print the config of another device plugin in the language of genericdp",
        "--from FILE --to --output",
    ),
    "status": Command(
        "print what the daemon of this node offers, what is Unhealthy and why",
        "--address --output",
    ),
    "claims": Command(
        "list the claims (DRA) that are prepared on this node, and their devices",
        f"{_RECORDS} --output",
    ),
    "claims release": Command(
        "end the record of a claim that the kubelet will not unprepare",
        f"UID --yes {_RECORDS}",
    ),
    "cdi generate": Command(
        "print or write CDI specs of a config's devices, for podman and Docker",
        f"{_CONFIG} --output --static {_HOST}",
    ),
    "cdi watch": Command(
        "keep CDI specs of a config's devices up to date, without a kubelet",
        f"{_SERVED} --cdi-dir {_HOST} {_LOG}",
        until_signaled=True,
        is_daemon=True,
    ),
    "cdi list": Command(
        "print the CDI devices that genericdp has defined on this machine",
        "--cdi-dir --output",
    ),
    "deviceclasses": Command(
        "print the DeviceClasses that pods need for resources with servedBy: dra",
        f"{_CONFIG} --dra-driver",
    ),
    "schema": Command("print the JSON Schema of configs or policies", "--kind --output"),
    "completion": Command("print a script that completes commands and options in a shell", "SHELL"),
}
"""All commands by name, in the order in which a new user meets them."""


def command_of(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command that a command line begins with, of one word or two, and the rest."""
    two = " ".join(argv[:2])
    return (two, argv[2:]) if two in COMMANDS else ("".join(argv[:1]), argv[1:])
