"""Each case prints what its transcript says, and a mistake in a case says what to write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cases.description import CaseError
from tests.cases.machine import Machine
from tests.cases.running import (
    DIRECTORY,
    MOST_LINES,
    all_cases,
    check_length,
    difference,
    run,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

CASES = all_cases()
each_case = pytest.mark.parametrize(
    "case", CASES, ids=[str(case.relative_to(DIRECTORY)) for case in CASES]
)


@each_case
def test_a_case_prints_what_its_transcript_says(case: Path) -> None:
    difference_now = difference(case, run(case))
    assert not difference_now, f"\n{difference_now}\nif this is right: make cases"


@each_case
def test_a_case_fits_on_a_screen_or_two(case: Path) -> None:
    check_length(case)


CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
- {name: example.com/fuse, match: [{path: /dev/fuse}]}
"""
PROBED = CONFIG.replace("}]}", "}], health: [{open: {}}]}")
MACHINE = "nodes: {fuse: 10:229}\ndevices: {/a: {subsystem: x, /b: {subsystem: x}}}\n"
HEAD = "# Why.\n"


@pytest.mark.parametrize(
    ("transcript", "error"),
    [
        ("$ reconcile", "1: begin with '# ' and why the case matters"),
        (HEAD, "2: write a step, as '$ genericdp discover'"),
        (HEAD + "reconcile\n$ reconcile", "2: reconcile: a step begins with '$ '"),
        (HEAD + "$ reconcile\n\n# Then.\n$ restart", "4: # Then.: a step begins with "),
        (HEAD + "$ reconcile\n\nrestart", "4: restart: a step begins with '$ '"),
        (HEAD + "$ reconcile\n$restart", "3: $restart: a step begins with '$ '"),
        (HEAD + "$ ", "2: $ : there is no command : there is genericdp, config, plug"),
        (
            HEAD + "$ reconcil",
            "2: $ reconcil: there is no command reconcil: did you mean reconcile?",
        ),
        (HEAD + "$ write /x 'a", "2: $ write /x 'a: No closing quotation"),
        (HEAD + "$ plug", "2: $ plug: write $ plug NAME … [KEY=VALUE …]"),
        (HEAD + "$ reconcile; restart", "2: $ reconcile; restart: write $ reconcile [SECONDS|due]"),
        (HEAD + "$ reconcile soon", "2: $ reconcile soon: write $ reconcile [SECONDS|due]"),
        (HEAD + "$ reconcile | grep a", "[SECONDS|due], and '| grep REGEX' after genericdp only"),
        (
            HEAD + "$ genericdp dance",
            "2: $ genericdp dance: genericdp: there is no command 'dance'",
        ),
        (HEAD + "$ genericdp discover --no", "unrecognized arguments: --no (see genericdp"),
        (HEAD + "$ genericdp discover | head -1", "-1: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover | grep -v a", "a: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover | grep a b", "b: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover | grep -v", "v: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover|grep a|grep b", "b: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover > x", "x: only '| grep REGEX' may follow"),
        (HEAD + "$ genericdp discover | grep '('", "'(' is not a regex: missing ), unterminated"),
        (
            HEAD + "$ genericdp discover | grep none",
            "grep keeps none of 2 lines; the first is 'RES",
        ),
        (HEAD + "$ config no.yaml", "neither the case nor examples/configs has it: did you mean "),
        (HEAD + "$ plug fus", "2: $ plug fus: no device is named fus: did you mean fuse?"),
        (HEAD + "$ plug fuse", "2: $ plug fuse: fuse is plugged in: '$ unplug fuse' first"),
        (
            HEAD + "$ unplug fuse\n$ unplug fuse",
            "3: $ unplug fuse: fuse is not plugged in: '$ plug ",
        ),
        (HEAD + "$ unplug fuse\n$ plug fuse node=1:2", "node cannot be changed: describe another"),
        (HEAD + "$ remove /x", "2: $ remove /x: No such file or directory"),
        (
            HEAD + "$ pod a example.com/fuse=1",
            "no config that '$ reconcile' has read has example",
        ),
        (HEAD + "$ reconcile\n$ pod a example.com/fuss=1", "fuss: did you mean example.com/fuse?"),
        (HEAD + "$ reconcile\n$ pod a example.com/fuse", "write $ pod NAME RESOURCE=N"),
        (HEAD + "$ reconcile\n$ end a", "3: $ end a: no pod a has a device: there is none"),
        (HEAD + "$ config probed.yaml\n$ reconcile", "it runs no probes, as of example.com/fuse"),
        (HEAD + "$ config broken.yaml\n$ reconcile", "3: $ reconcile: config.yaml:1:4: not YAML: "),
        (HEAD + "$ write /../x y", "2: $ write /../x y: /../x may leave the machine: "),
        (HEAD + "$ unplug a\n$ plug b", "3: $ plug b: its parent is not: '$ plug a' first"),
    ],
)
def test_a_mistake_in_a_transcript_names_its_line(
    transcript: str, error: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "probed.yaml").write_text(PROBED)
    (tmp_path / "broken.yaml").write_text("a: 'b\n")
    (tmp_path / "machine.yaml").write_text(MACHINE)
    (tmp_path / "expect.txt").write_text(transcript)
    with pytest.raises(CaseError) as raised:
        run(tmp_path)
    assert re.match(rf"{tmp_path}/expect.txt:\d+: ", str(raised.value))
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("machine", "error"),
    [
        ("", "1: no mapping: the keys are host, nodes, files, links, devices"),
        ("mice: 3", "1: there is no key mice: there is host, nodes, files, links, devices"),
        ("devises: {}", "1: there is no key devises: did you mean devices?"),
        ("host: stick", "1: there is no host stick: did you mean sticks"),
        ("host: {a: b}", "1: write host: NAME"),
        ("devices: {\n  /a: {subsystem: x", "2: expected ',' or '}', but got '<stream end>'"),
        ("files: {}\nnodes: {fuse: 10}", "2: write fuse: MAJOR:MINOR"),
        ("nodes: [fuse]", "1: write nodes: {…}"),
        ("files: {/a: {b: c}}", "1: write /a: TEXT"),
        ("nodes: {a: 1:1, b: 1:1}", "1: /sys/dev/char/1:1 is given twice"),
        ("nodes: {a: 1:1,\n a: 1:2}", "1: a key is given twice"),
        ("devices:\n  fuse: {subsystem: misc}", "2: fuse is not a device: write /PATH: "),
        ("devices:\n  /fuse: {}", "2: /fuse is not a device: write /PATH: "),
        ("devices:\n  /fuse:\n    a: b", "3: /fuse has no subsystem: write subsystem: NAME"),
        (
            "devices:\n  /fuse: {subsytem: a}",
            "2: subsytem would be an attribute: did you mean subsys",
        ),
        (
            "devices:\n  /fuse: {subsystem: a, nod: 1:2}",
            "2: nod would be an attribute: did you mean n",
        ),
        (
            "devices:\n  /fuse: {subsystem: a, node: 1}",
            "2: write node: MAJOR:MINOR, or MAJOR:MINOR N",
        ),
        ("devices:\n  /fuse: {subsystem: a, node: 1:1 /dev/a}", "2: write node: MAJOR:MINOR, or "),
        ("devices:\n  /fuse: {subsystem: a, links: b}", "2: write links: [NAME, …]"),
        ("devices:\n  /fuse: {subsystem: a, links: [/dev/b]}", "2: write links: [NAME, …]"),
        (
            "devices:\n  /fuse: {subsystem: a, plugged: no}",
            "2: write plugged: false, or leave it out",
        ),
        ("devices:\n  /fuse: {subsystem: a, b: [c]}", "2: write b: TEXT"),
    ],
)
def test_a_mistake_in_a_machine_names_its_line(machine: str, error: str, tmp_path: Path) -> None:
    description = tmp_path / "machine.yaml"
    description.write_text(machine)
    with pytest.raises(CaseError) as raised:
        Machine(tmp_path / "machine", description)
    assert str(raised.value).startswith(f"{description}:{error}")


