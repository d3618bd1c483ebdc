"""Loads a whole config in this process: read its files, check them together, then build."""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.build import build
from genericdp.config.files import Content, Digest, read_file, read_files
from genericdp.config.loaded import STDIN, Loaded, shown, unusable
from genericdp.config.policyfile import LoadedPolicy, load_policy
from genericdp.config.read import read_config
from genericdp.config.rules import check, resources_of
from genericdp.host.pathwalk import NotAFileError
from genericdp.model import Place
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.config.tree import Document
    from genericdp.errors import Problem

MAX_PROBLEMS = 1000
"""More than a person reads, and than a log should hold."""
_MESSAGES = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "it cannot be read: permission denied",
    errno.ELOOP: "it is a symbolic link that leads to itself",
    errno.ENOTDIR: "a part of its path is no folder",
    errno.EFBIG: "it is larger than 1 MiB, the most that a config may have",
    errno.ENODATA: "the folder holds no config: no *.yaml or *.yml that is not hidden",
}
_OCTAL = re.compile(r"\\([0-7]{3})")
_OF_A_VOLUME = re.compile(r"/\.\.\d{4}_\d\d_\d\d_")
"""As the kubelet names the folders that ``..data`` leads to, one for each version."""


def load(
    paths: Sequence[Path], *, pipes: Mapping[Path, bytes] | None = None, policy: Path | None = None
) -> Loaded:
    """Return the config that the paths make up together, or all of its problems.

    ``pipes`` holds what was read from paths that can be read only once (``-`` is stdin),
    ``policy`` is the file that bounds the config.
    """
    loaded, documents = read_all(paths, pipes, policy)
    if loaded.problems:
        return loaded
    resources = tuple(
        resource
        for document in documents
        for resource in build(resources_of(document), places_of(document), loaded.policy)
    )
    return replace(loaded, resources=resources)


def read_all(
    paths: Sequence[Path], pipes: Mapping[Path, bytes] | None = None, policy: Path | None = None
) -> tuple[Loaded, list[Document]]:
    """Return all but the resources, and the checked documents to build them from."""
    try:
        bounds = None if policy is None else read_file(policy)
        files = list(read_files(paths, pipes))
    except OSError as error:  # too few descriptors, too little memory: it may be a good config
        message = f"the config could not be loaded: {error.strerror or error}"
        return Loaded(problems=(unusable(paths[0], message),)), []
    digest, contents = Digest(), dict[str, Content]()
    rules = LoadedPolicy()
    if policy is not None and bounds is not None:
        digest.add("policy", bounds)
        rules = _policy(policy, bounds, contents)
    problems: list[Problem] = [*rules.problems]
    documents: list[Document] = []
    for path, given in files:
        digest.add(path.name, given)
        name = "<stdin>" if pipes and path == STDIN else shown(path)
        if isinstance(given, OSError):
            problems.append(unreadable(name, given))
            continue
        if name not in contents or given.doubt:
            contents[name] = given
        found, wrong = read_config(name, given.text)
        documents += found
        problems += wrong
    wrong, warnings = check(documents, rules.policy)
    problems += wrong
    loaded = Loaded(
        problems=tuple(sorted(set(unquoted(problems, contents)))),
        warnings=(*rules.warnings, *unquoted(warnings, contents)),
        files=tuple(path for path, _ in files),
        texts=tuple((path.name, one.text) for path, one in files if isinstance(one, Content)),
        pinned=tuple(
            _pinned((*paths, *([policy] if policy else []), *(path for path, _ in files)))
        ),
        digest=str(digest),
        policy=rules.policy,
        policy_is_unusable=bool(rules.problems),
    )
    return loaded, documents


def _policy(path: Path, given: Content | OSError, contents: dict[str, Content]) -> LoadedPolicy:
    if isinstance(given, OSError):
        hint = "it is the policy that --policy or GENERICDP_POLICY names"
        return LoadedPolicy(problems=(replace(unreadable(shown(path), given), hint=hint),))
    contents[shown(path)] = given
    return load_policy(path, given)


def unreadable(name: str | Path, error: OSError) -> Problem:
    """Return the problem of a file that cannot be read."""
    if isinstance(error, NotAFileError):
        return unusable(name, error.strerror or "it is not a file")
    other = f"it cannot be read: {(error.strerror or str(error)).lower()}"
    return unusable(name, _MESSAGES.get(error.errno or 0, other))


def unquoted(problems: Iterable[Problem], contents: Mapping[str, Content]) -> list[Problem]:
    """Return problems without those that would quote a file that an untrusted link leads to.

    Instead, there is one for each such file. ``contents`` are by the names of the files.
    """
    shown: list[Problem] = []
    hidden: Counter[str] = Counter()
    for problem in problems:
        if (of := contents.get(problem.file)) is not None and of.doubt:
            hidden[problem.file] += 1
        else:
            shown.append(problem)
    for name, count in hidden.items():
        of = contents[name]
        mistakes = "1 mistake that is" if count == 1 else f"{count} mistakes that are"
        message = f"it has {mistakes} not shown: {of.doubt}"
        hint = f"check {printable(of.at)} itself, or let only root change the link"
        shown.append(replace(unusable(name, message), hint=hint))
    return shown


def _pinned(paths: Iterable[Path]) -> Iterator[str]:
    """Yield why files and folders of a config are never seen to change on this machine.

    What takes the place of a file that is mounted by itself is not seen; nor is another version of
    a volume where one version is mounted, without the volume's ``..data``.
    """
    roots = {}
    with suppress(OSError), Path("/proc/self/mountinfo").open("rb") as mounts:
        for fields in (os.fsdecode(line).split(" ") for line in mounts):
            root, point = (_OCTAL.sub(lambda at: chr(int(at[1], 8)), one) for one in fields[3:5])
            roots[point] = root
    for path in dict.fromkeys(filter(None, map(_real_path, paths))):
        of_a_volume = _OF_A_VOLUME.search(f"{roots.get(path, '')}/")
        if path in roots and (of_a_volume or not Path(path).is_dir()):
            yield (
                f"{path} is mounted by itself (subPath?), so an update that replaces it is never"
                " seen: mount the whole folder or volume instead"
            )


def _real_path(path: Path) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a link may not be read; whoever reads the config says so
        return ""


def places_of(document: Document) -> list[Place]:
    """Return the place of each resource of a document."""
    marks = [document.mark(("resources", i)) for i in range(len(resources_of(document)))]
    return [Place(file=document.file, line=mark.line, column=mark.column) for mark in marks]


def encode(loaded: Loaded, documents: Sequence[Document]) -> bytes:
    """Return JSON for the pipe to the daemon, which ``build.decode`` takes apart."""
    if loaded.problems:
        documents = ()
    message = {
        "documents": [
            {"resources": resources_of(one), "places": [asdict(place) for place in places_of(one)]}
            for one in documents
        ],
        "problems": [asdict(problem) for problem in loaded.problems[:MAX_PROBLEMS]],
        "warnings": [asdict(warning) for warning in loaded.warnings[:MAX_PROBLEMS]],
        "files": [os.fspath(path) for path in loaded.files],
        # Those of a good config, which are UTF-8.
        "texts": [(name, text.decode()) for name, text in loaded.texts] if documents else [],
        "pinned": loaded.pinned,
        "digest": loaded.digest,
        "policy": loaded.policy and asdict(loaded.policy),
        "policyIsUnusable": loaded.policy_is_unusable,
    }
    return json.dumps(message).encode()
