"""The config as frozen values, one class for each mapping of the language.

Classes with a type parameter contain templates in a config, and strings once bound to a device.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from genericdp.printing import quoted
from genericdp.template import bind, expand, parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.errors import Finding
    from genericdp.policy import Policy
    from genericdp.template import Lookup, Template

TextT = TypeVar("TextT")

Globs = tuple[str, ...]
"""Alternative patterns; no condition if empty."""

_KIND_PART = r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_CDI_DEVICE = r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
_CDI_NAME = re.compile(f"{_KIND_PART}/{_KIND_PART}={_CDI_DEVICE}")
_NUMBER = re.compile(r"(?ai)[+-]?(?:0x[\da-f]{1,255}|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)")


def globs(value: str | Sequence[str]) -> Globs:
    """Return the globs of a key whose value is a glob or a list of globs."""
    return (value,) if isinstance(value, str) else tuple(value)


def is_cdi_name(text: str) -> bool:
    """Return whether a string is the full name of a CDI device, ``vendor/class=name``.

    As the Container Device Interface defines it: vendor and class begin with a letter, and all
    three parts end with a letter or digit.
    """
    return _CDI_NAME.fullmatch(text) is not None


MAX_CDI_KIND = 240
"""Characters of a kind: the name of its spec file, ``genericdp_KIND.json``, has at most 255."""


def is_cdi_kind(text: str) -> bool:
    """Return whether a string is a CDI kind, ``vendor/class``."""
    return is_cdi_name(f"{text}=0")


def number(text: str) -> float | None:
    """Parse a decimal or, after ``0x``, hexadecimal number; None if it is not a finite number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    if "x" in text or "X" in text:
        return int(text, 16)
    value = float(text)
    return value if math.isfinite(value) else None


class FileType(StrEnum):
    """The target of a path."""

    CHAR = "char"
    BLOCK = "block"
    DIRECTORY = "directory"
    FILE = "file"


class Preference(StrEnum):
    """The preference among free devices."""

    AUTO = "auto"
    NONE = "none"
    SPREAD = "spread"
    PACKED = "packed"
    CLOSEST = "closest"


class TopologyMode(StrEnum):
    """The source of a device's NUMA nodes."""

    AUTO = "auto"
    NONE = "none"


class ServedBy(StrEnum):
    """The way in which the kubelet hands out the devices of a resource."""

    DEVICE_PLUGIN = "devicePlugin"
    DRA = "dra"


class AttributeType(StrEnum):
    """The type of an attribute of a DRA device, named as in the Kubernetes API."""

    STRING = "string"
    INT = "int"
    BOOL = "bool"
    VERSION = "version"


class TaintEffect(StrEnum):
    """The effect of the taint of a device that is not Healthy."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class ParameterType(StrEnum):
    """The type of a parameter."""

    INT = "int"
    BOOL = "bool"
    TEXT = "text"


class InjectBy(StrEnum):
    """The component that makes a device's nodes for a container."""

    KUBELET = "kubelet"
    CDI = "cdi"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A place in a config, counted from 1."""

    file: str
    line: int
    column: int
    entries: Mapping[str, Sequence[int]] = field(default_factory=dict, compare=False)
    """The lines of the entries of its lists, by key."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSelector:
    """Files by glob."""

    kind = "path"
    """The key that names the candidates, which is not a field."""
    globs: Globs
    types: tuple[FileType, ...] = (FileType.CHAR, FileType.BLOCK)


@dataclass(frozen=True, kw_only=True, slots=True)
class SysSelector:
    """Devices of sysfs: hardware of one kind, or any device by its udev properties."""

    kind: str
    """The key that names the candidates, of ``KINDS`` in ``devices/hardware.py``."""
    keys: Mapping[str, Globs] = field(default_factory=dict)
    """The globs by key of the config, such as ``vendor``."""
    properties: Mapping[str, Globs] = field(default_factory=dict)
    attributes: Mapping[str, Globs] = field(default_factory=dict)


Candidates = PathSelector | SysSelector


