"""The same seed gives the same steps, and what is asked for comes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from tests.soak.config import BROKEN, KINDS, VOLUME, Places, first_specs
from tests.soak.record import Record
from tests.soak.steps import DAEMON, HOST, Do, Step, Steps, back_to_the_beginning

if TYPE_CHECKING:
    from pathlib import Path

PLACES = Places(folder="soak", health="/health")
EVERYTHING = tuple(do for do in Do if do is not Do.REST)


def drawn(seed: str, count: int, able: tuple[Do, ...] = EVERYTHING) -> list[Step]:
    """Draw steps, and enter what they do as a daemon without time would."""
    record = Record(PLACES, tuple(KINDS))
    steps = Steps(Random(seed), able)
    found = []
    for number in range(count):
        step = steps.next(record)
        enter(record, step, float(number))
        found.append(step)
    return found


def enter(record: Record, step: Step, now: float) -> None:
    for node in step.nodes:
        if step.do is Do.FLAP:
            record.set_health(node, well=node in record.sick)
        elif node in record.plugged and step.do is not Do.REPLUG:
            record.unplug(node, now)
        elif step.do is not Do.BLINK:
            record.plug(node, now)
    if step.do is Do.RELOAD:
        record.write(step.source, step.specs, now)
    elif step.do is Do.BREAK:
        record.breaks(step.source, step.way)
    record.settle(now)


def test_a_seed_decides_every_step() -> None:
    assert drawn("1", 300) == drawn("1", 300)
    assert drawn("1", 30) != drawn("2", 30)


def test_every_kind_of_step_comes_and_no_other() -> None:
    assert {step.do for step in drawn("1", 2000)} == set(EVERYTHING)
    able = (*HOST, Do.RELOAD)
    assert {step.do for step in drawn("1", 500, able)} == set(able)
    assert not {step.do for step in drawn("1", 500, able)} & set(DAEMON)


@pytest.mark.parametrize("count", [0, 7, 100])
def test_the_beginning_can_be_reached_from_anywhere(count: int) -> None:
    record = Record(PLACES, tuple(KINDS))
    steps = Steps(Random("3"), EVERYTHING)
    for number in range(count):
        enter(record, steps.next(record), float(number))
    for step in back_to_the_beginning(record):
        enter(record, step, 1000.0)
    assert back_to_the_beginning(record) == []
    assert record.on_disk == first_specs(tuple(KINDS))
    assert not record.broken
    assert record.offered("alpha") == {f"alpha-{number}" for number in (0, 2, 4, 6)}


def test_the_configs_are_what_the_language_takes_and_refuses(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    for number, step in enumerate(s for s in drawn("4", 200) if s.do is Do.RELOAD and s.specs):
        config.write_text(PLACES.text(step.specs, str(number)))
        loaded = load([config])
        assert not loaded.problems, loaded.problems
        assert [one.name for one in loaded.resources] == [spec.name for spec in step.specs]
    for what, text in BROKEN.items():
        config.write_text(text)
        assert load([config]).problems, what


def test_the_volume_keeps_a_resource_whatever_is_removed() -> None:
    reloads = [step for step in drawn("5", 1000) if step.do is Do.RELOAD and step.source == VOLUME]
    assert all(step.specs[0].type == "alpha" for step in reloads)
