"""Rights of the daemon's pods: those that all have, and more by words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.cli.command_line import parse
from genericdp.cli.parser import PREFIX

from tests.deploy.rendering import daemon, host_paths, pod_spec

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.deploy.rendering import Manifest

ALWAYS = {
    "/dev": "ro",
    "/sys": "ro",
    "/run/udev": "ro",
    "/var/lib/kubelet/device-plugins": "rw",
}
CDI = {"/var/run/cdi": "rw", "/etc/cdi": "ro"}
POD_RESOURCES = {"/var/lib/kubelet/pod-resources": "ro"}


def of_driver(driver: str) -> dict[str, str]:
    """Give what a pod gets to serve resources by DRA."""
    directories = {f"plugins/{driver}": "rw", "plugins_registry": "rw"}
    return {f"/var/lib/kubelet/{name}": how for name, how in directories.items()}


PATHS = {
    "state": {"/var/lib/genericdp": "rw"},
    "pod-resources": POD_RESOURCES,
    "cdi": CDI,
    "dra": of_driver("genericdp.io") | POD_RESOURCES | CDI,
    "driver": {"/opt/driver": "ro"},
}
"""Directories of the node that go with a word."""
UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
PRIVILEGED = {"privileged": True, "readOnlyRootFilesystem": True}


def expect_rights(daemonset: Manifest, rights: Collection[str]) -> None:
    """Compare a DaemonSet with what is promised of all, but for these."""
    pod, container = pod_spec(daemonset), daemon(daemonset)
    paths = [found for right, found in PATHS.items() if right in rights]
    assert host_paths(daemonset) == {path: how for s in (ALWAYS, *paths) for path, how in s.items()}
    unprivileged = UNPRIVILEGED | {"privileged": False}
    assert container["securityContext"] == (PRIVILEGED if "privileged" in rights else unprivileged)
    se_linux: dict[str, Any] = {"seLinuxOptions": {"type": "container_device_plugin_t"}}
    assert pod["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    } | (se_linux if "selinux" in rights else {})
    host_network = "host-network" in rights
    assert pod.get("hostNetwork", False) == host_network
    assert not {"hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"} & {*pod}
    assert pod["automountServiceAccountToken"] is ("dra" in rights)
    assert pod["enableServiceLinks"] is False
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"]["kubernetes.io/os"] == "linux"
    assert pod["terminationGracePeriodSeconds"] == 15
    share = ("5%", 0) if not host_network else (0, "5%")
    limits = dict(zip(("maxSurge", "maxUnavailable"), share, strict=True))
    update = {"type": "RollingUpdate", "rollingUpdate": limits}
    assert daemonset["spec"]["updateStrategy"] == update
    _expect_container(container, host="127.0.0.1" if host_network else None)
    _expect_config(daemonset)
    for more in pod.get("initContainers", []):
        assert more["securityContext"] == UNPRIVILEGED
        assert more["resources"]["limits"].keys() == {"memory"}


def _expect_container(container: Manifest, *, host: str | None) -> None:
    args = container["args"]
    assert args[:3] == ["run", "--config=/etc/genericdp", f"--listen={host or ''}:9733"]
    parse(args)  # raises if it takes one not
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
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    ours = {name: value for name, value in env.items() if name.startswith(PREFIX)}
    policy = ours.pop(f"{PREFIX}POLICY", None)
    assert (policy is not None) == any(word.startswith("--policy=") for word in args)
    assert policy is None or f"--policy={policy}" in args
    assert ours == {}
    assert env["MALLOC_ARENA_MAX"] == "1"
    assert "NODE_NAME" in env


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
