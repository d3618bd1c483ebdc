"""Lay out under OUT what is copied onto the run base: genericdp and what it needs.

    assemble.py OUT
    assemble.py --fetch FOLDER ARCHITECTURE PYTHON

It runs in the build stage, with the Python whose version the run base has, too, and takes the
wheels of TARGETARCH: nothing of that architecture is run. The second form runs before it, where
there is a network, and only fetches these wheels.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import site
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent
WHEELS = Path("/wheels")
"""Mounted there, nothing comes over the network; otherwise pip asks the index it is set up for."""

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
NEWEST_GLIBC = 36
"""Of Debian 12: 2.36. A wheel made for a newer one would not load."""

UNUSED = (
    # Not needed to run, or different each time: where pip was called from, and what is gone now.
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
    "**/__pycache__",
    "bin",
    # What programs are compiled with, and tests.
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
    "**/*.pxi",
    "jsonschema/tests",
    "jsonschema/benchmarks",
    "jsonschema_specifications/tests",
    "referencing/tests",
    "h11/tests",
    "google/protobuf/compiler",
    "google/protobuf/testdata",
    # Messages about messages, and messages as JSON: nothing here imports them.
    "google/protobuf/descriptor_pb2.py",
    "google/protobuf/json_format.py",
    # For other programs, or what is only kept for old ones.
    "google/protobuf/internal/*benchmark*",
    "google/protobuf/internal/testing_*",
    "grpc/beta",
    "grpc/framework",
    "jsonschema/cli.py",
    "jsonschema/__main__.py",
    "prometheus_client/aiohttp",
    "prometheus_client/bridge",
    "prometheus_client/django",
    "prometheus_client/twisted",
    "pyudev/_qt_base.py",
    "pyudev/glib.py",
    "pyudev/py[qs]*.py",
    "pyudev/wx.py",
    # Of the authorities that TLS trusts: all calls go through sockets of this machine.
    "grpc/_cython/_credentials",
)

ENTRY = """#!{python}
import sys

from genericdp.cli import main

sys.exit(main())
"""


def tags(architecture: str, version: str) -> list[str]:
    """Give pip's options for the wheels of an architecture and a version of Python."""
    machine = MACHINES[architecture]
    minors = range(NEWEST_GLIBC, 16, -1)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in minors]
    named = [f"--platform={name}" for name in (*platforms, f"manylinux2014_{machine}")]
    return [*named, f"--python-version={version}", "--implementation=cp"]


def pip(command: str, lock: Path, *options: str) -> None:
    """Run pip for exactly what is pinned; raises CalledProcessError if a wheel has another hash."""
    quiet = ["-q", "--no-cache-dir", "--disable-pip-version-check"]
    exact = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", lock]
    subprocess.run([sys.executable, "-m", "pip", command, *quiet, *exact, *options], check=True)


def install(architecture: str, folder: Path) -> None:
    """Install the wheels, and take out what is not needed to run."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = [*tags(architecture, version), "--no-compile", "--root-user-action=ignore"]
    if WHEELS.is_dir():
        options += ["--no-index", f"--find-links={WHEELS}"]
    pip("install", SOURCE / "runtime.txt", *options, f"--target={folder}")
    for pattern in UNUSED:
        for path in list(folder.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def compile_all(folder: Path, out: Path) -> None:
    """Compile it so that no file's time is compared, since an image's root cannot be written to."""
    how = py_compile.PycInvalidationMode.UNCHECKED_HASH
    done = compileall.compile_dir(
        folder, quiet=1, stripdir=str(out), prependdir="/", invalidation_mode=how
    )
    if not done:
        sys.exit("assemble.py: not everything could be compiled")


def main(out: Path) -> None:
    """Lay it all out."""
    packages = out / site.getsitepackages()[0].lstrip("/")
    install(os.environ.get("TARGETARCH") or native(), packages)
    # As the wheel has it (pyproject.toml).
    shutil.copytree(SOURCE / "genericdp", packages / "genericdp")
    shutil.copytree(SOURCE / "schemas", packages / "genericdp/schemas")
    shutil.copytree(SOURCE / "examples", packages / "genericdp/examples")
    compile_all(packages, out)
    licence = out / "usr/share/doc/genericdp/LICENSE"
    licence.parent.mkdir(parents=True)
    shutil.copyfile(SOURCE / "LICENSE", licence)
    entry = out / "usr/local/bin/genericdp"
    entry.parent.mkdir(parents=True)
    entry.write_text(ENTRY.format(python=sys.executable))
    entry.chmod(0o755)
    for path in out.rglob("*"):
        # Whatever the umask was that the checkout was made with.
        path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def native() -> str:
    """Give this machine's architecture as images name it."""
    return {machine: name for name, machine in MACHINES.items()}[os.uname().machine]


if __name__ == "__main__":
    os.umask(0o022)
    if sys.argv[1] == "--fetch":
        wheels, architecture, version = sys.argv[2:]
        lock = SOURCE.parents[1] / "requirements/runtime.txt"
        pip("download", lock, *tags(architecture, version), f"--dest={wheels}")
    else:
        main(Path(sys.argv[1]))
