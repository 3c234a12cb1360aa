"""What a list, a watch or a deletion of a collection covers: a namespace and two selectors, checked against the kind."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.selector import ANYTHING, Selector, parse_fields, parse_labels
from mooring.apiserver import api_errors
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored

REQUIREMENTS_MAX: Final = 500
"""Each is held against each object. Differs from kube-apiserver, which knows no bound but that of a URL."""
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """namespace: None is all."""

    namespace: str | None = None
    labels: Selector = ANYTHING
    fields: Selector = ANYTHING

    @property
    def selects(self) -> bool:
        """True when a selector leaves something out."""
        return bool(self.labels.requirements or self.fields.requirements)

    def matches(self, stored: Stored) -> bool:
        return (
            (self.namespace is None or stored.key.namespace == self.namespace)
            and (not self.labels.requirements or self.labels.matches(stored.labels))
            and (not self.fields.requirements or self.fields.matches(stored.fields))
        )


def scope_of(resource: Resource, namespace: str | None, label_selector: str, field_selector: str) -> Scope:
    """Raises BadRequest for a selector that can't be read, or that asks for a field the kind does not offer."""
    return checked(resource, parsed(namespace, label_selector, field_selector))


def parsed(namespace: str | None, label_selector: str, field_selector: str) -> Scope:
    """Raises BadRequest for a selector that can't be read."""
    try:
        scope = Scope(namespace, parse_labels(label_selector), parse_fields(field_selector))
    except ValueError as error:
        raise api_errors.bad_request(str(error)) from error
    if len(scope.labels.requirements) + len(scope.fields.requirements) > REQUIREMENTS_MAX:
        raise api_errors.bad_request(f"selectors of more than {REQUIREMENTS_MAX} requirements")
    return scope


def checked(resource: Resource, scope: Scope) -> Scope:
    """The same. Raises BadRequest for fields that the kind does not offer."""
    fields = scope.fields
    for requirement in fields.requirements:
        has_own = bool(resource.field_names or resource.custom is not None)
        in_none = has_own and not resource.namespaced and requirement.key == "metadata.namespace"
        if not in_none and (requirement.key in _METADATA_FIELDS or requirement.key in resource.field_names):
            continue
        if has_own:
            raise api_errors.bad_request(f"field label not supported: {requirement.key}")
        raise api_errors.bad_request(f'"{requirement.key}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    return scope
