"""Loads a whole config in this process: read its files, check them together, then build."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.config.build import build
from genericdp.config.check import check_config
from genericdp.config.files import (
    STDIN,
    Content,
    Digest,
    Loaded,
    read_file,
    read_files,
    unreadable,
    unusable,
)
from genericdp.config.foreign import named
from genericdp.config.manifests import is_claim, mounted_configs, read_config
from genericdp.config.policy import load_policy, policy_of
from genericdp.config.schema import KINDS
from genericdp.errors import reason_of
from genericdp.host.calls import mounts
from genericdp.host.pathwalk import walk
from genericdp.model import Place
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.config.document import Document
    from genericdp.config.manifests import Mounted
    from genericdp.errors import Problem

_CONFIG_MAP = b"ConfigMap"
_OF_A_VOLUME = re.compile(r"/\.\.\d{4}_\d\d_\d\d_")
"""How the kubelet names the directories that ``..data`` leads to, one for each version."""


def load(
    paths: Sequence[Path], *, pipes: Mapping[Path, bytes] | None = None, policy: Path | None = None
) -> Loaded:
    """Return the config that the paths make up together, or all of its problems.

    ``pipes`` has the content of paths that can be read only once (``-`` is stdin), ``policy`` is
    the file of the policy.
    """
    loaded, checked = load_plain(paths, pipes, policy)
    return replace(loaded, resources=build(checked, loaded.policy))


def load_each(
    paths: Sequence[Path],
    *,
    pipes: Mapping[Path, bytes] | None = None,
    policy: Path | None = None,
    with_claims: bool = False,
) -> list[Loaded]:
    """Return the config that the paths make up; of a file of manifests, each that is in them.

    ``with_claims``: they may have claims alone, and no config.
    """
    try:
        files = list(read_files(paths, pipes))
    except OSError as error:
        return [Loaded(problems=(_no_load(paths[0], error),))]
    if len(files) == 1 and isinstance(content := files[0][1], Content):
        # Most files hold a config and nothing else: they are parsed once.
        path, has_some = files[0][0], _CONFIG_MAP in content.text
        if has_some and (mounted := mounted_configs(_shown(path), content.text)):
            return [_load_mounted(config, path, content, policy) for config in mounted]
    loaded, checked = _checked(paths, files, pipes, policy, with_claims=with_claims)
    return [replace(loaded, resources=build(checked, loaded.policy))]


def _load_mounted(config: Mounted, path: Path, content: Content, policy: Path | None) -> Loaded:
    """Return a config of manifests; a policy of the command line takes the place of theirs."""
    rules, policy_text, bounds = Loaded(), "", config.policy
    if policy is not None:
        try:
            rules = load_policy(policy, read_file(policy))
        except OSError as error:
            return Loaded(problems=(_no_load(policy, error),), policy_is_unusable=True)
    elif bounds:
        policy_text = "".join(text for _, text in bounds.files)
        rules = policy_of(bounds.documents, bounds.problems, policy_text.encode())
        rules = replace(
            rules,
            problems=_of_config_map(bounds.name, rules.problems, content),
            warnings=_of_config_map(bounds.name, rules.warnings, content),
        )
    wrong, warnings = check_config(config.documents, rules.policy)
    if config.lacks and policy is None:
        message = f"checked without its policy: the ConfigMap {config.lacks} is not in this input"
        warnings.append(unusable(_shown(path), message, "add it, or name the policy by --policy"))
    problems = (
        *rules.problems,
        *_of_config_map(config.name, [*config.problems, *wrong], content),
    )
    plain = [] if problems else [r for d in config.documents for r in plain_resources(d)]
    return replace(
        rules,
        problems=problems,
        warnings=(*rules.warnings, *_of_config_map(config.name, warnings, content)),
        resources=build(plain, rules.policy),
        files=(path,),
        texts=tuple((name, text.encode()) for name, text in config.files),
        config_map=config.name if config.documents else "",
        claims=() if content.untrusted_link else config.claims,
        policy_text=policy_text,
    )


def _of_config_map(name: str, problems: Iterable[Problem], content: Content) -> tuple[Problem, ...]:
    """Return problems of manifests, with the name of the ConfigMap that each is in."""
    problems = [*problems]
    shown = hide_untrusted_text(problems, {problem.file: content for problem in problems})
    where = f"ConfigMap {name}" if name else ""
    return tuple(
        problem._replace(path=f"{where} {problem.path}".strip()) for problem in sorted(set(shown))
    )


def _documents_of(name: str, text: bytes) -> tuple[list[Document], list[Problem]]:
    found, problems = read_config(name, text)
    foreign = None if any(map(_is_ours, found)) else named(text.decode(errors="replace"))
    return (found, problems) if foreign is None else ([], [unusable(name, *foreign)])


def _is_ours(document: Document) -> bool:
    data = document.data if isinstance(document.data, dict) else {}
    return str(data.get("kind")) in KINDS or ("resources" in data and "kind" not in data)


def _shown(path: Path) -> str:
    return "<stdin>" if path == STDIN else printable(str(path))


def _no_load(path: Path, error: OSError) -> Problem:
    return unusable(path, f"the config could not be loaded: {reason_of(error)}")


def load_plain(
    paths: Sequence[Path], pipes: Mapping[Path, bytes] | None = None, policy: Path | None = None
) -> tuple[Loaded, list[tuple[dict[str, Any], Place]]]:
    """Return everything except the resources, and, for a valid config, the plain data to build them
    from.
    """
    try:
        files = list(read_files(paths, pipes))
    except OSError as error:  # too few descriptors, too little memory: it may be a good config
        return Loaded(problems=(_no_load(paths[0], error),)), []
    return _checked(paths, files, pipes, policy)


def _checked(
    paths: Sequence[Path],
    files: Sequence[tuple[Path, Content | OSError]],
    pipes: Mapping[Path, bytes] | None,
    policy: Path | None,
    *,
    with_claims: bool = False,
) -> tuple[Loaded, list[tuple[dict[str, Any], Place]]]:
    try:
        bounds = None if policy is None else read_file(policy)
    except OSError as error:
        return Loaded(problems=(_no_load(paths[0], error),)), []
    digest, contents = Digest(), dict[str, Content]()
    rules, watched = Loaded(), [*paths, *(path for path, _ in files)]
    if policy is not None and bounds is not None:
        digest.add("policy", bounds)
        watched.append(policy)
        rules = load_policy(policy, bounds)
        if isinstance(bounds, Content):
            contents[printable(str(policy))] = bounds
    problems = [*rules.problems]
    documents: list[Document] = []
    for path, given in files:
        digest.add(path.name, given)
        name = "<stdin>" if pipes and path == STDIN else printable(str(path))
        if isinstance(given, OSError):
            problems.append(unreadable(name, given))
            continue
        if name not in contents or given.untrusted_link:
            contents[name] = given
        found, wrong = _documents_of(name, given.text)
        documents += found
        problems += wrong
    # A file behind an untrusted link must not be shown.
    claims = [d for d in documents if is_claim(d) and not contents[d.file].untrusted_link]
    rest = [d for d in documents if not is_claim(d) or contents[d.file].untrusted_link]
    documents = rest if rest or with_claims else claims
    wrong, warnings = check_config(documents, rules.policy)
    problems += wrong
    loaded = replace(
        rules,
        digest=str(digest),
        problems=tuple(sorted(set(hide_untrusted_text(problems, contents)))),
        warnings=(*rules.warnings, *hide_untrusted_text(warnings, contents)),
        files=tuple(path for path, _ in files),
        texts=tuple(
            (path.name, content.text) for path, content in files if isinstance(content, Content)
        ),
        pinned=tuple(_never_updated(watched)),
        claims=claims,
    )
    good = [] if problems else documents
    return loaded, [resource for document in good for resource in plain_resources(document)]


def hide_untrusted_text(
    problems: Sequence[Problem], contents: Mapping[str, Content]
) -> list[Problem]:
    """Return the problems except those that would quote a file behind an untrusted link.

    Each such file gets one problem instead. ``contents`` are by file name.
    """
    untrusted = {name: content for name, content in contents.items() if content.untrusted_link}
    hidden = Counter(problem.file for problem in problems if problem.file in untrusted)
    shown = [problem for problem in problems if problem.file not in untrusted]
    for name, count in hidden.items():
        mistakes = "1 mistake that is" if count == 1 else f"{count} mistakes that are"
        message = f"it has {mistakes} not shown: {untrusted[name].untrusted_link}"
        hint = f"check {printable(untrusted[name].at)} itself, or let only root change the link"
        shown.append(unusable(name, message, hint))
    return shown


def _never_updated(paths: Iterable[Path]) -> Iterator[str]:
    """Yield reasons why changes of files and directories of a config cannot be seen on this
    machine.

    If a single file is mounted, its replacement is not seen; nor is a new version of a volume, if
    only one version is mounted, without the volume's ``..data``.
    """
    roots, here = {}, Path("/")
    with suppress(OSError):
        here = Path.cwd()  # which may have been removed
        roots = {point: root for _, root, point, _ in mounts()}
    for path in dict.fromkeys(walk(os.fspath(here / path)).at for path in paths):
        of_a_volume = _OF_A_VOLUME.search(f"{roots.get(path, '')}/")
        if path in roots and (of_a_volume or not Path(path).is_dir()):
            yield (
                f"{path} is mounted by itself (subPath?), so an update that replaces it is never"
                " seen: mount the whole directory or volume instead"
            )


def plain_resources(document: Document) -> Iterator[tuple[dict[str, Any], Place]]:
    """Yield the resources of a checked document, each with its place."""
    for i, resource in enumerate(document.data["resources"]):
        mark = document.mark(("resources", i))
        lines = {
            key: [document.mark(("resources", i, key, j)).line for j in range(len(resource[key]))]
            for key in ("match", "exclude")
            if key in resource
        }
        yield resource, Place(file=document.file, line=mark.line, column=mark.column, entries=lines)
