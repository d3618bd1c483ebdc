"""Groups on made-up machines: what a person is shown of several nodes that are one device."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parent / "sound-card.yaml"

Output = pytest.CaptureFixture[str]


@pytest.fixture
def webcam(testbed: Callable[[str], Path]) -> Path:
    return testbed("webcam")


def _lose_the_microphone(machine: Path) -> None:
    (syspath,) = machine.glob("sys/devices/**/pcmC1D0c")
    shutil.rmtree(syspath)
    (machine / "sys/class/sound/pcmC1D0c").unlink()
    (machine / "dev/snd/pcmC1D0c").unlink()


def test_the_nodes_of_a_card_are_one_device_called_by_where_it_sits(
    webcam: Path, capsys: Output
) -> None:
    assert main(["discover", "--config", str(EXAMPLE), "--root", str(webcam)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    name = "example.com/microphone"
    assert rows[1] == [name, "1-8:1.2", "Healthy", "/dev/snd/controlC1", "/dev/snd/pcmC1D0c", "-"]


def test_a_container_gets_all_nodes_of_it(webcam: Path, capsys: Output) -> None:
    argv = ["allocate", "--config", str(EXAMPLE), "--root", str(webcam), "-o", "json"]
    assert main([*argv, "example.com/microphone=1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    text = json.dumps(answer)
    assert text.count("/dev/snd/controlC1") == text.count("/dev/snd/pcmC1D0c") == 2
    assert "controlC1,pcmC1D0c" in text


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("/dev/snd/pcmC1D0c", "is offered: it is 1-8:1.2 of example.com/microphone"),
        ("/dev/snd/controlC1", "is offered: it is 1-8:1.2 of example.com/microphone"),
    ],
)
def test_every_member_is_explained_as_the_device_it_is_part_of(
    webcam: Path, capsys: Output, device: str, said: str
) -> None:
    argv = ["explain", "--config", str(EXAMPLE), "--root", str(webcam), device]
    assert main(argv) == 0
    assert said in capsys.readouterr().out


def test_an_incomplete_group_says_what_it_lacks(webcam: Path, capsys: Output) -> None:
    _lose_the_microphone(webcam)
    lacks = "its group '1-8:1.2' has members of 1 of 2 entries: 1 missing, match[1]"
    assert main(["discover", "--config", str(EXAMPLE), "--root", str(webcam)]) == 0
    assert f"/dev/snd/controlC1: {lacks}" in capsys.readouterr().out
    argv = ["explain", "--config", str(EXAMPLE), "--root", str(webcam), "/dev/snd/controlC1"]
    main(argv)
    assert lacks in capsys.readouterr().out
