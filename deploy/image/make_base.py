#!/usr/bin/env python3
"""Make the root of a base image out of Debian's packages, by copying their files.

    make_base.py {run,build} ARCHITECTURE FOLDER

No script of a package is run, so neither root nor a machine of that architecture is needed. ``run``
is what the daemon runs in: Python without what it never imports, libudev, and no shell. ``build``
has all of Python, and pip; it runs here, so it is of this machine's architecture.

FOLDER/debs-ARCHITECTURE keeps the packages: as long as it is there, the same come out. They are
those of FOLDER/sources, a file as /etc/apt/sources.list is one, or else of this machine's.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from fnmatch import fnmatch
from pathlib import Path

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
EMULATORS = {"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}
PYTHON = "python3.11"

LIBRARIES = (
    "libc6 libc-bin libudev1 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libssl3 "
    f"{PYTHON}-minimal lib{PYTHON}-minimal lib{PYTHON}-stdlib base-files"
).split()
PIP = (
    "python3-minimal python3-pip python3-wheel python3-setuptools python3-pkg-resources "
    "python3-distutils python3-lib2to3 libbz2-1.0 liblzma5 ca-certificates"
).split()

NEVER = (
    "usr/share/man/* usr/share/locale/* usr/share/lintian/* usr/share/info/* usr/share/bug/* "
    "usr/share/doc-base/* usr/share/applications/* usr/share/pixmaps/* usr/share/binfmts/* "
    "usr/lib/*/gconv/* usr/lib/*/audit/* usr/lib/locale/* usr/lib/systemd/* etc/python3*"
).split()
"""Of no package."""

ONLY = {
    "libc-bin": "usr/sbin/ldconfig etc/ld.so.conf*".split(),
    "base-files": "usr/lib/os-release etc/os-release etc/debian_version".split(),
    f"{PYTHON}-minimal": [f"usr/bin/{PYTHON}"],
    "libstdc++6": ["usr/lib/*-linux-gnu/*"],
}
"""Of these packages of ``run`` nothing else; of all of them the copyright file."""

UNUSED = [
    f"usr/lib/{PYTHON}/{name}"
    for name in (
        # To develop with, or for other systems.
        "idlelib/* lib2to3/* distutils/* _distutils* ensurepip/* tkinter/* turtle* pydoc* test/* "
        "unittest/* venv/* msilib/* ctypes/test/* ctypes/macholib/* ctypes/_aix.py doctest.py "
        "pdb.py bdb.py cmd.py code.py codeop.py profile.py cProfile.py pstats.py trace.py "
        "modulefinder.py compileall.py py_compile.py pyclbr.py symtable.py tabnanny.py "
        "pickletools.py __phello__/* __hello__.py antigravity.py this.py config-*/* build/* "
        "zipapp.py _sysconfigdata_* _osx_support.py _aix_support.py _bootsubprocess.py "
        "nturl2path.py asyncio/windows* asyncio/proactor* sitecustomize.py EXTERNALLY-MANAGED "
        # Formats and protocols that are not spoken here.
        "xml/* xmlrpc/* multiprocessing/* curses/* dbm/* sqlite3/* tomllib/* zoneinfo/* "
        "imaplib.py smtplib.py smtpd.py poplib.py ftplib.py telnetlib.py nntplib.py mailbox.py "
        "mailcap.py asyncore.py asynchat.py cgi.py cgitb.py webbrowser.py plistlib.py xdrlib.py "
        "aifc.py wave.py sunau.py sndhdr.py chunk.py colorsys.py imghdr.py uu.py pipes.py "
        "netrc.py pty.py tty.py crypt.py sched.py shelve.py fileinput.py filecmp.py "
        "getpass.py rlcompleter.py urllib/robotparser.py wsgiref/validate.py logging/config.py "
        "http/cookiejar.py configparser.py optparse.py statistics.py _pydecimal.py "
        "_pyio.py encodings/big5* encodings/cp[!4]* encodings/cp424* encodings/euc_* encodings/gb* "
        "encodings/h[pz]* encodings/iso* encodings/johab* encodings/k[oz]* encodings/mac_* "
        "encodings/ptcp* encodings/shift* encodings/tis* "
        # What needs libraries that are not here, or tests.
        "*/_curses*.so */_dbm*.so */_sqlite3*.so */_tkinter*.so */readline*.so */nis*.so "
        "*/_crypt*.so */_uuid*.so */_bz2*.so */_lzma*.so */_codecs_*.so */audioop*.so "
        "*/_multibytecodec*.so */_multiprocessing*.so */_lsprof*.so */_zoneinfo*.so "
        "*/ossaudiodev*.so */_xx*.so */xx*.so */_test*.so */_ctypes_test*.so"
    ).split()
] + [
    "usr/lib/*/libmvec.so*",
    "usr/lib/*/libexpatw.so*",
    "usr/lib/*/engines-3/*",
    "usr/lib/*/ossl-modules/*",
]
"""What the daemon never imports, or what needs libraries that are not here."""

ENTRIES = {
    "etc/passwd": "root:x:0:0:root:/root:/nonexistent\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
MERGED = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/local/bin", "var/tmp")


def download(names: list[str], architecture: str, folder: Path) -> list[Path]:
    """Give the packages' files; apt checks Debian's signature. Raises CalledProcessError."""
    debs = folder / f"debs-{architecture}"
    if missing(names, debs):
        shutil.rmtree(debs, ignore_errors=True)
        fresh = folder / f"debs-{architecture}.new"
        apt = folder / f"apt-{architecture}"
        for part in (fresh, apt / "lists/partial", apt / "cache/archives/partial"):
            part.mkdir(parents=True, exist_ok=True)
        (apt / "status").touch()
        given = [folder / "sources", Path("/etc/apt/sources.list.d/debian.sources")]
        sources = next((path for path in given if path.exists()), Path("/etc/apt/sources.list"))
        options = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "",
            "Dir::Etc::sourcelist": sources.resolve(),
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": apt.resolve(),
            "Dir::State::lists": (apt / "lists").resolve(),
            "Dir::State::status": (apt / "status").resolve(),
            "Dir::Cache": (apt / "cache").resolve(),
        }
        command = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
        subprocess.run([*command, "update"], check=True)
        wanted = sorted({*LIBRARIES, *PIP})
        subprocess.run([*command, "download", *wanted], cwd=fresh, check=True)
        fresh.rename(debs)
    if absent := missing(names, debs):
        sys.exit(f"make_base.py: apt-get has not fetched {' '.join(sorted(absent))}")
    files = {path.name.partition("_")[0]: path for path in debs.glob("*.deb")}
    return [files[name] for name in sorted(names)]


def missing(names: list[str], debs: Path) -> set[str]:
    """Give the packages that are not there yet."""
    return set(names) - {path.name.partition("_")[0] for path in debs.glob("*.deb")}


def wanted(package: str, path: str, kind: str) -> bool:
    """Tell whether a file of a package is copied; ``path`` is without the leading ``./``."""
    if path.startswith("usr/share/doc/"):
        return path == f"usr/share/doc/{package}/copyright"
    if any(fnmatch(path, pattern) for pattern in NEVER):
        return False
    if kind == "build":
        return True
    if package in ONLY:
        return any(fnmatch(path, pattern) for pattern in ONLY[package])
    return not any(fnmatch(path, pattern) for pattern in UNUSED)


def merged(path: str) -> str:
    """Give the place of a package's file where /bin, /lib … are links into /usr."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED else path


