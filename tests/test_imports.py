"""Sources of genericdp: imports lead in one direction, within a directory too.

import-linter checks the directories. Imports for types and within functions count here as well: a
reader has to follow them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest
from genericdp.cli import command_line, hardware, run
from genericdp.config import load
from genericdp.dra import prepare

ROOT = Path(__file__).resolve().parents[1]


def test_no_modules_import_each_other() -> None:
    files = {_name(path): path for path in (ROOT / "genericdp").rglob("*.py")}
    sources = {name: path.read_text() for name, path in files.items()}
    circle = _circle(sources)
    assert not circle, circle


@pytest.mark.parametrize(
    "statement",
    [
        "from p.b import B",
        "from p import b",
        "import p.b",
        "if TYPE_CHECKING:\n    from p.b import B",
        "def f():\n    from p.b import B",
    ],
)
def test_a_circle_is_found_however_it_is_closed(statement: str) -> None:
    assert _circle({"p": "", "p.a": statement, "p.b": "from p.c import C", "p.c": ""}) == ""
    found = _circle({"p": "", "p.a": statement, "p.b": "from p.c import C", "p.c": "import p.a"})
    assert sorted(found.split(" -> ")[1:]) == ["p.a", "p.b", "p.c"]


def test_claims_are_prepared_without_the_messages_of_the_kubelet() -> None:
    """Each resource that DRA serves encoded a device list for ListAndWatch that no client read."""
    messages = ("google.", "grpc", "genericdp.kubelet")
    assert [name for name in _loaded_with(prepare) if name.startswith(messages)] == []


def test_a_config_is_loaded_without_asyncio_and_without_reading_the_host() -> None:
    """The first device lists wait for its process, whose imports asyncio would add a tenth to."""
    unused = ("asyncio", "genericdp.devices.device", "genericdp.host.root", "genericdp.host.sysfs")
    assert [name for name in _loaded_with(load) if name.startswith(unused)] == []


def test_the_daemon_has_a_config_loaded_before_it_imports_what_needs_one() -> None:
    """Both take their time, and begin together: a process that starts later is waited for."""
    later = ("genericdp.model", "genericdp.supervisor", "genericdp.kubelet", "grpc", "google")
    assert [name for name in _loaded_with(run) if name.startswith(later)] == []


def test_help_is_shown_without_what_only_other_commands_need() -> None:
    """Dataclasses, with the ``inspect`` that they import, and the log took a fifth of the time."""
    unused = {"asyncio", "dataclasses", "inspect", "logging", "genericdp.scalars"}
    assert unused.isdisjoint(_loaded_with(command_line))


def test_hardware_is_listed_without_what_loads_a_config_or_serves_devices() -> None:
    """There is not a config, but half of the time went into them."""
    unused = ("yaml", "jsonschema", "google", "genericdp.config", "genericdp.kubelet")
    assert [name for name in _loaded_with(hardware) if name.startswith(unused)] == []


def _loaded_with(module: ModuleType) -> list[str]:
    """Return the modules that a process has loaded with one."""
    command = [sys.executable, "-c", f"import {module.__name__}, sys; print(*sys.modules)"]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert module.__name__ in modules
    return modules


def _name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _circle(sources: Mapping[str, str]) -> str:
    """Return a circle of imports between modules, or an empty string."""
    graph = {name: set(_imports(source, sources)) - {name} for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def _imports(source: str, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules, of those that are known, that a source imports anywhere."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                if (module := name if name in known else node.module) in known:
                    yield str(module)


PRODUCT = ROOT / "genericdp"
CORE = ("devices", "health", "host", "kubelet", "dra", "cdi", "process", "status", "simulator")
FOR_PEOPLE = {"reason", "missing", "text"}
NO_TEXTS = {
    # The API server's: a code by its definition.
    "dra/driver.py: error.reason == 'NotFound'",
    # A path that the policy allows.
    "policy.py: rule.text == program",
    # Whether the same is logged again.
    "repeat.py: reason == self.reason",
}
_COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_PARSERS = {"startswith", "endswith", "find", "index", "split", "partition", "removeprefix"}


def _is_for_people(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in FOR_PEOPLE


def compared(code: str) -> Iterator[str]:
    """Yield each comparison of a human-readable field, and each attempt to parse one."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(operator, _COMPARISONS) for operator in node.ops) and any(
                map(_is_for_people, sides)
            ):
                yield ast.unparse(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _PARSERS
            and _is_for_people(node.func.value)
        ):
            yield ast.unparse(node)


def test_the_check_finds_what_it_is_for() -> None:
    code = "a = 'x' in one.text\nb = one.reason == X\nc = one.reason.startswith('list full')"
    assert len([*compared(code)]) == 3


def test_no_text_for_people_is_compared() -> None:
    found = {
        f"{path.relative_to(PRODUCT)}: {comparison}"
        for path in (*PRODUCT.glob("*.py"), *(p for d in CORE for p in (PRODUCT / d).rglob("*.py")))
        for comparison in compared(path.read_text())
    }
    assert found - NO_TEXTS == set()
