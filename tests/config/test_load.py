from __future__ import annotations

import hashlib
from pathlib import Path

from genericdp.config.load import load

from tests.config.bounded import HEAD
from tests.config.changing import config


def test_one_bad_file_does_not_hide_the_problems_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("[")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    (tmp_path / "c.yaml").write_text(config("c").replace("match", "mtach"))
    loaded = load([tmp_path, tmp_path / "missing.yaml"])
    assert loaded.resources == ()
    assert [Path(problem.file).name for problem in loaded.problems] == [
        "a.yaml", "b.yaml", "c.yaml", "missing.yaml"
    ]  # fmt: skip


def test_the_digest_tells_whether_names_or_contents_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(config("a"))
    first = load([path]).digest
    assert load([path]).digest == first
    path.write_text(config("a") + "# more\n")
    second = load([path]).digest
    path.rename(tmp_path / "b.yaml")
    assert len({first, second, load([tmp_path / "b.yaml"]).digest}) == 3


def test_the_digest_does_not_tell_where_the_files_lie(tmp_path: Path) -> None:
    """Alerts compare nodes by it, which may keep the same config in different directories."""
    for at in ("here", "there"):
        (tmp_path / at).mkdir()
        (tmp_path / at / "a.yaml").write_text(config("a"))
        (tmp_path / at / "p").write_text(HEAD)
    here, there = tmp_path / "here", tmp_path / "there"
    assert load([here]).digest == load([there]).digest == load([there / "a.yaml"]).digest
    bounded = [load([entry], policy=entry / "p").digest for entry in (here, there)]
    assert bounded[0] == bounded[1]


def test_the_order_of_the_files_is_a_part_of_the_digest(tmp_path: Path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_text(config(path.stem))
    assert load(paths).digest == load([tmp_path]).digest != load(paths[::-1]).digest


def test_a_policy_has_the_digest_of_its_file(tmp_path: Path) -> None:
    path, policy = tmp_path / "a.yaml", tmp_path / "p:1.yaml"
    path.write_text(config("a"))
    policy.write_text(f"{HEAD}devices: {{}}\n")
    loaded = load([path], policy=policy).policy
    assert loaded is not None
    assert loaded.sha256 == hashlib.sha256(policy.read_bytes()).hexdigest()
    assert loaded.file == str(policy)


def test_the_digest_tells_whether_the_policy_differs(tmp_path: Path) -> None:
    path, policy = tmp_path / "a.yaml", tmp_path / "p"
    path.write_text(config("a"))
    digests = {load([path]).digest}
    for text in ("", "devices: {}\n", "devices: {} # more\n"):
        policy.write_text(HEAD + text)
        digests.add(load([path], policy=policy).digest)
    assert len(digests) == 4


def test_problems_are_sorted_by_file_line_and_column(tmp_path: Path) -> None:
    for name in ("b", "a"):
        bad = f"{config(name)}  - {{replicas: 0, name: x}}\n"
        (tmp_path / f"{name}.yaml").write_text(bad)
    places = [(problem.file, problem.line, problem.column) for problem in load([tmp_path]).problems]
    assert places == sorted(places)
    assert len({file for file, _, _ in places}) == 2
