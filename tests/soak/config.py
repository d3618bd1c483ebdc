"""The configs that the soak writes: what may change in them, and how they are broken; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

DOMAIN = "soak.example.com"
PERIOD_SECONDS = 1
"""Of the probes."""
LOOPS = range(32, 40)
"""Loop devices of the soak: other tests have those from 40 on."""
HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """The part of a resource that no reload changes."""

    source: str
    """The source of the config that may hold it."""
    forget: int = 0
    """Seconds after which a disappeared device is no longer listed."""
    probe: str = ""
    """``file``, ``exec`` or none."""
    devices: int = 8
    stays: bool = False
    """Whether it is in the config at all times."""


VOLUME, PLAIN = "volume", "plain"
SOURCES = (VOLUME, PLAIN)
KINDS: Mapping[str, Kind] = {
    "alpha": Kind(source=VOLUME, stays=True),
    "beta": Kind(source=VOLUME, forget=3600),
    "gamma": Kind(source=VOLUME, forget=3),
    "loop": Kind(source=VOLUME),
    "file": Kind(source=VOLUME, forget=3600, probe="file"),
    "exec": Kind(source=VOLUME, probe="exec", devices=4),
    "plain": Kind(source=PLAIN, stays=True),
    "more": Kind(source=PLAIN, forget=3600),
    "other": Kind(source=PLAIN),
}
"""By the type of the resource; its nodes are ``TYPE-0``, ``TYPE-1``, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One resource as a config has it."""

    type: str
    numbers: str = "*"
    """A glob: which of its nodes it takes."""
    replicas: int = 1
    prefer: str = "auto"

    @property
    def kind(self) -> Kind:
        return KINDS[self.type]

    @property
    def name(self) -> str:
        return f"{DOMAIN}/{self.type}"

    def takes(self, node: str) -> bool:
        kind, _, number = node.rpartition("-")
        return kind == self.type and fnmatchcase(number, self.numbers)

    @property
    def asks_for_preference(self) -> bool:
        """Return whether its option for the kubelet is set, which means another Register."""
        return self.prefer != "none"


def kind_of(node: str) -> str:
    return node.rpartition("-")[0]


def nodes_of(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}-{number}" for number in range(KINDS[kind].devices))


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """The paths on the host that the daemon sees."""

    directory: str
    """Below ``/dev``, without it."""
    health: str
    """An absolute path: a file for each node under probes says ``ok`` or not."""
    period: int = PERIOD_SECONDS
    """Of the probes, in seconds."""

    def id_of(self, node: str) -> str:
        """Give what the kubelet calls a device: its path without ``/dev/``, else its name."""
        kind, _, number = node.rpartition("-")
        if kind == "loop":
            return f"loop{LOOPS[int(number)]}"
        return f"{self.directory}_{node}"

    def text(self, specs: Iterable[Spec], remark: str = "") -> str:
        """Give a config as text; a ``remark`` makes another text of the same config."""
        lines = [HEAD, f"x-remark: {remark}\n" if remark else "", "resources:\n"]
        lines += [self._resource(spec) for spec in specs]
        return "".join(lines)

    def _resource(self, spec: Spec) -> str:
        lines = [
            f"  - name: {spec.name}",
            f"    match: [{self._selector(spec)}]",
            f"    replicas: {spec.replicas}",
            f"    prefer: {spec.prefer}",
            f"    forgetAfterSeconds: {spec.kind.forget}",
        ]
        file = f"{self.health}/$(device.id)"
        if spec.kind.probe == "file":
            lines += ["    health:", f'      - file: {{path: "{file}", equals: "ok"}}']
        if spec.kind.probe == "exec":
            command = f'["/bin/grep", "-q", "ok", "{file}"]'
            lines += ["    health:", f"      - exec: {{command: {command}}}"]
        if spec.kind.probe:
            lines += [f"        periodSeconds: {self.period}", "        failureThreshold: 1"]
        return "\n".join(lines) + "\n"

    def _selector(self, spec: Spec) -> str:
        if spec.type == "loop":
            names = [f'"loop{n}"' for i, n in enumerate(LOOPS) if spec.takes(f"loop-{i}")]
            return f"{{udev: {{subsystem: block, devtype: disk, name: [{', '.join(names)}]}}}}"
        return f'{{path: "/dev/{self.directory}/{spec.type}-{spec.numbers}"}}'


BROKEN: Mapping[str, str] = {
    "no YAML": HEAD + "resources: [{name: a",
    "nothing": "",
    "unknown key": HEAD + f"resources:\n  - name: {DOMAIN}/bad\n    matches: []\n",
    "wrong type": HEAD + f"resources:\n  - {{name: {DOMAIN}/bad, match: 5}}\n",
    "unquoted": HEAD
    + f"resources:\n  - {{name: {DOMAIN}/bad, match: [{{usb: {{vendor: 0403}}}}]}}\n",
}
"""Strings that no daemon may take, by what is wrong with them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The effect of a reload on the resources, by type."""

    added: frozenset[str]
    removed: frozenset[str]
    updated: frozenset[str]
    """Changed in place: the socket stays."""
    anew: frozenset[str]
    """Changed in what a kubelet requests once: they register again."""

    @property
    def touched(self) -> frozenset[str]:
        return self.added | self.removed | self.updated | self.anew


def difference(before: Mapping[str, Spec], after: Mapping[str, Spec]) -> Difference:
    """Compare two configs by what they say, not by how a daemon goes about it."""
    both = [kind for kind in before if kind in after and before[kind] != after[kind]]
    anew = {k for k in both if before[k].asks_for_preference != after[k].asks_for_preference}
    return Difference(
        added=frozenset(after.keys() - before.keys()),
        removed=frozenset(before.keys() - after.keys()),
        updated=frozenset(both) - anew,
        anew=frozenset(anew),
    )


def first_specs(kinds: Sequence[str]) -> dict[str, tuple[Spec, ...]]:
    """Give the config with which the soak begins, and to which it returns, by source."""
    return {
        source: tuple(Spec(type=kind) for kind in kinds if KINDS[kind].source == source)
        for source in SOURCES
    }
