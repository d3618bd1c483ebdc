from __future__ import annotations

import asyncio

import pytest

from genericdp.errors import KubeletError, Problem, UsageError, ungrouped


def test_a_problem_is_a_line_that_editors_jump_to() -> None:
    problem = Problem(
        file="x.yaml", line=5, column=13, path=".a[1]", message="wrong", hint="do it so"
    )
    assert str(problem) == "x.yaml:5:13: .a[1]: wrong (do it so)"
    assert str(Problem(file="x", line=1, column=1, path="", message="wrong")) == "x:1:1: wrong"


async def fail(error: Exception) -> None:
    raise error


async def test_an_error_of_ours_comes_alone_out_of_nested_groups() -> None:
    with pytest.raises(UsageError, match="do this"):
        async with ungrouped(), asyncio.TaskGroup() as outer:

            async def nested() -> None:
                async with ungrouped(), asyncio.TaskGroup() as inner:
                    inner.create_task(fail(UsageError("do this")))

            outer.create_task(nested())


async def test_a_mistake_of_ours_keeps_its_traceback_and_its_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with ungrouped(), asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(ValueError("bug")))
            tasks.create_task(fail(KubeletError("gone")))
    assert caught.group_contains(ValueError)
