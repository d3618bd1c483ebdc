"""Any bytes as a config: problems with their places, or a model that a pass can use."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from genericdp.config.build import build
from genericdp.config.check import check_config
from genericdp.config.child import decode, encode
from genericdp.config.files import Loaded
from genericdp.config.load import plain_resources
from genericdp.config.read import read_config
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.kubelet.servicer import encode_list

from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root

CONFIGS = Path(__file__).parents[2] / "configs"
_WORDS = """\
name: match: exclude: path: udev: usb: pci: net: hardware: values: text: file: link: linkedBy: id:
regex: optional: groupBy: groupNeeds: inject: devices: mounts: env: cdi: annotations: health: exec:
open: kernelLog: where: ignore: hooks: replicas: $(device.path) $(usb.serial) $$( :-x) 0403 1e10
0x1f 1_0 ~ null on && *a &a <<: !!str !!binary ? --- ... # | > % @ [*]
[!a-b] (?P<a>.) \\xff \\U0001F600
"""
WORDS = tuple(
    word.encode()
    for word in (
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n",
        *_WORDS.split(),
        *("- ", ": ", "\n  ", "\t", "\r\n", "\ufeff", "\u2028", "\0", "{", "}", "[", "]", "'"),
    )
)


def seeds() -> Iterator[bytes]:
    for directory in ("valid", "invalid"):
        for file in sorted((CONFIGS / directory).glob("*.yaml")):
            if len(content := file.read_bytes()) < 5000:
                yield content


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with TemporaryDirectory() as directory:
        root = loading.build(loading.path_of("can"), Path(directory))
        yield lambda content: _run(content, root)


def _run(content: bytes, root: Root) -> None:
    documents, problems = read_config("f", content)
    found, warnings = check_config(documents)
    assert documents or problems, "neither a document nor a problem"
    lines = content.count(b"\n") + content.count(b"\r") + content.count(b"\xc2\x85") + 3
    lines += content.count(b"\xe2\x80\xa8") + content.count(b"\xe2\x80\xa9")
    for problem in (*problems, *found, *warnings):
        assert 1 <= problem.line <= lines, problem
        assert 1 <= problem.column <= len(content) + 2, problem
        str(problem).encode()
    if problems or found:
        return
    checked = [resource for document in documents for resource in plain_resources(document)]
    resources = build(checked)
    decoded = decode(encode(Loaded(), checked))
    assert decoded.resources == resources, "the pipe changes the config"
    offers = decide(
        resources,
        HostCache(root),
        node_name="edge-1",
        previous={},
        now=0.0,
    ).lists
    for offer in offers.values():
        encode_list(offer)
