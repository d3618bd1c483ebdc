"""genericdp.cli.comparing: any two configs."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from genericdp.cli.comparing import Changed, KeyChange, compare
from genericdp.devices.changes import plan
from genericdp.model import (
    Command,
    EnvVar,
    Hook,
    Hooks,
    Inject,
    Place,
    Preference,
    Resource,
)
from genericdp.template import parse
from tests.modelled import resource

TRUE = Hook(command=Command(argv=(parse("/bin/true"),)))


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    env = draw(st.dictionaries(st.sampled_from("AB"), st.just(EnvVar(value=parse("x")))))
    hooks = Hooks(
        allocate=draw(st.sampled_from([None, TRUE])), pre_start=draw(st.sampled_from([None, TRUE]))
    )
    one = resource(
        draw(st.sampled_from([f"example.com/{letter}" for letter in "abc"])),
        draw(st.sampled_from(["/dev/null", "/dev/zero"])),
        replicas=draw(st.integers(1, 3)),
        inject=Inject(env=env),
    )
    return replace(
        one,
        hooks=hooks,
        prefer=draw(st.sampled_from(Preference)),
        place=Place(file="x.yaml", line=draw(st.integers(1, 9)), column=1),
        node_names=draw(st.sampled_from([(), ("n*",), ("other",)])),
    )


def configs() -> st.SearchStrategy[list[Resource]]:
    return st.lists(resources(), max_size=4)


def test_only_what_is_different_is_a_change() -> None:
    """C7: what did not change is begun anew."""
    one = resource("example.com/a", "/dev/null")
    moved = replace(one, place=replace(one.place, line=77))
    assert compare([one], [moved], "n").unchanged == ("example.com/a",)
    more = replace(moved, replicas=4, forget_after_seconds=5, prefer=Preference.SPREAD)
    (changed,) = compare([one], [more], "n").changed
    assert changed == Changed(
        name="example.com/a",
        keys=(
            KeyChange(key="replicas", before=1, after=4),
            KeyChange(key="prefer", before="auto", after="spread"),
            KeyChange(key="forgetAfterSeconds", before=300, after=5),
        ),
    )


def test_it_says_for_which_key_one_is_registered_anew() -> None:
    one = resource("example.com/a", "/dev/null")
    other = replace(one, replicas=2, hooks=Hooks(pre_start=TRUE, allocate=TRUE))
    (changed,) = compare([one], [other], "n").changed
    assert [key.key for key in changed.keys] == ["replicas", "hooks.allocate", "hooks.preStart"]
    assert "hooks.preStart" in changed.anew
    assert "replicas" not in changed.anew


@given(old=configs(), new=configs())
def test_every_resource_is_one_of_four(old: list[Resource], new: list[Resource]) -> None:
    """And what is said of it is what the daemon does."""
    before = {one.name: one for one in reversed(old) if one.node_names != ("other",)}
    after = {one.name: one for one in reversed(new) if one.node_names != ("other",)}
    found = compare(old, new, "node")
    todo = plan(after, before)
    assert set(found.added) == after.keys() - before.keys() == todo.start - todo.stop
    assert set(found.removed) == before.keys() - after.keys() == todo.stop - todo.start
    assert {one.name for one in found.changed if not one.anew} == todo.update
    assert {one.name for one in found.changed if one.anew} == todo.stop & todo.start
    for name in found.unchanged:
        assert before[name] == after[name]
    named = (*found.added, *found.unchanged, *(one.name for one in found.changed))
    assert sorted(named) == sorted(after)


@given(old=resources(), new=resources())
def test_the_keys_named_are_those_that_differ(old: Resource, new: Resource) -> None:
    old, new = (replace(one, name="example.com/a", node_names=()) for one in (old, new))
    for changed in compare([old], [new], "n").changed:
        named = {key.key.partition(".")[0] for key in changed.keys}
        different = {
            one.name.split("_")[0]
            for one in fields(old)
            if one.compare and getattr(old, one.name) != getattr(new, one.name)
        }
        assert named == different
        assert set(changed.anew) <= {key.key for key in changed.keys}
