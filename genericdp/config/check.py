"""Check a whole config: its documents against the schema, then what a schema cannot express."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.document import Field, problem_of
from genericdp.config.rules import (
    dra,
    expect,
    health,
    inject,
    limits,
    names,
    parameters,
    policy,
    selectors,
    sharing,
    values,
)
from genericdp.config.schema import CONFIG
from genericdp.config.texts import check_texts
from genericdp.config.validation import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from genericdp.config.document import Document
    from genericdp.errors import Finding, Problem
    from genericdp.policy import Policy

OF_EACH_RESOURCE: tuple[Callable[[Field], None], ...] = (
    check_texts,
    names.check_resulting_names,
    selectors.check_selectors,
    values.check_values,
    inject.check_inject,
    health.check_health,
    sharing.check_closeness,
    expect.check_expect,
    dra.check_served_by,
    parameters.check_parameters,
    limits.check_sizes,
)
OF_ALL_RESOURCES: tuple[Callable[[Sequence[Field]], None], ...] = (
    names.check_equal_names,
    inject.check_losses,
    sharing.check_exclusive,
    dra.check_classes,
    limits.check_counts,
)


def check_config(
    documents: Sequence[Document], bounds: Policy | None = None
) -> tuple[list[Problem], list[Problem]]:
    """Return the problems and the warnings of all documents of a config together.

    What the policy in ``bounds`` does not allow is a problem.
    """
    checked: list[tuple[Document, list[Finding]]] = []
    resources: list[Field] = []
    for document in documents:
        findings, sound = validate(document, CONFIG)
        checked.append((document, findings))
        resources += Field(sound, (), sound.data, findings)["resources"]
    for resource in resources:
        for check in OF_EACH_RESOURCE:
            check(resource)
        if bounds is not None:
            policy.check_policy(resource, bounds)
    for check_all in OF_ALL_RESOURCES:
        check_all(resources)
    found = [(document, finding) for document, findings in checked for finding in findings]
    warnings = {problem_of(finding, document) for document, finding in found if finding.warning}
    problems = {problem_of(finding, document) for document, finding in found if not finding.warning}
    return sorted(problems), sorted(warnings)
