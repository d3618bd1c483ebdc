from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.config.files import MAX_BYTES, Content, Source, content, sources
from genericdp.config.loaded import shown
from genericdp.errors import Problem
from tests.reloading.configs import ConfigMap

if TYPE_CHECKING:
    from collections.abc import Iterator


def _problem(path: Path) -> str:
    found = content(Source(name=str(path), path=path))
    assert isinstance(found, Problem)
    return found.message


def _text(source: Source) -> bytes:
    found = content(source)
    assert isinstance(found, Content)
    return found.text


def test_a_file_gives_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\n")
    found, problems = sources([tmp_path / "a.yaml"])
    assert [_text(source) for source in found] == [b"a: 1\n"]
    assert problems == []


def test_a_folder_gives_its_visible_yaml_files_by_name(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", ".hidden.yaml", "c.txt", "d.yaml.bak", "A.yaml"):
        (tmp_path / name).touch()
    found, problems = sources([tmp_path])
    assert [Path(source.name).name for source in found] == ["A.yaml", "a.yaml", "b.yml"]
    assert problems == []


def test_several_paths_make_up_one_config_in_their_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.yaml").touch()
    found, _ = sources([tmp_path / "b", tmp_path / "a"])
    assert [source.path for source in found] == [tmp_path / "b/x.yaml", tmp_path / "a/x.yaml"]


def test_a_folder_without_configs_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    found, (problem,) = sources([tmp_path])
    assert found == []
    assert "holds no config" in problem.message


def test_a_config_map_is_read_as_of_one_version(tmp_path: Path) -> None:
    """The mount's link is swapped between listing and reading: both files are the old ones."""
    for version in ("1", "2"):
        (tmp_path / f"..v{version}").mkdir()
        for name in ("a.yaml", "b.yaml"):
            (tmp_path / f"..v{version}" / name).write_text(version)
    (tmp_path / "..data").symlink_to("..v1")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    found, _ = sources([tmp_path])
    (tmp_path / "new").symlink_to("..v2")
    (tmp_path / "new").rename(tmp_path / "..data")
    assert [_text(source) for source in found] == [b"1", b"1"]
    assert [source.name for source in found] == [str(tmp_path / n) for n in ("a.yaml", "b.yaml")]
    assert [_text(source) for source in sources([tmp_path])[0]] == [b"2", b"2"]


def test_files_that_are_named_one_by_one_are_of_one_version_too(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "v", {"a.yaml": "1", "b.yaml": "1"})

    def updated_in_between() -> Iterator[Path]:
        yield volume.folder / "a.yaml"
        volume.update({"a.yaml": "2", "b.yaml": "2"})
        yield volume.folder / "b.yaml"

    (first, second), _ = sources(updated_in_between())
    assert first.path.parent == second.path.parent
    (later,), _ = sources([volume.folder / "b.yaml"])
    assert _text(later) == b"2"


def test_a_config_that_is_removed_while_it_is_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    (source,), _ = sources([tmp_path])
    (tmp_path / "a.yaml").unlink()
    found = content(source)
    assert isinstance(found, Problem)
    assert found.message == "it does not exist"


def test_what_is_no_file_is_a_problem_and_never_a_hang(short_folder: Path) -> None:
    os.mkfifo(short_folder / "fifo")
    (short_folder / "folder.yaml").mkdir()
    (short_folder / "link").symlink_to("link")
    (short_folder / "plain").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_folder / "socket"))
        assert _problem(short_folder / "socket") == "it is a socket, not a file"
    assert _problem(short_folder / "fifo") == "it is a FIFO, not a file"
    assert _problem(short_folder / "folder.yaml") == "it is a folder, not a file"
    assert _problem(Path("/dev/null")) == "it is a character device, not a file"
    assert _problem(short_folder / "nothing") == "it does not exist"
    assert _problem(short_folder / "link") == "it is a symbolic link that leads to itself"
    assert _problem(short_folder / "plain/x") == "a part of its path is no folder"


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Root may read everything, so be someone else where we are root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def locked(short_folder: Path) -> Iterator[Path]:
    short_folder.chmod(0o755)
    (short_folder / "a.yaml").touch(mode=0)
    (short_folder / "folder").mkdir(mode=0)
    yield short_folder
    # Who is not root could not remove it otherwise.
    (short_folder / "folder").rmdir()


def test_an_unreadable_file_or_folder_is_a_problem(locked: Path, as_nobody: None) -> None:
    assert _problem(locked / "a.yaml") == "it cannot be read: permission denied"
    _, (problem,) = sources([locked / "folder"])
    assert problem.message == "it cannot be read: permission denied"


def test_what_was_read_from_stdin_is_called_so() -> None:
    (source, other), problems = sources([Path("-"), Path("-/x")], b"a: 1")
    assert (source.name, _text(source), problems) == ("<stdin>", b"a: 1", [])
    assert other.name == "-/x"
    large = content(Source(name="<stdin>", path=Path("-"), text=b" " * (MAX_BYTES + 1)))
    assert "larger than 1 MiB" in getattr(large, "message", "")
    (plain,), _ = sources([Path("-")])
    assert plain.name == "-"


def test_a_file_may_have_one_mebibyte_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b" " * MAX_BYTES)
    assert _text(Source(name="a", path=tmp_path / "a.yaml")) == b" " * MAX_BYTES
    (tmp_path / "a.yaml").write_bytes(b" " * (MAX_BYTES + 1))
    assert "larger than 1 MiB" in _problem(tmp_path / "a.yaml")


def test_an_endless_file_of_unknown_size_is_not_read_to_its_end() -> None:
    assert "cannot be read" in _problem(Path("/proc/self/mem"))


def test_a_name_of_any_bytes_is_shown_in_one_line() -> None:
    assert shown(os.fsdecode(b"a\xff\n\x1bb")) == "a\\xff\\n\\x1bb"
    assert shown(Path("/etc/ä.yaml")) == "/etc/ä.yaml"
