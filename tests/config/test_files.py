"""Test which files make up a config, and what cannot be read as one."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load

from tests.config.changing import ConfigMap, config

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024


def _problem(path: Path) -> str:
    (problem,) = load([path]).problems
    return problem.message


def _names(*paths: Path) -> list[str]:
    loaded = load(paths)
    assert loaded.problems == ()
    return [resource.name.removeprefix("example.com/") for resource in loaded.resources]


def test_a_directory_gives_its_visible_yaml_files_by_name(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", ".hidden.yaml", "c.txt", "d.yaml.bak", "A.yaml"):
        text = config(name.replace(".", "-").strip("-"))
        (tmp_path / name).write_text(f"{text}---\n{config('X')}" if name == "A.yaml" else text)
    assert _names(tmp_path) == ["A-yaml", "X", "a-yaml", "b-yml"]


def test_several_paths_make_up_one_config_in_their_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.yaml").write_text(config(name))
    assert _names(tmp_path / "b", tmp_path / "a") == ["b", "a"]
    assert load([tmp_path / "b", tmp_path / "a"]).files == (
        tmp_path / "b/x.yaml",
        tmp_path / "a/x.yaml",
    )


def test_a_config_map_is_called_by_the_names_that_it_shows(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "v", {"a.yaml": config("a"), "b.yaml": "["})
    loaded = load([volume.directory])
    assert loaded.files == (volume.directory / "a.yaml", volume.directory / "b.yaml")
    assert {problem.file for problem in loaded.problems} == {str(volume.directory / "b.yaml")}


def test_a_directory_without_configs_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert "holds no config" in _problem(tmp_path)


def test_what_is_no_file_is_a_problem_and_never_a_hang(short_directory: Path) -> None:
    os.mkfifo(short_directory / "fifo")
    (short_directory / "below").mkdir()
    (short_directory / "below/directory.yaml").mkdir()
    (short_directory / "link").symlink_to("link")
    (short_directory / "plain").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_directory / "socket"))
        assert _problem(short_directory / "socket") == "it is a socket, not a file"
    assert _problem(short_directory / "fifo") == "it is a FIFO, not a file"
    assert _problem(short_directory / "below") == "it is a directory, not a file"
    assert _problem(Path("/dev/null")) == "it is a character device, not a file"
    assert _problem(short_directory / "nothing") == "it does not exist"
    assert _problem(short_directory / "link") == "it is a symbolic link that leads to itself"
    assert _problem(short_directory / "plain/x") == "a part of its path is not a directory"


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Root may read everything, so be someone else where we are root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def locked(short_directory: Path) -> Iterator[Path]:
    short_directory.chmod(0o755)
    (short_directory / "a.yaml").touch(mode=0)
    (short_directory / "directory").mkdir(mode=0)
    yield short_directory
    # Who is not root could not remove it otherwise.
    (short_directory / "directory").rmdir()


def test_an_unreadable_file_or_directory_is_a_problem(locked: Path, as_nobody: None) -> None:
    assert _problem(locked / "a.yaml") == "it cannot be read: permission denied"
    assert _problem(locked / "directory") == "it cannot be read: permission denied"


def test_what_was_read_from_stdin_is_called_so(tmp_path: Path) -> None:
    loaded = load([Path("-")], pipes={Path("-"): config("a").encode()})
    assert [resource.name for resource in loaded.resources] == ["example.com/a"]
    assert loaded.resources[0].place.file == "<stdin>"
    (problem,) = load([Path("-")], pipes={Path("-"): b" " * (MIB + 1)}).problems
    assert str(problem).startswith("<stdin>:1:1: it is larger than 1 MiB")
    assert load([Path("-/x")], pipes={Path("-"): b""}).problems[0].file == "-/x"
    assert load([Path("-")]).problems[0].file == "-"


def test_a_file_may_have_one_mebibyte_and_no_more(tmp_path: Path) -> None:
    path, text = tmp_path / "a.yaml", config("a").encode()
    path.write_bytes(text + b"#" * (MIB - len(text)))
    assert _names(path) == ["a"]
    path.write_bytes(text + b"#" * (MIB - len(text) + 1))
    assert "larger than 1 MiB" in _problem(path)


def test_an_endless_file_of_unknown_size_is_not_read_to_its_end() -> None:
    assert "cannot be read" in _problem(Path("/proc/self/mem"))
