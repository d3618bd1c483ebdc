"""The objects of an API server, each change numbered, and what it refuses to do with them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.apiserver.validation import problems, unreadable_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Json = dict[str, Any]
    Key = tuple[str, str, str]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of object; ``fields`` can be selected by."""

    name: str
    group: str = "resource.k8s.io"
    is_namespaced: bool = False
    fields: frozenset[str] = frozenset({"metadata.name"})

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"


KINDS = {
    "resourceslices": Kind(
        name="ResourceSlice",
        fields=frozenset({"metadata.name", "spec.nodeName", "spec.driver", "spec.pool.name"}),
    ),
    "resourceclaims": Kind(name="ResourceClaim", is_namespaced=True),
    "nodes": Kind(name="Node", group=""),
}


class Refusal(Exception):  # noqa: N818
    """An answer of the server in place of doing something."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One change; of a deletion, the object as it was, with the version of its end."""

    version: int
    type: str
    resource: str
    object: Json


@dataclass(slots=True)
class Store:
    """All objects, by resource, namespace and name, and what happened to them."""

    announce: Callable[[Change], None]
    dropped: frozenset[str] = frozenset()
    version: int = 100
    compacted: int = 0
    objects: dict[Key, Json] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(1))
    """Draws names and UIDs, the same in each run."""

    def get(self, key: Key) -> Json:
        if key not in self.objects:
            raise Refusal(404, "NotFound", f'{_plural(key[0])} "{key[2]}" not found')
        return self.objects[key]

    def select(self, resource: str, namespace: str, fields: Mapping[str, str]) -> list[Json]:
        """Return objects in the order of their names."""
        check_fields(resource, fields)
        keys = sorted(key for key in self.objects if key[0] == resource)
        return [
            self.objects[key]
            for key in keys
            if namespace in ("", key[1]) and fits(self.objects[key], fields)
        ]

    def create(
        self, resource: str, namespace: str, body: Json, *, is_dry_run: bool = False
    ) -> Json:
        item = self._received(resource, body)
        metadata = item["metadata"]
        if metadata.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                message = "metadata.name: Required value: name or generateName is required"
                raise self._invalid(resource, "", [message])
            metadata["name"] = self._drawn_name(resource, namespace, metadata["generateName"])
        key = (resource, namespace, metadata["name"])
        if key in self.objects:
            raise Refusal(409, "AlreadyExists", f'{_plural(resource)} "{key[2]}" already exists')
        self._check(resource, item, None)
        uid = UUID(int=self.random.getrandbits(128), version=4)
        metadata |= {"uid": str(uid), "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata |= {"namespace": namespace} if namespace else {}
        metadata |= {"generation": 1} if resource == "resourceslices" else {}
        return item if is_dry_run else self._commit("ADDED", key, item)

    def _drawn_name(self, resource: str, namespace: str, start: str) -> str:
        while True:
            name = start[:58] + "".join(self.random.choices(_SUFFIX_LETTERS, k=5))
            if (resource, namespace, name) not in self.objects:
                return name

    def update(self, key: Key, body: Json, *, is_dry_run: bool = False) -> Json:
        item = self._received(key[0], body)
        metadata = item["metadata"]
        if metadata.get("name") != key[2]:
            raise Refusal(
                400, "BadRequest",
                f"the name of the object ({metadata.get('name', '')}) does not match"
                f" the name on the URL ({key[2]})",
            )  # fmt: skip
        before = self.get(key)
        wanted = metadata.get("resourceVersion", "")
        if metadata.get("uid") not in (None, before["metadata"]["uid"]):
            raise _conflict(key, "Precondition failed: UID in precondition")
        if wanted not in ("", before["metadata"]["resourceVersion"]):
            raise _conflict(
                key,
                "the object has been modified; please apply your changes to the latest version"
                " and try again",
            )
        for name in ("uid", "creationTimestamp", "generation", "resourceVersion", "namespace"):
            if name in before["metadata"]:
                metadata[name] = before["metadata"][name]
        if item == before:
            return before  # nothing is written, and no watch informed
        self._check(key[0], item, before)
        if key[0] == "resourceslices" and item["spec"] != before["spec"]:
            metadata["generation"] += 1
        return item if is_dry_run else self._commit("MODIFIED", key, item)

    def delete(self, key: Key, preconditions: Mapping[str, str]) -> Json:
        metadata = self.get(key)["metadata"]
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = preconditions.get(name)
            if wanted not in (None, metadata[name]):
                raise _conflict(
                    key,
                    f"Precondition failed: {label} in precondition: {wanted},"
                    f" {label} in object meta: {metadata[name]}",
                )
        return self._commit("DELETED", key, self.objects.pop(key))

    def since(self, version: int) -> list[Change]:
        """Return later changes; raise Refusal for what is no longer known."""
        if version < self.compacted:
            raise Refusal(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        return [change for change in self.changes if change.version > version]

    def _received(self, resource: str, body: Json) -> Json:
        kind = KINDS[resource]
        if not isinstance(body.get("metadata"), dict):
            raise Refusal(400, "BadRequest", "the body of the request is not an object")
        for key, expected in (("kind", kind.name), ("apiVersion", kind.api_version)):
            if body.get(key, expected) != expected:
                raise Refusal(400, "BadRequest", f"{key} {body[key]!r} is not {expected!r}")
        item = copy.deepcopy(body) | {"kind": kind.name, "apiVersion": kind.api_version}
        if unreadable := next(unreadable_values(item), ""):
            raise Refusal(400, "BadRequest", f"{kind.name} cannot be handled: {unreadable}")
        for path in self.dropped:
            _drop(item, path.split("."))
        if resource == "resourceslices":
            for taint in _taints(item):
                # The real server has the time of day: here each version has its own.
                taint.setdefault("timeAdded", f"2026-01-01T00:00:00.{self.version:09}Z")
        return item

    def _check(self, resource: str, item: Json, before: Json | None) -> None:
        found = list(problems(item, before)) if resource == "resourceslices" else []
        if found:
            raise self._invalid(resource, item["metadata"]["name"], found)

    @staticmethod
    def _invalid(resource: str, name: str, found: Iterable[str]) -> Refusal:
        kind = KINDS[resource]
        what = f'{kind.name}.{kind.group} "{name}" is invalid'
        return Refusal(422, "Invalid", f"{what}: {', '.join(found)}")

    def _commit(self, change: str, key: Key, item: Json) -> Json:
        self.version += 1
        item = copy.deepcopy(item)
        item["metadata"]["resourceVersion"] = str(self.version)
        if change != "DELETED":
            self.objects[key] = item
        self.changes.append(Change(self.version, change, key[0], item))
        self.announce(self.changes[-1])
        return item


def check_fields(resource: str, fields: Iterable[str]) -> None:
    """Raise Refusal for a field that cannot be selected by."""
    if unknown := sorted(set(fields) - KINDS[resource].fields):
        raise Refusal(400, "BadRequest", f"field label not supported: {unknown[0]}")


def fits(item: Json, fields: Mapping[str, str]) -> bool:
    """Return whether the fields of an object have these values."""
    for path, wanted in fields.items():
        found: Any = item
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if (found or "") != wanted:
            return False
    return True


def _taints(slice_: Json) -> list[Json]:
    """Return the taints of all devices; none if something in it is not of its type."""
    spec = slice_.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    return [
        taint
        for device in (devices if isinstance(devices, list) else ())
        if isinstance(device, dict) and isinstance(device.get("taints"), list)
        for taint in device["taints"]
        if isinstance(taint, dict)
    ]


def _drop(item: Any, path: list[str]) -> None:
    """Remove a field, in each entry of a list on the way."""
    if isinstance(item, list):
        for entry in item:
            _drop(entry, path)
    elif isinstance(item, dict) and len(path) == 1:
        item.pop(path[0], None)
    elif isinstance(item, dict):
        _drop(item.get(path[0]), path[1:])


def _plural(resource: str) -> str:
    group = KINDS[resource].group
    return f"{resource}.{group}" if group else resource


def _conflict(key: Key, why: str) -> Refusal:
    return Refusal(
        409, "Conflict", f'Operation cannot be fulfilled on {_plural(key[0])} "{key[2]}": {why}'
    )
