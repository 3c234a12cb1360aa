"""Worse parts of what a volume is made from: by name the fields of `bugs.Bug`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

import msgspec
from msgspec import structs

from mooring.api.core import PersistentVolumeClaim
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.cluster.snapshots import objects
from mooring.sidecars.provisioner.claims import prepare
from mooring.sidecars.provisioner.claims.view import Looked, Wanted
from mooring.sidecars.provisioner.model import cached
from mooring.sidecars.provisioner.model.cached import Source, source_of
from mooring.sidecars.provisioner.source_protection.view import View
from tests.sim.planting import both

Planted = contextlib.AbstractContextManager[Any]


def _contents_are_known_by_name() -> Planted:
    """The content of a former snapshot of that name counts as this one's."""
    get = Looked.get

    def taken(self: Looked, wanted: Wanted) -> Any:
        found = get(self, wanted)
        if not isinstance(found, VolumeSnapshotContent):
            return found
        uid = next(one.metadata.uid for one in self.found.values() if isinstance(one, VolumeSnapshot))
        ref = structs.replace(found.spec.volume_snapshot_ref, uid=uid)
        return structs.replace(found, spec=structs.replace(found.spec, volume_snapshot_ref=ref))

    return mock.patch.object(Looked, "get", taken)


def _waiting_claims_hold_nothing() -> Planted:
    """A finalizer that another process left is taken off, though a claim waits that is to be made from the snapshot
    later.
    """
    return mock.patch.object(View, "users", View.present_users)


def _claims_are_known_by_name() -> Planted:
    """A claim's volume is the one that names it, whether it is bound to this claim or to a former one of the name."""
    bound_volume = objects.bound_volume

    def named(view: Any, claim: Any) -> Any:
        ref = view.volume(claim.spec.volume_name)
        uid = ref.spec.claim_ref.uid if ref is not None and ref.spec.claim_ref is not None else claim.metadata.uid
        return bound_volume(view, structs.replace(claim, metadata=structs.replace(claim.metadata, uid=uid)))

    return mock.patch.object(objects, "bound_volume", named)


def _namespaces_of_sources_are_not_read() -> Planted:
    """A source in another namespace is looked for in the claim's own."""

    def taken(claim: PersistentVolumeClaim) -> Source | None:
        source = source_of(claim)
        return None if source is None else msgspec.structs.replace(source, namespace=claim.metadata.namespace)

    return both(mock.patch.object(cached, "source_of", taken), mock.patch.object(prepare, "source_of", taken))


BUGS: Final[Mapping[str, tuple[str, Callable[[], Planted], AbstractSet[str]]]] = {
    "former-contents-taken": (
        "claims",
        _contents_are_known_by_name,
        {"strange-source"},
    ),
    "waiting-claims-hold-nothing": ("claims", _waiting_claims_hold_nothing, {"source-freed"}),
    "claims-known-by-name": (
        "snapshots",
        _claims_are_known_by_name,
        {"strange-source"},
    ),
    "source-namespaces-unread": (
        "claims",
        _namespaces_of_sources_are_not_read,
        {"strange-source"},
    ),
}
