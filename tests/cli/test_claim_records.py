"""``genericdp claims``: records of prepared claims, listed and released."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
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
DRIVER = "genericdp.io"


def hold(share: str = "STICK::1", resource: str = "example.com/serial") -> dict[str, Any]:
    return {
        "resource": resource,
        "id": share.partition("::")[0],
        "shares": [share],
        "replicas": 2,
        "exclusive": True,
        "identities": [
            {
                **dict.fromkeys(("location", "part", "model", "kernelName"), "x"),
                **dict.fromkeys(("unreadable", "ambiguous"), False),
                "unique": {},
            }
        ],
    }


def record(uid: str = UID, *, hours: float = 3, **more: object) -> dict[str, Any]:
    return {
        "version": 4,
        "uid": uid,
        "namespace": "default",
        "name": "stick",
        "driver": DRIVER,
        "bootID": "",
        "prepared": True,
        "perRequest": False,
        "podClaim": "",
        "preparedAt": time.time() - hours * 3600 - 60,  # noqa: TID251  # as in records
        "holds": [hold()],
        **dict.fromkeys(("results", "devices", "edits", "requests"), ()),
        **more,
    }


class Node:
    """The kubelet's directory, with records in it."""

    def __init__(self, root: Path, ask: Ask) -> None:
        self.root = root
        self._ask = ask

    def directory(self, driver: str = DRIVER) -> Path:
        directory = self.root / "plugins" / driver / "claims"
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def put(self, uid: str = UID, *, driver: str = DRIVER, **more: Any) -> Path:
        file = self.directory(driver) / f"{uid}.json"
        file.write_text(json.dumps(record(uid, driver=driver, **more)))
        return file

    @property
    def where(self) -> str:
        return f"--kubelet-root={self.root}"

    def claims(self, words: str = "", code: int = 0) -> Answer:
        return self._ask(f"claims {words} {self.where}", code=code)

    def listed(self, words: str = "") -> list[dict[str, Any]]:
        document = self.claims(f"-o json {words}").data
        assert violations("claims", document) == []
        return [*document["claims"]]

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Release like a daemon: it holds the lock, and removes what is to be released."""
        directory, ends = self.directory(), threading.Event()

        def release() -> None:
            while not ends.wait(0.01):
                for request in directory.glob("*.release"):
                    request.with_suffix(".json").unlink(missing_ok=True)
                    request.unlink()

        with (directory.parent / "lock").open("w") as lock:
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
    node.put(holds=[hold(), hold("fuse", "example.com/fuse")], name="a\x1b[2Jb\n")
    node.put(OTHER, driver="dra.home.lab", name="plain", hours=50, holds=[])
    devices = "example.com/serial STICK::1, example.com/fuse fuse"
    assert node.claims().rows == [
        ["CLAIM", "DEVICES", "AGE", "DRIVER", "UID", "STATE"],
        ["default/plain", "-", "2 d 2 h", "dra.home.lab", OTHER, "prepared"],
        [r"default/a\x1b[2Jb\n", devices, "3 h 1 min", "genericdp.io", UID, "prepared"],
    ]


def test_data_has_all_of_a_record_and_one_driver_alone_can_be_listed(node: Node) -> None:
    file = node.put(preparedAt=1_700_000_000)
    (file.parent / f"{UID}.release").touch()
    node.put(OTHER, driver="dra.home.lab")
    assert {claim["uid"] for claim in node.listed()} == {UID, OTHER}
    assert node.listed(f"--dra-driver={DRIVER}") == [
        {
            "uid": UID,
            "namespace": "default",
            "name": "stick",
            "driver": DRIVER,
            "devices": [{"resource": "example.com/serial", "share": "STICK::1"}],
            "preparedAt": "2023-11-14T22:13:20.000+00:00",
            "file": str(file),
            "unreadable": "",
            "releaseRequested": True,
        }
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is not JSON at line 1"),
        (json.dumps({"uid": "other"}), "its UID is 'other'"),
        ("[" * 100_000, "maximum recursion depth exceeded"),
        (" " * 5_000_000, "it has more than 4,194,304 bytes"),
    ],
)
def test_a_record_that_cannot_be_read_is_listed_with_the_reason(
    content: str, why: str, node: Node
) -> None:
    (node.directory() / f"{UID}.json").write_text(content)
    (found,) = node.listed()
    assert found["uid"] == UID
    assert why in found["unreadable"]
    assert f"{UID}  unreadable: it is damaged" in node.claims().out


def test_what_is_not_a_file_is_never_opened(node: Node) -> None:
    directory = node.directory()
    os.mkfifo(directory / "fifo.json")
    (directory / "link.json").symlink_to("/dev/zero")
    (directory / "directory.json").mkdir()
    found = {claim["uid"]: claim["unreadable"] for claim in node.listed()}
    assert found.keys() == {"fifo", "directory", "link"}
    assert all("it is not a regular file" in why for why in found.values())


def test_without_claims_it_says_where_there_are_none(node: Node) -> None:
    said = f"No claim is prepared: there is no record below {node.root}/plugins"
    assert node.claims().out == f"{said}, which does not exist (see --kubelet-root)\n"
    node.directory()
    assert node.claims().out == f"{said}\n"


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
        said = node.claims(f"release {UID} --yes", code=1).lines[-1]
        expected = "it will be released when the daemon starts."
        assert said == f"No daemon serves genericdp.io: {expected}"
    (found,) = node.listed()
    assert found["releaseRequested"]
    assert file.exists()


def test_an_unreadable_record_can_be_released(node: Node) -> None:
    (node.directory() / f"{UID}.json").write_text("{}")
    with node.daemon():
        printed = node.claims(f"release {UID} --yes").out
    assert "Claim:    unknown\nDevices:  unknown\nPods:     unknown\n" in printed
    assert ".json is unreadable: it is damaged: " in printed


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (UID, 2, "there is no terminal to ask at: add --yes"),
        (f"{UID[:-1]}2 --yes", 1, f"(did you mean {UID}?)"),
        ("../x --yes", 1, f"there is no record of a claim '../x' (there are: {UID})"),
    ],
)
def test_what_cannot_be_released_stays(words: str, code: int, said: str, node: Node) -> None:
    file = node.put()
    assert said in node.claims(f"release {words}", code).err
    assert [*file.parent.iterdir()] == [file]


def test_a_claim_of_two_drivers_needs_the_driver(node: Node) -> None:
    node.put()
    node.put(driver="dra.home.lab")
    assert "choose one with --dra-driver" in node.claims(f"release {UID} --yes", code=2).err
    with node.daemon():
        node.claims(f"release {UID} --yes --dra-driver={DRIVER}")


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
