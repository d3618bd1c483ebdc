"""``simulate --topology-policy``: a container on the NUMA nodes of a copied tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.test_simulate import once
from tests.fixtures.topologies import TOPOLOGIES
from tests.world import Host

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/disk
    match: [{path: "/dev/nvme*"}]
    exclude: [{path: "/dev/nvme0n1p*"}]
"""
ALIGNED = "Resources cannot be allocated with Topology locality"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Two disks on each of eight NUMA nodes."""
    host = Host(tmp_path / "host")
    TOPOLOGIES["nps4"]().build(host.folder)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return host


@pytest.mark.parametrize(
    ("policy", "amount", "refused"),
    [
        (None, 3, False),
        ("best-effort", 3, False),
        ("restricted", 3, False),
        ("single-numa-node", 2, False),
        ("single-numa-node", 3, True),
    ],
)
def test_the_policy_decides_on_admission(
    host: Host,
    capsys: pytest.CaptureFixture[str],
    policy: str | None,
    amount: int,
    refused: bool,
) -> None:
    flags = [f"--topology-policy={policy}"] if policy else []
    ask = f"--allocate=example.com/disk={amount}"
    code, out, err = once(capsys, host, ask, *flags)
    if refused:
        said = f"genericdp: no container would get this: TopologyAffinityError: {ALIGNED}\n"
        assert (code, out, err) == (1, "", said)
    else:
        assert (code, err) == (0, "")
        assert out.count("/dev/nvme") >= amount


def test_a_machine_on_which_no_kubelet_would_start_is_bad_usage(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    (host.folder / "sys/devices/system/node/online").write_text("0-8\n")
    config = f"--config={host.folder.parent / 'config.yaml'}"
    policy = "--topology-policy=restricted"
    assert main(["simulate", config, f"--root={host.folder}", "--once", policy]) == 2
    assert "no kubelet starts so on more than 8" in capsys.readouterr().err
