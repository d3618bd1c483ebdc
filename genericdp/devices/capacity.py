"""Capacity of devices that DRA serves: whole amounts, written as quantities of Kubernetes."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from genericdp.printing import shortened
from genericdp.template import UnusableValueError, expand

if TYPE_CHECKING:
    from genericdp.model import Capacity, RequestPolicy, Resource
    from genericdp.template import Lookup

_QUANTITY = re.compile(
    r"(?a)\+?(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE]([+-]?\d{1,2})|([KMGTPE]i)|([numkMGTPE]))?"
)
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {
    "": Fraction(1),
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
}
_MAX = 2**63 - 1
WANTED = "a whole number from 1 to 2^63 - 1, such as 8, 500M or 16Gi"


class CapacityValue(NamedTuple):
    """The capacity of a device, as the scheduler sees it."""

    amount: int | None
    """None if it is not known: then the device does not have this capacity."""
    policy: RequestPolicy
    note: str = ""
    """Why it is not known; empty if it is."""


def capacity_of(resource: Resource, lookup: Lookup) -> dict[str, CapacityValue]:
    """Return the capacity of a device by name, with a note for what is not known."""
    return {name: _value_of(capacity, lookup) for name, capacity in resource.capacity.items()}


def _value_of(capacity: Capacity, lookup: Lookup) -> CapacityValue:
    try:
        text = expand(capacity.value, lookup)
    except UnusableValueError as error:
        return CapacityValue(None, capacity.policy, str(error))
    amount = whole(text.strip())
    if amount is None:
        return CapacityValue(None, capacity.policy, f"{shortened(text)!r} is not {WANTED}")
    note = problem(capacity.policy, amount)
    return CapacityValue(None if note else amount, capacity.policy, note)


def whole(text: str) -> int | None:
    """Return the amount of a quantity; None if it is not a whole number from 1 to 2^63 - 1."""
    amount = _amount(text)
    if amount is None or amount.denominator != 1 or not 1 <= amount <= _MAX:
        return None
    return int(amount)


def rounded_up(quantity: str) -> int:
    """Return the amount of a quantity in the API, rounded up; raise ValueError."""
    amount = _amount(quantity)
    if amount is None or amount > _MAX:
        raise ValueError(f"{shortened(quantity)!r} is not a quantity")
    return math.ceil(amount)


def _amount(text: str) -> Fraction | None:
    if (found := _QUANTITY.fullmatch(text)) is None:
        return None
    number, exponent, binary, decimal = found.groups()
    factor = _BINARY[binary] if binary else _DECIMAL[decimal or ""]
    return Fraction(number.rstrip(".")) * factor * Fraction(10) ** int(exponent or 0)


def quantity(amount: int) -> str:
    """Return an amount as the API server stores it, so that it does not count as changed."""
    units = _BINARY if amount % 1024 == 0 else _DECIMAL
    fitting = {unit: amount // factor for unit, factor in units.items() if amount % factor == 0}
    unit = min(fitting, key=lambda unit: fitting[unit])
    return f"{fitting[unit]}{unit}"


def problem(policy: RequestPolicy, amount: int | None = None) -> str:
    """Return why the API server would refuse a policy for this much capacity; empty if it would
    not.

    None for an amount that is not known yet.
    """
    named = {"min": policy.min, "default": policy.default, "max": policy.max, "its value": amount}
    known = [(name, number) for name, number in named.items() if number is not None]
    for (name, less), (other, more) in pairwise(known):
        if less > more:
            return f"{name} {quantity(less)} is more than {other} {quantity(more)}"
    if policy.step is None or policy.min is None:
        return ""
    for name in ("default", "max"):
        if ((named[name] or policy.min) - policy.min) % policy.step:
            return f"{name} is not min and a multiple of step {quantity(policy.step)}"
    if amount is not None and policy.min + policy.step > amount:
        return f"min and a step are more than its value {quantity(amount)}"
    return ""
