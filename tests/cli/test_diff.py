"""genericdp.cli.diff: any two configs."""

from __future__ import annotations

from dataclasses import replace

from genericdp.cli.diff import compare
from genericdp.devices.changes import plan
from genericdp.model import (
    Command,
    EnvVar,
    Hook,
    HookName,
    Inject,
    Place,
    Preference,
    Resource,
    ServedBy,
)
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import resource

KEYS = {"served_by": "servedBy"}
"""What differs from the name of a field."""
TRUE = Hook(command=Command(argv=(parse("/bin/true"),)))


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    env = draw(st.dictionaries(st.sampled_from("AB"), st.just(EnvVar(value=parse("x")))))
    whens: list[HookName] = ["allocate", "preStart"]
    hooks = draw(st.dictionaries(st.sampled_from(whens), st.just(TRUE)))
    made = resource(
        draw(st.sampled_from("abc")),
        draw(st.sampled_from(["/dev/null", "/dev/zero"])),
        replicas=draw(st.integers(1, 3)),
        given=Inject(env=env),
    )
    return replace(
        made,
        hooks=hooks,
        prefer=draw(st.sampled_from(Preference)),
        served_by=draw(st.sampled_from(ServedBy)),
        place=Place(file="x.yaml", line=draw(st.integers(1, 9)), column=1),
    )


def configs() -> st.SearchStrategy[list[Resource]]:
    return st.lists(resources(), max_size=4, unique_by=lambda entry: entry.name)


@given(old=configs(), new=configs())
def test_every_resource_is_one_of_four(old: list[Resource], new: list[Resource]) -> None:
    """And what is said of it is what the daemon does."""
    before, after = ({entry.name: entry for entry in config} for config in (old, new))
    found = compare(old, new)
    todo = plan(after, before)
    assert set(found["added"]) == after.keys() - before.keys() == todo.start - todo.stop
    assert set(found["removed"]) == before.keys() - after.keys() == todo.stop - todo.start
    both = before.keys() & after.keys()
    moved = {name for name in both if before[name].served_by is not after[name].served_by}
    in_place = {change["name"] for change in found["changed"] if change["inPlace"]}
    assert in_place == todo.update - moved
    assert {change["name"] for change in found["changed"]} - in_place == todo.anew | moved
    for name in found["unchanged"]:
        assert before[name] == after[name]
    named = (*found["added"], *found["unchanged"], *(entry["name"] for entry in found["changed"]))
    assert sorted(named) == sorted(after)
