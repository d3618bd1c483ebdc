"""``genericdp init``: a config to start from, made of the packaged examples that match this
machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from genericdp.cli.apply import discover_once
from genericdp.cli.loading import load_in_time
from genericdp.cli.output import (
    DATA,
    print_data,
    print_document,
    print_lines,
    print_warning,
    shell_words,
    write_new,
)
from genericdp.cli.parser import argument, path_of
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.probe import documents, unprobed
from genericdp.cli.root import root_of, root_option
from genericdp.config.files import STDIN
from genericdp.config.schema import shipped
from genericdp.devices.inventory import Inventory
from genericdp.errors import GenericdpError
from genericdp.explain.weak_ids import weak_ids
from genericdp.printing import plural, printable, quoted
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList
    from genericdp.explain.weak_ids import WeakIds
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

EXAMPLE = (
    "  genericdp init                          # read it first\n"
    "  genericdp init config.yaml              # then write it\n"
    "  genericdp init --root node.tar.gz       # of another machine, by its snapshot"
)
_ORDER = "examples/init-order.txt"
"""Lists the examples to try, in order; comments in the file explain its format."""
_HEAD = """\
# A config to start from: the examples of genericdp that find something on {machine}.
#
{commands}
#
# Keep what pods should have, and delete the rest: any user who may start a pod on the node can
# request all resources below. A pod names one:   resources: {{limits: {{{resource}: 1}}}}
# Replace example.com with a domain of your own.
"""
_TEMPLATE = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  # No example finds anything here. This resource offers nothing either until you change it;
  # `genericdp hardware` prints a selector for everything that the machine has.
  - name: example.com/my-device         # what pods request
    match:
      - path: /dev/my-device            # a path or a glob, or another selector
    replicas: 1                         # how many containers may share each
"""
_RESOURCE = re.compile(r"(?:^  #.*\n)*^  - name: (?P<name>\S+)\n(?:^(?:   .*)?\n)*", re.MULTILINE)
"""A resource of an example, with the comment directly above it."""
_MAX_DEVICES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class _Example:
    name: str
    head: str
    """The lines above its resources."""
    texts: Mapping[str, str]
    """The YAML of each resource, by name."""
    resources: tuple[Resource, ...]
    """The resources that may be offered."""