def copy(deb: Path, root: Path, kind: str) -> None:
    """Copy what is wanted of a package, and say that it is here as distroless images do."""
    package = deb.name.partition("_")[0]
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        # Not `filter=` of extract(), which 3.11.0 to 3.11.3 do not have.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        for member in tar:
            path = merged(member.name.removeprefix("./"))
            if member.isdir() or not wanted(package, path, kind):
                continue
            member.name = path
            member.mode &= 0o755  # where Python has no filter, the setuid bit would stay
            if member.islnk():
                member.linkname = merged(member.linkname.removeprefix("./"))
            tar.extract(member, root, set_attrs=not member.issym(), numeric_owner=True)
    control = subprocess.run(["dpkg-deb", "--field", deb], check=True, stdout=subprocess.PIPE)
    said = root / "var/lib/dpkg/status.d" / package
    said.parent.mkdir(parents=True, exist_ok=True)
    said.write_bytes(control.stdout)


def prepare(root: Path) -> None:
    """Lay out the folders that are there before any package."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for name, text in ENTRIES.items():
        (root / name).write_text(text)


def index_libraries(root: Path, architecture: str) -> None:
    """Write /etc/ld.so.cache: ``ctypes.util.find_library`` asks ``ldconfig``, which reads it."""
    native = architecture == machine()
    emulator = [] if native else [EMULATORS[architecture]]
    program = root / "usr/sbin/ldconfig"
    subprocess.run([*emulator, program, "-X", "-i", "-r", root.resolve()], check=True)
    shutil.rmtree(root / "var/cache", ignore_errors=True)


def compile_library(root: Path, folder: Path) -> None:
    """Compile Python's library so that no time stamp is compared, with the build base's Python."""
    build, native = (folder / f"build-{machine()}").resolve(), machine()
    libraries = f"{build}/usr/lib/{TRIPLETS[native]}"
    python = [build / LOADERS[native], "--library-path", libraries, build / "usr/bin" / PYTHON]
    how = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    where = ["-s", root.resolve(), "-p", "/", root.resolve() / "usr/lib" / PYTHON]
    environment = {"PYTHONHOME": f"{build}/usr", "PYTHONHASHSEED": "0"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    subprocess.run([*python, *how, *where], check=True, env=environment)


def machine() -> str:
    """Give this machine's architecture as Debian names it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def main(kind: str, architecture: str, folder: Path) -> None:
    """Make FOLDER/KIND-ARCHITECTURE anew."""
    root = folder / f"{kind}-{architecture}"
    if root.exists():
        shutil.rmtree(root)
    prepare(root)
    names = LIBRARIES if kind == "run" else [*LIBRARIES, *PIP]
    for deb in download(names, architecture, folder):
        copy(deb, root, kind)
    python = root / "usr/bin/python3"
    if not python.is_symlink():
        python.symlink_to(PYTHON)
    index_libraries(root, architecture)
    if kind == "run":
        compile_library(root, folder)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"make_base.py: {error}")
