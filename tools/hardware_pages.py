"""The site's pages about hardware: one for each example config, and their index.

A page is examples/configs/NAME.yaml as it is, and of tests/hosts/NAME what the commands print on
its host (golden files) and where the facts about it come from.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/configs"
HOSTS = ROOT / "tests/hosts"
MAX_LINES = 60
"""Of the output of one command."""
MAX_TITLE = 48

ABOUT = """\
# Hardware

A config for each kind of hardware, to start from. `genericdp init` writes one for the machine it
runs on ([init](../how-to/init.md)).

Each is run on a host of its own by the tests: a copy of a machine's `/sys` and `/dev`, with what
`discover` and `allocate` must say there. *Public facts*: what the host has and what a container
must get rests on documents, captures and issues of others, named at the end of the page; *in
part*: something of it is unproven, and is named there. *Unproven*: the host was made by hand.
Report what you see on a real one.

| for | config | rests on |
| --- | --- | --- |
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its name, ``index.md`` included."""
    made, rows = {}, []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        config, facts = path.read_text(), facts_of(path.stem)
        title, basis = title_of(config), basis_of(facts)
        rows.append(f"| [{title}]({path.stem}.md) | `{path.name}` | {basis} |")
        parts = [f"# {title}", f"`examples/configs/{path.name}`; rests on: {basis}."]
        keys = "Its keys: [config](../reference/config.md)."
        parts += [keys, fenced("yaml", config), *seen(path.stem)]
        if facts:
            headings = re.compile(r"^#+ ", re.MULTILINE)
            parts += ["## Where the facts come from", headings.sub("### ", facts)]
        made[f"{path.stem}.md"] = "\n\n".join(parts) + "\n"
    made["index.md"] = ABOUT + "\n".join(sorted(rows, key=str.lower)) + "\n"
    return made


def title_of(config: str) -> str:
    """Return the first sentence of the comment at the top, or the beginning of a long one."""
    comment = re.match(r"(?:#.*\n)+", config)[0].replace("#", " ")
    first = re.split(r"[:.](?:\s|$)", " ".join(comment.split()), maxsplit=1)[0]
    if len(first) <= MAX_TITLE:
        return first
    return re.split(r", | that ", re.sub(r" \([^)]*\)", "", first), maxsplit=1)[0]


def facts_of(name: str) -> str:
    """Return what is known about an example's host, without the heading."""
    file = HOSTS / name / "facts.md"
    return re.sub(r"\A# .*\n+", "", file.read_text()).strip() if file.exists() else ""


def basis_of(facts: str) -> str:
    """Return what an example rests on, in the words of the index."""
    if not facts:
        return "no host yet"
    if facts.lstrip("*_ ").lower().startswith("unproven"):
        return "unproven"
    return "public facts, in part" if "unproven" in facts.lower() else "public facts"


def seen(name: str) -> list[str]:
    """Return what the commands print on an example's hosts, as they are pasted."""
    parts: list[str] = []
    for discover in sorted((HOSTS / name).glob("discover*.txt"), key=lambda path: path.stem):
        variant = discover.stem.removeprefix("discover").replace("-", " ").strip()
        parts.append(f"## On a host: {variant}" if variant else "## On a host")
        parts.append(fenced("text", f"$ genericdp discover {name}.yaml\n{discover.read_text()}"))
        allocate = discover.with_name(discover.name.replace("discover", "allocate", 1))
        if allocate.exists():
            command = f"$ genericdp allocate {name}.yaml "
            answers = allocate.read_text().replace("$ genericdp allocate ", command)
            parts += ["What a container gets:", fenced("text", answers)]
    return parts


def fenced(language: str, text: str) -> str:
    """Return a block of Markdown with an output; the end of a long one is left out."""
    lines = text.rstrip().splitlines()
    if language == "text" and len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"… {len(lines) - MAX_LINES} more lines"]
    return "\n".join([f"```{language}", *lines, "```"])
