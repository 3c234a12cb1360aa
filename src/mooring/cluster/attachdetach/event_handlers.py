"""Which change of which object wakes which volume on which node, and which node's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from mooring.api.core import Node, NodeStatus, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, is_deleting, key_of
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, VolumeAttachment
from mooring.api.volume_names import is_node_attached, name_of_node_attached, split_unique_name
from mooring.base.clock import Clock, in_turns
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import let_go, report_written
from mooring.cluster.attachdetach.identity import OnNode, identity_of, is_managed, uniques_of
from mooring.cluster.attachdetach.metrics import AttachDetachMetrics
from mooring.cluster.attachdetach.silence import age_s, moment_of, silent_since, unsaid_s
from mooring.cluster.attachdetach.unresolved import obstacles_of
from mooring.cluster.attachdetach.view import BY_CLAIM, BY_NODE, BY_UNIQUE, BY_VOLUME, ORPHAN, View
from mooring.control.backlog import newest_in_steps
from mooring.control.controller import Controller
from mooring.control.result import Because
from mooring.control.slim import changed
from mooring.kube.cache.informer import Change
from mooring.kube.cache.reader import Reader

T = TypeVar("T", bound=Object)

IN_USE: Final = "in use"

REPLACED_S: Final = 10.0
"""How long a CSIDriver may be away before its volumes are looked at without it: most of its fields can't be changed, so
installers delete it and make it anew.
"""


class EventHandlers:
    """places: volumes on nodes. reports: by node. pods: those whose claims may lead nowhere."""

    def __init__(
        self,
        view: View,
        places: Controller[OnNode],
        reports: Controller[str],
        pods: Controller[Key],
        metrics: AttachDetachMetrics,
        clock: Clock,
    ) -> None:
        self._view, self._metrics, self._clock = view, metrics, clock
        self._places, self._reports, self._pods = places, reports, pods

    async def look_at_all(self) -> None:
        """A term begins: what decisions read beside the caches is made, then each volume on a node, report and pod is
        looked at.

        A volume that needs anything has an attachment, or a pod; the newest come first.
        """
        view, moment = self._view, moment_of(self._clock)
        for node in view.nodes.values():
            record = view.memory.keep_node(node.metadata.name)
            record.managed = record.managed or is_managed(node)
            record.see(node, moment.now - age_s(node, moment.wall_s), is_new=False)
        async for attachment in in_turns(view.attachments.values()):
            view.sort(attachment)
        attachments, pods = _keys_of_each(view.attachments, self._of_attachment), _keys_of_each(view.pods, self._of_pod)
        self._places.add_later(attachments, pods)
        self._reports.add_later(
            self._reports.newest_due(view.nodes, lambda node: node.metadata.name, self._report_rests)
        )
        self._pods.add_later(self._pods.newest_due(view.pods, key_of, self._pod_rests))

    def _report_rests(self, node: str) -> Because | None:
        """The reason of a report that lists just what is attached, and needs no first look: where that is to change,
        the volume's first look marks it.
        """
        if not self._view.lists_what_is_attached(node):
            return None
        self._view.memory.keep_node(node).is_right()
        return why.Reported(node)

    def _pod_rests(self, key: Key) -> Because | None:
        pod = self._view.pods.get(key)
        return None if pod is None or any(obstacles_of(self._view, pod)) else why.Resolved()

    def _of_attachment(self, attachment: VolumeAttachment) -> Iterator[OnNode]:
        node = attachment.spec.node_name
        return (OnNode(unique, node) for unique in self._view.volumes_of_attachment(attachment))

    def _of_pod(self, pod: Pod) -> Iterator[OnNode]:
        node = pod.spec.node_name
        return (OnNode(unique, node) for unique in self._view.volumes_of_pod(pod) if node)

    def report_written(self, node: str) -> None:
        self._places.tell(report_written(node))
        self._reports.tell(report_written(node))

    def let_go(self, key: OnNode) -> None:
        """The node may have let the volume go: others may wait for that."""
        self._places.tell(let_go(key.unique), by=key)

    def pod_changed(self, change: Change[Pod]) -> None:
        if changed(change.old, change.new):
            self._pods.add(key_of(change.object))
            for pod in filter(None, (change.old, change.new)):
                self._wake(pod.spec.node_name, self._view.volumes_of_pod(pod))
                self._look_at_node_attached(pod)
            node = change.object.spec.node_name
            self._wake(node, self._view.without_volume_on(node))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        if changed(change.old, change.new):
            self._wake_everywhere(self._view.volumes_of_claim(key_of(change.object)))
            self._wake_everywhere(self._view.volumes_named_by(change.old))
            pods = self._view.pods.by(BY_CLAIM, str(key_of(change.object)))
            self._wake_pods(pods)
            for pod in pods:
                self._look_at_node_attached(pod)

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        """Wake the volume and its attachments, which may have been without one until now, or are so from now on."""
        if not changed(change.old, change.new):
            return
        pvs = tuple(filter(None, (change.old, change.new)))
        uniques = set(uniques_of(pvs))
        if change.old is not None and change.new is None:
            self._may_be_lost(change.old)
        for attachment in self._view.attachments.by(BY_VOLUME, change.object.metadata.name):
            before = self._view.orphans.volume_of(attachment)
            self._view.sort(attachment)
            keys = tuple(self._view.volumes_of_attachment(attachment))
            self._look_at(attachment.spec.node_name, filter(None, (before, *uniques, *keys)))
            self._wake(attachment.spec.node_name, keys)
        self._wake_everywhere(uniques)
        for pv in pvs:
            self._wake_pods(self._view.pods_that_name(pv))
            if name := name_of_node_attached(pv.spec):
                for pod in self._view.pods_that_name(pv):
                    self._look_at(pod.spec.node_name, (name,))

    def _may_be_lost(self, pv: PersistentVolume) -> None:
        """Remember the volume's class, unless another PersistentVolume means the same volume and tells it."""
        found, view = identity_of(pv), self._view
        if found is None or view.volumes.by(BY_UNIQUE, found.unique):
            return
        if view.memory.nodes_of(found.unique) or view.attachments.by(BY_VOLUME, pv.metadata.name):
            view.memory.lost_volume(found.unique, pv.spec.storage_class_name)

    def driver_changed(self, change: Change[CSIDriver]) -> None:
        """Wake all volumes of the driver. There may be many, and they have time."""
        if not changed(change.old, change.new):
            return
        uniques = self._view.volumes_of_driver(change.object.metadata.name)
        keys = (OnNode(unique, node) for unique in uniques for node in sorted(self._view.nodes_of(unique)))
        if change.new is not None:
            self._places.add_later(keys)
            return
        for key in keys:
            self._places.add_after(key, REPLACED_S)

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        """The volume's decision says whether the report has to change, while there is an attachment to decide about.

        An earlier decision of it may be under way: a report that is made meanwhile for another volume looks at this one
        as well.
        """
        for attachment in filter(None, (change.old, change.new)):
            keys, node = tuple(self._view.volumes_of_attachment(attachment)), attachment.spec.node_name
            self._view.memory.keep_node(node).mark(keys)
            self._wake(node, keys, are_held=True)
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            self._ended(change.old)
        elif change.old is not None and is_deleting(change.old) and not is_deleting(change.object):
            # The API server was set back to before the DELETE, by a restore from a backup.
            self._view.memory.deletions.pop(change.object.metadata.uid, None)
        self._view.sort(change.object)

    def _ended(self, attachment: VolumeAttachment) -> None:
        key, node = self._view.key_of(attachment), attachment.spec.node_name
        self._look_at(node, () if key is None else (key,))
        self._view.sort(attachment)
        deletion = self._view.memory.deletions.pop(attachment.metadata.uid, None)
        if deletion is not None:
            self._metrics.ended(attachment.spec.attacher, "volume_detach", self._clock.now() - deletion.since)

    def node_changed(self, change: Change[Node]) -> None:
        old, new, name = change.old, change.new, change.object.metadata.name
        if not changed(old, new):
            return
        record, is_same = self._view.memory.keep_node(name), _are_one(old, new)
        record.managed = is_managed(new) or (is_same and (record.managed or is_managed(old)))
        if old is not None and not is_same:
            # A Node that has not said yet what is mounted has, for all that is known, what the one before it had.
            in_use, is_unsaid, now = old.status.volumes_in_use or (), self._is_unsaid(old), self._clock.now()
            record.gone(in_use, silent_since(old), now, was_heard=not is_unsaid)
            listed = {one.name for one in old.status.volumes_attached or ()} if new is None else set()
            for unique in filter(is_node_attached, listed.intersection(in_use)):
                self._view.memory.left.setdefault(unique, set()).add(name)
        if new is not None:
            record.see(new, self._clock.now(), is_new=not is_same)
        differing = _volumes_of(old) ^ _volumes_of(new)
        of_csi = sorted({unique for _, unique in differing if split_unique_name(unique) is not None})
        if of_others := {(what, one) for what, one in differing if split_unique_name(one) is None}:
            self._others_changed(name, of_others)
        if old is None or new is None or _marks(old) != _marks(new):
            self._wake(name, self._view.volumes_on(name))
            self._wake_pods(self._view.pods.by(BY_NODE, name))
            self._look_at_all(name)
            return
        if new.status.volumes_in_use and not old.status.volumes_in_use:
            self._wake(name, self._view.volumes_on(name))  # it says what is mounted from now on
        self._wake(name, (key for key in self._view.without_volume_on(name) if key.startswith(ORPHAN)))
        self._wake(name, of_csi)
        for unique in of_csi:
            self._wake(name, self._view.volumes_in_the_way_of(unique, name))
        self._look_at(name, of_csi)

    def _is_unsaid(self, node: Node) -> bool:
        """The Node may have had volumes mounted that it did not list, where one before it had."""
        record, moment = self._view.memory.node(node.metadata.name), moment_of(self._clock)
        attachments = self._view.attachments.by(BY_NODE, node.metadata.name)
        return any(unsaid_s(node, one, record, moment) > 0 for one in attachments)

    def _others_changed(self, node: str, differing: Iterable[tuple[str, str]]) -> None:
        """The node lists, or has in use, other volumes of plugins other than CSI. Its pods may wait for that, and for a
        single-node volume those on other nodes. A listed volume that nobody ever names is not touched.
        """
        here = self._view.pods.by(BY_NODE, node)
        self._wake_pods(here)
        for what, name in sorted(differing):
            if is_node_attached(name):
                if self._view.is_node_attached_to_one(name):
                    pods = self._view.pods_of_node_attached(name)
                    self._wake_pods(pods)
                else:
                    pods = tuple(pod for pod in here if name in self._view.node_attached_of_pod(pod))
                for one in ({node} if what == IN_USE else set()) | {pod.spec.node_name for pod in pods}:
                    self._look_at(one, (name,))

    def _look_at_node_attached(self, pod: Pod) -> None:
        if names := self._view.node_attached_of_pod(pod):
            self._look_at(pod.spec.node_name, names)

    def _look_at(self, node: str, uniques: Iterable[str]) -> None:
        """Make these volumes' entries of the node's report anew."""
        if node:
            self._view.memory.keep_node(node).mark(uniques)
            self._reports.add(node)

    def _look_at_all(self, node: str) -> None:
        """Make every entry of the node's report anew: the Node may have become another one."""
        self._view.memory.keep_node(node).mark_all()
        self._reports.add(node)

    def _wake_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._pods.add(key_of(pod))

    def _wake(self, node: str, uniques: Iterable[str], *, are_held: bool = False) -> None:
        """Something has happened to these volumes on the node. Where it has them, other nodes may wait for that."""
        if not node:
            return
        for unique in uniques:
            self._places.add(OnNode(unique, node))
            if are_held or self._view.is_held(unique, node):
                self._places.tell(let_go(unique))

    def _wake_everywhere(self, uniques: Iterable[str]) -> None:
        for unique in uniques:
            for node in sorted(self._view.nodes_of(unique)):
                self._places.add(OnNode(unique, node))


def _keys_of_each(objects: Reader[T], keys: Callable[[T], Iterable[OnNode]]) -> Iterator[OnNode | None]:
    """A source of keys like `newest_keys`, for objects with several keys."""
    for obj in newest_in_steps(objects):
        yield from (None,) if obj is None else keys(obj)


def _are_one(old: Node | None, new: Node | None) -> bool:
    return old is not None and new is not None and old.metadata.uid == new.metadata.uid


def _marks(node: Node) -> tuple[object, ...]:
    """What wakes all volumes of a Node when it changes. silent_since: another silence has begun, also where nothing
    between the two was seen; the Node may be gone at the next look.
    """
    return node.metadata.uid, is_managed(node), is_ready(node), is_out_of_service(node), silent_since(node)


def _volumes_of(node: Node | None) -> set[tuple[str, str]]:
    """The Node's volumes, each as attached, by its report, or as in use."""
    status = NodeStatus() if node is None else node.status
    listed = (("attached", one.name) for one in status.volumes_attached or ())
    return {*listed, *((IN_USE, name) for name in status.volumes_in_use or ())}
