"""gateway.networking.k8s.io/v1beta1: ReferenceGrant, by which a namespace lets another one refer to its objects."""

from __future__ import annotations

from typing import Final

from msgspec import field

from mooring.api.meta import ApiStruct, Kind, ObjectMeta


class ReferenceGrantFrom(ApiStruct, frozen=True):
    group: str = ""
    kind: str = ""
    namespace: str = ""


class ReferenceGrantTo(ApiStruct, frozen=True):
    """name: None or "" for all of the kind."""

    group: str = ""
    kind: str = ""
    name: str | None = None


class ReferenceGrantSpec(ApiStruct, frozen=True):
    from_: tuple[ReferenceGrantFrom, ...] = field(name="from", default=())
    to: tuple[ReferenceGrantTo, ...] = ()


class ReferenceGrant(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: ReferenceGrantSpec = ReferenceGrantSpec()


REFERENCE_GRANTS: Final = Kind(
    "gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants", True, ReferenceGrant
)
