"""Variables that are empty."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from genericdp.cli.environment import StoredUnlessEmpty, take_variables
from genericdp.cli.options import path_of
from genericdp.errors import UsageError


def test_the_option_says_whether_its_variable_may_be_empty() -> None:
    """Comes back with a list of names in place of the action: a new option is not in it."""
    parser = ArgumentParser()
    parser.add_argument("--trace", action=StoredUnlessEmpty, type=path_of, default=None)
    take_variables(parser, {"GENERICDP_TRACE": ""})
    assert parser.parse_args([]).trace is None
    assert str(parser.parse_args(["--trace=/x"]).trace) == "/x"
    with pytest.raises(SystemExit):
        parser.parse_args(["--trace="])
    take_variables(parser, {"GENERICDP_TRACE": "/y"})
    assert str(parser.parse_args([]).trace) == "/y"


def test_else_an_empty_variable_is_as_wrong_as_the_empty_flag() -> None:
    parser = ArgumentParser()
    parser.add_argument("--trace", type=path_of, default=None)
    with pytest.raises(UsageError, match="GENERICDP_TRACE is ''"):
        take_variables(parser, {"GENERICDP_TRACE": ""})
