"""What the child that loads a config answers, and what is kept of it: a Loaded or one error."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from genericdp.config.build import decode
from genericdp.config.load import encode, read_all
from genericdp.config.loaded import Loaded
from genericdp.reloading import lastgood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIGS = Path(__file__).parents[2] / "configs/valid"
SECONDS = 5.0
WORDS = tuple(
    word.encode()
    for word in (
        *('"documents":[', '"resources":[', '"places":[', '"problems":[', '"files":[', '"digest":'),
        *('"name":', '"match":', '"path":', '"udev":{', '"usb":{', '"values":{', '"inject":{'),
        *('"health":[', '"exec":{"command":[', '"hooks":{', '"prefer":"x"', '"id":"$("', '"x"'),
        *("null", "true", "-1", "1e999", "NaN", "[]", "{}", "[[", "]", "}", ",", ":", "\\ud800"),
        *("9" * 5000, "[" * 2000, '"file":"f","line":1,"column":1', '"message":"","hint":""'),
        *('{"file":"f","line":1,"column":1,"path":"","message":"m"}',),
    )
)


def seeds() -> Iterator[bytes]:
    yield encode(Loaded(), [])
    for file in sorted(CONFIGS.glob("*.yaml")):
        loaded, documents = read_all([file])
        loaded = Loaded(warnings=loaded.warnings, files=(Path("f"),), digest=loaded.digest)
        yield encode(loaded, documents)
    wrong, _ = read_all([CONFIGS.parent / "invalid" / "a-text.yaml"])
    yield encode(Loaded(problems=wrong.problems), [])


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with TemporaryDirectory() as folder:
        yield lambda data: _run(data, Path(folder))


def _decoded(data: bytes) -> Loaded | None:
    try:
        loaded = decode(data)
    except ValueError:
        return None
    for problem in (*loaded.problems, *loaded.warnings):
        str(problem)
    assert loaded.wire == data
    return loaded


def _run(data: bytes, folder: Path) -> None:
    loaded = _decoded(data)
    if len(data) % 16:
        return
    # A file of the state folder, whole by its checksum, and as it is.
    lastgood.store(folder, Loaded(wire=data))
    assert _recalled(folder) == loaded
    (folder / lastgood.NAME).write_bytes(data)
    recalled = _recalled(folder)
    assert recalled is None or recalled == loaded


def _recalled(folder: Path) -> Loaded | None:
    try:
        return lastgood.recall(folder)
    except lastgood.UnusableStateError as error:
        str(error)
        return None
