"""A node: containerd and a kubelet without a control plane, which runs static pods."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.e2e.cluster.image import pack
from tests.e2e.cluster.sweep import DEVICE_PLUGINS, MARK, sweep
from tests.e2e.cluster.versions import KUBELETS
from tests.e2e.cluster.waiting import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.cluster.numa import View

PAUSE_IMAGE = "localhost/pause:1"
LOOK_IMAGE = "localhost/look:1"
NODE_NAME = "node1"
_PORT = 10255
_REGISTRATIONS = re.compile(
    r'^kubelet_device_plugin_registration_total{resource_name="(.+)"} (.+)$', re.MULTILINE
)
_HERE = Path(__file__).parent

# The native snapshotter copies: it needs no overlay filesystem, and the images are small.
# restrict_oom_score_adj: without CAP_SYS_RESOURCE no one can lower a container's OOM score.
_CONTAINERD = """\
version = 3
root = "{directory}/containerd/root"
state = "{directory}/containerd/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.differ.v1.erofs"]
[grpc]
  address = "{directory}/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/containerd/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{cdi}"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    container_annotations = ["*", "*/*"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{directory}/cni"
"""

_KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: {directory}/manifests
fileCheckFrequency: 1s
syncFrequency: 5s
podLogsDir: {directory}/logs
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://{directory}/containerd/containerd.sock
failSwapOn: false
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
topologyManagerPolicy: {policy}
address: {address}
readOnlyPort: {port}
evictionHard: {{memory.available: "1Mi", nodefs.available: "1%", imagefs.available: "1%"}}
"""
# Kubelets know this key from 1.31 on, and from 1.35 on refuse to start on cgroup v1 without it.
_CGROUP_V1 = "failCgroupV1: false\n"
_CGROUP_V1_SINCE = 31


@dataclass(frozen=True, kw_only=True, slots=True)
class Binaries:
    """The programs, where the build left them."""

    version: str
    """Of the kubelet."""
    kubelet: Path
    containerd: Path


class Node:
    """Owns the processes and the directory of one node."""

    address = "127.0.0.1"
    """Where its kubelet listens."""

    def __init__(self, directory: Path, binaries: Binaries) -> None:
        self.directory = directory
        self.version = binaries.version
        self._bin = binaries
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        kubelet = [str(self._bin.kubelet / "kubelet"), "--version"]
        says = subprocess.run(kubelet, capture_output=True, text=True, check=True).stdout.strip()
        assert says == f"Kubernetes v{self.version}", f"{says}: not {self.version}"
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._running)):
            self._end(name, signal.SIGKILL)
        sweep(self.directory)

    @property
    def cdi_directory(self) -> Path:
        """Return where its containerd looks for CDI specs."""
        return self.directory / "cdi"

    def _start(self) -> None:
        self._start_containerd()
        self.start_kubelet()

    def _start_containerd(self) -> None:
        for name in ("containerd", "cni", "cdi", "manifests", "logs"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "containerd.toml").write_text(
            _CONTAINERD.format(directory=self.directory, pause=PAUSE_IMAGE, cdi=self.cdi_directory)
        )
        containerd = str(self._bin.containerd / "containerd")
        self._launch("containerd", containerd, "-c", "containerd.toml")
        eventually(self._containerd_answers, what="containerd answers")
        self._make_image(PAUSE_IMAGE, "/bin/busybox", "sleep", "2147483647")
        self._make_image(LOOK_IMAGE, "/bin/busybox", "sh", "/bin/look")

    def start_kubelet(self, policy: str = "none", view: View | None = None) -> None:
        """Start it and wait until it takes registrations.

        ``policy`` is its topology manager's, on the machine that it sees.
        """
        left = _socket()  # by one that was killed
        (self.directory / "kubelet.yaml").write_text(self._kubelet_config(policy))
        flags = (f"{flag}={value}" for flag, value in self._kubelet_arguments().items())
        command = (str(self._bin.kubelet / "kubelet"), *flags)
        kubelet = self._launch("kubelet", *(view.command(*command) if view else command))

        def serves() -> bool:
            if kubelet.poll() is not None:
                raise AssertionError(f"the kubelet ended: {self.log('kubelet')[-3000:]}")
            return _socket() not in {None, left}

        eventually(serves, what="the kubelet takes registrations")

    def _kubelet_config(self, policy: str) -> str:
        config = _KUBELET.format(
            directory=self.directory, policy=policy, address=self.address, port=_PORT
        )
        known = int(self.version.split(".")[1]) >= _CGROUP_V1_SINCE
        return config + _CGROUP_V1 if known else config

    def _kubelet_arguments(self) -> dict[str, str]:
        return {
            "--config": "kubelet.yaml",
            "--root-dir": str(self.directory / "kubelet"),
            "--cert-dir": str(self.directory / "certificates"),
            "--hostname-override": NODE_NAME,
            "--v": "2",
        }

    def kill_kubelet(self) -> None:
        """End it as a crash does."""
        self._end("kubelet", signal.SIGKILL)

    def stop_kubelet(self) -> None:
        """End it in good order."""
        self._end("kubelet", signal.SIGTERM)

    @contextmanager
    def stopped_kubelet(self) -> Iterator[None]:
        """Hold it up, as an overloaded machine does: the kernel takes calls, no one answers."""
        kubelet = self._running["kubelet"]
        kubelet.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            kubelet.send_signal(signal.SIGCONT)

    @property
    def generation(self) -> str:
        """Give which one of the contract its kubelet is of: ``A`` or ``B``."""
        return KUBELETS[self.version]

    def log(self, name: str) -> str:
        """Give what ``kubelet`` or ``containerd`` has logged."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def pods(self) -> list[dict[str, Any]]:
        """Give the kubelet's pods with their state."""
        found: list[dict[str, Any]] = json.loads(self._ask_kubelet("pods")).get("items") or []
        return found

    def registrations(self) -> dict[str, int]:
        """Give how often plugins have called Register since the kubelet started (MET-1)."""
        found = _REGISTRATIONS.findall(self._ask_kubelet("metrics"))
        return {resource: int(float(times)) for resource, times in found}

    def _ask_kubelet(self, path: str) -> str:
        """Ask it until it answers: it listens a while after it has started."""

        def text() -> str:
            url = f"http://{self.address}:{_PORT}/{path}"
            try:
                with urllib.request.urlopen(url, timeout=30) as answer:
                    return str(answer.read().decode())
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                return ""

        return eventually(text, what=f"the kubelet answers /{path}")

    def ctr(self, *words: str, check: bool = True) -> str:
        """Ask containerd; give what it prints."""
        socket = str(self.directory / "containerd/containerd.sock")
        command = [str(self._bin.containerd / "ctr"), "-a", socket, "-n", "k8s.io", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        if check and done.returncode:
            raise AssertionError(f"ctr {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def running(self) -> dict[str, int]:
        """Give the ids of the containers that run, sandboxes too, with their first process."""
        tasks = (line.split() for line in self.ctr("tasks", "ls").splitlines()[1:])
        return {task: int(process_id) for task, process_id, state in tasks if state == "RUNNING"}

    def _containerd_answers(self) -> bool:
        return "Server" in self.ctr("version", check=False)

    def _make_image(self, name: str, *command: str) -> None:
        rootfs = self.directory / "image"
        (rootfs / "bin").mkdir(parents=True)
        shutil.copy2("/bin/busybox", rootfs / "bin/busybox")
        shutil.copy2(_HERE / "look", rootfs / "bin/look")
        for applet in ("cat", "cp", "ls"):
            (rootfs / "bin" / applet).symlink_to("busybox")
        archive = self.directory / "image.tar"
        pack(archive, name, rootfs, command)
        self.load_image(archive)
        shutil.rmtree(rootfs)
        archive.unlink()

    def load_image(self, archive: Path) -> None:
        """Import an image that ``docker save`` or a like tool has written."""
        self.ctr("images", "import", "--local", "--snapshotter", "native", str(archive))

    def _launch(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        path = f"{self._bin.containerd}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=self.directory,
                env={**os.environ, "PATH": path, MARK: f"{self.directory}/"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._running[name]

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        process.wait(timeout=PATIENCE_SECONDS)


def _socket() -> tuple[int, int] | None:
    """Show one kubelet's socket from the next: the inode number is often used again."""
    try:
        status = (DEVICE_PLUGINS / "kubelet.sock").stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns
