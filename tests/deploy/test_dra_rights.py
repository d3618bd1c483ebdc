"""The rights of components/dra at a real API server; no other client is hindered."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from genericdp.apiserver import SLICES, ApiClient, claim_path, of_kubeconfig
from genericdp.dra.publisher import Publisher, StoredSlices
from genericdp.observed import Observed
from genericdp.settings import DRIVER

from tests.deploy.apiserver import ApiServer, serving
from tests.deploy.rendering import only, render_kustomize, tool, with_components
from tests.devices.making import decide, node, resource
from tests.e2e.cluster.waiting import eventually
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.deploy.rendering import Manifest

pytestmark = pytest.mark.deploy

ACCOUNT = "system:serviceaccount:genericdp:genericdp"
NODE_NAME = "authentication.kubernetes.io/node-name"
OPERATIONS = ("CREATE", "UPDATE", "DELETE")
WHAT_IT_MAY = {
    "nodes": "[get]",
    "resourceclaims.resource.k8s.io": "[get]",
    "resourceslices.resource.k8s.io": "[get list watch create update delete]",
}
SERIAL = resource("serial", "/dev/ttyUSB*")
USB = [node(f"/dev/ttyUSB{number}", (188, number)) for number in range(130)]
KUBELET = ("--as=system:node:ours", "--as-group=system:nodes")
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "claim", "namespace": "default"},
    "spec": {
        "devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "example.com"}}]}
    },
}


class Cluster(NamedTuple):
    """An API server, what is active there, and how to be whom."""

    api: ApiServer
    manifests: list[Manifest]
    daemon: str
    """``--token=`` of a pod of the daemon on the node ``ours``."""

    unbound: str
    """The same of a token that is bound to nothing."""

    other_driver: str
    """The same of another driver's account, with the same rights."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = with_components(tmp_path_factory.mktemp("component"), ["dra"])
    manifests = render_kustomize(tool("kubectl"), directory)
    with serving(tmp_path_factory.mktemp("api")) as api:
        api("apply", "-k", str(directory))
        nodes = [_object("Node", name, namespace=None) for name in ("ours", "theirs")]
        assert api.refusals([*nodes, _pod(manifests), CLAIM]) == ""
        to_pod = ("--bound-object-kind=Pod", "--bound-object-name=daemon")
        daemon = _token(api, "genericdp", "genericdp", *to_pod)
        unbound = _token(api, "genericdp", "genericdp")
        api("create", "serviceaccount", "other", "--namespace=default")
        rights = ("--clusterrole=genericdp-dra", "--serviceaccount=default:other")
        api("create", "clusterrolebinding", "other", *rights)
        other = _token(api, "default", "other")
        _await_rights(api, unbound, "the token names no node")
        _await_rights(api, other, "")
        yield Cluster(api, manifests, daemon, unbound, other)


def _object(kind: str, name: str, namespace: str | None, **content: Any) -> Manifest:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata} | content


def _pod(manifests: list[Manifest]) -> Manifest:
    spec = only(manifests, "DaemonSet")["spec"]["template"]["spec"]
    return _object("Pod", "daemon", "genericdp", spec=spec | {"nodeName": "ours"})


def _token(api: ApiServer, namespace: str, account: str, *bound: str) -> str:
    token = api("create", "token", account, f"--namespace={namespace}", *bound)
    return f"--token={token.strip()}"


def _await_rights(api: ApiServer, who: str, said: str) -> None:
    """Rights and the policy are active a moment after they were made, in any order."""
    foreign = _slice("tried", node="theirs", driver=DRIVER if said else "other.example.com")
    tried = ("create", "--dry-run=server", who, "-f", "-")
    eventually(
        lambda: api.refusal(*tried, given=[foreign]),
        lambda refusal: said in refusal if said else not refusal,
        what=f"{who[:20]} gets {said!r}",
    )


def _slice(name: str, *, node: str | None = "ours", driver: str = DRIVER) -> Manifest:
    where: Manifest = {"nodeName": node} if node else {"allNodes": True}
    pool = {"name": node or "all", "generation": 1, "resourceSliceCount": 1}
    spec = where | {"driver": driver, "pool": pool, "devices": [{"name": "one"}]}
    content = _object("ResourceSlice", name, namespace=None, spec=spec)
    return content | {"apiVersion": "resource.k8s.io/v1"}


