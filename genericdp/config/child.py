"""Loads a config in a short-lived process, so that no config can block or exhaust the daemon.

``python -m genericdp.config.child [--policy FILE] PATH…`` is that process. The two share no values:
the child writes JSON with plain, checked data, from which the daemon builds the resources.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import genericdp
from genericdp.config.files import LOAD_SECONDS, Loaded, hanging, unusable
from genericdp.errors import DAMAGE, Problem, reason_of
from genericdp.host.calls import Patience, Watched, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.model import Place
    from genericdp.process.run import Commands

MAX_OUTPUT = 16 * 1024 * 1024
"""Limit of the answer, which the daemon keeps and builds values from: several times what can be
read in time.
"""
MAX_PROBLEMS = 1000
"""Limit of problems: more than a person reads, and more than a log should contain."""
_MAX_COMPLAINT = 64 * 1024
_MIB = 1024 * 1024
_MAX_MEMORY = 64 * _MIB
"""Memory limit: 1,000 resources need 22 MiB, the largest possible file usually less than 50. The
child and the daemon together must fit into the limit of the shipped pod: otherwise, all of its
processes may be killed.
"""
_STACK = 256 * 1024
_HANGING_SECONDS = 4.0
"""Shorter than elsewhere: the daemon waits 2 s more, and people wait for its answer."""
_LIMITS = {
    resource.RLIMIT_AS: 1024 * _MIB,
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_CPU: 10,
    resource.RLIMIT_CORE: 0,
}


async def load_in_child(
    commands: Commands,
    paths: Sequence[Path],
    *,
    policy: Path | None = None,
    timeout_seconds: float = LOAD_SECONDS,
) -> Loaded:
    """Return the same as ``load``, using a child process; if the child fails, that is a problem of
    the config.
    """
    # Not in the child, which needs no asyncio.
    from genericdp.process.run import Pipe

    bounded = [] if policy is None else ["--policy", os.fspath(policy)]
    argv = [sys.executable, "-P", "-m", "genericdp.config.child", *bounded, *map(os.fspath, paths)]
    try:
        with Pipe(MAX_OUTPUT) as output, Pipe(_MAX_COMPLAINT) as complaint:

            def is_answered() -> bool:
                return output.data.endswith(b"\n")

            # At the daemon's own niceness: a reload must not wait for a busy node's other work.
            code = await commands.complete(
                argv,
                _environment(),
                timeout_seconds=timeout_seconds,
                stdout=output,
                stderr=complaint,
                is_enough=is_answered,
            )
    except OSError as error:
        return _failed(paths, f"the config could not be loaded: {reason_of(error)}")
    if is_answered():
        code = 0  # it cannot exit while one of its threads hangs in the kernel
    if code is None:
        return _failed(paths, f"loading the config took longer than {timeout_seconds:g} s")
    if code != 0:
        why = _why(code, bytes(complaint.data).decode("utf-8", "replace").strip())
        return _failed(paths, f"the config could not be loaded: its process {why}")
    try:
        return decode(bytes(output.data))
    except ValueError:
        return _failed(paths, "the config could not be loaded: it is too much")


def _environment() -> dict[str, str]:
    # The child must find this very package, wherever it was started from.
    package = os.fspath(Path(genericdp.__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{given}" if given else package}


def _why(code: int, complaint: str) -> str:
    from genericdp.process.run import signal_name

    if code == -signal.SIGXCPU:
        return f"took more than {_LIMITS[resource.RLIMIT_CPU]} s of CPU time"
    how = f"ended by {signal_name(-code)}" if code < 0 else f"failed with code {code}"
    if "MemoryError" in complaint:  # Python crashed, and reports where it was, not why
        return f"{how}: it takes more memory than it may have"
    return f"{how}: {complaint.splitlines()[-1]}" if complaint else how


def _failed(paths: Sequence[Path], message: str) -> Loaded:
    return Loaded(problems=(unusable(paths[0], message),))


def decode(text: bytes) -> Loaded:
    """Return what ``encode`` has encoded; raise ValueError for anything else."""
    # Importing these takes longer than starting the child, so it is done afterward.
    from genericdp.config.build import build
    from genericdp.model import Place

    try:
        message = json.loads(text)
        policy = None
        if message["policy"]:  # most nodes have none
            from genericdp.policy import from_plain

            policy = from_plain(message["policy"])
        checked = [(plain, Place(**place)) for plain, place in message["resources"]]
        values = {
            "resources": build(checked, policy),
            "problems": tuple(Problem(*problem) for problem in message["problems"]),
            "warnings": tuple(Problem(*warning) for warning in message["warnings"]),
            "files": tuple(map(Path, message["files"])),
            "policy": policy,
            "texts": tuple((name, os.fsencode(text)) for name, text in message["texts"]),
            "pinned": tuple(message["pinned"]),
        }
        return Loaded(**{**message, **values})
    except DAMAGE as error:
        raise ValueError(f"it is not an encoded config: {error}") from error


def encode(loaded: Loaded, checked: Sequence[tuple[dict[str, Any], Place]]) -> bytes:
    """Return a line of JSON for the pipe to the daemon."""
    cut = replace(
        loaded,
        problems=loaded.problems[:MAX_PROBLEMS],
        warnings=loaded.warnings[:MAX_PROBLEMS],
        texts=() if loaded.problems else loaded.texts,
    )
    resources = [(plain, asdict(place)) for plain, place in checked]
    text = json.dumps({**asdict(cut), "resources": resources}, default=os.fsdecode)
    return f"{text}\n".encode()


def main() -> None:
    """Load within limits for hostile configs, which apply even if the daemon has ended."""
    most = _limit(resource.RLIMIT_DATA, _MAX_MEMORY)
    for what, limit in _LIMITS.items():
        _limit(what, limit)
    reading = Watched()
    watch(reading)
    threading.stack_size(_STACK)
    with suppress(RuntimeError):  # no thread can be started: this takes longer
        threading.Thread(target=_tell_what_hangs, args=(reading,), daemon=True).start()
    answer = b""
    # Report it outside: the exception still references everything that was built, and memory is
    # used up. SystemError: C code that forgot to report that memory was used up.
    with suppress(MemoryError, SystemError):
        answer = _answer(sys.argv[1:])
    if not answer:
        sys.exit(f"it takes more than the {most // _MIB} MiB of memory that it may have")
    _exit_with(answer)


def _exit_with(answer: bytes) -> Never:
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
    os._exit(0)  # freeing everything would take a seventh of the total time


def _tell_what_hangs(reading: Watched) -> None:
    """Answer in place of the reading thread, if one of its system calls hangs."""
    patience = Patience(reading, _HANGING_SECONDS)
    while not patience.is_over():
        time.sleep(patience.pause)
    _exit_with(encode(Loaded(problems=(hanging(reading),)), []))


def _answer(arguments: Sequence[str]) -> bytes:
    # Imported within the limits.
    from genericdp.config.load import load_plain

    given, policy = [Path(path) for path in arguments], None
    if arguments[:1] == ["--policy"]:
        policy, given = given[1], given[2:]
    return encode(*load_plain(given, policy=policy))


def _limit(what: int, most: int) -> int:
    """Set a limit and return it: the parent may have set a lower one."""
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, limit))
    return limit


if __name__ == "__main__":
    main()
