"""Reading a claim: its provisioner, node, size and source."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.api.quantity import parse_quantity
from mooring.sidecars.provisioner import names

SNAPSHOT_KIND: Final = "VolumeSnapshot"
CLAIM_KIND: Final = "PersistentVolumeClaim"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The source of a volume's data. group: "" for the core group, and for none."""

    kind: str
    group: str
    namespace: str
    name: str

    @property
    def is_snapshot(self) -> bool:
        return self.kind == SNAPSHOT_KIND

    @property
    def is_claim(self) -> bool:
        return self.kind == CLAIM_KIND


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """The provisioner that is asked for the volume; the GA annotation hides the beta one, even when it is empty."""
    notes = claim.metadata.annotations or {}
    return notes.get(names.STORAGE_PROVISIONER, notes.get(names.STORAGE_PROVISIONER_BETA, ""))


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node that the scheduler chose, "" for none. The alpha key is read here only: it makes no claim due."""
    return annotation(claim, names.SELECTED_NODE) or annotation(claim, names.SELECTED_NODE_ALPHA)


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    """The size asked for, rounded up. Raises ValueError for what is no quantity; the API server takes none of those."""
    text = (claim.spec.resources.requests or {}).get("storage", "0")
    return parse_quantity(text).whole


def source_of(claim: PersistentVolumeClaim) -> Source | None:
    """`dataSource`, or else `dataSourceRef`; None for an empty volume."""
    own, ref = claim.spec.data_source, claim.spec.data_source_ref
    if own is not None:
        return Source(own.kind, own.api_group or "", claim.metadata.namespace, own.name)
    if ref is not None:
        return Source(ref.kind, ref.api_group or "", ref.namespace or claim.metadata.namespace, ref.name)
    return None