def _write(api: ApiServer, operation: str, content: Manifest, *who: str) -> str:
    """Do it as someone; give what the server says against it."""
    name = content["metadata"]["name"]
    if operation == "CREATE":
        return api.refusal("create", "-f", "-", *who, given=[content])
    if operation == "DELETE":
        return api.refusal("delete", "--raw", f"{SLICES}/{name}", *who)
    changed = content | {"spec": content["spec"] | {"devices": [{"name": "two"}]}}
    return api.refusal("replace", "-f", "-", *who, given=[changed])


@pytest.fixture
def prepared(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    """``prepared(operation, slice)`` has it there, if it is not to be created."""
    made = []

    def prepare(operation: str, content: Manifest) -> Manifest:
        made.append(content["metadata"]["name"])
        if operation != "CREATE":
            assert _write(cluster.api, "CREATE", content) == ""
        return content

    yield prepare
    for name in made:
        cluster.api("delete", "resourceslice", name, "--ignore-not-found")


def test_the_pods_token_names_its_node(cluster: Cluster) -> None:
    who = json.loads(cluster.api("auth", "whoami", "-o", "json", cluster.daemon))
    assert who["status"]["userInfo"]["username"] == ACCOUNT
    assert who["status"]["userInfo"]["extra"][NODE_NAME] == ["ours"]
    pod = json.loads(cluster.api("get", "pod", "daemon", "--namespace=genericdp", "-o", "json"))
    (container,) = pod["spec"]["containers"]
    paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "/var/run/secrets/kubernetes.io/serviceaccount" in paths


def test_it_may_do_all_that_it_needs(cluster: Cluster) -> None:
    api, daemon, ours = cluster.api, cluster.daemon, _slice("all-that-it-needs")
    assert _write(api, "CREATE", ours, daemon) == ""
    assert _write(api, "UPDATE", ours, daemon) == ""
    selected = f"fieldSelector=spec.nodeName%3Dours%2Cspec.driver%3D{DRIVER}"
    listed = json.loads(api("get", "--raw", f"{SLICES}?{selected}", daemon))
    assert [item["metadata"]["name"] for item in listed["items"]] == ["all-that-it-needs"]
    api("get", "--raw", f"{SLICES}/all-that-it-needs", daemon)
    since = f"watch=1&timeoutSeconds=1&resourceVersion={listed['metadata']['resourceVersion']}"
    api("get", "--raw", f"{SLICES}?{since}&{selected}", daemon)
    assert _write(api, "DELETE", ours, daemon) == ""
    api("get", "node", "ours", daemon)
    api("get", "resourceclaim", "claim", "--namespace=default", daemon)


async def test_the_publisher_gets_by_with_it(cluster: Cluster, tmp_path: Path) -> None:
    kubeconfig = cluster.api.kubeconfig_of(cluster.daemon.removeprefix("--token="), tmp_path)
    async with ApiClient(partial(of_kubeconfig, kubeconfig)) as client:
        await client.get(claim_path("default", "claim"))
        async with _publishing(client, "ours") as publisher:
            for count, slices in ((130, 3), (100, 2)):
                publisher.wanted.value = decide([SERIAL], USB[:count])
                await _until_published(publisher, slices, count)
            publisher.wanted.value = {}
            await poll_until(lambda: not publisher.state.value)
        async with _publishing(client, "theirs") as publisher:
            publisher.wanted.value = decide([SERIAL], USB)
            said = 'of node "theirs" is not for node ours to write'
            await poll_until(lambda: said in str(publisher.state.value))


@asynccontextmanager
async def _publishing(client: ApiClient, node_name: str) -> AsyncIterator[Publisher]:
    slices = StoredSlices(client, driver=DRIVER, node_name=node_name)
    publisher = Publisher(slices, wanted=Observed(None), registered=Observed(True))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(publisher.run())
        yield publisher
        running.cancel()


async def _until_published(publisher: Publisher, slices: int, devices: int) -> None:
    def is_so() -> bool:
        specs = [entry["spec"] for entry in (publisher.slices.by_name.value or {}).values()]
        return (
            publisher.state.value == {"example.com/serial": ""}
            and len(specs) == slices
            and sum(len(spec.get("devices") or ()) for spec in specs) == devices
        )

    await poll_until(is_so)


def test_it_may_do_nothing_else(cluster: Cluster) -> None:
    api, daemon = cluster.api, cluster.daemon
    api("create", "serviceaccount", "nobody", "--namespace=genericdp")
    nobody = _rights(api, _token(api, "genericdp", "nobody"))
    assert _rights(api, daemon) - nobody == {*WHAT_IT_MAY.items()}
    for refused in (
        ("get", "resourceclaims", "--all-namespaces"),
        ("get", "secrets", "--namespace=genericdp"),
        ("get", "nodes"),
        ("get", "pods", "--namespace=genericdp"),
        ("delete", "--raw", SLICES),
    ):
        assert "Forbidden" in api.refusal(*refused, daemon), refused


def _rights(api: ApiServer, who: str) -> set[tuple[str, str]]:
    lines = api("auth", "can-i", "--list", "--namespace=genericdp", who).splitlines()[1:]
    return {(line.split()[0], line[line.rindex("[") :]) for line in lines}


FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "another node": ({"node": "theirs"}, 'of node "theirs" is not for node ours to write'),
    "all nodes": ({"node": None}, 'of node "" is not for node ours to write'),
    "another driver": (
        {"driver": "other.example.com"},
        "of driver other.example.com is not for genericdp.io to write",
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("what", FOREIGN)
def test_it_writes_no_slice_but_its_own(
    what: str, operation: str, cluster: Cluster, prepared: Any
) -> None:
    how, said = FOREIGN[what]
    content = prepared(operation, _slice("foreign", **how))
    assert said in _write(cluster.api, operation, content, cluster.daemon)


def test_it_cannot_make_a_foreign_slice_its_own(cluster: Cluster, prepared: Any) -> None:
    prepared("UPDATE", _slice("foreign", node="theirs"))
    refused = _write(cluster.api, "UPDATE", _slice("foreign"), cluster.daemon)
    assert "field is immutable" in refused


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_token_that_names_no_node_writes_nothing(
    operation: str, cluster: Cluster, prepared: Any
) -> None:
    content = prepared(operation, _slice("unbound", node=None))
    for who in (cluster.unbound, f"--as={ACCOUNT}"):
        assert "the token names no node" in _write(cluster.api, operation, content, who)


def test_a_token_of_the_node_serves_a_daemon_without_a_container(
    cluster: Cluster, prepared: Any
) -> None:
    """As deploy/systemd/genericdp.service.d-examples/dra.conf says."""
    to_node = ("--bound-object-kind=Node", "--bound-object-name=ours")
    daemon = _token(cluster.api, "genericdp", "genericdp", *to_node)
    for operation in OPERATIONS:
        assert _write(cluster.api, operation, _slice("by-the-node"), daemon) == ""
    refused = _write(cluster.api, "CREATE", prepared("CREATE", _slice("x", node="theirs")), daemon)
    assert 'of node "theirs" is not for node ours to write' in refused


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("node", ["ours", "theirs", None])
def test_another_driver_is_not_hindered(
    node: str | None, operation: str, cluster: Cluster, prepared: Any
) -> None:
    content = prepared(operation, _slice("other", node=node, driver="other.example.com"))
    assert _write(cluster.api, operation, content, cluster.other_driver) == ""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_kubelet_is_not_hindered(operation: str, cluster: Cluster, prepared: Any) -> None:
    content = prepared(operation, _slice("of-the-kubelet"))
    assert _write(cluster.api, operation, content, *KUBELET) == ""


def test_the_kubelet_wipes_the_slices_of_its_node(cluster: Cluster, prepared: Any) -> None:
    """As it does when it starts, and when a driver has gone."""
    prepared("DELETE", _slice("wiped-1"))
    prepared("DELETE", _slice("wiped-2", driver="other.example.com"))
    prepared("DELETE", _slice("kept", node="theirs"))
    cluster.api("delete", "--raw", f"{SLICES}?fieldSelector=spec.nodeName%3Dours", *KUBELET)
    left = json.loads(cluster.api("get", "--raw", SLICES))["items"]
    assert [entry["metadata"]["name"] for entry in left] == ["kept"]


def test_applied_again_nothing_differs(cluster: Cluster, tmp_path: Path) -> None:
    again = cluster.api("apply", "-k", str(with_components(tmp_path, ["dra"]))).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