ARGUMENTS = {
    "FILE": argument(
        "the file to write; an existing file is never overwritten (default: print)",
        nargs="?",
        type=path_of,
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Try the examples, and print or write those that find something."""
    examples, root = _examples(), root_of(arguments)
    found = run_skipping_hangs(root, lambda host: _find(examples, host))
    machine = "this machine" if root.is_machine else f"the machine in {quoted(arguments.root.name)}"
    text = _text_of(found, machine, root_option(arguments))
    (written,) = load_in_time([STDIN], {STDIN: text.encode()})
    if written.problems:
        problem = written.problems[0]
        raise GenericdpError(f"this config would not be valid, please report it: {problem}")
    for weak in (weak_id for found_example in found for weak_id in found_example.weak):
        print_warning(str(weak))
    if arguments.file is not None:
        write_new(arguments.file, text.encode())
    if arguments.output in DATA:
        print_data(_document(found, text), arguments.output)
    elif arguments.file is None:
        print_document(text)
    else:
        command = ["genericdp", "discover", str(arguments.file)]
        next_step = shell_words([*command, *root_option(arguments)])
        print_lines([f"{arguments.file}: {plural(len(found), 'resource')}", f"Next: {next_step}"])
    return 0


def _examples() -> list[_Example]:
    order = shipped(_ORDER)
    words = (line.partition("#")[0].split() for line in order.read_text("utf-8").splitlines())
    return [_example(order.with_name("configs") / word[0], word[1:]) for word in words if word]


def _example(file: Path, only: Sequence[str]) -> _Example:
    (loaded,) = load_in_time([file])
    if loaded.problems:
        raise GenericdpError(f"an example is not valid, please report it: {loaded.problems[0]}")
    head, _, body = file.read_text("utf-8").partition("\nresources:\n")
    return _Example(
        name=file.name,
        head=head,
        texts={found["name"]: found[0].strip("\n") + "\n" for found in _RESOURCE.finditer(body)},
        resources=tuple(
            resource for resource in loaded.resources if not only or resource.name in only
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """A resource of an example, and the devices that it offers now."""

    example: _Example
    resource: view.Document
    weak: tuple[WeakIds, ...]

    @property
    def name(self) -> str:
        """The name of the resource."""
        return str(self.resource["name"])

    @property
    def devices(self) -> list[view.Document]:
        """Its devices that may be Healthy; no probe is run."""
        devices: list[view.Document] = self.resource["devices"]
        return [device for device in devices if device["state"] != view.DeviceState.UNHEALTHY]


def _find(examples: Sequence[_Example], host: HostCache) -> list[_Found]:
    """Try each example together with the resources that have found something."""
    kept: dict[str, tuple[_Example, Resource]] = {}
    for example in examples:
        before = [resource for _, resource in kept.values()]
        tried = [resource for resource in example.resources if resource.name not in kept]
        lists = discover_once([*before, *tried], host, "").lists
        kept |= {
            resource.name: (example, resource)
            for resource in tried
            if _is_healthy(lists[resource.name])
        }
    resources = [resource for _, resource in kept.values()]
    lists = discover_once(resources, host, "").lists
    weak = tuple(weak_ids(resources, lists, Inventory(host)))
    found = {document["name"]: document for document in documents(lists, unprobed(lists, host))}
    return [
        _Found(
            example=example,
            resource=found[name],
            weak=tuple(ids for ids in weak if ids.resource == name),
        )
        for name, (example, _) in kept.items()
    ]


def _is_healthy(listed: DeviceList) -> bool:
    return any(entry.is_healthy for entry in listed.devices.values())


def _text_of(found: Sequence[_Found], machine: str, root: list[str]) -> str:
    commands = {
        "genericdp validate FILE": "every mistake, with its line",
        shell_words(["genericdp", "discover", "FILE", *root]): "what it offers now",
        shell_words(["genericdp", "simulate", "FILE", *root]): "what a node would show",
    }
    width = max(map(len, commands))
    text = _HEAD.format(
        machine=machine,
        commands="\n".join(
            f"#   {command:{width}}    {what}" for command, what in commands.items()
        ),
        resource=found[0].name if found else "example.com/my-device",
    )
    for _, group in groupby(found, key=lambda pair: pair.example.name):
        of_example = list(group)
        example = of_example[0].example
        resources = "\n".join(
            "".join(f"  # {line}\n" for line in _now(pair)) + example.texts[pair.name]
            for pair in of_example
        )
        text += f"---\n# {example.name}\n#\n{example.head}\nresources:\n{resources}"
    text += "" if found else _TEMPLATE
    everything = shell_words(["genericdp", "hardware", *root])
    return f"{text}\n# What else there is, each with a selector to copy: {everything}\n"


def _now(found: _Found) -> Iterator[str]:
    shares = sum(device["shares"] for device in found.devices)
    yield f"Now: {plural(len(found.devices), 'device')}, {plural(shares, 'share')}."
    for device in found.devices[:_MAX_DEVICES]:
        texts = (device[key] for key in ("id", "path", "model", "serial", "driver"))
        yield "  ".join(("", *filter(None, map(printable, texts))))
    if (more := len(found.devices) - _MAX_DEVICES) > 0:
        yield f"  and {more} more"
    for weak in found.weak:
        sentence = f"{weak.sentence[0].upper()}{weak.sentence[1:]}"
        yield printable(f"{sentence}: {weak.hint}.")


def _document(found: Sequence[_Found], text: str) -> view.Document:
    resources = [{**each.resource, "example": each.example.name} for each in found]
    return {"config": text, "resources": resources}
