"""The rights of components/dra at a real API server; no other client is hindered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from genericdp.apiserver import SLICES
from genericdp.settings import DRIVER

from tests.deploy.rendering import only, with_components
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from tests.deploy.apiserver import ApiServer
    from tests.deploy.rendering import Manifest

pytestmark = pytest.mark.deploy

WHAT_IT_MAY = {
    "nodes": "[get]",
    "resourceclaims.resource.k8s.io": "[get]",
    "resourceslices.resource.k8s.io": "[get list watch create update delete]",
}
KUBELET = ("--as=system:node:ours", "--as-group=system:nodes")
NO_NODE = "the token names no node"


class Try(NamedTuple):
    """A slice that someone creates, updates and deletes."""

    who: str
    node: str | None
    """None: it is of all nodes."""
    said: str = ""
    """Against it."""
    driver: str = DRIVER


TRIES = [
    Try("daemon", "ours"),
    Try("daemon", "theirs", 'of node "theirs" is not for node ours to write'),
    Try("daemon", None, 'of node "" is not for node ours to write'),
    Try("daemon", "ours", "of driver o.example is not for genericdp.io to write", "o.example"),
    # As deploy/systemd/genericdp.service.d-examples/dra.conf says.
    Try("daemon without a container", "ours"),
    Try("daemon without a container", "theirs", 'of node "theirs" is not for node ours to write'),
    Try("bound to nothing", None, NO_NODE),
    Try("impersonator", None, NO_NODE),
    Try("other driver", "ours", driver="o.example"),
    Try("other driver", None, driver="o.example"),
    Try("kubelet", "ours"),
]


@pytest.fixture(scope="module")
def clients(api: ApiServer, tmp_path_factory: pytest.TempPathFactory, shipped: Any) -> Any:
    """Give the options of kubectl to be each client, with the component active."""
    api("apply", "-k", str(with_components(tmp_path_factory.mktemp("component"), ["dra"])))
    nodes = [_object("v1", "Node", name) for name in ("ours", "theirs")]
    pod = _object("v1", "Pod", "daemon", namespace="genericdp")
    pod["spec"] = only(shipped["components dra"], "DaemonSet")["spec"]["template"]["spec"]
    pod["spec"] |= {"nodeName": "ours"}
    assert api.refusals([*nodes, pod]) == ""
    api("create", "serviceaccount", "other", "--namespace=default")
    rights = ("--clusterrole=genericdp-dra", "--serviceaccount=default:other")
    api("create", "clusterrolebinding", "other", *rights)

    def token(account: str = "genericdp", namespace: str = "genericdp", bound: str = "") -> Any:
        kind, _, name = bound.partition("/")
        to = (f"--bound-object-kind={kind}", f"--bound-object-name={name}") if bound else ()
        return (f"--token={api('create', 'token', account, f'--namespace={namespace}', *to)}",)

    made = {
        "daemon": token(bound="Pod/daemon"),
        "daemon without a container": token(bound="Node/ours"),
        "bound to nothing": token(),
        "impersonator": ("--as=system:serviceaccount:genericdp:genericdp",),
        "other driver": token("other", "default"),
        "kubelet": KUBELET,
    }
    # Rights and the policy are active a moment after they were made, in any order.
    for attempt in (TRIES[6], TRIES[8]):
        tried = ("create", "--dry-run=server", "-f", "-", *made[attempt.who])
        eventually(
            lambda: api.refusal(*tried, given=[_slice(attempt)]),  # noqa: B023 -- called in this turn
            lambda said: attempt.said in said if attempt.said else not said,  # noqa: B023
            what=f"{attempt.who} gets {attempt.said!r}",
        )
    return made


def _object(version: str, kind: str, name: str, **metadata: str) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def _slice(attempt: Try) -> Manifest:
    made = _object("resource.k8s.io/v1", "ResourceSlice", "tried")
    where: Manifest = {"nodeName": attempt.node} if attempt.node else {"allNodes": True}
    pool = {"name": attempt.node or "all", "generation": 1, "resourceSliceCount": 1}
    return made | {
        "spec": where | {"driver": attempt.driver, "pool": pool, "devices": [{"name": "one"}]}
    }


@pytest.mark.parametrize("attempt", TRIES, ids=str)
def test_a_slice_is_written_by_whom_it_belongs_to(
    attempt: Try, api: ApiServer, clients: dict[str, tuple[str, ...]]
) -> None:
    who, content = clients[attempt.who], _slice(attempt)
    changed = content | {"spec": content["spec"] | {"devices": [{"name": "two"}]}}
    said = {"CREATE": api.refusal("create", "-f", "-", *who, given=[content])}
    if attempt.said:
        assert api.refusals([content]) == ""
    said["UPDATE"] = api.refusal("replace", "-f", "-", *who, given=[changed])
    said["DELETE"] = api.refusal("delete", "--raw", f"{SLICES}/tried", *who)
    if attempt.said:
        api("delete", "resourceslice", "tried")
    assert {how for how, text in said.items() if bool(text) != bool(attempt.said)} == set()
    assert {how for how, text in said.items() if attempt.said not in text} == set()


def test_it_may_do_nothing_else(api: ApiServer, clients: dict[str, tuple[str, ...]]) -> None:
    api("create", "serviceaccount", "nobody", "--namespace=genericdp")
    nobody = api("create", "token", "nobody", "--namespace=genericdp")
    daemon = clients["daemon"]
    assert _rights(api, *daemon) - _rights(api, f"--token={nobody}") == {*WHAT_IT_MAY.items()}
    for refused in (
        ("get", "resourceclaims", "--all-namespaces"),
        ("get", "secrets", "--namespace=genericdp"),
        ("get", "nodes"),
        ("delete", "--raw", SLICES),
    ):
        assert "Forbidden" in api.refusal(*refused, *daemon), refused


def _rights(api: ApiServer, *who: str) -> set[tuple[str, str]]:
    lines = api("auth", "can-i", "--list", "--namespace=genericdp", *who).splitlines()[1:]
    return {(line.split()[0], line[line.rindex("[") :]) for line in lines}
