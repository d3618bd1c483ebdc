"""The specs of every example, on every host that is recorded for it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from genericdp.cdi import file_name
from genericdp.cli import main

from tests.cdi.examples import generate
from tests.hosts.hosts import Host, all_hosts
from tests.printed import resources_in

if TYPE_CHECKING:
    from pathlib import Path

WHY = r"warning: (\S+?) (is left out|has no devices): \S"


@pytest.mark.parametrize("host", all_hosts(), ids=str)
def test_each_resource_of_an_example_has_a_spec_or_it_is_said_why_not(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = generate(host, tmp_path / "specs")
    specs = {file: json.loads(file.read_text()) for file in made.files}
    for file, spec in specs.items():
        assert file.name == file_name(spec["kind"])
        assert spec["devices"]
    lacking = {name for name, _ in re.findall(WHY, made.said)}
    skipped = [why for _, why in re.findall(WHY, made.said) if why == "is left out"]
    assert made.code == int(bool(skipped) or not specs)

    (tmp_path / "host").mkdir()
    root = host.build(tmp_path / "host")
    where = ["--config", str(host.config), "--root", str(root), "--node-name", "node-1"]
    assert main(["discover", *where, "-o", "json"]) in {0, 1}
    offered = resources_in(capsys.readouterr().out)
    kinds = {spec["kind"] for spec in specs.values()}
    for name, found in offered.items():
        if name not in lacking and "$(" not in name:
            (spec,) = [each_spec for each_spec in specs.values() if each_spec["kind"] == name]
            there = {each_device["name"] for each_device in spec["devices"]}
            missing = set(
                re.findall(rf"warning: {re.escape(name)}: (\S+) is left out: ", made.said)
            )
            assert there | missing == {device["id"] for device in found["devices"]}
            assert there.isdisjoint(missing)
    assert kinds.isdisjoint(lacking)