@pytest.mark.parametrize(
    ("names", "transcript", "error"),
    [
        (["a/bb"], None, "there is no case a/bb: did you mean a/b?\n"),
        ([], None, "a/b/expect.txt:1: begin with '# ' and why the case matters\n"),
        ([], "# \udce4", "a/b: three files of UTF-8 make a case: 'utf-8' codec can't decode"),
        ([], HEAD + "$ plug", "a/b/expect.txt:2: $ plug: write $ plug NAME … [KEY=VALUE …]\n"),
        (
            [],
            "# Why.\n" * MOST_LINES + "$ restart\n",
            "a/b/expect.txt:62: the files have 64 lines, of 60: ",
        ),
    ],
)
def test_make_cases_says_a_mistake_in_one_line_and_fails(
    names: list[str],
    transcript: str | None,
    error: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = tmp_path / "a/b"
    case.mkdir(parents=True)
    (case / "machine.yaml").write_text(MACHINE)
    if transcript:
        (case / "expect.txt").write_text(transcript, errors="surrogateescape")
    assert write(names, tmp_path) == 1
    said = capsys.readouterr().err
    assert said.removeprefix(f"{tmp_path}/").startswith(error)
    assert said.count("\n") == 1


def test_a_usb_device_gets_the_next_number_and_the_node_of_it(tmp_path: Path) -> None:
    described = DIRECTORY / "ids/twins-by-port/machine.yaml"
    machine = Machine(tmp_path / "machine", described)
    for name in ("1-2", "1-3", "1-2"):
        machine.pull_out(name)
        machine.plug_in(name, {})
    nodes = machine.path("/dev/bus/usb/001")
    assert sorted(node.name for node in nodes.iterdir()) == ["008", "009"]
    assert machine.path("/sys/dev/char/189:8").readlink().name == "1-2"
    assert machine.below("1-2")[0].attributes["devnum"] == b"9\n"