COMMAND_VARIABLES = ("GENERICDP_RESOURCE", "GENERICDP_DEVICE_ID", "GENERICDP_DEVICE_PATHS")
"""Variables that every command of a probe or hook has; configs cannot set them."""


@cache
def config_key(name: str) -> str:
    """Return the key of the config language for a field: ``containerPath``."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


class ValueKind(StrEnum):
    """The source of a declared value."""

    TEXT = "text"
    FILE = "file"
    LINK = "link"
    LINKED_BY = "linkedBy"


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueSource:
    """A declared value: a string, a file's content, or the name or target of a link; then a
    regex.
    """

    kind: ValueKind
    source: Template
    regex: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """An attribute by which claims can select a device, under DRA."""

    type: AttributeType
    value: Template


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPolicy:
    """The amounts of a capacity that claims can request, and what a claim gets by default."""

    default: int | None = None
    min: int | None = None
    max: int | None = None
    step: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """An amount that a device has of something, under DRA."""

    value: Template
    policy: RequestPolicy = RequestPolicy()


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter that claims and DeviceClasses may give a value, under DRA."""

    type: ParameterType
    min: int = -(2**63)
    max: int = 2**63 - 1
    pattern: str = ""
    """The expression that the whole string must match."""
    default: int | bool | str | None = None
    """None if a value is required."""

    def __str__(self) -> str:
        """Return what is allowed, for messages."""
        match self.type:
            case ParameterType.INT:
                return f"a whole number from {self.min} to {self.max}"
            case ParameterType.BOOL:
                return "true or false"
            case ParameterType.TEXT:
                return f"a string of printable characters that matches {quoted(self.pattern)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceNodeSelector:
    """One entry of ``inject.devices``: a template and glob, or a subsystem's nodes nearby."""

    path: Template | None = None
    subsystem: str | None = None
    name: Globs = ()
    container_path: Template | None = None
    permissions: str = "rw"
    shared: bool = False
    optional: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A directory or file of the host in the container."""

    host_path: Template
    container_path: Template
    read_only: bool = True
    optional: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvVar:
    """A variable; the distinct values of several devices are joined."""

    value: Template
    separator: str = ","
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inject:
    """The edits that a container gets for each member of a device."""

    by: InjectBy = InjectBy.KUBELET
    """How the nodes of all devices of a resource are injected."""
    devices: tuple[DeviceNodeSelector, ...] | None = None
    """None for the candidates' own nodes."""
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, EnvVar] = field(default_factory=dict)
    annotations: Mapping[str, Template] = field(default_factory=dict)
    cdi: tuple[Template, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """One entry of ``match`` or ``exclude``: all of its conditions hold."""

    candidates: Candidates
    hardware: tuple[SysSelector, ...] = ()
    """Conditions on a candidate or its parents, one of each kind at most."""
    values: Mapping[str, Globs] = field(default_factory=dict)
    inject: Inject = Inject()
    """Only in ``match``: an addition to the resource's ``inject`` for matches of this entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[TextT]):
    """A program with its arguments; no shell is involved."""

    argv: tuple[TextT, ...]
    env: Mapping[str, TextT] = field(default_factory=dict)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Command[Template]:
        """Return the command of a validated mapping of the config."""
        env = {name: parse(text) for name, text in written.get("env", {}).items()}
        return Command(argv=tuple(map(parse, written["command"])), env=env)

    def bind(self: Command[Template], lookup: Lookup, later: Collection[str]) -> Command[Template]:
        """Insert values; references to the scopes ``later`` stay as they are."""
        return Command(
            argv=tuple(bind(argument, lookup, later=later) for argument in self.argv),
            env={name: bind(text, lookup, later=later) for name, text in self.env.items()},
        )

    def expand(self: Command[Template], lookup: Lookup) -> Command[str]:
        """Expand the arguments and the environment."""
        return Command(
            argv=tuple(expand(argument, lookup) for argument in self.argv),
            env={name: expand(text, lookup) for name, text in self.env.items()},
        )


class Check:
    """The check of a probe. Each kind is a module of ``health/kinds/``; its keys are its fields.

    Strings are templates until ``bind``.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """The key of the config."""
    is_run: ClassVar[bool] = True
    """Whether it runs periodically; otherwise it follows something, such as a log."""
    only_reads: ClassVar[bool] = False
    """Whether it only reads a file, so that it works in a copy, and waits for no hanging
    command.
    """
    files: ClassVar[tuple[str, ...]] = ()
    """The keys that are paths of files that it reads, which a policy must allow."""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Check:
        """Return the check of a validated mapping of the config."""
        return cls(**written)

    @classmethod
    def mistakes(cls, written: Mapping[str, Any], *, several: bool) -> Iterable[Finding]:  # noqa: ARG003
        """Return the mistakes that the schema cannot find; their paths begin at the check.

        None stands for a value with a mistake. ``several`` shows that its resource may have several
        devices.
        """
        return ()

    def bind(self, lookup: Lookup) -> Check:  # noqa: ARG002
        """Expand the templates for a device; raise UnusableValueError for a value that it lacks."""
        return self

    @property
    def name(self) -> str:
        """Return its name in reasons."""
        return self.kind

    @property
    def label(self) -> str:
        """Return its name for output without a reason."""
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A health check with corev1's thresholds."""

    check: Check
    period_seconds: int = 10
    timeout_seconds: int = 5
    initial_delay_seconds: int = 0
    failure_threshold: int = 3
    success_threshold: int = 1
    recover_after_seconds: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook(Generic[TextT]):
    """A command run when a container gets a device, or when its last claim is over."""

    command: Command[TextT]
    timeout_seconds: int = 5

    def bind(self: Hook[Template], lookup: Lookup, later: Collection[str] = ()) -> Hook[Template]:
        """Insert values; references to the scopes ``later`` stay as they are."""
        return replace(self, command=self.command.bind(lookup, later))


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """The number of Healthy devices that a resource should have on a node."""

    min: int = 0
    max: int | None = None
    """None for any number."""

    def __str__(self) -> str:
        """Return it for messages."""
        if self.max is None:
            return f"at least {self.min}"
        if self.min == self.max:
            return f"{self.min}"
        return f"{self.min} to {self.max}" if self.min else f"at most {self.max}"


HookName = Literal["allocate", "preStart", "release"]
"""When a hook runs; ``release`` only under DRA."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One advertised name and its whole config."""

    name: str
    place: Place = field(compare=False)
    match: tuple[Selector, ...]
    exclude: tuple[Selector, ...] = ()
    names: Globs = ()
    """The names that may result from a name template; empty without a template."""
    name_template: Template | None = None
    """The name itself if it is a template."""
    served_by: ServedBy = ServedBy.DEVICE_PLUGIN
    node_names: Globs = ()
    values: Mapping[str, ValueSource] = field(default_factory=dict)
    group_by: Template | None = None
    group_needs: int | str | None = None
    """How many members a group needs, or ``each``: one from each entry of ``match``."""
    id: Template | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Attributes in addition to the standard ones; only with DRA."""
    metadata: bool = False
    """Whether containers can read the attributes in a file; only with DRA."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """What claims may set; only with DRA."""
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    """Only with DRA."""
    sharing: Literal["capacity"] | None = None
    """How claims share a device; None for ``replicas``, or not at all."""
    replicas: int = 1
    exclusive: bool = True
    """Whether no other resource may have the same hardware; to share it, both must say false."""
    prefer: Preference = Preference.AUTO
    topology: TopologyMode = TopologyMode.AUTO
    closeness: str | None = None
    """The declared value that names links which sysfs does not show."""
    forget_after_seconds: int = 300
    expect: Expectation | None = None
    """How many devices should be Healthy; this only changes what is reported."""
    unhealthy_taint: TaintEffect = TaintEffect.NO_SCHEDULE
    """The effect of the taints of its devices in ResourceSlices; only with DRA."""
    inject: Inject = Inject()
    health: tuple[Probe, ...] = ()
    hooks: Mapping[HookName, Hook[Template]] = field(default_factory=dict)
    policy: Policy | None = None
    """The policy that restricts it, whatever the config says."""
