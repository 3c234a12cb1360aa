"""coordination.k8s.io/v1 Lease."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks

MESSAGES: Final = META_MESSAGES.extended("""
Lease: 1 metadata ObjectMeta!, 2 spec LeaseSpec!
LeaseSpec: 1 holderIdentity s?, 2 leaseDurationSeconds i32?, 3 acquireTime micro?, 4 renewTime micro?, 5 leaseTransitions i32?, 6 strategy s?, 7 preferredHolder s?
""")  # noqa: E501


def _default(new: Json) -> None:
    """Nothing is filled in; drops the fields whose gate is off."""
    for field in ("strategy", "preferredHolder"):
        new["spec"].pop(field, None)


def _validate(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield field_errors.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    yield from checks.at_least(spec.get("leaseTransitions"), "spec.leaseTransitions", 0)


LEASES: Final = Resource(
    group="coordination.k8s.io",
    kind="Lease",
    plural="leases",
    namespaced=True,
    message=MESSAGES["Lease"],
    bare_finalizers=True,
    put_without_version=False,
    put_creates=True,
    delete_answers_object=False,
    default=_default,
    validate=_validate,
)
