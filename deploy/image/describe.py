"""Write the bill of materials of an image's archive beside it, and print its sizes.

    describe.py ARCHIVE.tar

It reads what is in the image, not what was meant to be: the metadata of Python's and of Debian's
packages. The bill is CycloneDX 1.5 in JSON, and the same for the same image.
"""

from __future__ import annotations

import json
import sys
import tarfile
import uuid
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from email.message import Message


class Image(NamedTuple):
    """What is told of an image."""

    config: dict[str, Any]
    digest: str
    """That of its config, which has those of its layers."""
    sizes: dict[str, int]
    """Bytes of each file, by its path without a leading slash."""
    metadata: dict[str, str]
    """The texts of those that describe a package."""


def read(archive: Path) -> Image:
    """Read an archive; raises OSError, tarfile.TarError, KeyError or ValueError if it is none."""
    sizes: dict[str, int] = {}
    metadata: dict[str, str] = {}
    with tarfile.open(archive) as tar:
        manifest = json.load(member(tar, "manifest.json"))[0]
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=member(tar, name)) as layer:
                for entry in layer:
                    path = entry.name.removeprefix("./")
                    if entry.isfile():
                        sizes[path] = entry.size
                        if describes(path):
                            metadata[path] = member(layer, entry.name).read().decode()
        config = json.load(member(tar, manifest["Config"]))
    return Image(config, manifest["Config"].removesuffix(".json"), sizes, metadata)


def member(tar: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - tarfile gives IO[bytes] | None
    """Open a file of an archive."""
    return tar.extractfile(name)


def describes(path: str) -> bool:
    """Tell whether a file holds the metadata of packages."""
    return path.endswith(".dist-info/METADATA") or path.startswith("var/lib/dpkg/status")


def components(metadata: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Give the packages that the files tell of."""
    for path, text in sorted(metadata.items()):
        if path.endswith("/METADATA"):
            yield python_package(HeaderParser().parsestr(text))
            continue
        for paragraph in text.strip().split("\n\n"):
            if (said := HeaderParser().parsestr(paragraph))["Package"]:
                yield debian_package(said)


def python_package(said: Message) -> dict[str, Any]:
    """Give a component for a wheel's metadata."""
    name, version = said["Name"], said["Version"]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{quote(version)}"
    found = component(name, version, purl)
    if said["License-Expression"]:
        found["licenses"] = [{"expression": said["License-Expression"]}]
    elif said["License"]:
        found["licenses"] = [{"license": {"name": said["License"].splitlines()[0]}}]
    return found


def debian_package(said: Message) -> dict[str, Any]:
    """Give a component for a Debian package's control file."""
    name, version, where = said["Package"], said["Version"], said["Architecture"]
    purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={where}"
    return component(name, version, purl)


def component(name: str, version: str, purl: str) -> dict[str, Any]:
    """Give what each component has."""
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill(image: Image) -> dict[str, Any]:
    """Give the CycloneDX document."""
    labels = image.config["config"].get("Labels") or {}
    version = labels.get("org.opencontainers.image.version", "unknown")
    whole = {
        "type": "container",
        "bom-ref": "image",
        "name": "genericdp",
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": image.digest}],
    }
    own = component("genericdp", version, f"pkg:pypi/genericdp@{version}")
    own["licenses"] = [{"license": {"id": "Apache-2.0"}}]
    found = [own, *components(image.metadata)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, image.digest)}",
        "version": 1,
        "metadata": {"timestamp": image.config["created"], "component": whole},
        "components": found,
        "dependencies": [{"ref": "image", "dependsOn": [one["bom-ref"] for one in found]}],
    }


def summary(image: Image) -> Iterator[str]:
    """Tell how large it is, and of what."""
    libc = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
    groups: dict[str, Iterable[str]] = {
        "Python": ("usr/bin/python", "usr/lib/python", "usr/local/bin/python"),
        "what it depends on": ("dist-packages/", "site-packages/"),
        "genericdp": ("packages/genericdp/",),
        "libc": (*libc, "libpthread", "ldconfig"),
    }
    total = sum(image.sizes.values())
    split = dict.fromkeys([*groups, "other libraries and files"], 0)
    for path, size in image.sizes.items():
        fits = [name for name, parts in groups.items() if any(part in path for part in parts)]
        split[fits[-1] if fits else "other libraries and files"] += size
    yield f"    {total / 1e6:6.1f} MB unpacked in {len(image.sizes)} files"
    for name, size in split.items():
        yield f"    {size / 1e6:6.1f} MB {name}"
    yield f"    image  sha256:{image.digest}"
    for layer in image.config["rootfs"]["diff_ids"]:
        yield f"    layer  {layer}"


def main(archive: Path) -> None:
    """Write the bill, print the rest."""
    image = read(archive)
    document = bill(image)
    written = archive.with_suffix(".cdx.json")
    written.write_text(json.dumps(document, indent=2) + "\n")
    print(f"==> {archive}, {written}: {len(document['components'])} packages")
    print("\n".join(summary(image)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
