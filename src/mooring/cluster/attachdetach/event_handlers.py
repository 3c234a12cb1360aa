"""Which change of which object wakes which volume, and which node's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, key_of
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, VolumeAttachment
from mooring.api.volume_names import split_unique_name
from mooring.base.clock import Clock, Instant, in_turns
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import report_written
from mooring.cluster.attachdetach.identity import identity_of, is_managed
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.unresolved import obstacles_of
from mooring.cluster.attachdetach.view import BY_CLAIM, BY_NODE, BY_UNIQUE, BY_VOLUME, ORPHAN, View
from mooring.cluster.attachdetach.waited import silent_since, written_on
from mooring.control.backlog import newest_in_steps
from mooring.control.controller import Controller
from mooring.control.result import Because
from mooring.control.slim import changed
from mooring.kube.cache.informer import Change
from mooring.kube.cache.reader import Reader

T = TypeVar("T", bound=Object)


class EventHandlers:
    """volumes: by their name in a Node's status. reports: by node. pods: those whose claims may lead nowhere."""

    def __init__(
        self,
        view: View,
        volumes: Controller[str],
        reports: Controller[str],
        pods: Controller[Key],
        metrics: AttachDetachMetrics,
        clock: Clock,
    ) -> None:
        self._view, self._metrics, self._clock = view, metrics, clock
        self._volumes, self._reports, self._pods = volumes, reports, pods

    async def look_at_all(self) -> None:
        """A term begins: what decisions read beside the caches is made, then each volume, report and pod is looked at.

        A volume that needs anything has an attachment, or a pod; the newest come first.
        """
        view, now = self._view, self._clock.now()
        for node in view.nodes.values():
            self._met(node, now)
        async for attachment in in_turns(view.attachments.values()):
            view.sort(attachment)
        self._volumes.add_later(
            _keys_of_each(view.attachments, view.volumes_of_attachment), _keys_of_each(view.pods, view.volumes_of_pod)
        )
        self._reports.add_later(
            self._reports.newest_due(view.nodes, lambda node: node.metadata.name, self._report_rests)
        )
        self._pods.add_later(self._pods.newest_due(view.pods, key_of, self._pod_rests))

    def _report_rests(self, node: str) -> Because | None:
        """One that lists just what is attached: where that is to change, the volume's first look marks it."""
        if not self._view.lists_what_is_attached(node):
            return None
        self._view.memory.node(node).is_right()
        return why.Reported(node)

    def _pod_rests(self, key: Key) -> Because | None:
        pod = self._view.pods.get(key)
        return None if pod is None or any(obstacles_of(self._view, pod)) else why.Resolved()

    def _met(self, node: Node, now: Instant) -> None:
        record = self._view.memory.node(node.metadata.name)
        record.managed = record.managed or is_managed(node)
        record.heard(node.status.volumes_in_use or (), is_new=True, is_ready=is_ready(node), now=now)

    def report_written(self, node: str) -> None:
        self._volumes.tell(report_written(node))

    def pod_changed(self, change: Change[Pod]) -> None:
        if changed(change.old, change.new):
            self._pods.add(key_of(change.object))
            self._wake(*(self._view.volumes_of_pod(pod) for pod in (change.old, change.new) if pod is not None))
            self._wake(self._view.without_volume_on(change.object.spec.node_name))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if changed(change.old, change.new):
            self._wake(self._view.volumes_of_claim(key_of(change.object)), self._view.volumes_named_by(change.old))
            self._wake_pods(self._view.pods.by(BY_CLAIM, str(key_of(change.object))))

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        """Its attachments too: they may have been without a volume until now, or are so from now on."""
        if not changed(change.old, change.new):
            return
        pvs = tuple(filter(None, (change.old, change.new)))
        uniques = {found.unique for found in map(identity_of, pvs) if found is not None}
        if change.old is not None and change.new is None:
            self._may_be_lost(change.old)
        for attachment in self._view.attachments.by(BY_VOLUME, change.object.metadata.name):
            before = self._view.orphans.volume_of(attachment.metadata.name)
            self._view.sort(attachment)
            keys = tuple(self._view.volumes_of_attachment(attachment))
            self._look_at(attachment.spec.node_name, filter(None, (before, *uniques, *keys)))
            self._wake(keys)
        self._wake(uniques)
        for pv in pvs:
            self._wake_pods(self._view.pods_that_name(pv))

    def _may_be_lost(self, pv: PersistentVolume) -> None:
        """Nobody can look up its class any more, unless another PersistentVolume means the same volume."""
        found = identity_of(pv)
        if found is not None and not self._view.volumes.by(BY_UNIQUE, found.unique):
            self._view.memory.lost_volume(found.unique, pv.spec.storage_class_name)

    def driver_changed(self, change: Change[CSIDriver]) -> None:
        """As many volumes as the driver has: they have time."""
        if changed(change.old, change.new):
            self._volumes.add_later(self._view.volumes_of_driver(change.object.metadata.name))

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        """The volume's decision says whether the report has to change, while there is an attachment to decide about.

        An earlier decision of it may be under way: a report that is made meanwhile for another volume looks at this one as well.
        """
        for attachment in filter(None, (change.old, change.new)):
            keys = tuple(self._view.volumes_of_attachment(attachment))
            self._view.memory.node(attachment.spec.node_name).mark(keys)
            self._wake(keys)
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            self._ended(change.old)
        self._view.sort(change.object)

    def _ended(self, attachment: VolumeAttachment) -> None:
        key, node = self._view.key_of(attachment), attachment.spec.node_name
        self._look_at(node, () if key is None else (key,))
        deletion = self._view.memory.deletions.pop(attachment.metadata.uid, None)
        if deletion is not None:
            self._metrics.detached(attachment.spec.attacher, self._clock.now() - deletion.since)

    def node_changed(self, change: Change[Node]) -> None:
        old, new, name = change.old, change.new, change.object.metadata.name
        if not changed(old, new):
            return
        record, is_same = (
            self._view.memory.node(name),
            old is not None and new is not None and old.metadata.uid == new.metadata.uid,
        )
        record.managed = is_managed(new) or (is_same and (record.managed or is_managed(old)))
        record.silences += new is not None and is_ready(new)
        if old is not None and not is_same:
            record.gone(old.status.volumes_in_use or (), self._clock.now())
        is_heard = new is not None and record.heard(
            new.status.volumes_in_use or (), is_new=not is_same, is_ready=is_ready(new), now=self._clock.now()
        )
        if old is None or new is None or _marks(old) != _marks(new):
            self._wake(self._view.volumes_on(name))
            self._wake_pods(self._view.pods.by(BY_NODE, name))
        else:
            if is_heard:
                self._wake(self._view.volumes_on(name))
            differing = tuple(_differing(old, new))
            self._wake((key for key in self._view.without_volume_on(name) if key.startswith(ORPHAN)), differing)
            self._wake(*(self._view.volumes_in_the_way_of(unique, name) for unique in differing))
            if written_on(old) == written_on(new):
                self._look_at(name, differing)
                return
        self._look_at_all(name)

    def _look_at(self, node: str, uniques: Iterable[str]) -> None:
        """These volumes' entries of its report are made anew."""
        self._view.memory.node(node).mark(uniques)
        self._reports.add(node)

    def _look_at_all(self, node: str) -> None:
        """Every entry of its report is made anew: the Node may have become another one."""
        self._view.memory.node(node).mark_all()
        self._reports.add(node)

    def _wake_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._pods.add(key_of(pod))

    def _wake(self, *several: Iterable[str]) -> None:
        for keys in several:
            for key in keys:
                self._volumes.add(key)


def _keys_of_each(objects: Reader[T], keys: Callable[[T], Iterable[str]]) -> Iterator[str | None]:
    """A source: as `newest_keys`, of objects with several keys."""
    for obj in newest_in_steps(objects):
        yield from (None,) if obj is None else keys(obj)


def _marks(node: Node) -> tuple[object, ...]:
    """silent_since: another silence has begun, also where nothing between the two was seen; the Node may be gone at the next look."""
    return node.metadata.uid, is_managed(node), is_ready(node), is_out_of_service(node), silent_since(node)


def _differing(old: Node, new: Node) -> Iterator[str]:
    """The CSI volumes that one of both has in use, or lists as attached, and the other has not."""
    in_use = set(old.status.volumes_in_use or ()) ^ set(new.status.volumes_in_use or ())
    listed = {one.name for one in old.status.volumes_attached or ()} ^ {
        one.name for one in new.status.volumes_attached or ()
    }
    return (name for name in sorted(in_use | listed) if split_unique_name(name) is not None)
