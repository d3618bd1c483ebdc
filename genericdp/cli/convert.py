"""``genericdp convert``: translates the config of another device plugin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from genericdp.cli.loading import read_pipes
from genericdp.cli.output import DATA, print_data, print_document, progress, write_new
from genericdp.cli.parser import argument, config_of, path_option
from genericdp.cli.root import in_time
from genericdp.config.files import STDIN, read_file, unreadable
from genericdp.config.load import hide_untrusted_text
from genericdp.convert.conversion import PEERS, convert
from genericdp.errors import ConfigError
from genericdp.printing import printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

EXAMPLE = (
    "  genericdp convert --from squat daemonset.yaml > genericdp.yaml\n"
    "  kubectl get configuration -A -o yaml | genericdp convert --from akri -"
)
_PLUGINS = ", ".join(peer.PLUGIN for peer in PEERS.values())
ARGUMENTS = {
    "--from": argument(
        f"whose config it is: {' or '.join(_PLUGINS.rsplit(', ', 1))}",
        metavar="|".join(PEERS),
        dest="peer",
        choices=tuple(PEERS),
        required=True,
    ),
    "FILE": argument(
        "its config: the file it reads, or the Kubernetes objects that hold it; - for stdin",
        type=config_of,
    ),
    "--to": path_option(
        "write a new file, which must not exist yet, in place of printing the config", "FILE"
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Convert, and print the result."""
    file: Path = arguments.file
    name = "<stdin>" if file == STDIN else printable(str(file))
    pipes = read_pipes([file])
    try:
        given = in_time(partial(read_file, file, pipes))
    except OSError as error:
        given = error
    if isinstance(given, OSError):
        raise ConfigError([unreadable(name, given)])
    with progress(lambda: f"still converting {name}: {len(given.text):,} bytes"):
        converted = convert(arguments.peer, name, given.text)
    if converted.problems:
        files = {problem.file for problem in converted.problems}
        raise ConfigError(hide_untrusted_text(converted.problems, dict.fromkeys(files, given)))
    if arguments.to is not None:
        write_new(arguments.to, converted.text.encode())
    if arguments.output in DATA:
        resources = [{"name": name} for name in converted.resources]
        said = {"config": converted.text, "resources": resources, "withheld": converted.withheld}
        print_data(said, arguments.output)
    elif arguments.to is None:
        print_document(converted.text)
    return 0
