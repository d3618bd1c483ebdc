"""Container edits as arguments of ``docker run`` and ``podman run``."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from genericdp.errors import GenericdpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from genericdp.devices.device import BindMount, ContainerEdits, DeviceNode
    from genericdp.host.root import Root


def docker_arguments(answers: Iterable[ContainerEdits], root: Root) -> tuple[str, ...]:
    """Give the arguments; raises GenericdpError where they cannot say it."""
    return tuple(argument for answer in answers for argument in _arguments(answer, root))


def podman_4_needs(argument: str) -> str:
    """Give what podman before 5.0 needs in the argument's place; empty if the same will do.

    It reads these two as lines of comma-separated values; docker and podman since 5.0 take them as
    they are, so that no form suits all.
    """
    flag, _, value = argument.partition("=")
    if flag not in {"--annotation", "--device"} or not any(one in value for one in ',"'):
        return ""
    return f"{flag}={_as_csv([value])}"


def _arguments(answer: ContainerEdits, root: Root) -> Iterator[str]:
    yield from (_device(node, root) for node in answer.devices)
    yield from (_mount(mount) for mount in answer.mounts)
    yield from (f"--env={name}={value}" for name, value in answer.env.items())
    yield from (f"--annotation={key}={value}" for key, value in answer.annotations.items())
    yield from (f"--device={name}" for name in answer.cdi)


def _device(node: DeviceNode, root: Root) -> str:
    host_path = node.host_path
    if ":" in host_path:
        # They split at colons. A link may have one (by-path has), its node hardly ever.
        walk = root.walk(host_path)
        host_path = host_path if walk.error else walk.at
    for path, remedy in (
        (host_path, ""),
        (node.container_path, " (give it another containerPath)"),
    ):
        if ":" in path:
            raise GenericdpError(
                f"{path} holds a colon, which docker run and podman run do not take in --device"
                f"{remedy}"
            )
    return f"--device={host_path}:{node.container_path}:{node.permissions}"


def _mount(mount: BindMount) -> str:
    fields = ["type=bind", f"source={mount.host_path}", f"target={mount.container_path}"]
    # Both read it as one line of comma-separated values, quoted as those are.
    return f"--mount={_as_csv(fields + ['readonly'] * mount.read_only)}"


def _as_csv(fields: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
