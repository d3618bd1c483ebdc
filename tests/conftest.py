"""Fixtures of all tests, and checks that a test leaves nothing behind."""

from __future__ import annotations

import os

# Read by gRPC when it is imported, which the imports below may lead to.
os.environ["GRPC_VERBOSITY"] = "NONE"
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# No daemon of a test is to remove anything from this machine's directory.
os.environ["GENERICDP_CDI_DIR"] = "/nonexistent/cdi"
os.environ["GENERICDP_KUBELET_ROOT"] = "/nonexistent/kubelet"

import asyncio
import fcntl
import gc
import re
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.budget import examples
from tests.isolation import isolated
from tests.skipping import pytest_runtest_makereport  # noqa: F401  # a hook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from tests.test_daemon import Place
    from tests.world import World

# Under nohup, or in the background of a script, they are ignored, and so they are in all programs
# that tests start: some send them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

POOLED = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]")
"""gRPC opens more of these when many things happen at once, and keeps them for the next time.
A leaked event loop still shows: by its pair of sockets."""

# No timed tests: the machine may be busy with something else.
settings.register_profile("untimed", deadline=None, max_examples=examples(40))
settings.load_profile("untimed")

MACHINE_WIDE = {
    "health/test_kernellog_real.py",
    "host/test_kmsg.py",
    "host/test_real_nodes.py",
    "host/test_uevents.py",
    "test_hotplug.py",
}
"""Modules whose tests share what there is once: real devices, the kernel's log."""

MEMORY = "/dev/shm"
MEMORY_BYTES = 2 << 30

_warm = False


def pytest_configure() -> None:
    """Make temporary directories in memory, unless TMPDIR names a place for them.

    ext4 searches long for a free inode after many files were removed, as tests do.
    """
    if "TMPDIR" not in os.environ and _is_of_use(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def _is_of_use(directory: str) -> bool:
    """Return whether files can be made there and run, and device nodes if we may make any."""
    if not os.access(directory, os.W_OK):
        return False
    found = os.statvfs(directory)
    refused = os.ST_NOEXEC | (os.ST_NODEV if os.geteuid() == 0 else 0)
    return not found.f_flag & refused and found.f_bavail * found.f_frsize >= MEMORY_BYTES


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: what is imported and collected stays.

    Nor later: with it, each full collection takes 0.2 s. Then 50,000 new objects in place of 700
    begin a collection, which saves a tenth of the time of what tests do in this process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slow modules first: else one process still has them when the others are done."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name (107 bytes in all).

    Not at the top of /dev/shm: tests next to this one read what is up to three levels below
    /dev, and must not meet a mount that hangs.
    """
    directory = Path(tempfile.mkdtemp(prefix="g"))
    directory.chmod(0o711)  # some tests let another user into theirs
    (directory / "f").mkdir(mode=0o700)
    yield directory / "f"
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def world(short_directory: Path) -> AsyncIterator[World]:
    """A host, and a kubelet that has started."""
    from tests.world import World

    world = World(short_directory)
    async with world.kubelet:
        yield world


@pytest.fixture
def place(short_directory: Path) -> Place:
    """A host and a config for a daemon as a process of its own."""
    from tests.test_daemon import Place

    return Place(short_directory)


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let one test at a time use what the machine has once. Set up first, as its name is."""
    module = request.path.relative_to(Path(__file__).parent).as_posix()
    if module not in MACHINE_WIDE:
        yield
        return
    with open(Path(tempfile.gettempdir(), f"genericdp-tests-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    """Undo what a test changes in the process, and fail the test for it."""
    with isolated() as left:
        yield
    assert not left, f"changes that outlive their test: {'; '.join(left)}"


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> None:
    """Check every asynchronous test for leftovers; the others cannot leave tasks behind."""
    if "asyncio" in request.keywords:
        request.getfixturevalue("no_leaks")


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Fail a test that leaves tasks or descriptors behind."""
    _warm_up()
    descriptors = _descriptors()
    tasks = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    if left:
        # gRPC's own last steps may come a moment later: a task that ends by itself is not a leak.
        _, left = await asyncio.wait(left, timeout=2)
    assert not left, f"tasks that outlive their test: {left}"
    leaked = await _leaked(descriptors)
    assert not leaked, f"descriptors that outlive their test: {leaked}"


def _warm_up() -> None:
    """Let gRPC open what it keeps while any of its objects lives, before anyone counts.

    Once more than anyone else does, so that it never closes and opens it again in a test.
    """
    global _warm
    if not _warm:
        import grpc

        grpc.aio.init_grpc_aio()
        _warm = True


async def _leaked(before: Counter[str]) -> Counter[str]:
    """Give the new descriptors; gRPC's own threads may need a moment to close theirs."""
    leaked = _descriptors() - before
    for _ in range(50):
        if not leaked:
            break
        gc.collect()
        await asyncio.sleep(0.02)  # noqa: TID251 -- polls what has no event
        leaked = _descriptors() - before
    return leaked


def _descriptors() -> Counter[str]:
    """Count this process's open descriptors by what they are."""
    found = Counter[str]()
    for name in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor that lists the directory itself
        kind = re.sub(r":\[\d+\]$", "", what)
        if kind not in POOLED:
            found[kind] += 1
    return found
