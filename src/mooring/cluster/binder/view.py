"""The objects, fields and indexes that binding reads.

A `View` shows the caches as they are: a decision reads it between two awaits, when nothing changes. `taken` holds the
decisions that are not written yet: the volumes that are being bound at the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.binding import (
    BIND_COMPLETED,
    IS_DEFAULT,
    PROVISIONED_BY,
    SELECTED_NODE,
    claim_key,
    claim_uid_in,
    claims_of,
    has_annotation,
    has_no_class,
    is_finished,
    is_of_claim,
)
from mooring.api.classes import class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, is_deleting
from mooring.api.migration import IN_TREE_SOURCES, is_migratable
from mooring.api.pods import Pod
from mooring.api.storage import StorageClass
from mooring.cluster.binder.available_volumes import AvailableVolumes
from mooring.control.slim import Part, items, slim, slimmed
from mooring.kube.cache.reader import Reader

BY_CLAIM: Final = "binding/claim"  # volumes by the claim they name; pods by the claims they use
BY_VOLUME: Final = "binding/volume"  # claims by the volume they name
BY_CLASS: Final = "binding/class"  # claims that are not bound
BY_SELECTED: Final = "binding/selected"  # claims that are not bound, by the node chosen for them
BY_OWN: Final = "binding/own"  # claims with a node and no volume, by uid; provisioned volumes by the uid in their name
BY_ATTRIBUTES: Final = "binding/attributes"  # claims and volumes by attributes class
BY_NODE: Final = "binding/node"
UNSET: Final = "(unset)"
"""Stands in BY_CLASS for a claim without a class: no class has parentheses in its name."""


class Volumes(msgspec.Struct, frozen=True):
    """The volumes, and the available ones by size."""

    reader: Reader[PersistentVolume]
    available: AvailableVolumes

    def get(self, name: str) -> PersistentVolume | None:
        return self.reader.get(Key("", name))

    def by(self, index: str, value: str) -> tuple[PersistentVolume, ...]:
        return self.reader.by(index, value)


class View(msgspec.Struct, frozen=True):
    """The caches and the running binds, live. taken: volume name → claim that it is being bound to."""

    claims: Reader[PersistentVolumeClaim]
    volumes: Volumes
    classes: Reader[StorageClass]
    pods: Reader[Pod]
    taken: Mapping[str, Key] = msgspec.field(default_factory=dict)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(Key("", name)) if name else None

    def default_class(self) -> StorageClass | None:
        """The default StorageClass, None for none; of several the newest, then the first by name."""
        marked = [one for one in self.classes.values() if is_default(one)]
        newest = max((one.metadata.creation_timestamp or "" for one in marked), default="")
        return min(
            (one for one in marked if (one.metadata.creation_timestamp or "") == newest), key=_name, default=None
        )

    def waiting_pods(self, claim: Key) -> tuple[str, ...]:
        """Names of the live pods that use the claim and have no node yet."""
        pods = self.pods.by(BY_CLAIM, str(claim))
        return tuple(
            sorted(
                pod.metadata.name
                for pod in pods
                if not pod.spec.node_name and not is_finished(pod) and not is_deleting(pod)
            )
        )


def is_default(one: StorageClass) -> bool:
    return any((one.metadata.annotations or {}).get(name) == "true" for name in IS_DEFAULT)


def _name(obj: Object) -> str:
    return obj.metadata.name


# -- indexes


def _is_open(claim: PersistentVolumeClaim) -> bool:
    return not has_annotation(claim, BIND_COMPLETED)


CLAIM_INDEXES: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {
    BY_VOLUME: lambda claim: (claim.spec.volume_name,) if claim.spec.volume_name else (),
    BY_CLASS: lambda claim: (UNSET if has_no_class(claim) else class_of(claim),) if _is_open(claim) else (),
    BY_SELECTED: lambda claim: (
        (claim.metadata.annotations or {}).get(SELECTED_NODE, "").split() if not claim.spec.volume_name else ()
    ),
    BY_OWN: lambda claim: (
        (claim.metadata.uid,) if has_annotation(claim, SELECTED_NODE) and not claim.spec.volume_name else ()
    ),
    BY_ATTRIBUTES: lambda claim: attributes_of(claim),
}
VOLUME_INDEXES: Final[Mapping[str, Callable[[PersistentVolume], Iterable[str]]]] = {
    BY_OWN: lambda pv: (claim_uid_in(pv.metadata.name),) if has_annotation(pv, PROVISIONED_BY) else (),
    BY_CLAIM: lambda pv: (str(claim_key(pv.spec.claim_ref)),) if pv.spec.claim_ref else (),
    BY_ATTRIBUTES: lambda pv: (pv.spec.volume_attributes_class_name,) if pv.spec.volume_attributes_class_name else (),
}
POD_INDEXES: Final[Mapping[str, Callable[[Pod], Iterable[str]]]] = {
    BY_CLAIM: lambda pod: (str(key) for key in claims_of(pod)),
    BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name and not is_finished(pod) else (),
}


def attributes_of(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """The attributes classes that a claim holds: wanted, in force, on their way."""
    modify = claim.status.modify_volume_status
    names = (
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        modify.target_volume_attributes_class_name if modify else "",
    )
    return tuple(dict.fromkeys(name for name in names if name))


# -- the kept parts of objects


def _volume(*sources: str) -> Part:
    return slimmed(
        spec=slim(
            "access_modes",
            "volume_mode",
            "claim_ref",
            "capacity",
            "persistent_volume_reclaim_policy",
            "storage_class_name",
            "volume_attributes_class_name",
            "node_affinity",
            *sources,
            csi=slim("driver", "volume_handle"),
        )
    )


_VOLUME: Final = _volume()
_IN_TREE_VOLUME: Final = _volume(*IN_TREE_SOURCES)


def keeps_of_volume(pv: PersistentVolume) -> Part:
    """A PersistentVolume; of its source only driver and handle, or the in-tree source, which tells both."""
    return _IN_TREE_VOLUME if is_migratable(pv.spec) else _VOLUME


POD: Final = slim(
    metadata=slim("deletion_timestamp", "deletion_grace_period_seconds"),
    spec=slim("node_name", volumes=items(is_of_claim, slim("name", "persistent_volume_claim", "ephemeral"))),
    status=slim("phase"),
)
"""A pod for all controllers but the scheduler."""


def keeps_of_pod(pod: Pod) -> Part | None:
    """A pod that names no claim is not kept at all."""
    return POD if any(map(is_of_claim, pod.spec.volumes or ())) else None


LABELLED: Final = slimmed(metadata=slim("labels"))
"""An object of any kind; of its metadata only its identity and labels."""
