"""``exec``: a command that must succeed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from genericdp.errors import Finding
from genericdp.model import COMMAND_VARIABLES, Check, Command, TextT
from genericdp.printing import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from genericdp.template import Lookup, Template


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecCheck(Check, Generic[TextT]):
    """Checks that a command succeeds."""

    kind = "exec"
    command: Command[TextT]

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> ExecCheck[Template]:
        """Return the check of a validated mapping of the config."""
        return ExecCheck(command=Command.read(written))

    @classmethod
    def mistakes(cls, written: Mapping[str, Any], *, several: bool) -> Iterator[Finding]:  # noqa: ARG003
        """Find variables that a config must not set."""
        for name, text in (written.get("env") or {}).items():
            if name in COMMAND_VARIABLES and text is not None:
                message = f"every command is given {quoted(name)} by the daemon"
                yield Finding(("env", name), message, "omit it", of_key=True)

    def bind(self: ExecCheck[Template], lookup: Lookup) -> ExecCheck[str]:
        """Expand the arguments and the environment."""
        return ExecCheck(command=self.command.expand(lookup))

    @property
    def name(self) -> str:
        """The kind and the program."""
        return f"exec {self.command.argv[0]}"
