"""genericdp.reloading.deciding: pure, so any history will do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from genericdp.config.loaded import Loaded
from genericdp.config.state import ConfigState
from genericdp.errors import Problem
from genericdp.reloading.deciding import Verdict, decide
from tests.config.bounded import policy_of
from tests.modelled import resource

NONE = ConfigState()
RESOURCE = resource("example.com/a", "/dev/null")
A, B = (Loaded(digest=letter, files=(Path(f"{letter}.yaml"),)) for letter in "ab")


def bad(message: str = "wrong", digest: str = "x") -> Loaded:
    problem = Problem(file="x.yaml", line=1, column=1, path="", message=message)
    return Loaded(problems=(problem,), digest=digest)


def test_the_first_good_one_is_taken() -> None:
    decision = decide(NONE, A, now=5.0)
    assert (decision.verdict, decision.is_news) == (Verdict.APPLY, True)
    state = decision.state
    assert (state.in_force, state.digest, state.since, state.files) == (True, "a", 5.0, ("a.yaml",))


def test_how_things_stand_is_told_in_full(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "devices: {}\n")
    warning = Problem(file="f", line=1, column=2, path="", message="odd")
    good = Loaded(
        digest="g",
        files=(Path("g.yaml"),),
        resources=(RESOURCE, RESOURCE),
        warnings=(warning,),
        policy=replace(policy, place="/etc/p.yaml:1", sha256="5a"),
    )
    refused = ConfigState(
        digest="a",
        since=1.0,
        differs_since=2.0,
        problems=("bad",),
        refused="x",
        from_state_dir=True,
    )
    assert decide(refused, good, now=5.0).state == ConfigState(
        digest="g",
        since=5.0,
        files=("g.yaml",),
        policy="/etc/p.yaml",
        policy_digest="5a",
        resources=2,
        warnings=("f:1:2: odd",),
    )


def test_the_last_good_one_that_is_on_disk_again_is_no_longer_from_the_state_folder() -> None:
    recalled = replace(
        decide(NONE, A, now=1.0).state,
        from_state_dir=True,
        differs_since=1.0,
        problems=("bad",),
        refused="x",
    )
    decision = decide(recalled, A, now=5.0)
    assert (decision.verdict, decision.is_news) == (Verdict.KEEP, True)
    assert decision.state == decide(NONE, A, now=1.0).state
    assert not decide(decision.state, A, now=6.0).is_news


def test_what_is_in_force_already_is_not_taken_again() -> None:
    state = decide(NONE, A, now=5.0).state
    assert decide(state, A, now=6.0).state == state
    assert decide(state, A, now=6.0).verdict is Verdict.KEEP


def test_one_problem_refuses_the_whole() -> None:
    """C10: half of a bad config is served."""
    state = decide(NONE, A, now=5.0).state
    decision = decide(state, bad(), now=6.0)
    assert (decision.verdict, decision.is_news) == (Verdict.REFUSE, True)
    assert (decision.state.digest, decision.state.since) == ("a", 5.0)
    assert decision.state.differs_since == 6.0
    assert decision.state.problems == ("x.yaml:1:1: wrong",)


def test_the_same_problems_are_news_once_and_to_whoever_asks() -> None:
    state = decide(NONE, bad(), now=1.0).state
    assert not decide(state, bad(), now=2.0).is_news
    assert decide(state, bad(), now=2.0, asked=True).is_news
    assert decide(state, bad("else"), now=2.0).is_news
    assert decide(state, bad(digest="y"), now=2.0).is_news


LOADED = st.sampled_from([A, B, bad(), bad("else"), bad(digest="y"), bad(digest="")])


@given(history=st.lists(st.tuples(LOADED, st.booleans()), max_size=20))
def test_after_any_history_the_last_good_one_is_in_force(
    history: list[tuple[Loaded, bool]],
) -> None:
    state, applied, differs = NONE, "", None
    for now, (loaded, asked) in enumerate(history):
        before, decision = state, decide(state, loaded, now=float(now), asked=asked)
        state = decision.state
        good = not loaded.problems
        assert (decision.verdict is Verdict.APPLY) == (good and loaded.digest != applied)
        applied = loaded.digest if good else applied
        differs = None if good else now if differs is None else differs
        assert (state.digest, state.differs_since) == (applied, differs)
        assert bool(state.problems) != good
        if not good:
            # Nothing of what is in force is touched.
            assert (state.since, state.files) == (before.since, before.files)
        if state == before and not asked:
            assert not decision.is_news
