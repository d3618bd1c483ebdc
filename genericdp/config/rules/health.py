"""Probes and hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.rules.parts import replicas
from genericdp.config.rules.selectors import may_find_several
from genericdp.config.schema import resource_schema
from genericdp.health.kinds import KINDS

if TYPE_CHECKING:
    from genericdp.config.document import Field

_WHEN_RUN = (
    *("periodSeconds", "timeoutSeconds", "initialDelaySeconds"),
    *("failureThreshold", "successThreshold"),
)


def check_health(resource: Field) -> None:
    """Find mistakes in the probes and hooks of a resource."""
    several = may_find_several(resource["match"])
    for probe in resource["health"]:
        _check_probe(probe, several=several)
    for hook in resource["hooks"]:
        _check_kind(hook["exec"])
    by_capacity = resource["sharing"].value == "capacity"
    if resource["hooks"].value and (by_capacity or replicas(resource) > 1):
        message = "hooks run while other containers may be using the same device"
        why = "sharing is capacity" if by_capacity else "replicas is more than 1"
        resource["hooks"].warn(message, why, of_key=True)


def _check_probe(probe: Field, *, several: bool) -> None:
    written = probe.written()
    kinds = [kind for kind in KINDS if kind in written]
    for kind in kinds:
        _check_kind(probe[kind], several=several)
    if followed := [kind for kind in kinds if not KINDS[kind].is_run]:
        for key in (key for key in _WHEN_RUN if key in written):
            message = (
                f"{key!r} does nothing next to {followed[0]!r}, whose lines count as they come"
            )
            probe[key].warn(message, of_key=True)
        return
    timeout, period = probe["timeoutSeconds"], probe["periodSeconds"].value
    by_default = "periodSeconds" not in written
    if by_default:
        probes = resource_schema()["properties"]["health"]["items"]
        period = probes["properties"]["periodSeconds"]["default"]
    if timeout.value is not None and period is not None and timeout.value > period:
        message = f"while it hangs it is done only every {timeout.value} s"
        timeout.warn(message, f"periodSeconds is {period}{' by default' if by_default else ''}")


def _check_kind(check: Field, *, several: bool = False) -> None:
    """Find the mistakes that only the kind of a check knows."""
    if check.value is not None:
        found = KINDS[check.key].mistakes(check.value, several=several)
        check.findings.extend(
            finding._replace(path=(*check.path, *finding.path)) for finding in found
        )
