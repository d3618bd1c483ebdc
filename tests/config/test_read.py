"""Any bytes as a config: values, or problems with their places."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from genericdp.config.load import load
from genericdp.scalars import yaml_flow
from hypothesis import given
from hypothesis import strategies as st

from tests.config.loading import FUSE, HEAD, loaded, places

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "tests/configs"
ALL_OF_IT = (CONFIGS / "valid/all-of-it.yaml").read_text()
MAX_DEPTH = 32


@pytest.mark.parametrize(
    ("env", "values"),
    [
        ("{A: '1', B: \"x\\ty\", C: v1}", {"A": "1", "B": "x\ty", "C": "v1"}),
        ("{A: !!str 0403, B: !!str y}", {"A": "0403", "B": "y"}),
        ("{A: &x b, B: *x}", {"A": "b", "B": "b"}),
        ("\r\n        A: b\r\n", {"A": "b"}),
        ("\n        A: |\n          z\n", {"A": "z\n"}),
    ],
)
def test_a_text_is_what_every_yaml_reads(env: str, values: dict[str, str]) -> None:
    (resource,) = loaded(
        f"\ufeff# c\n---\n---\n{HEAD}{FUSE}    inject:\n      env: {env}"
    ).resources
    assert {key: str(entry.value) for key, entry in resource.inject.env.items()} == values


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["1:1 it is empty"]),
        (" \n\n", ["1:1 it is empty"]),
        ("a\0b", ["1:2 the character U+0000 is not allowed in YAML: is this a YAML file?"]),
        ("a: b\n\x1b", ["2:1 the character U+001B is not allowed in YAML: is this a YAML file?"]),
        (b"a: \xff", ["1:4 it is not UTF-8 text: byte 0xff"]),
        ("a: b".encode("utf-16"), ["1:1 it is UTF-16 text, not UTF-8"]),
        ("a: *x\nb: *y", ["1:4 the alias '*x' has no anchor '&x' before it"]),
        ("a: &x b\nc: &x d", ["2:4 duplicate anchor '&x'"]),
        ("{'ä€😀': [, b: y}", ["1:10 not YAML: did not find expected node content while parsing a"
                              " flow node"]),
        ("[" * 500_000, [f"1:{MAX_DEPTH + 1} nested deeper than 32 levels"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place(text: str | bytes, messages: list[str]) -> None:
    assert places(text) == messages


def test_the_depth_is_limited() -> None:
    for depth, messages in ((MAX_DEPTH - 1, []), (MAX_DEPTH, ["nested deeper than 32 levels"])):
        text = f"x-a: {'[' * depth}{']' * depth}\n{HEAD}{FUSE}"
        assert [problem.message for problem in loaded(text).problems] == messages
    assert "nested deeper" in places("a:\n" + "".join(" " * i + "- \n" for i in range(1, 100)))[0]


def test_what_aliases_repeat_is_limited() -> None:
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    rows = ["a: &a [x]"] + [f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in pairs]
    refused = "aliases repeat more than 10000 values, or long strings"
    assert refused in places("\n".join(rows))[0]
    assert refused in places(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 2000)}]")[0]
    some = f"x-a: &a x\nx-b: [{', '.join(['*a'] * 10_000)}"
    assert loaded(f"{some}]\n{HEAD}{FUSE}").problems == ()
    assert refused in places(f"{some}, *a]\n{HEAD}{FUSE}")[0]


def test_pyyaml_in_python_reads_the_same_as_its_c_library() -> None:
    """PyYAML may have been built without libyaml."""
    code = (
        "import sys; sys.modules['yaml._yaml'] = None; from pathlib import Path;"
        "from genericdp.config.load import load;"
        "print([load([Path(p)]).resources for p in sys.argv[1:]])"
    )
    paths = [CONFIGS / f"valid/{name}.yaml" for name in ("all-of-it", "dra", "inject")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == str([load([path]).resources for path in paths])


@pytest.mark.parametrize(
    "text",
    [
        "- " * 20_000,
        "a: &b {c: *b}\n" * 1000,
        "'" + "x\n" * 200_000,
        "k: v\n" * 20_000,
        f"{HEAD}{FUSE}    nodeNames: ['{'[' * 100_000}', '[{'1-11' * 25_000}']\n",
        "\n".join(f"key{i}: v" for i in range(20_000)),
        f"{HEAD}  - name: a/b\n    match:\n      - path: x\n        type: [1, "
        + ", ".join(f"t{i}" for i in range(20_000)),
        HEAD + "".join(f"  - {{name: a/b{i}, match: [{{path: x}}]}}\n" for i in range(2_000)),
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_of_any_shape_is_answered_soon(text: str) -> None:
    """The bound is far above what it takes: it shows linear from quadratic."""
    begin = time.thread_time()
    assert loaded(text).problems
    assert time.thread_time() - begin < 10


INDENTED = "".join(f"    {line}\n" for line in (HEAD + FUSE).splitlines())
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n"


def test_other_manifests_beside_a_config_map_with_a_config_are_left_out() -> None:
    other = "---\napiVersion: apps/v1\nkind: DaemonSet\n"
    config_map = f"---\n{CONFIG_MAP}  a.yaml: |\n{INDENTED}"
    found = loaded(f"{other}{config_map}{other}---\n{CONFIG_MAP}  dashboard.json: x\n")
    assert found.problems == ()
    assert [resource.name for resource in found.resources] == ["a/fuse"]
    assert len(loaded(other).problems) == 2
    assert len(loaded(f"{other}---\n{HEAD}{FUSE}").problems) == 2


TEXTS = [
    "ttyUSB*", "10c4", "0bda", "1-1.4", "0000:3b:00.0", "a", "ff", "/dev/fuse", "v1", "1.2.3",
    "e10", "truely", "none", "Nein", "o", "rw", "x1", "1-2-3", "edge-*", "...", "é",
]  # fmt: skip


def messages(source: str) -> list[str]:
    """Return what is wrong with it as the value of a variable."""
    return [
        problem.message
        for problem in loaded(f"{HEAD}{FUSE}    inject: {{env: {{A: {source} }}}}").problems
    ]


def test_what_every_yaml_reads_as_a_text_is_one() -> None:
    env = "\n".join(f"        A{i}: {source}" for i, source in enumerate(TEXTS))
    (resource,) = loaded(f"{HEAD}{FUSE}    inject:\n      env:\n{env}").resources
    assert [str(entry.value) for entry in resource.inject.env.values()] == TEXTS


@given(st.text(alphabet="0123456789abefnoxyTZ:._+-<=~", max_size=12))
def test_a_text_is_one_to_pyyaml_too(source: str) -> None:
    if source and not messages(source):
        loader: Any = yaml.SafeLoader("")
        tag = loader.resolve(yaml.ScalarNode, source, (True, False))
        assert tag == "tag:yaml.org,2002:str"


ANY = st.text(st.characters(exclude_categories=()))


@given(st.dictionaries(ANY, st.lists(st.text("ab0?*$(:-# "))))
def test_any_texts_can_be_read_from_yaml_again(texts: dict[str, list[str]]) -> None:
    assert yaml.safe_load(yaml_flow(texts)) == texts
