"""Variables that are empty, or none of ours."""

from __future__ import annotations

import pytest

from genericdp.cli.environment import (
    OptionParser,
    StoredUnlessEmpty,
    take_variables,
    unknown_variables,
)
from genericdp.cli.options import path_of
from genericdp.errors import UsageError


def test_the_option_says_whether_its_variable_may_be_empty() -> None:
    parser = OptionParser()
    parser.add_argument("--trace", action=StoredUnlessEmpty, type=path_of, default=None)
    take_variables(parser, {"GENERICDP_TRACE": ""})
    assert parser.parse_args([]).trace is None
    assert str(parser.parse_args(["--trace=/x"]).trace) == "/x"
    with pytest.raises(SystemExit):
        parser.parse_args(["--trace="])
    take_variables(parser, {"GENERICDP_TRACE": "/y"})
    assert str(parser.parse_args([]).trace) == "/y"


def test_else_an_empty_variable_is_as_wrong_as_the_empty_flag() -> None:
    parser = OptionParser()
    parser.add_argument("--trace", type=path_of, default=None)
    with pytest.raises(UsageError, match="GENERICDP_TRACE is ''"):
        take_variables(parser, {"GENERICDP_TRACE": ""})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("GENERICDP_LOGLEVEL", "debug", [" (did you mean GENERICDP_LOG_LEVEL?)"]),
        ("GENERICDP_NODENAME", "n", [" (did you mean GENERICDP_NODE_NAME?)"]),
        ("GENERICDP_XYZZY", "n", [""]),
        ("GENERICDP_XYZZY", "", []),
        ("GENERICDP_", "x", []),
        ("GENERICDP", "x", []),
        ("GENERICDP_ONCE", "x", []),
        ("GENERICDP_SERVICE_HOST", "10.0.0.1", []),
        ("GENERICDP_SERVICE_PORT_HTTP", "80", []),
        ("GENERICDP_WEB_SERVICE_PORT", "80", []),
        ("GENERICDP_PORT", "tcp://10.0.0.1:80", []),
        ("GENERICDP_PORT_80_TCP_ADDR", "10.0.0.1", []),
    ],
)
def test_a_variable_that_is_none_of_ours_is_told(name: str, text: str, said: list[str]) -> None:
    """What Kubernetes sets where a service has our name is passed over."""
    expected = [f"the variable {name} means nothing to genericdp{hint}" for hint in said]
    assert list(unknown_variables({name: text})) == expected
