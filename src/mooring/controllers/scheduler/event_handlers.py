"""What wakes a pod that has no node yet: each change names its topics, and whoever waits for one of them looks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.api.classes import class_of, volume_class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from mooring.control.slim import changed
from mooring.controllers.binding.names import BOUND, SELECTED_NODE, claims_of, is_finished
from mooring.controllers.scheduler import wake_topics
from mooring.controllers.scheduler.assumed_bindings import Plan
from mooring.controllers.scheduler.view import View
from mooring.kube.cache.informer import Change


class Wakes:
    """Handlers for the caches. tell: wakes who waits for a topic. look_at: puts a pod into the queue. vanished: a node is no more."""

    def __init__(self, tell: Callable[[str], None], look_at: Callable[[Pod], None], vanished: Callable[[str], None]) -> None:
        self._tell, self._look_at, self._vanished = tell, look_at, vanished

    def pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        about = new or old
        assert about is not None
        if new is None or old is None or (old.spec, old.metadata.deletion_timestamp) != (new.spec, new.metadata.deletion_timestamp):
            self._look_at(about)
        left = old is not None and old.spec.node_name and (new is None or is_finished(new)) and not is_finished(old)
        if left and old is not None:
            self._tell(wake_topics.LIMITS)
            for key in claims_of(old):
                self._tell(wake_topics.users(key))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if not changed(change.old, change.new):
            return
        self._tell(wake_topics.claim(change.key))
        selected = annotation(change.old, SELECTED_NODE) if change.old is not None else ""
        taken_back = selected and change.new is not None and annotation(change.new, SELECTED_NODE) != selected
        if change.new is None or change.new.spec.volume_name or taken_back:  # room that was promised to it
            self._tell(wake_topics.room_of(class_of(change.object)))

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        if not changed(change.old, change.new):
            return
        self._tell(wake_topics.volume(change.key.name))
        if change.new is not None and change.new.status.phase != BOUND:
            self._tell(wake_topics.volumes_of(volume_class_of(change.new)))

    def class_changed(self, change: Change[StorageClass]) -> None:
        if changed(change.old, change.new):
            self._tell(wake_topics.storage_class(change.key.name))

    def node_changed(self, change: Change[Node]) -> None:
        if not changed(change.old, change.new):
            return
        self._tell(wake_topics.node(change.key.name))
        self._tell(wake_topics.NODES)
        if change.new is None:
            self._vanished(change.key.name)

    def csi_node_changed(self, change: Change[CSINode]) -> None:
        if changed(change.old, change.new):
            self._tell(wake_topics.LIMITS)

    def driver_changed(self, change: Change[CSIDriver]) -> None:
        if changed(change.old, change.new):
            self._tell(wake_topics.driver(change.key.name))

    def capacity_changed(self, change: Change[CSIStorageCapacity]) -> None:
        if change.new is not None and changed(change.old, change.new):
            self._tell(wake_topics.room_of(change.new.storage_class_name))

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        if change.new is None:
            self._tell(wake_topics.LIMITS)


def has_its_node(pod: Pod | None, plan: Plan) -> bool:
    """True when the plan has become true: what it held is the pod's."""
    return pod is not None and (pod.metadata.uid, pod.spec.node_name) == (plan.uid, plan.node_name) and not is_finished(pod)


def let_go(view: View, plan: Plan) -> Iterator[str]:
    """What pods can have waited for because of a plan that is no more."""
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
        claim = view.claims.get(key)
        if claim is not None:
            yield wake_topics.room_of(class_of(claim))
