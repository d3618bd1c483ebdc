from __future__ import annotations

from pathlib import Path

from genericdp import model
from genericdp.config.load import load
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.file import FileCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.health.kinds.open import OpenCheck
from genericdp.model import Place
from genericdp.template import parse

from tests.config.loading import HEAD, loaded

VALID = Path(__file__).parent.parent / "configs/valid"


def test_what_is_not_written_has_the_models_defaults() -> None:
    (resource,) = loaded(f"{HEAD}  - {{name: a/b, match: [{{path: /dev/a}}]}}").resources
    selector = model.Selector(candidates=model.PathSelector(globs=("/dev/a",)))
    place = Place(file="<stdin>", line=4, column=5)
    assert resource == model.Resource(name="a/b", place=place, match=(selector,))


def test_probes_and_hooks_become_the_model() -> None:
    (resource,) = load([VALID / "all-of-it.yaml"]).resources
    command, file, opened, log = (probe.check for probe in resource.health)
    argv = (parse("/usr/local/bin/check"), parse("$(device.path)"))
    asked = model.Command(argv=argv, env={"MODE": parse("quick")})
    assert command == ExecCheck(command=asked)
    assert file == FileCheck(
        path=parse("/sys/class/infiniband/$(device.name)/ports/1/state"), regex="ACTIVE"
    )
    assert opened == OpenCheck(mode="rw")
    assert isinstance(log, KernelLogCheck)
    assert log.where == {"address": parse("$(pci.address)")}
    assert log.ignore == {"code": ("13", "31", "43", "45", "68", "109")}
    assert resource.health[3].recover_after_seconds == 600
    assert resource.hooks["allocate"] == model.Hook(
        command=model.Command(argv=(parse("/usr/local/bin/init-qrng"), parse("$(device.path)"))),
        timeout_seconds=4,
    )
    assert resource.hooks["preStart"].timeout_seconds == 20


def test_one_type_and_one_empty_list_of_devices_are_kept_as_written() -> None:
    match = "[{path: [/a, /b], type: file}]"
    body = f"  - {{name: a/b, match: {match}, inject: {{devices: [], env: {{A: b}}}}}}"
    (resource,) = loaded(HEAD + body).resources
    assert resource.match[0].candidates == model.PathSelector(
        globs=("/a", "/b"), types=(model.FileType.FILE,)
    )
    assert resource.inject.devices == ()


def test_a_resource_knows_its_place() -> None:
    (first, other) = load([VALID / "node-names"]).resources
    assert str(first.place) == f"{VALID}/node-names/a.yaml:4:5"
    assert str(other.place) == f"{VALID}/node-names/b.yml:4:5"


def test_what_dra_serves_becomes_the_model() -> None:
    first, second, third = load([VALID / "dra.yaml"]).resources
    kinds = [entry.served_by for entry in (first, second, third)]
    assert kinds == [model.ServedBy.DRA, model.ServedBy.DEVICE_PLUGIN, model.ServedBy.DRA]
    assert first.attributes == {
        name: model.Attribute(type=model.AttributeType(kind), value=parse(text))
        for name, kind, text in (
            ("name", "string", "$(device.name) $(device.id)"),
            ("release", "version", "$(attribute.version)"),
            ("speed", "int", "$(attribute.speed:-0)"),
            ("powered", "bool", "$(value.powered)"),
        )
    }
    assert first.hooks["release"] == model.Hook(
        command=model.Command(argv=(parse("/bin/true"),)), timeout_seconds=25
    )
