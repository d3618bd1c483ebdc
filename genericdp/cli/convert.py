"""``genericdp convert``: the config of another device plugin in our language."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from genericdp.cli.command_line import config_of, path_of
from genericdp.cli.loading import read_pipes
from genericdp.cli.options import add_output, in_time, write_new
from genericdp.cli.output import DATA, print_data, print_document, progress
from genericdp.config.files import STDIN, read_file, shown, unreadable
from genericdp.config.load import unquoted
from genericdp.convert.conversion import PEERS, convert
from genericdp.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

EXAMPLE = (
    "  genericdp convert --from squat daemonset.yaml > genericdp.yaml\n"
    "  kubectl get configuration -A -o yaml | genericdp convert --from akri -"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    *plugins, last = (peer.PLUGIN for peer in PEERS.values())
    parser.add_argument(
        "--from",
        dest="peer",
        choices=tuple(PEERS),
        required=True,
        metavar="|".join(PEERS),
        help=f"whose config it is: {', '.join(plugins)} or {last}",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=config_of,
        help="its config: the file it reads, or the Kubernetes objects that hold it; - for stdin",
    )
    parser.add_argument(
        "--to",
        metavar="FILE",
        type=path_of,
        help="write a new file, which must not exist yet, in place of printing the config",
    )
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Convert, and print what is valid."""
    file: Path = arguments.file
    name = "<stdin>" if file == STDIN else shown(file)
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
        raise ConfigError(unquoted(converted.problems, dict.fromkeys(files, given)))
    if arguments.to is not None:
        write_new(arguments.to, converted.text.encode())
    if arguments.output in DATA:
        said = {"resources": converted.resources, "notOffered": converted.withheld}
        print_data({**said, "config": converted.text}, arguments.output)
    elif arguments.to is None:
        print_document(converted.text)
    return 0
