"""What has been decided about candidates, until something changes that it was decided by.

While something is decided, every question to the host is noted. An answer about the thing's own
folder of sysfs, and about those above it, is taken to be the same until an event tells of one of
them; what its globs found, until that is something else; any other answer, until asking again
gives another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from genericdp.foldermap import FolderMap

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from genericdp.devices.sysdevice import Extract, Facts, SysDevice, Way

T = TypeVar("T")


class Question(NamedTuple):
    """What was asked of the host beyond the folders of the thing itself."""

    method: str
    """Of ``Facts``."""
    about: str
    """Its first argument."""
    more: tuple[str, ...] = ()

    def asked(self, facts: Facts) -> object:
        """Return the answer as it is kept: of a long text only a number that tells it."""
        return _kept(getattr(facts, self.method)(self.about, *self.more))


_LONG = 1024


def _kept(answer: object) -> object:
    return hash(answer) if isinstance(answer, str) and len(answer) > _LONG else answer


class Part(dict[str, Any]):
    """The decisions of one kind, by what they are about; a look into it costs nothing more."""

    __slots__ = ("name",)

    def __init__(self, name: tuple[Any, ...]) -> None:
        self.name = name
        """Its kind, the resource, and what else tells it from others."""


Dropped = tuple[tuple[Any, ...], str]
"""A decision that no longer holds: the name of its part, and what it was about."""


class _Unit(NamedTuple):
    """One decision: where it is kept."""

    part: Part
    key: str


@dataclass(slots=True)
class Notes:
    """What was asked while something was decided."""

    about: str
    """Its syspath, or its path if it has none."""
    folders: set[str] = field(default_factory=set)
    """Those whose whole content counts."""
    others: set[str] = field(default_factory=set)
    """Devices that the thing does not sit on."""
    globs: set[str] = field(default_factory=set)
    questions: dict[Question, object] = field(default_factory=dict)
    """With the answers."""

    def note_device(self, syspath: str) -> None:
        """Take note that a device was asked about."""
        if not self._is_own(syspath) and not any(
            f"{syspath}/".startswith(f"{folder}/") for folder in self.folders
        ):
            self.others.add(syspath)

    def note_answer(self, question: Question, answer: object) -> None:
        """Take note of what was answered about a file or link."""
        if not self._is_own(question.about.rpartition("/")[0]):
            self.questions[question] = _kept(answer)

    def _is_own(self, syspath: str) -> bool:
        if not syspath.startswith("/sys/devices/"):
            return False
        return self.about == syspath or self.about.startswith(f"{syspath}/")


class Memory:
    """Decisions in named parts."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, Part] = {}
        self._about: FolderMap[_Unit] = FolderMap()
        self._within: dict[str, list[_Unit]] = {}
        self._globs: dict[str, list[_Unit]] = {}
        self._answers: dict[Question, tuple[object, list[_Unit]]] = {}
        self._late: list[_Unit] = []
        """Dropped while others were decided: the next pass has yet to be told of them."""
        self.orders: dict[str, list[Any]] = {}
        """Lists as they were sorted last."""
        self.excluded: dict[str, Any] = {}
        """What each resource excluded in the last pass."""
        self.named_twice: set[str] = set()
        """The resources whose selectors have found one thing under several names."""

    def part(self, *name: Hashable) -> Part:
        """Give the decisions of one kind, to be read only."""
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = Part(name)
        return part

    def keep(self, part: Part, key: str, decision: object, notes: Notes) -> None:
        """Keep a decision until something changes that was asked for it."""
        part[key] = decision
        unit = _Unit(part, key)
        for syspath in (notes.about, *notes.others):
            self._about.add(syspath, unit)
        for folder in notes.folders:
            self._within.setdefault(folder, []).append(unit)
        for glob in notes.globs:
            self._globs.setdefault(glob, []).append(unit)
        for question, answer in notes.questions.items():
            known, units = self._answers.get(question, (answer, []))
            if known != answer:  # it has changed since it was asked in this very pass
                _drop(units)
                self._late += units
                units = []
            units.append(unit)
            self._answers[question] = (answer, units)

    def forget(
        self, syspaths: Iterable[str], globs: Iterable[str], facts: Facts
    ) -> tuple[Dropped, ...]:
        """Forget what was decided by these devices, by what these globs found, by other answers.

        Gives the decisions.
        """
        dropped, self._late = self._late, []
        for syspath in syspaths:
            dropped += self._about.take(syspath)
            for folder in _upwards(syspath):
                dropped += self._within.pop(folder, ())
        for glob in globs:
            dropped += self._globs.pop(glob, ())
        for question, (answer, units) in list(self._answers.items()):
            if question.asked(facts) != answer:
                dropped += units
                del self._answers[question]
        _drop(dropped)
        return tuple(dict.fromkeys((part.name, key) for part, key in dropped))


