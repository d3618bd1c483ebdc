"""genericdp.reloading.sight: what has to be watched, and what tells two configs apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genericdp.reloading.sight import look
from tests.reloading.configs import ConfigMap


def test_every_folder_on_the_way_is_watched(tmp_path: Path) -> None:
    """A link in the middle, one at the end, and ``..`` behind a link."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.yaml").touch()
    (tmp_path / "real/a.yaml").symlink_to("../elsewhere/x.yaml")
    (tmp_path / "link").symlink_to("real/deep")
    sight = look([tmp_path / "link/../a.yaml"])
    below = {folder.removeprefix(f"{tmp_path}") for folder in sight.folders}
    assert {"", "/real", "/elsewhere"} <= below
    passed = {path.removeprefix(f"{tmp_path}") for path in sight.passed}
    assert {"/link", "/real", "/real/a.yaml", "/elsewhere/x.yaml"} <= passed
    assert sight.whole == frozenset()
    assert sight.written == {f"{tmp_path}/elsewhere"}
    assert sight.concerns(f"{tmp_path}/real", "a.yaml")
    assert sight.concerns(f"{tmp_path}/real", None)
    assert not sight.concerns(f"{tmp_path}/real", "b.yaml")


def test_of_a_folder_every_entry_counts(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "v", {"a.yaml": "x"})
    sight = look([volume.folder])
    assert sight.concerns(f"{volume.folder}", "new.yaml")
    assert sight.concerns(f"{volume.folder}", "..data")
    assert os.path.realpath(volume.folder / "..data") in sight.folders
    data = os.path.realpath(volume.folder / "..data")
    assert sight.written == {f"{volume.folder}", data}
    volume.update({"a.yaml": "x"})
    assert look([volume.folder]) != sight


@pytest.mark.parametrize("name", ["nothing", "loop", "fifo", "file/below"])
def test_what_is_no_config_is_seen_too(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    before = look([tmp_path / name])
    assert str(tmp_path) in before.folders
    assert look([tmp_path / name]) == before


def test_a_relative_path_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").touch()
    assert look([Path("a.yaml")]) == look([tmp_path / "a.yaml"])


def test_what_else_is_in_a_folder_makes_no_difference(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    before = look([tmp_path])
    (tmp_path / "README").touch()
    (tmp_path / ".a.yaml.swp").touch()
    assert look([tmp_path]) == before
    (tmp_path / "b.yml").touch()
    assert look([tmp_path]) != before
