"""Questions about single objects: which volume a PersistentVolume is, whether a pod counts, what a node's marks mean.
The parts of objects that caches keep; and the body of a volume's attachment.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.binding import is_of_claim
from mooring.api.core import Node, PersistentVolume, PersistentVolumeSpec, Taint
from mooring.api.meta import Condition, Object, OwnerReference, annotation, is_deleting
from mooring.api.migration import (
    AZURE_RESOURCE_GROUP,
    IN_TREE_SOURCES,
    PORTWORX_SECRET_NAME,
    PORTWORX_SECRET_NAMESPACE,
    ZONE_LABELS,
    is_migratable,
    source_as_csi,
)
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import ContainerStatus, Pod, Volume
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base import texts
from mooring.base.units import parse_duration_s
from mooring.cluster.attachdetach.options import NEVER
from mooring.cluster.attachdetach.silence import WAITS_SINCE
from mooring.control.slim import Mask, Part, items, only, slim

MANAGED: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
FORCE_AFTER: Final = "mooring.dev/force-detach-after"
"""The annotation of a StorageClass or a CSIDriver: a duration, or `never`."""

BOUND: Final = "Bound"
_SHARED: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class Identity(msgspec.Struct, frozen=True):
    """A volume as CSI knows it."""

    driver: str
    handle: str

    @property
    def unique(self) -> str:
        """The volume's name in a Node's status, one text for a queue, an index, the memory and the Node to share."""
        return texts.shared(unique_name(self.driver, self.handle))

    def attachment_to(self, node: str) -> str:
        return attachment_name(self.driver, self.handle, node)


class OnNode(NamedTuple):
    """The key of the controller: a volume, by its name in a Node's status, on a node."""

    unique: str
    node: str

    def __str__(self) -> str:
        return f"{self.unique} on {self.node}"


def identity_of(pv: PersistentVolume) -> Identity | None:
    """The volume's identity, None for a volume that no CSI driver attaches."""
    source = source_as_csi(pv)
    return Identity(source.driver, source.volume_handle) if source is not None else None


def uniques_of(pvs: Iterable[PersistentVolume]) -> Iterator[str]:
    """The names, in a Node's status, of the volumes that a CSI driver attaches."""
    return (found.unique for found in map(identity_of, pvs) if found is not None)


def inline_identity_of(attachment: VolumeAttachment) -> Identity | None:
    """The identity of the volume that the attachment itself describes; None where it names a PersistentVolume."""
    spec = attachment.spec.source.inline_volume_spec
    source = None if spec is None else spec.csi
    return None if source is None else Identity(source.driver, source.volume_handle)


def is_single_node(spec: PersistentVolumeSpec) -> bool:
    """Return True when all its access modes are for one node. Without any that is False, as in the controller upstream;
    the attacher's question of this name says True then (`sidecars/attacher/requests.py`).
    """
    modes = spec.access_modes or ()
    return bool(modes) and _SHARED.isdisjoint(modes)


# -- pods


def pod_wants_volumes(pod: Pod) -> bool:
    """False once the pod has ended, or is being deleted and none of its containers runs."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    return not is_deleting(pod) or any(map(_may_run, _containers(pod)))


def _containers(pod: Pod) -> tuple[ContainerStatus, ...]:
    status = pod.status
    return (
        *(status.init_container_statuses or ()),
        *(status.container_statuses or ()),
        *(status.ephemeral_container_statuses or ()),
    )


def _may_run(container: ContainerStatus) -> bool:
    return container.state.waiting is None and container.state.terminated is None


def workload_of(pod: Pod) -> str:
    """The owner of the pod; for a Deployment's pod the Deployment, though its owner is a ReplicaSet."""
    owner = _controller_of(pod)
    if owner is None:
        return ""
    name, suffix = owner.name or _prefix_of(pod), f"-{(pod.metadata.labels or {}).get(_TEMPLATE, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return f"Deployment {name.removesuffix(suffix)}"
    return f"{owner.kind} {name}"


def _controller_of(pod: Pod) -> OwnerReference | None:
    return next(filter(_is_controller, pod.metadata.owner_references or ()), None)


def _prefix_of(pod: Pod) -> str:
    """What stands before the last dash of its name: the name of the workload that made it, unless that is very long."""
    return pod.metadata.name.rpartition("-")[0]


_TEMPLATE: Final = "pod-template-hash"


# -- nodes and drivers


def is_managed(node: Node | None) -> bool:
    return node is not None and MANAGED in (node.metadata.annotations or {})


