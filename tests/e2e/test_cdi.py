"""Devices that come by CDI: containers that are not root, and devices that are replugged."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.scenarios import START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
BY_CDI = "example.com/by-cdi"
BY_KUBELET = "example.com/by-kubelet"
_RESOURCE = """\
  - name: example.com/by-BY
    match:
      - udev: {subsystem: block, name: "loop7[0-9]", attributes: {loop/backing_file: "*/by-BY-*"}}
    values:
      file: {text: $(attribute.loop/backing_file), regex: "by-BY-(.*)"}
    id: $(value.file)
    inject:
      by: BY
      devices:
        - {path: $(device.path), containerPath: /dev/image}
      env: {IMAGE: $(device.path)}
"""
# To the spec of a pod.
USER = {"securityContext": {"runAsUser": 1000, "runAsGroup": 1001}}


@pytest.fixture
def config() -> str:
    return START + "".join(_RESOURCE.replace("BY", by) for by in ("cdi", "kubelet"))


def image_in(directory: Path, name: str) -> Path:
    image = directory / name
    image.write_bytes(name.encode().ljust(8192, b"."))
    return image


def test_a_container_that_is_not_root_uses_its_device_by_cdi_alone(
    bench: Bench, tmp_path: Path
) -> None:
    with ExitStack() as ends:
        ends.enter_context(loop.plugged(70, image_in(tmp_path, "by-cdi-a")))
        ends.enter_context(loop.plugged(71, image_in(tmp_path, "by-kubelet-a")))
        bench.await_listed(BY_CDI, "a")
        bench.await_listed(BY_KUBELET, "a")
        pods = [
            bench.pod("by-kubelet", {BY_KUBELET: 1}, **USER),
            bench.pod("by-cdi", {BY_CDI: 1}, **USER),
        ]
        without, given = (pod.container() for pod in pods)

        sight = without.saw()
        assert sight.nodes["/dev/image"] == "b 7 47"
        assert sight.reads["/dev/image"] == "Permission denied"
        assert sight.writes["/dev/image"] == "Permission denied"

        sight = given.saw()
        assert sight.nodes["/dev/image"] == "b 7 46"
        assert sight.env["IMAGE"] == "/dev/loop70", "all but the nodes comes as ever"
        assert given.run("stat", "-c", "%u:%g", "/dev/image") == "1000:1001\n"
        assert given.run("head", "-c", "8", "/dev/image") == "by-cdi-a"
        given.run("sh", "-c", "echo written by 1000 >/dev/image")
        assert loop.node_of(70).read_bytes().startswith(b"written by 1000\n")


def test_a_restarted_container_gets_the_node_of_a_replugged_device(
    bench: Bench, tmp_path: Path
) -> None:
    image, other = image_in(tmp_path, "by-cdi-a"), image_in(tmp_path, "by-cdi-other")
    with loop.plugged(70, image):
        bench.await_listed(BY_CDI, "a")
        pod = bench.pod("kept", {BY_CDI: 1}, **USER, restartPolicy="Always")
        container = pod.container()
        assert container.run("head", "-c", "12", "/dev/image") == "by-cdi-a...."
    bench.await_listed(BY_CDI)
    # Its node is now that of another device, which the pod must not get.
    with loop.plugged(70, other), loop.plugged(75, image):
        bench.await_listed(BY_CDI, "a", "other")
        container.kill()
        container = pod.container(restarts=1)
        sight = container.look()
        assert sight.nodes["/dev/image"] == "b 7 4b"
        assert sight.env["IMAGE"] == "/dev/loop70", (
            "the kubelet keeps the answer of the first start"
        )
        assert container.run("head", "-c", "12", "/dev/image") == "by-cdi-a...."
        container.run("sh", "-c", "echo again >/dev/image")
        assert loop.node_of(75).read_bytes().startswith(b"again\n")
