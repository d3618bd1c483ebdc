from __future__ import annotations

from dataclasses import replace

from genericdp.counting import labels
from genericdp.model import (
    Command,
    FileCheck,
    Hook,
    Hooks,
    KernelLogCheck,
    OpenCheck,
    Probe,
)
from genericdp.tally import Labels
from genericdp.template import parse
from tests.supervising import resource

COMMAND = Command(argv=(parse("/opt/secret/check"), parse("--token=x")))


def test_probes_are_called_by_kind_and_place_and_never_by_what_they_run() -> None:
    checks = (
        COMMAND,
        KernelLogCheck(regex="x"),
        FileCheck(path=parse("/sys/x")),
        OpenCheck(),
        COMMAND,
    )
    one = replace(
        resource("example.com/a", "/dev/a"),
        health=tuple(Probe(check=check) for check in checks),
        hooks=Hooks(pre_start=Hook(command=COMMAND)),
    )
    assert labels(one) == Labels(
        probes={0: "exec-0", 2: "file-2", 3: "open-3", 4: "exec-4"}, hooks=("preStart",)
    )


def test_a_resource_without_probes_and_hooks_has_no_such_series() -> None:
    assert labels(resource("example.com/a", "/dev/a")) == Labels()
