"""An API server without a cluster: it takes manifests, or says what is wrong with them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.cluster.control_plane import kubeconfig
from tests.deploy.rendering import tool
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.deploy.rendering import Manifest

TOKEN = "of-the-admin"


class ApiServer:
    """Speaks to a server by kubectl."""

    def __init__(self, kubectl: Path, access: Path) -> None:
        self.kubeconfig = access
        self._command = [str(kubectl), f"--kubeconfig={access}"]
        self._environment = os.environ | {"HOME": str(access.parent)}

    def refusals(self, manifests: Sequence[Manifest], *how: str) -> str:
        """Apply these; give what it says against them: nothing, if it takes them."""
        return self.refusal("apply", "--server-side", *how, "-f", "-", given=manifests)

    def refusal(self, *arguments: str, given: Sequence[Manifest] = ()) -> str:
        """Run kubectl; give what the server says against it: nothing, if it was done."""
        text = "\n---\n".join(json.dumps(manifest) for manifest in given)
        ended = self._run(*arguments, given=text)
        assert bool(ended.returncode) == bool(ended.stderr), ended.stderr
        return ended.stderr

    def __call__(self, *arguments: str) -> str:
        """Run kubectl; give what it prints."""
        ended = self._run(*arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def _run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            input=given,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def serving(directory: Path) -> Iterator[ApiServer]:
    """Run etcd and kube-apiserver, on loopback; as any user."""
    etcd, server, kubectl = tool("etcd"), tool("kube-apiserver"), tool("kubectl")
    key = directory / "accounts.key"
    make_key = (str(tool("openssl")), "ecparam", "-name", "prime256v1", "-genkey", "-noout")
    subprocess.run([*make_key, "-out", str(key)], check=True, capture_output=True)
    (directory / "users.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    clients, peers, secure = _free_ports(3)
    store = f"http://127.0.0.1:{clients}"
    with ExitStack() as stack:
        _launch(stack, directory, etcd, f"--data-dir={directory}/etcd", "--unsafe-no-fsync",
                f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
                f"--listen-peer-urls=http://127.0.0.1:{peers}")  # fmt: skip
        running = _launch(
            stack, directory, server, f"--etcd-servers={store}", "--bind-address=127.0.0.1",
            f"--secure-port={secure}", "--advertise-address=127.0.0.1",
            f"--cert-dir={directory}/certificates", f"--token-auth-file={directory}/users.csv",
            "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=198.18.90.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--endpoint-reconciler-type=none", "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
        )  # fmt: skip
        access = {"server": f"https://127.0.0.1:{secure}", "insecure-skip-tls-verify": True}
        (directory / "kubeconfig").write_text(json.dumps(kubeconfig({"token": TOKEN}, access)))
        api = ApiServer(kubectl, directory / "kubeconfig")

        def refusal() -> str:
            assert running.poll() is None, (directory / "kube-apiserver.log").read_text()[-5000:]
            return api.refusal("get", "--raw", "/readyz")

        eventually(refusal, "".__eq__, what="the API server is ready")
        yield api


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for entry in sockets:
            entry.bind(("127.0.0.1", 0))
        return [each_socket.getsockname()[1] for each_socket in sockets]


def _launch(
    stack: ExitStack, directory: Path, program: Path, *arguments: str
) -> subprocess.Popen[bytes]:
    log = stack.enter_context((directory / f"{program.name}.log").open("wb"))
    running = subprocess.Popen([program, *arguments], stdout=log, stderr=log, cwd=directory)
    stack.callback(running.wait)
    stack.callback(running.kill)  # there is nothing to keep
    return running
