"""The part of a claim's record that depends on the config."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.cdi import container_edits
from genericdp.devices.allocation import edits_at, texts_of
from genericdp.devices.device import Device, DeviceNode, shares_by_device
from genericdp.devices.held import BY_CAPACITY
from genericdp.devices.identity import identity_of
from genericdp.devices.inventory import natural_key
from genericdp.devices.parameters import PREFIX, ParameterError, defaults, given_by, is_for
from genericdp.dra.claims import (
    ClaimError,
    GivenDevice,
    GivenRequest,
    Hold,
    Place,
    ReleaseHook,
)
from genericdp.dra.metadata import metadata_of
from genericdp.errors import HostError
from genericdp.host.cache import HostCache
from genericdp.model import Command, Hook
from genericdp.template import Template, UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from genericdp.cdi import Edits
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import FoundFile, Host
    from genericdp.dra.claims import Claim, Configuration, Key, Result
    from genericdp.host.root import Root
    from genericdp.model import HookName
    from genericdp.policy import Policy

    Devices: TypeAlias = dict[Key, Device]
    _Parameters: TypeAlias = dict[tuple[str, str], dict[str, str]]
    """What templates insert for parameters, by request and resource."""

log = logging.getLogger(__name__)


def recorded(
    asked: Claim,
    results: tuple[Result, ...],
    devices: Devices,
    extended_resource: bool | None,  # noqa: FBT001
) -> Claim:
    """Return a claim with everything that its record contains about devices; raise ClaimError."""
    held: dict[Key, list[Result]] = {}
    for result in results:
        if not result.admin:
            held.setdefault(result.key, []).append(result)
    texts = _parameters(asked.configurations, results, devices)
    # Of several requests the first one counts.
    for_hooks = {key: texts[given[0].request, key[0]] for key, given in held.items()}
    claim = replace(
        asked,
        results=results,
        holds=tuple(_hold(key, given, devices[key]) for key, given in held.items()),
        devices=tuple(_given(key, device, for_hooks.get(key)) for key, device in devices.items()),
    )
    edits, requests = [], []
    # There is one CDI device for each request, because with several devices only the last value of
    # an environment variable would count.
    for name in dict.fromkeys(result.request for result in results):
        own = [result for result in results if result.request == name]
        given, cdi = _edits(claim, own, devices, texts)
        if given not in edits:
            edits.append(given)
        metadata = metadata_of(claim, own, devices, extended_resource=extended_resource)
        requests.append(
            GivenRequest(name=name, edits=edits.index(given), cdi=cdi, metadata=metadata)
        )
    return replace(claim, requests=tuple(requests), edits=tuple(edits))


def _parameters(
    configurations: Iterable[Configuration], results: Iterable[Result], devices: Devices
) -> _Parameters:
    """Return what templates insert for parameters, by request and resource; raise ClaimError."""
    targets = {
        (result.request, result.resource): (result.asked, devices[result.key].parameters)
        for result in results
    }
    given = {target: defaults(declared) for target, (_, declared) in targets.items()}
    for configuration in configurations:
        mine = {
            key: target
            for key, target in targets.items()
            if is_for(configuration.requests, target[0])
        }
        known = {name for _, declared in mine.values() for name in declared}
        for key, (request, declared) in mine.items():
            try:
                given[key] |= given_by(configuration.opaque, declared, known)
            except ParameterError as error:
                where = f"request {request} of {key[1]}{configuration.source}"
                raise ClaimError(f"{where}: {error}") from error
    for key, (request, declared) in targets.items():
        if lacking := declared.keys() - given[key].keys():
            name = min(lacking)
            why = f"parameter {name} has no default: give it {declared[name]}"
            raise ClaimError(f"request {request} of {key[1]}: {why}")
    return given


def with_hooks(known: GivenDevice | None, hooks: Iterable[HookName], device: Device) -> Device:
    """Return a device with only these hooks, which have the parameters of a claim.

    ``known`` is the device in its record, if it is there. Raise ClaimError.
    """
    texts = defaults(device.parameters) | (known.parameters if known else {})

    def lookup(_: str, name: str, /) -> str | None:
        return texts.get(name.removeprefix(PREFIX))

    try:
        bound = {name: hook.bind(lookup) for name, hook in device.hooks.items() if name in hooks}
    except UnusableValueError as error:
        raise ClaimError(f"device {device.id}: {error}") from error
    return replace(device, hooks=bound)


def identities_of(claim: Claim, key: Key) -> tuple[HardwareIdentity, ...]:
    """Return the identities of a device that a claim has, even if only for admin access."""
    for hold in claim.holds:
        if hold.key == key:
            return hold.identities
    return tuple(
        place.identity for device in claim.devices if device.key == key for place in device.places
    )


def contradicting(given: Iterable[Edits]) -> set[str]:
    """Return the environment variables that have different values in several edits."""
    values: dict[str, set[str]] = {}
    for edits in given:
        for variable in edits.get("env", ()):
            name, _, value = variable.partition("=")
            values.setdefault(name, set()).add(value)
    return {name for name, texts in values.items() if len(texts) > 1}


def locate(
    root: Root, claim: Claim, on_offer: Callable[[], Iterable[Device]], *, same_boot: bool
) -> tuple[Claim, dict[Key, str]]:
    """Return a claim with the current paths of its nodes, and why devices of it are missing.

    ``on_offer`` returns the devices among which returned ones are found. After a reboot (not
    ``same_boot``) numbers and inodes may belong to other hardware. Raise ClaimError if the devices
    cannot be read.
    """
    # A lack of descriptors or memory must not look like other hardware.
    host = HostCache(root.wary())
    listed: list[Place] = []
    moved: dict[Place, Place] = {}
    missing: dict[Key, str] = {}
    for device in claim.devices:
        for place in device.places:
            try:
                file = host.files.examine(place.path)
                here = None if file is None else _seen(place, file, host, same_boot)
            except (HostError, UnusableValueError) as error:
                raise ClaimError(f"{place.path} cannot be read ({error})") from error
            if isinstance(here, Place):
                moved |= {place: here} if here != place else {}
                continue
            if file is None and (why := host.files.why_unreadable.get(place.path)):
                raise ClaimError(f"{place.path} cannot be read ({why})")
            listed = listed or [place for device in on_offer() for place in _places(device)]
            if (now := _found_again(place, listed)) is not None:
                moved[place] = now
            else:
                what = "does not exist"
                if here is not None:
                    then = place.identity
                    what = f"is other hardware now: {here}; the claim was prepared with {then}"
                name = f"device {device.device_id} of {device.resource}"
                missing.setdefault(device.key, f"{name}: {place.path} {what}")
    return (_moved(claim, moved) if moved else claim), missing


def _seen(
    place: Place,
    file: FoundFile,
    host: Host,
    same_boot: bool,  # noqa: FBT001
) -> Place | HardwareIdentity:
    """Return a place as it is now, or the other hardware that its path leads to.

    Raise UnusableValueError if that cannot be read.
    """
    if not (same_boot and file.identity == place.instance and not file.refusal):
        syspath = file.identity.syspath
        device = None if syspath is None else host.device(syspath)
        now = identity_of(file, device, host, declared=place.identity.declared)
        if file.refusal or not now.is_same(place.identity):
            return now
    target = file.target if place.is_node else place.target
    return replace(place, target=target, instance=file.identity)


def _found_again(place: Place, listed: Iterable[Place]) -> Place | None:
    """Return the current place of the hardware among the devices on offer."""
    for now in listed:
        if now.identity.is_same(place.identity):
            return replace(now, identity=place.identity)
    return None


def _moved(claim: Claim, moved: Mapping[Place, Place]) -> Claim:
    """Return a claim with changed places."""
    targets = {then.target: now.target for then, now in moved.items()}
    identities = {then.identity: now.identity for then, now in moved.items()}
    return replace(
        claim,
        holds=tuple(
            replace(
                hold,
                identities=tuple(
                    identities.get(identity, identity) for identity in hold.identities
                ),
            )
            for hold in claim.holds
        ),
        devices=tuple(
            replace(device, places=tuple(moved.get(place, place) for place in device.places))
            for device in claim.devices
        ),
        edits=tuple(_relocated(edits, targets) for edits in claim.edits),
    )


def _relocated(edits: Edits, now: Mapping[str, str]) -> Edits:
    """Return edits with the current nodes in place of the former ones."""
    if "deviceNodes" not in edits:
        return edits
    nodes = []
    for node in edits["deviceNodes"]:
        then = node.get("hostPath", node["path"])
        path, host_path = node["path"], now.get(then, then)
        other = {} if host_path == path else {"hostPath": host_path}
        nodes.append({"path": path, **other, "permissions": node["permissions"]})
    return {**edits, "deviceNodes": nodes}


def as_device(given: GivenDevice, release: ReleaseHook, policy: Policy | None) -> Device:
    """Return a device of a record, for its release hook."""
    nodes = [place for place in given.places if place.is_node]
    first = given.places[0]
    return Device(
        id=given.device_id,
        key=first.target,
        path=first.path,
        nodes=tuple(
            DeviceNode(
                host_path=place.path,
                real_path=place.target,
                container_path=Template((place.path,)),
                permissions="",
                key=place.target,
                identity=place.instance,
                exclusive=True,
            )
            for place in nodes
        ),
        identity=first.instance,
        identities=(first.identity,),
        hooks={
            "release": Hook(
                command=Command(
                    argv=tuple(Template((argument,)) for argument in release.argv),
                    env={name: Template((text,)) for name, text in release.env.items()},
                ),
                timeout_seconds=release.timeout_seconds,
            )
        },
        policy=policy,
    )


def _hold(key: Key, results: Sequence[Result], device: Device) -> Hold:
    by_capacity = all(result.share_id for result in results)
    own_nodes = (node.hardware for node in device.nodes if node.exclusive)
    return Hold(
        resource=key[0],
        device_id=key[1],
        shares=tuple(dict.fromkeys(result.held_share for result in results)),
        # As it was allocated, which an edit of the config does not change.
        replicas=BY_CAPACITY if by_capacity else device.replicas,
        exclusive=device.exclusive,
        identities=tuple(dict.fromkeys((*device.identities, *filter(None, own_nodes)))),
    )


def _given(key: Key, device: Device, parameters: Mapping[str, str] | None) -> GivenDevice:
    """Return what is recorded of a device, with the parameters for it if the claim holds it."""
    given = GivenDevice(
        resource=key[0],
        device_id=key[1],
        places=_places(device),
        parameters=dict(parameters or {}),
    )
    hook = None
    if parameters is not None:
        hook = with_hooks(given, ("release",), device).hooks.get("release")
    if hook is None:
        return given
    command = hook.command.expand(lambda *_: None)
    release = ReleaseHook(
        argv=command.argv, env=dict(command.env), timeout_seconds=hook.timeout_seconds
    )
    return replace(given, release=release)


def _places(device: Device) -> tuple[Place, ...]:
    """Return the nodes of a device, and its members that have none."""
    found = {
        node.key: Place(
            path=node.host_path,
            target=node.real_path,
            instance=node.identity,
            identity=node.hardware or device.identities[0],
            is_node=True,
        )
        for node in device.nodes
    }
    members = [(member.key, member.path, member.identity) for member in device.members]
    own = (device.key, device.path, device.identity)
    for (key, path, instance), identity in zip(members or [own], device.identities, strict=True):
        bare = Place(path=path, target=path, instance=instance, identity=identity, is_node=False)
        found.setdefault(key, bare)
    return tuple(found.values())


def _edits(
    claim: Claim, asked: Sequence[Result], devices: Devices, parameters: _Parameters
) -> tuple[Edits, tuple[str, ...]]:
    """Return the edits for the containers of a request, and CDI devices of other programs.

    ``asked`` are the results for it. Raise ClaimError.
    """
    indexes = _indexes(asked if claim.per_request else claim.results)
    results = {result.key: result for result in asked}
    keys = sorted(results, key=lambda key: indexes[key])
    try:
        edits = edits_at(
            (
                texts_of(
                    devices[key],
                    indexes[key],
                    claim=claim.pod_claim or claim.name,
                    request=results[key].request,
                    parameters=parameters[results[key].request, key[0]],
                    consumed=results[key].consumed,
                ),
                devices[key],
                shares_by_device(each.share for each in asked if each.key == key)[key[1]],
            )
            for key in keys
        )
    except UnusableValueError as error:
        raise ClaimError(str(error)) from error
    return container_edits(edits, [devices[key] for key in keys]), edits.cdi


def _indexes(results: Iterable[Result]) -> dict[Key, int]:
    """Return ``$(allocation.index)`` of each device."""
    keys = sorted({result.key for result in results}, key=lambda key: (key[0], natural_key(key[1])))
    return {key: index for index, key in enumerate(keys)}
