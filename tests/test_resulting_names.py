"""Resources whose names result from a template, over time and many; else cases of names."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

from genericdp.cli import main

from tests.cases.machine import Machine
from tests.printed import resources_in
from tests.world import World, config, counts, resource

GPU = "example.com/$(value.model)"


def gpus(*names: str, **keys: object) -> dict[str, object]:
    """Return a resource of serial ports that are named after the content of a file of theirs."""
    more = {
        "names": names or ["example.com/a*", "example.com/h*"],
        "values": {"model": {"file": "$(device.syspath)/model"}},
        "forgetAfterSeconds": 1,
        **keys,
    }
    return resource(GPU, "/dev/ttyUSB*", **more)


def plug(world: World, number: int, model: str) -> None:
    world.host.write(f"/sys/devices/virtual/tty/ttyUSB{number}/model", f"{model}\n")
    world.host.plug(f"ttyUSB{number}")


async def test_a_template_is_shown_for_what_has_no_name_and_needs_no_registration(
    world: World,
) -> None:
    plug(world, 0, "a100")
    plug(world, 1, "other")
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        await daemon.registered("example.com/a100")
        (refused,) = (await daemon.resource(GPU))["notOffered"]
        assert refused["path"] == "/dev/ttyUSB1"
        assert await daemon.get("/readyz") == (200, "ready\n")


async def test_a_name_that_is_written_out_takes_over_what_had_resulted(world: World) -> None:
    plug(world, 0, "a100")
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        before = counts(world.kubelet, "example.com/a100")
        await daemon.takes(resource("example.com/a100", "/dev/ttyUSB*"))
        await daemon.shows("example.com/a100", lambda found: found["registered"])
        assert counts(world.kubelet, "example.com/a100")[0] == before[0]
        assert await daemon.resource(GPU) == {}


def discovered(tree: Machine, *resources: Mapping[str, object]) -> tuple[set[str], dict[str, str]]:
    """Return the names of resources with devices, and the reasons by path."""
    file = tree.directory / "config.yaml"
    file.write_text(config(*resources))
    with redirect_stdout(io.StringIO()) as out:
        assert main(["discover", f"--config={file}", f"--root={tree.directory}", "-o", "json"]) == 0
    found = resources_in(out.getvalue())
    names = {name for name, shown in found.items() if shown["devices"]}
    refused = [refusal for shown in found.values() for refusal in shown["notOffered"]]
    return names, {refusal["path"]: refusal["reason"] for refusal in refused}


def test_of_two_hundred_results_64_are_resources(tmp_path: Path) -> None:
    count = 200
    tree = Machine(tmp_path)
    for number in range(count):
        tree.node(f"ttyUSB{number}", f"188:{number}", at="virtual/tty", model=f"a{number}")
    names, reasons = discovered(tree, gpus())
    assert names == {f"example.com/a{number}" for number in range(64)}
    assert len(reasons) == count - 64
    wanted = f"is one too many: 64 resources result from {GPU} already"
    assert wanted in reasons["/dev/ttyUSB64"]
