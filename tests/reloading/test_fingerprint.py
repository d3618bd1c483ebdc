"""genericdp.reloading.fingerprint: what has to be watched, and what tells two configs apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genericdp.reloading.fingerprint import fingerprint
from tests.reloading.configs import ConfigMap


def test_every_folder_on_the_way_is_watched(tmp_path: Path) -> None:
    """A link in the middle, one at the end, and ``..`` behind a link."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.yaml").touch()
    (tmp_path / "real/a.yaml").symlink_to("../elsewhere/x.yaml")
    (tmp_path / "link").symlink_to("real/deep")
    seen = fingerprint([tmp_path / "link/../a.yaml"])
    below = {folder.removeprefix(f"{tmp_path}") for folder in seen.folders}
    assert {"", "/real", "/elsewhere"} <= below
    passed = {path.removeprefix(f"{tmp_path}") for path in seen.passed}
    assert {"/link", "/real", "/real/a.yaml", "/elsewhere/x.yaml"} <= passed
    assert seen.whole == frozenset()
    assert seen.written == {f"{tmp_path}/elsewhere"}
    assert seen.concerns(f"{tmp_path}/real", "a.yaml")
    assert seen.concerns(f"{tmp_path}/real", None)
    assert not seen.concerns(f"{tmp_path}/real", "b.yaml")


def test_of_a_folder_every_entry_counts(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "v", {"a.yaml": "x"})
    seen = fingerprint([volume.folder])
    assert seen.concerns(f"{volume.folder}", "new.yaml")
    assert seen.concerns(f"{volume.folder}", "..data")
    assert os.path.realpath(volume.folder / "..data") in seen.folders
    data = os.path.realpath(volume.folder / "..data")
    assert seen.written == {f"{volume.folder}", data}
    volume.update({"a.yaml": "x"})
    assert fingerprint([volume.folder]) != seen


@pytest.mark.parametrize("name", ["nothing", "loop", "fifo", "file/below"])
def test_what_is_no_config_is_seen_too(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    before = fingerprint([tmp_path / name])
    assert str(tmp_path) in before.folders
    assert fingerprint([tmp_path / name]) == before


def test_a_relative_path_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").touch()
    assert fingerprint([Path("a.yaml")]) == fingerprint([tmp_path / "a.yaml"])


def test_what_else_is_in_a_folder_makes_no_difference(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    before = fingerprint([tmp_path])
    (tmp_path / "README").touch()
    (tmp_path / ".a.yaml.swp").touch()
    assert fingerprint([tmp_path]) == before
    (tmp_path / "b.yml").touch()
    assert fingerprint([tmp_path]) != before
