"""The topics of each change: the pods without a node that wait for one of them are decided anew. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.binding import BOUND, SELECTED_NODE, claims_of, is_finished
from mooring.api.classes import class_of, volume_class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation
from mooring.api.pods import Pod
from mooring.api.storage import CSIStorageCapacity, VolumeAttachment
from mooring.cluster.binder.scheduling import wake_topics
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBinding
from mooring.cluster.binder.scheduling.view import View
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Change


def undecided(change: Change[Pod]) -> Iterator[Key]:
    """The pod, where something has changed that decides on its node."""
    old, new = change.old, change.new
    if (
        new is None
        or old is None
        or (old.spec, old.metadata.deletion_timestamp) != (new.spec, new.metadata.deletion_timestamp)
    ):
        yield change.key


def of_pod(change: Change[Pod]) -> Iterator[Topic]:
    """The topics of a pod with a node that is gone, or over."""
    old, new = change.old, change.new
    if old is not None and old.spec.node_name and (new is None or is_finished(new)) and not is_finished(old):
        yield wake_topics.LIMITS
        for key in claims_of(old):
            yield wake_topics.users(key)


def of_claim(change: Change[PersistentVolumeClaim]) -> Iterator[Topic]:
    yield wake_topics.claim(change.key)
    selected = annotation(change.old, SELECTED_NODE) if change.old is not None else ""
    taken_back = selected and change.new is not None and annotation(change.new, SELECTED_NODE) != selected
    if change.new is None or change.new.spec.volume_name or taken_back:  # a volume that was made for it may be free
        yield wake_topics.volumes_of(class_of(change.object))


def of_volume(change: Change[PersistentVolume]) -> Iterator[Topic]:
    yield wake_topics.volume(change.key.name)
    if change.new is not None and change.new.status.phase != BOUND:
        yield wake_topics.volumes_of(volume_class_of(change.new))


def of_node(change: Change[Node]) -> Iterator[Topic]:
    """The topics of a node. Labels change often, and most concern no volume: each is a topic of its own."""
    old, new = change.old, change.new
    yield wake_topics.node(change.key.name)
    if old is None or new is None or (old.spec, old.status) != (new.spec, new.status):
        yield wake_topics.NODES
    else:
        before, after = (one.metadata.labels or {} for one in (old, new))
        yield from {wake_topics.label(key) for key, _ in before.items() ^ after.items()}


def of_capacity(change: Change[CSIStorageCapacity]) -> Iterator[Topic]:
    if change.new is not None:
        yield wake_topics.room_of(change.new.storage_class_name)


def of_attachment(change: Change[VolumeAttachment]) -> Iterator[Topic]:
    if change.new is None:
        yield wake_topics.LIMITS


def has_its_node(pod: Pod | None, plan: AssumedBinding) -> bool:
    """True when the plan has come true: its volumes and claims are the pod's."""
    return (
        pod is not None
        and (pod.metadata.uid, pod.spec.node_name) == (plan.uid, plan.node_name)
        and not is_finished(pod)
    )


def of_dropped_plan(view: View, plan: AssumedBinding) -> Iterator[Topic]:
    """The topics that pods may wait for because of a plan that is no more."""
    yield wake_topics.LIMITS
    for key in plan.claims:
        yield wake_topics.users(key)
    for pv_name, key in plan.static:
        yield wake_topics.claim(key)
        pv = view.volumes.get(pv_name)
        if pv is not None:
            yield wake_topics.volumes_of(volume_class_of(pv))
    for key in plan.provision:
        yield wake_topics.claim(key)
