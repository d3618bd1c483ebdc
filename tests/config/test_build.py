from __future__ import annotations

from pathlib import Path

from genericdp import model
from genericdp.config.load import load
from genericdp.model import Place
from tests.config.loading import HEAD, loaded

VALID = Path(__file__).parent.parent / "configs/valid"


def test_what_is_not_written_has_the_models_defaults() -> None:
    (resource,) = loaded(f"{HEAD}  - {{name: a/b, match: [{{path: /dev/a}}]}}").resources
    selector = model.Selector(candidates=model.PathSelector(globs=("/dev/a",)))
    place = Place(file="<stdin>", line=4, column=5)
    assert resource == model.Resource(name="a/b", place=place, match=(selector,))


def test_one_type_and_one_empty_list_of_devices_are_kept_as_written() -> None:
    match = "[{path: [/a, /b], type: file}]"
    body = f"  - {{name: a/b, match: {match}, inject: {{devices: [], env: {{A: b}}}}}}"
    (resource,) = loaded(HEAD + body).resources
    assert resource.match[0].candidates == model.PathSelector(
        globs=("/a", "/b"), types=(model.FileType.FILE,)
    )
    assert resource.inject.devices == ()


def test_a_resource_knows_its_place() -> None:
    (one, other) = load([VALID / "node-names"]).resources
    assert str(one.place) == f"{VALID}/node-names/a.yaml:4:5"
    assert str(other.place) == f"{VALID}/node-names/b.yml:4:5"