def force_after_of(obj: Object | None) -> float | None:
    """Seconds from the annotation of a StorageClass or CSIDriver, None without one; NEVER for one that can't be read:
    it may mean that.
    """
    text = "" if obj is None else annotation(obj, FORCE_AFTER)
    if not text:
        return None
    try:
        wait_s = NEVER if text == "never" else parse_duration_s(text)
    except ValueError:
        return NEVER
    return wait_s if wait_s >= 0 else NEVER  # (not a number is neither)


# -- the fields that are kept


def _is_that_taint(taint: Taint) -> bool:
    return taint.key == OUT_OF_SERVICE_TAINT


def _is_readiness(condition: Condition) -> bool:
    return condition.type == "Ready"


def _is_controller(owner: OwnerReference) -> bool:
    return bool(owner.controller)


def _may_be_attached(volume: Volume) -> bool:
    return is_of_claim(volume) or _has_source(volume)


def _has_source(source: PersistentVolumeSpec | Volume) -> bool:
    return is_migratable(source) or (source.iscsi or source.fc or source.flex_volume) is not None


_SOURCES: Final = (*IN_TREE_SOURCES, "iscsi", "fc", "flex_volume")

NODE: Final = slim(
    metadata=slim("creation_timestamp", annotations=only(MANAGED)),
    spec=slim(taints=items(_is_that_taint)),
    status=slim(
        "volumes_attached",
        "volumes_in_use",
        conditions=items(_is_readiness, slim("type", "status", "last_transition_time")),
    ),
)


@functools.cache
def _pod_mask(*, is_in_tree: bool, tells_owner: bool) -> Mask:
    """is_in_tree: the pod has volumes of in-tree plugins. tells_owner: its own name does not tell its owner's name."""
    sources, owner = _SOURCES if is_in_tree else (), ("name",) if tells_owner else ()
    return slim(
        metadata=slim(
            "creation_timestamp",
            "deletion_timestamp",
            owner_references=items(_is_controller, slim("kind", "controller", *owner)),
            labels=only(_TEMPLATE),
        ),
        spec=slim(
            "node_name", volumes=items(_may_be_attached, slim("name", "persistent_volume_claim", "ephemeral", *sources))
        ),
        status=slim(
            "phase",
            "init_container_statuses",
            "container_statuses",
            "ephemeral_container_statuses",
        ),
    )


CLAIM: Final = slim(metadata=slim("owner_references"), spec=slim("volume_name"), status=slim("phase"))

VOLUME: Final = slim(
    metadata=slim(),
    spec=slim(
        "access_modes",
        "storage_class_name",
        claim_ref=slim("namespace", "name", "uid"),
        csi=slim("driver", "volume_handle"),
    ),
)
IN_TREE_VOLUME: Final = VOLUME | slim(
    metadata=slim(
        labels=only(*ZONE_LABELS),
        annotations=only(AZURE_RESOURCE_GROUP, PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE),
    ),
    spec=slim(*_SOURCES),
)

ATTACHMENT: Final = slim(
    metadata=slim("creation_timestamp", "deletion_timestamp", "finalizers", annotations=only(WAITS_SINCE)),
    spec=slim(
        "attacher",
        "node_name",
        source=slim(
            "persistent_volume_name", inline_volume_spec=slim("access_modes", csi=slim("driver", "volume_handle"))
        ),
    ),
    status=slim("attached", "attach_error", "detach_error"),
)

DRIVER: Final = slim(metadata=slim(annotations=only(FORCE_AFTER)), spec=slim("attach_required"))


def keeps_of_pod(pod: Pod) -> Part | None:
    """Pods without a volume that may be attached are not kept at all."""
    volumes = pod.spec.volumes or ()
    if not any(map(_may_be_attached, volumes)):
        return None
    owner = _controller_of(pod)
    return _pod_mask(
        is_in_tree=any(map(_has_source, volumes)), tells_owner=owner is not None and owner.name != _prefix_of(pod)
    )


def keeps_of_volume(pv: PersistentVolume) -> Part:
    return IN_TREE_VOLUME if _has_source(pv.spec) else VOLUME


def source_body(pv_name: str, inline: PersistentVolumeSpec | None) -> dict[str, Any]:
    """An attachment's source. inline: the spec of a volume that a pod itself defines; None for a PersistentVolume."""
    return {"persistentVolumeName": pv_name} if inline is None else {"inlineVolumeSpec": msgspec.to_builtins(inline)}


def attachment_body(name: str, driver: str, node: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": VOLUME_ATTACHMENTS.api_version,
        "kind": VOLUME_ATTACHMENTS.name,
        "metadata": {"name": name},
        "spec": {"attacher": driver, "nodeName": node, "source": source},
    }
