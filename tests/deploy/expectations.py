"""Rules for every shipped DaemonSet, however it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.command_line import parse
from genericdp.cli.parser import PREFIX

from tests.deploy.rendering import daemon, host_paths, pod_spec

if TYPE_CHECKING:
    from tests.deploy.rendering import Manifest

HOST_PATHS = {
    "/dev": "ro",
    "/sys": "ro",
    "/run/udev": "ro",
    "/var/lib/kubelet/device-plugins": "rw",
}
"""What of the node every pod gets."""

CDI_PATHS = {"/var/run/cdi": "rw", "/etc/cdi": "ro"}
"""What a pod gets besides to write CDI specs."""

STATE = {"/var/lib/genericdp": "rw"}
POD_RESOURCES = {"/var/lib/kubelet/pod-resources": "ro"}


def dra_paths(driver: str = "genericdp.io", root: str = "/var/lib/kubelet") -> dict[str, str]:
    """Give what a pod gets besides to serve resources by DRA."""
    directories = {f"{root}/plugins/{driver}": "rw", f"{root}/plugins_registry": "rw"}
    return directories | {f"{root}/pod-resources": "ro"} | CDI_PATHS


UNPRIVILEGED = {
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
PRIVILEGED = {"privileged": True, "readOnlyRootFilesystem": True}
SURGE = {"maxSurge": "5%", "maxUnavailable": 0}
WITHOUT = {"maxSurge": 0, "maxUnavailable": "5%"}


def expect_daemonset(
    daemonset: Manifest,
    *,
    more_paths: dict[str, str] | None = None,
    privileged: bool = False,
    host_network: bool = False,
    se_linux: dict[str, str] | None = None,
    token: bool = False,
) -> None:
    """Compare a DaemonSet with what is promised of all, but for what is named."""
    pod, container = pod_spec(daemonset), daemon(daemonset)
    assert host_paths(daemonset) == HOST_PATHS | (more_paths or {})
    assert container["securityContext"] == (PRIVILEGED if privileged else UNPRIVILEGED)
    assert pod["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    } | ({"seLinuxOptions": se_linux} if se_linux else {})
    assert pod.get("hostNetwork", False) == host_network
    assert not {"hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"} & {*pod}
    assert pod["automountServiceAccountToken"] is token
    assert pod["enableServiceLinks"] is False
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"]["kubernetes.io/os"] == "linux"
    assert pod["terminationGracePeriodSeconds"] == 15
    assert daemonset["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": WITHOUT if host_network else SURGE,
    }
    _expect_container(container, host="127.0.0.1" if host_network else None)
    _expect_config(daemonset)
    for more in pod.get("initContainers", []):
        assert more["securityContext"] == {
            key: value for key, value in UNPRIVILEGED.items() if key != "privileged"
        }
        assert more["resources"]["limits"].keys() == {"memory"}


def _expect_container(container: Manifest, *, host: str | None) -> None:
    assert container["args"][:3] == [
        "run",
        "--config=/etc/genericdp",
        f"--listen={host or ''}:9733",
    ]
    parse(container["args"])  # raises if it takes one not
    assert container["ports"] == [{"name": "http", "containerPort": 9733, "protocol": "TCP"}]
    # Not in /dev, which is the node's.
    assert container["terminationMessagePath"] == "/tmp/termination-log"
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    for probe, path in (("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")):
        get = {"path": path, "port": "http"} | ({"host": host} if host else {})
        assert container[f"{probe}Probe"]["httpGet"] == get
    # The daemon warns of what it does not know, and nothing of it is needed here.
    # That of the policy is for what is run in the container next to the daemon, which has the flag.
    ours = {e["name"]: e["value"] for e in container["env"] if e["name"].startswith(PREFIX)}
    policy = ours.pop(f"{PREFIX}POLICY", None)
    assert policy is None or f"--policy={policy}" in container["args"]
    assert ours == {}
    assert {entry["name"] for entry in container["env"]} >= {"NODE_NAME"}
    assert {"name": "MALLOC_ARENA_MAX", "value": "1"} in container["env"]


def _expect_config(daemonset: Manifest) -> None:
    # A file mounted by itself never changes in a pod.
    assert not [m for m in daemon(daemonset)["volumeMounts"] if "subPath" in m]
    (mount,) = [m for m in daemon(daemonset)["volumeMounts"] if m["name"] == "config"]
    assert mount == {"name": "config", "mountPath": "/etc/genericdp", "readOnly": True}
    (volume,) = [v for v in pod_spec(daemonset)["volumes"] if v["name"] == "config"]
    # No items: files that are added to the ConfigMap are there, too.
    assert volume["configMap"].keys() == {"name"}
    annotations = daemonset["spec"]["template"]["metadata"].get("annotations", {})
    assert not [key for key in annotations if "checksum" in key], "an edit is not a rollout"
