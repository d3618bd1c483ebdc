"""What the child that loads a config answers: a Loaded or one error."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.build import decode
from genericdp.config.load import encode, read_all
from genericdp.config.loaded import Loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIGS = Path(__file__).parents[2] / "configs/valid"
SECONDS = 5.0
WORDS = tuple(
    word.encode()
    for word in (
        *('"documents":[', '"resources":[', '"places":[', '"problems":[', '"files":[', '"digest":'),
        *(
            '"texts":[["a",',
            '"name":',
            '"match":',
            '"path":',
            '"udev":{',
            '"usb":{',
            '"values":{',
            '"inject":{',
        ),
        *('"health":[', '"exec":{"command":[', '"hooks":{', '"prefer":"x"', '"id":"$("', '"x"'),
        *("null", "true", "-1", "1e999", "NaN", "[]", "{}", "[[", "]", "}", ",", ":", "\\ud800"),
        *("9" * 5000, "[" * 2000, '"file":"f","line":1,"column":1', '"message":"","hint":""'),
        *(
            '"texts":[["a","b"]]',
            '{"file":"f","line":1,"column":1,"path":"","message":"m"}',
        ),
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
    yield _run


def _run(data: bytes) -> None:
    try:
        loaded = decode(data)
    except ValueError:
        return
    for problem in (*loaded.problems, *loaded.warnings):
        str(problem)