def _drop(units: Iterable[_Unit]) -> None:
    for part, key in units:
        part.pop(key, None)


def _upwards(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


class NotedFacts:
    """Facts whose every answer is noted, as long as something takes notes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.notes: Notes | None = None

    def deciding(self, notes: Notes, decide: Callable[[], T]) -> T:
        """Decide something and take notes meanwhile."""
        self.notes = notes
        try:
            return decide()
        finally:
            self.notes = None

    def device(self, syspath: str) -> SysDevice | None:
        """Give the device of a folder, or None if there is none."""
        self._note_device(syspath)
        return self._facts.device(syspath)

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        """Give the devices that it sits on, the nearest first."""
        self._note_device(device.syspath)
        return self._facts.ancestors(device)

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Give the devices of a subsystem, in natural order of their syspaths."""
        answer = self._facts.members(subsystem)
        if self.notes is not None:
            self.notes.questions[Question("members", subsystem)] = answer
        return answer

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Give those of them that lie below a folder."""
        self._note_device(folder)
        if self.notes is not None:
            self.notes.folders.add(folder)
        return self._facts.below(folder, subsystem)

    def subsystems(self) -> tuple[str, ...]:
        """Give the names of all subsystems."""
        return self._facts.subsystems()

    def attribute(self, syspath: str, name: str) -> str | None:
        """Give the text of an attribute file below a device, stripped."""
        self._note_device(syspath)
        return self._facts.attribute(syspath, name)

    def link(self, path: str) -> str | None:
        """Give the last part of what a link leads to."""
        return self._answered("link", path, self._facts.link(path))

    def target(self, path: str) -> str | None:
        """Give what a path leads to when every link is followed."""
        return self._answered("target", path, self._facts.target(path))

    def way(self, path: str) -> Way:
        """Return where a path leads, also where there is nothing."""
        return self._answered("way", path, self._facts.way(path))

    def text(self, path: str) -> str | None:
        """Give a file's content, stripped; at most 64 KiB."""
        return self._answered("text", path, self._facts.text(path))

    def extract(self, path: str, regex: str) -> Extract | None:
        """Return what an expression finds in a file; None if the file is lacking."""
        return self._answered("extract", path, self._facts.extract(path, regex), regex)

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Give the paths that a glob finds, whatever they are."""
        answer = self._facts.paths(pattern)
        if self.notes is not None:
            self.notes.questions[Question("paths", pattern)] = answer
        return answer

    def dangling(self, pattern: str) -> tuple[str, ...]:
        """Return the links to nothing that a glob found."""
        return self._answered("dangling", pattern, self._facts.dangling(pattern))

    def trouble(self, path: str) -> str:
        """Say why a file could not be read; empty if it is not there or was read."""
        return self._answered("trouble", path, self._facts.trouble(path))

    def awaited(self, syspath: str) -> bool:
        """Say whether udev has yet to record a device that has just appeared."""
        return self._facts.awaited(syspath)

    def _note_device(self, syspath: str) -> None:
        if self.notes is not None:
            self.notes.note_device(syspath)

    def _answered(self, method: str, path: str, answer: T, *more: str) -> T:
        if self.notes is not None:
            self.notes.note_answer(Question(method, path, more), answer)
        return answer
