"""The config on disk: a ConfigMap's volume and a plain file, written in many ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.config import changing
from tests.soak.config import BROKEN, PLAIN, VOLUME, Places, Spec

WAYS: Mapping[str, Callable[[Path, str], None]] = {
    way.__name__: way
    for way in (
        *(changing.write, changing.rename, changing.move_away_first),
        *(changing.delete_and_write, changing.write_keeping_times),
    )
}
"""How a file is written, by the name that the record has for it."""


class Disk:
    """Writes each source; every text is another one, so that it counts as another config."""

    def __init__(
        self, directory: Path, places: Places, first: Mapping[str, Sequence[Spec]]
    ) -> None:
        self._places = places
        self._texts = 0
        self.plain = directory / "plain" / "plain.yaml"
        self.plain.parent.mkdir(parents=True)
        self.plain.write_text(self._text(first[PLAIN]))
        self._volume = changing.ConfigMap(directory / "volume", self._files(first[VOLUME]))
        self.volume = self._volume.directory

    def write(self, source: str, specs: Sequence[Spec], way: str) -> None:
        if source == VOLUME:
            self._volume.update(self._files(specs))
        else:
            WAYS[way](self.plain, self._text(specs))

    def break_(self, source: str, way: str, good: Sequence[Spec]) -> None:
        """Write a bad one, or one good file and a bad one; ``way``: how, and what is wrong."""
        how, _, wrong = way.partition(": ")
        if source == VOLUME:
            self._volume.update({**self._files(good), "b.yaml": BROKEN[wrong]})
        else:
            WAYS[how](self.plain, BROKEN[wrong])

    def _files(self, specs: Sequence[Spec]) -> dict[str, str]:
        halves = {"a.yaml": specs[:2], "b.yaml": specs[2:]}
        return {name: self._text(half) for name, half in halves.items() if half}

    def _text(self, specs: Sequence[Spec]) -> str:
        self._texts += 1
        return self._places.text(specs, f"text-{self._texts}")
