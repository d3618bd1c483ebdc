"""Rules for ``expect``, the number of devices that a node should have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.rules.parts import replicas
from genericdp.glob import has_wildcard
from genericdp.printing import plural

if TYPE_CHECKING:
    from genericdp.config.document import Field


def check_expect(resource: Field) -> None:
    """Find an expectation that no node can meet."""
    expect = resource["expect"]
    if expect.value is None:
        return
    if "names" in resource.written():
        message = "'expect' is not possible where the name is a template"
        expect.refuse(message, "write a resource for each name", of_key=True)
        return
    lowest, highest = expect, expect
    if isinstance(expect.value, dict):
        lowest, highest = expect["min"], expect["max"]
    if lowest.value is None:
        return
    if highest.value is not None and lowest.value > highest.value:
        lowest.refuse(f"min is {lowest.value}, more than max, which is {highest.value}")
    elif (most := _most_devices(resource)) is not None and lowest.value > most:
        shares = "" if replicas(resource) == 1 else ", not the shares that replicas makes of each"
        message = f"{lowest.value} are expected, but match names only {plural(most, 'path')}"
        lowest.warn(message, f"expect counts devices{shares}")


def _most_devices(resource: Field) -> int | None:
    """Return how many devices there can be at most; None if any number."""
    paths = [path for selector in resource["match"] for path in _fixed_paths(selector)]
    return None if None in paths else len(set(paths))


def _fixed_paths(selector: Field) -> list[str | None]:
    """Return the paths of a selector without wildcards; None stands for any number."""
    path = selector["path"]
    globs = [path.text] if path.text is not None else [each.text for each in path]
    known = [glob if glob is not None and not has_wildcard(glob) else None for glob in globs]
    return known or [None]
