"""Pods that claim devices, and the claims."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.cluster.node import LOOK_IMAGE
from tests.e2e.cluster.pods import sight_of
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.cluster.cluster import Cluster
    from tests.e2e.cluster.pods import Sight

Manifest = dict[str, Any]


def request(name: str, device_class: str, expression: str = "", **more: object) -> Manifest:
    """Give a request for one device of a class; the CEL expression selects among them."""
    exactly: Manifest = {"deviceClassName": device_class, **more}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Manifest) -> Manifest:
    """Give a claim with these requests."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": list(requests)}},
    }


def template(name: str, *requests: Manifest) -> Manifest:
    """Give a template: each pod that names it gets a claim of its own."""
    made = claim(name, *requests)
    return made | {"kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def container(
    name: str = "main",
    *,
    claims: Sequence[Mapping[str, str]] = (),
    limits: Mapping[str, int] | None = None,
    once: bool = False,
) -> Manifest:
    """Give a container that looks around, and then ends (``once``) or sleeps."""
    resources: Manifest = {"claims": list(claims)} if claims else {}
    if limits:
        resources["limits"] = {resource: str(count) for resource, count in limits.items()}
    return {
        "name": name,
        "image": LOOK_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sh", "/bin/look", *(["once"] if once else [])],
        "resources": resources,
    }


def user(claimed: Manifest, name: str = "") -> tuple[Manifest, Manifest]:
    """Give a claim, and a pod whose container gets all of it; by default, both have one name."""
    called: str = claimed["metadata"]["name"]
    main = container(claims=[{"name": "devices"}])
    return claimed, pod(name or called, main, claims={"devices": {"resourceClaimName": called}})


class Pod:
    """A pod, by its name."""

    def __init__(self, cluster: Cluster, name: str, namespace: str = "default") -> None:
        self.name = name
        self.namespace = namespace
        self._cluster = cluster

    def found(self) -> Manifest:
        """Give the object; empty if there is not one."""
        return self._cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{self.name}")

    def is_running(self) -> bool:
        """Show whether all of its containers run."""
        return bool(self.found().get("status", {}).get("phase") == "Running")

    def await_running(self) -> Manifest:
        """Wait until its containers run; give the object."""
        self._await(self.is_running, f"{self.name} runs")
        return self.found()

    def await_pending(self, *words: str) -> str:
        """Wait until the scheduler has found no node for it and says these words; give them all."""

        def said() -> str:
            conditions = self.found().get("status", {}).get("conditions", ())
            return next(
                (
                    condition.get("message", "")
                    for condition in conditions
                    if condition["type"] == "PodScheduled"
                ),
                "",
            )

        return eventually(
            said,
            lambda text: bool(text) and all(word in text for word in words),
            what=f"{self.name} stays Pending because of {words}",
        )

    def delete(self) -> None:
        """Request its end, without waiting."""
        self._cluster.kubectl("-n", self.namespace, "delete", "pod", self.name, "--wait=false")

    def is_gone(self) -> bool:
        """Show whether there is not a such pod."""
        return not self.found()

    def await_gone(self) -> None:
        """Wait until it has ended and nothing is left of it."""
        self._await(self.is_gone, f"no {self.name}")

    def _await(self, look: Callable[[], bool], what: str) -> None:
        try:
            eventually(look, what=what)
        except AssertionError as error:
            error.add_note(self.described())
            raise

    def saw(self, container: str = "main") -> Sight:
        """Give what a container printed when it started."""
        words = ("-n", self.namespace, "logs", self.name, f"--container={container}")
        return sight_of(
            eventually(
                lambda: self._cluster.kubectl(*words, check=False),
                lambda text: text.endswith("end\n"),
                what=f"{container} of {self.name} has looked around",
            )
        )

    def disk(self) -> str:
        """Give the one loop device that its container sees, by its name."""
        (disk,) = (node.removeprefix("/dev/") for node in self.saw().nodes if "loop" in node)
        return disk

    def containers(self) -> dict[str, int]:
        """Give the first process of each container that runs, by the container's name."""
        running = self._cluster.running()
        ids = {
            status["name"]: status.get("containerID", "").removeprefix("containerd://")
            for status in self.found()["status"]["containerStatuses"]
        }
        return {name: running[device_id] for name, device_id in ids.items() if device_id in running}

    def sees(self, *words: str) -> str:
        """Run busybox in its container; give what it prints."""
        command = ("exec", self.name, "--", "/bin/busybox", *words)
        return self._cluster.kubectl("-n", self.namespace, *command)

    def described(self) -> str:
        """Give all that helps to see why it does not run."""
        return self._cluster.kubectl(
            "-n", self.namespace, "describe", "pod", self.name, check=False
        )


def pod(
    name: str,
    *containers: Manifest,
    claims: Mapping[str, Mapping[str, str]] | None = None,
    init: Sequence[Manifest] = (),
    namespace: str = "default",
) -> Manifest:
    """Give a pod; ``claims`` are the claims and templates that its containers call so."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [
                {"name": called, **source} for called, source in (claims or {}).items()
            ],
            "initContainers": list(init),
            "containers": list(containers),
        },
    }


def apply(cluster: Cluster, *manifests: Manifest) -> None:
    """Make these objects."""
    cluster.kubectl("apply", "-f", "-", given=_list_of(manifests))


def delete(cluster: Cluster, *manifests: Manifest) -> None:
    """Have these objects end, all at once, and wait until they are missing."""
    words = ("delete", "--ignore-not-found", "--timeout=300s", "-f", "-")
    cluster.kubectl(*words, given=_list_of(manifests))


@contextmanager
def consumer(cluster: Cluster, name: str, resource: str) -> Iterator[Pod]:
    """Make a pod that requests one device of a resource."""
    made = pod(name, container(limits={resource: 1}))
    apply(cluster, made)
    try:
        yield Pod(cluster, name)
    finally:
        delete(cluster, made)


def _list_of(manifests: Sequence[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
