"""``genericdp claims release``, and records that change. Listing them: tests/cases/dra/records."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.kubelet.api import podresources_pb2 as api

from tests.kubelet.test_podresources import answering
from tests.printed import violations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.asking import Answer, Ask

UID = "2f0c9b7e-1b1c-4c5c-9f4e-0f3d0a5f7a11"
OTHER = "9a3d1c55-58c5-4a55-8a30-6f3b0e6f2b90"


def record(uid: str, name: str) -> dict[str, Any]:
    """Return the record of a claim that was prepared three hours ago."""
    of_stick = dict.fromkeys(("location", "part", "model", "kernelName"), "x")
    identity = {**of_stick, "unreadable": False, "ambiguous": False, "unique": {}}
    hold = {
        "resource": "example.com/serial",
        "id": "STICK",
        "shares": ["STICK::1"],
        "replicas": 2,
        "exclusive": True,
        "identities": [identity],
    }
    return {
        "version": 4,
        "uid": uid,
        "namespace": "default",
        "name": name,
        "driver": "genericdp.io",
        "bootID": "",
        "prepared": True,
        "perRequest": False,
        "podClaim": "",
        "preparedAt": time.time() - 3 * 3600 - 60,  # noqa: TID251  # as in records
        "holds": [hold],
        **dict.fromkeys(("results", "devices", "edits", "requests", "configurations"), ()),
    }


class Node:
    """The kubelet's directory, with records in it."""

    def __init__(self, root: Path, ask: Ask) -> None:
        self.root = root
        self.where = f"--kubelet-root={root}"
        self._ask = ask
        self.directory = root / "plugins/genericdp.io/claims"
        self.directory.mkdir(parents=True)

    def put(self, uid: str = UID, name: str = "stick") -> Path:
        file = self.directory / f"{uid}.json"
        file.write_text(json.dumps(record(uid, name)))
        return file

    def claims(self, words: str = "", code: int = 0) -> Answer:
        return self._ask(f"claims {words} {self.where}", code=code)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Release like a daemon: it holds the lock, and removes what is to be released."""
        ends = threading.Event()

        def release() -> None:
            while not ends.wait(0.01):
                for request in self.directory.glob("*.release"):
                    request.with_suffix(".json").unlink(missing_ok=True)
                    request.unlink()

        with (self.directory.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            thread = threading.Thread(target=release)
            thread.start()
            try:
                yield
            finally:
                ends.set()
                thread.join()


@pytest.fixture
def node(short_directory: Path, ask: Ask) -> Node:
    return Node(short_directory, ask)


def test_claims_are_listed_with_their_devices_and_age(node: Node) -> None:
    node.put()
    devices = "example.com/serial STICK::1"
    assert node.claims().rows == [
        ["CLAIM", "DEVICES", "AGE", "DRIVER", "UID", "STATE"],
        ["default/stick", devices, "3 h 1 min", "genericdp.io", UID, "prepared"],
    ]
    assert violations("claims", node.claims("-o json").data) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 100_000, "maximum recursion depth exceeded"),
        (" " * 5_000_000, "it has more than 4,194,304 bytes"),
    ],
)
def test_a_record_that_takes_much_to_read_is_unreadable(content: str, why: str, node: Node) -> None:
    (node.directory / f"{UID}.json").write_text(content)
    os.mkfifo(node.directory / "z.json")  # never opened
    found, fifo = node.claims("-o json").data["claims"]
    assert why in found["unreadable"]
    assert "it is not a regular file" in fifo["unreadable"]


def test_without_claims_it_says_where_there_are_none(node: Node) -> None:
    said = f"No claim is prepared: there is no record below {node.root}/plugins"
    assert node.claims().out == f"{said}\n"
    shutil.rmtree(node.root / "plugins")
    assert node.claims().out == f"{said}, which does not exist (see --kubelet-root)\n"


def test_a_daemon_releases_a_claim(node: Node) -> None:
    file = node.put()
    with node.daemon():
        said = node.claims(f"release {UID} --yes")
    assert said.lines == [
        "Claim:    default/stick",
        "Devices:  example.com/serial STICK::1",
        f"Pods:     unknown: there is no {node.root}/pod-resources/kubelet.sock",
        "Prepared: 3 h 1 min ago",
        "Driver:   genericdp.io",
        f"Record:   {file}",
        "Waiting up to 15 s for the daemon to release it ...",
        "Released.",
    ]
    assert not file.exists()


def test_without_a_daemon_the_request_stays(node: Node) -> None:
    file = node.put()
    for _ in range(2):
        node.claims(f"release {UID} --yes", code=1)
        assert {*node.directory.iterdir()} == {file, file.with_suffix(".release")}


def test_without_a_terminal_and_yes_nothing_is_released(node: Node) -> None:
    file = node.put()
    assert "there is no terminal to ask at: add --yes" in node.claims(f"release {UID}", 2).err
    assert [*node.directory.iterdir()] == [file]


QUESTION = "Release it? Only if no container uses its devices [y/N] "


@pytest.mark.parametrize(
    ("answer", "code", "last"),
    [("y", 0, "Released."), ("", 1, "Not released.")],
)
def test_a_terminal_is_asked(answer: str, code: int, last: str, node: Node) -> None:
    file = node.put()
    with node.daemon():
        words = ["claims", "release", UID, node.where]
        ended, lines = at_terminal(words, f"{answer}\n")
    assert (ended, lines[-1].removeprefix(QUESTION)) == (code, last)
    assert any(line.startswith(QUESTION) for line in lines)
    assert file.exists() == bool(code)


def at_terminal(words: list[str], typed: str) -> tuple[int, list[str]]:
    """Run a command at a terminal of its own; return its exit code and what it printed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "genericdp", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        printed = b""
        try:
            while part := os.read(ours, 4096):
                printed += part
        except OSError:  # Linux: the other side is closed
            pass
        os.close(ours)
    return process.returncode, printed.decode().replace("\r", "").splitlines()


async def test_the_pods_of_a_claim_are_those_that_the_kubelet_lists(node: Node) -> None:
    node.put()
    node.put(OTHER, name="unused")
    socket = node.root / "pod-resources/kubelet.sock"
    socket.parent.mkdir()
    used = api.DynamicResource(claim_namespace="default", claim_name="stick")
    containers = [api.ContainerResources(name="c", dynamic_resources=[used])]
    pod = api.PodResources(name="listen", namespace="default", containers=containers)
    pods = api.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()

    async def answer(request: bytes, context: object) -> bytes:
        return pods

    async with answering(socket, answer):
        printed = await asyncio.gather(released(node, UID), released(node, OTHER))
    assert "Pods:     default/listen" in printed[0]
    none = "none that the kubelet lists; a pod that was deleted by force may still run"
    assert f"Pods:     {none}" in printed[1]


async def released(node: Node, uid: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", "claims", "release", uid, "--yes", node.where),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 1  # no daemon runs
    return printed.decode().splitlines()
