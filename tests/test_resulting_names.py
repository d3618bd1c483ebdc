"""Resources whose names result from a template: one for each name, no other than is allowed."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.cli import main
from tests.printed import resources_in
from tests.world import config, counts, resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.world import World

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


async def test_each_name_that_results_is_a_resource_that_pods_can_ask_for(world: World) -> None:
    for number, model in enumerate(("a100", "h100", "a100")):
        plug(world, number, model)
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0", "ttyUSB2")
        await world.listed("example.com/h100", "ttyUSB1")
        edits = await world.container(a100=2)
        assert [node.host_path for node in edits.devices] == ["/dev/ttyUSB0", "/dev/ttyUSB2"]
        assert set(world.kubelet.observed.registrations) == {"example.com/a100", "example.com/h100"}
        assert await daemon.resource(GPU) == {}, "nothing to tell beside its resources"
        assert await daemon.get("/readyz") == (200, "ready\n")


async def test_a_device_of_a_new_model_registers_a_resource_and_its_going_ends_it(
    world: World,
) -> None:
    plug(world, 0, "a100")
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        before = counts(world.kubelet, "example.com/a100")
        plug(world, 1, "h100")
        await world.listed("example.com/h100", "ttyUSB1")
        world.host.unplug("ttyUSB1")
        await world.listed("example.com/h100")
        await daemon.log.says("example.com/h100: stopped")
        await world.kubelet.wait_for(lambda: not world.kubelet.paths("example.com/h100"))
        assert counts(world.kubelet, "example.com/a100") == before
        plug(world, 2, "h100")
        await world.listed("example.com/h100", "ttyUSB2")


async def test_the_probes_of_a_device_of_a_new_model_wait_for_their_initial_delay(
    world: World,
) -> None:
    plug(world, 0, "a100")
    check = {"file": {"path": "$(device.syspath)/model", "regex": "."}, "initialDelaySeconds": 1}
    async with world.serving(gpus(health=[check])) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        asked = asyncio.get_running_loop().time()
        plug(world, 1, "h100")
        await daemon.offers("example.com/h100", ttyUSB1="file: not probed yet")
        await world.listed("example.com/h100", "ttyUSB1")
        assert asyncio.get_running_loop().time() - asked >= 1


async def test_a_reload_ends_what_is_no_longer_allowed_and_leaves_the_others_alone(
    world: World,
) -> None:
    plug(world, 0, "a100")
    plug(world, 1, "h100")
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        await world.listed("example.com/h100", "ttyUSB1")
        before = counts(world.kubelet, "example.com/a100")
        await daemon.takes(gpus("example.com/a100"))
        await daemon.log.says("example.com/h100: stopped")
        assert counts(world.kubelet, "example.com/a100") == before
        (refused,) = (await daemon.resource(GPU))["notOffered"]
        assert refused["path"] == "/dev/ttyUSB1"
        wanted = "the name 'example.com/h100' is not among its names: example.com/a100"
        assert refused["reason"] == wanted


async def test_a_name_that_is_written_out_takes_over_what_had_resulted(world: World) -> None:
    plug(world, 0, "a100")
    async with world.serving(gpus()) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        before = counts(world.kubelet, "example.com/a100")
        await daemon.takes(resource("example.com/a100", "/dev/ttyUSB*"))
        await daemon.shows("example.com/a100", lambda found: found["registered"])
        assert counts(world.kubelet, "example.com/a100")[0] == before[0]
        assert await daemon.resource(GPU) == {}


async def test_a_device_that_gets_another_name_is_told_where_it_has_gone(world: World) -> None:
    plug(world, 0, "a100")
    async with world.serving(gpus(forgetAfterSeconds=600)) as daemon:
        await world.listed("example.com/a100", "ttyUSB0")
        world.host.write("/sys/devices/virtual/tty/ttyUSB0/model", "h100\n")
        world.host.plug("ttyUSB7")  # an event, after which all is looked at again
        await world.listed("example.com/h100", "ttyUSB0")
        await daemon.offers(
            "example.com/a100", ttyUSB0="/dev/ttyUSB0 is one of example.com/h100 now"
        )


class Machine:
    """A copied tree with devices of models, and a config."""

    def __init__(self, folder: Path, models: Mapping[str, str]) -> None:
        self.folder = folder
        (folder / "root/sys/dev/char").mkdir(parents=True)
        (folder / "root/dev").mkdir()
        for minor, (name, model) in enumerate(models.items()):
            device = folder / "root/sys/devices/virtual/tty" / name
            device.mkdir(parents=True)
            (device / "uevent").write_text(f"MAJOR=188\nMINOR={minor}\nDEVNAME={name}\n")
            (device / "model").write_text(model)
            link = folder / f"root/sys/dev/char/188:{minor}"
            link.symlink_to(f"../../devices/virtual/tty/{name}")
            (folder / "root/dev" / name).touch()

    def discovered(
        self, *resources: Mapping[str, object]
    ) -> tuple[dict[str, list[str]], dict[str, str]]:
        """Return the IDs by resource name, and the reasons by path."""
        file = self.folder / "config.yaml"
        file.write_text(config(*resources))
        root = str(self.folder / "root")
        with redirect_stdout(io.StringIO()) as out:
            assert main(["discover", "--config", str(file), "--root", root, "-o", "json"]) == 0
        found = resources_in(out.getvalue())
        ids = {name: [one["id"] for one in its["devices"]] for name, its in found.items()}
        reasons = {
            one["path"]: one["reason"] for its in found.values() for one in its["notOffered"]
        }
        return {name: its for name, its in ids.items() if its}, reasons


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("b200", "the name 'example.com/b200' is not among its names"),
        ("A100", "the name 'example.com/A100' is not among its names"),
        ("a 100", "the name 'example.com/a 100' is none that Kubernetes takes: the type"),
        ("a/100", "the name 'example.com/a/100' is none that Kubernetes takes: "),
        ("a" * 64, "is none that Kubernetes takes: the type has 64 characters"),
        ("a\udcff", r"is none that Kubernetes takes: the type 'a\xff' is not made of"),
        ("a\nb", "which holds a newline or NUL"),
        ("", "the name 'example.com/' is not among its names"),
        ("a100-", "is none that Kubernetes takes: the type 'a100-' is not made of"),
        ("afull", "the name 'example.com/afull' is that of resource example.com/afull"),
    ],
)
def test_what_results_in_no_name_of_the_list_is_not_offered(
    tmp_path: Path, model: str, reason: str
) -> None:
    machine = Machine(tmp_path, {"ttyUSB0": "a1"})
    file = tmp_path / "root/sys/devices/virtual/tty/ttyUSB0/model"
    file.write_bytes(model.encode(errors="surrogateescape"))
    own = resource("example.com/afull", "/dev/null")
    found, reasons = machine.discovered(gpus(), own)
    assert found == {}
    assert reason in reasons["/dev/ttyUSB0"]


def test_a_device_without_the_value_is_not_offered(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ttyUSB0": "a1", "ttyUSB1": "a1"})
    (tmp_path / "root/sys/devices/virtual/tty/ttyUSB1/model").unlink()
    found, reasons = machine.discovered(gpus())
    assert found == {"example.com/a1": ["ttyUSB0"]}
    assert reasons["/dev/ttyUSB1"].startswith("name: the value 'model': /sys/devices/virtual/")


def test_names_that_differ_only_in_case_are_two_resources(tmp_path: Path) -> None:
    """As they are to Kubernetes."""
    machine = Machine(tmp_path, {"ttyUSB0": "a1", "ttyUSB1": "A1"})
    found, _ = machine.discovered(gpus("example.com/[aA]*"))
    assert found == {"example.com/a1": ["ttyUSB0"], "example.com/A1": ["ttyUSB1"]}


def test_of_two_templates_with_one_result_the_first_has_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ttyUSB0": "a1", "ttyS0": "a1"})
    other = {
        **gpus("example.com/a*"),
        "name": "example.com/a$(value.rest)",
        "match": [{"path": "/dev/ttyS*"}],
    }
    other["values"] = {"rest": {"file": "$(device.syspath)/model", "regex": "a(.*)"}}
    found, reasons = machine.discovered(gpus(), other)
    assert found == {"example.com/a1": ["ttyUSB0"]}
    assert reasons["/dev/ttyS0"] == f"the name 'example.com/a1' is that of resource {GPU}"


def test_of_two_thousand_results_64_are_resources(tmp_path: Path) -> None:
    count = 2_000
    machine = Machine(tmp_path, {f"ttyUSB{number}": f"a{number}" for number in range(count)})
    found, reasons = machine.discovered(gpus())
    assert found == {f"example.com/a{number}": [f"ttyUSB{number}"] for number in range(64)}
    assert len(reasons) == count - 64
    wanted = f"is one too many: 64 resources result from {GPU} already"
    assert wanted in reasons["/dev/ttyUSB64"]


def test_members_of_a_group_have_one_name_and_some_may_have_none(tmp_path: Path) -> None:
    models = {"ttyUSB0": "a1", "ttyUSB1": "a1", "ttyUSB10": "a2", "ttyUSB11": "a1", "ttyUSB20": ""}
    machine = Machine(tmp_path, models)
    (tmp_path / "root/sys/devices/virtual/tty/ttyUSB1/model").unlink()
    values = {
        "model": {"file": "$(device.syspath)/model"},
        "card": {"text": "card$(device.name)", "regex": "(.*)."},
    }
    keys = {"values": values, "groupBy": "$(value.card)"}
    found, reasons = machine.discovered(gpus(**keys))
    assert found == {"example.com/a1": ["cardttyUSB"]}
    wanted = (
        "its members have different names: 'example.com/a2' (/dev/ttyUSB10) and 'example.com/a1'"
    )
    assert reasons["/dev/ttyUSB10"].startswith(wanted)


def test_a_difference_of_configs_names_what_results_and_what_ends(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"ttyUSB0": "a1", "ttyUSB1": "h1"})
    machine.discovered(gpus())
    old = (tmp_path / "config.yaml").rename(tmp_path / "old.yaml")
    machine.discovered(gpus("example.com/a1"))
    files = [str(old), str(tmp_path / "config.yaml")]
    with redirect_stdout(io.StringIO()) as out:
        options = ["--root", str(tmp_path / "root"), "-o", "json"]
        assert main(["validate", "--diff", *files, *options]) == 0
    told = json.loads(out.getvalue())
    assert told["resources"]["removed"] == ["example.com/h1"]
    assert told["resources"]["unchanged"] == ["example.com/a1"]
    assert [one["id"] for one in told["devices"]["example.com/h1"]["go"]] == ["ttyUSB1"]


@settings(max_examples=60, deadline=None)
@given(text=st.text(min_size=0, max_size=80))
def test_no_text_makes_a_resource_that_the_list_does_not_allow(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"), {"ttyUSB0": ""})
    file = machine.folder / "root/sys/devices/virtual/tty/ttyUSB0/model"
    file.write_bytes(text.encode(errors="surrogatepass"))
    found, reasons = machine.discovered(gpus("example.com/a*", "example.com/[0-9]*"))
    assert found or reasons
    for name in found:
        assert name[len("example.com/")] in "a0123456789"
        assert len(name) <= len("example.com/") + 63
