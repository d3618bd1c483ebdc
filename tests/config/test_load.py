"""The files that make up a config, its digest, and what cannot be read as one."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load

from tests.config.bounded import HEAD as POLICY
from tests.config.changing import ConfigMap, config
from tests.config.loading import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024
VALID = Path(__file__).parent.parent / "configs/valid"


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
    paths = [tmp_path / "b", tmp_path / "a"]
    assert _names(*paths) == ["b", "a"]
    assert load(paths).files == tuple(path / "x.yaml" for path in paths)


def test_a_config_map_is_called_by_the_names_that_it_shows(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "v", {"a.yaml": config("a"), "b.yaml": "["})
    loaded = load([volume.directory])
    assert loaded.files == (volume.directory / "a.yaml", volume.directory / "b.yaml")
    assert {problem.file for problem in loaded.problems} == {str(volume.directory / "b.yaml")}


def test_what_is_no_file_is_a_problem_and_never_a_hang(short_directory: Path) -> None:
    os.mkfifo(short_directory / "fifo")
    (short_directory / "below").mkdir()
    (short_directory / "below/directory.yaml").mkdir()
    (short_directory / "notes").mkdir()
    (short_directory / "notes/notes.txt").touch()
    (short_directory / "link").symlink_to("link")
    (short_directory / "plain").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_directory / "socket"))
    for name, said in {
        "socket": "it is a socket, not a file",
        "fifo": "it is a FIFO, not a file",
        "below": "it is a directory, not a file",
        "/dev/null": "it is a character device, not a file",
        "nothing": "it does not exist",
        "link": "it is a symbolic link that leads to itself",
        "plain/x": "a part of its path is not a directory",
    }.items():
        assert _problem(short_directory / name) == said
    assert "holds no config" in _problem(short_directory / "notes")
    # Endless, and of unknown size.
    assert "cannot be read" in _problem(Path("/proc/self/mem"))


@pytest.fixture
def as_nobody(short_directory: Path) -> Iterator[Path]:
    """Root may read everything, so be someone else where we are root."""
    short_directory.chmod(0o755)
    (short_directory / "a.yaml").touch(mode=0)
    (short_directory / "directory").mkdir(mode=0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield short_directory
    os.seteuid(before)
    # Who is not root could not remove it otherwise.
    (short_directory / "directory").rmdir()


def test_an_unreadable_file_or_directory_is_a_problem(as_nobody: Path) -> None:
    for name in ("a.yaml", "directory"):
        assert _problem(as_nobody / name) == "it cannot be read: permission denied"


def test_what_was_read_from_stdin_is_called_so(tmp_path: Path) -> None:
    (resource,) = loaded(config("a")).resources
    assert (resource.name, resource.place.file) == ("example.com/a", "<stdin>")
    (problem,) = loaded(" " * (MIB + 1)).problems
    assert str(problem).startswith("<stdin>:1:1: it is larger than 1 MiB")
    assert load([Path("-/x")], pipes={Path("-"): b""}).problems[0].file == "-/x"
    assert load([Path("-")]).problems[0].file == "-"


def test_a_file_may_have_one_mebibyte_and_no_more(tmp_path: Path) -> None:
    path, text = tmp_path / "a.yaml", config("a").encode()
    path.write_bytes(text + b"#" * (MIB - len(text)))
    assert _names(path) == ["a"]
    path.write_bytes(text + b"#" * (MIB - len(text) + 1))
    assert "larger than 1 MiB" in _problem(path)


def test_one_bad_file_does_not_hide_the_problems_of_the_others_and_all_are_sorted(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.yaml").write_text("[")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    (tmp_path / "c.yaml").write_text(f"{config('c')}  - {{replicas: 0, name: x}}\n")
    (tmp_path / "d.yaml").write_text(config("d").replace("match", "mtach"))
    loaded = load([tmp_path / "missing.yaml", tmp_path])
    assert loaded.resources == ()
    places = [(problem.file, problem.line, problem.column) for problem in loaded.problems]
    assert places == sorted(places)
    files = ["a.yaml", "b.yaml", "c.yaml", "c.yaml", "c.yaml", "d.yaml", "missing.yaml"]
    assert [Path(file).name for file, _, _ in places] == files


def test_the_digest_tells_whether_names_contents_or_their_order_differ(tmp_path: Path) -> None:
    path, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    path.write_text(config("a"))
    first = load([path]).digest
    assert load([path]).digest == first
    path.write_text(config("a") + "# more\n")
    second = load([path]).digest
    path.rename(other)
    third = load([other]).digest
    path.write_text(config("b"))
    both = load([path, other]).digest
    assert both == load([tmp_path]).digest
    assert len({first, second, third, both, load([other, path]).digest}) == 5
    # Alerts compare nodes by it, which may keep the same config in different directories.
    elsewhere = tmp_path / "elsewhere/b.yaml"
    elsewhere.parent.mkdir()
    other.rename(elsewhere)
    assert load([elsewhere]).digest == third


def test_the_digest_tells_whether_the_policy_differs_which_has_that_of_its_file(
    tmp_path: Path,
) -> None:
    path, file = tmp_path / "a.yaml", tmp_path / "p:1.yaml"
    path.write_text(config("a"))
    digests = {load([path]).digest}
    for text in ("", "devices: {}\n", "devices: {} # more\n"):
        file.write_text(POLICY + text)
        loaded = load([path], policy=file)
        digests.add(loaded.digest)
        assert loaded.policy is not None
        assert loaded.policy.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
        assert loaded.policy.file == str(file)
    assert len(digests) == 4
