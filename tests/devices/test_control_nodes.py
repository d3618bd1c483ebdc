"""A control node that comes with every device must not pass for a device itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

NPU = """
  - name: example.com/npu
    match: [{path: MATCH}]
    EXCLUDE
    inject:
      devices:
        - path: $(device.path)
        - path: /dev/davinci_manager
        - {path: "/dev/davinci_extra[0]", optional: true}
"""


def config(folder: Path, match: str, exclude: str = "") -> Path:
    file = folder / "config.yaml"
    text = NPU.replace("MATCH", match).replace("EXCLUDE", exclude)
    file.write_text(f"{HEAD}{text}")
    return file


@pytest.mark.parametrize(
    ("match", "exclude"),
    [
        ("'/dev/davinci[0-9]*'", ""),
        ("/dev/davinci*", "exclude: [{path: /dev/davinci_*}]"),
        ("/dev/davinci*", "exclude: [{path: [/dev/x, /dev/davinci_manager]}]"),
        ("/dev/davinci*", "exclude: [{udev: {name: davinci_manager}}]"),
        ("/dev/davinci*, values: {number: '*'}", "values: {number: {text: $(device.minor)}}"),
        ("/dev/*/davinci*", ""),
        ("/dev/davinci_manager", ""),
    ],
)
def test_validate_says_nothing_of_what_is_not_matched(
    match: str, exclude: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--strict", str(config(tmp_path, match, exclude))]) == 0
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("match", "hint"),
    [
        ("/dev/davinci*", "write /dev/davinci[0-9]*, or exclude: [{path: /dev/davinci_manager}]"),
        ("'/dev/davinci?manage[r]'", "write exclude: [{path: /dev/davinci_manager}]"),
    ],
)
def test_validate_warns_of_a_glob_that_matches_what_comes_with_every_device(
    match: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, match, "exclude: [{path: /dev/davinci_extra0}]")
    assert main(["validate", "--strict", str(file)]) == 2
    assert capsys.readouterr().out.splitlines()[0] == (
        f"{file}:6:20: warning: .resources[0].match[0].path: this matches /dev/davinci_manager,"
        f" too, which comes with every device ({hint})"
    )


def test_discover_warns_of_the_device_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where only the host tells: here the node has another name."""
    tree = Tree(tmp_path / "root")
    for number in range(2):
        tree.node(f"davinci{number}", f"236:{number}", at=f"virtual/npu{number}")
    tree.node("davinci_manager", "237:0", at="virtual/davinci_manager")
    tree.link("dev/npu/manager", "../davinci_manager")
    where = ["discover", "--root", str(tree.folder), "--config"]
    file = config(tmp_path, "/dev/davinci*")
    file.write_text(file.read_text().replace("/dev/davinci_manager", "/dev/npu/manager"))
    assert main([*where, str(file)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: example.com/npu: device davinci_manager: it is the control node"
        " /dev/npu/manager, which comes with every device: exclude it, as in exclude: [{path:"
        " /dev/npu/manager}]"
    ]
    assert main([*where, str(config(tmp_path, "'/dev/davinci[0-9]*'"))]) == 0
    assert capsys.readouterr().err == ""


def test_discover_says_nothing_of_a_device_that_is_the_only_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path / "root")
    tree.node("fuse", "10:229")
    file = tmp_path / "config.yaml"
    file.write_text(
        f"{HEAD}  - name: example.com/fuse\n    match: [{{path: /dev/fuse}}]\n"
        "    inject: {devices: [{path: /dev/fuse, permissions: rwm}]}\n"
    )
    assert main(["discover", "--root", str(tree.folder), "--config", str(file)]) == 0
    assert capsys.readouterr().err == ""
