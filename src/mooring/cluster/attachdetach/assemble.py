"""One volume on one node, put together from the caches, and the other nodes that have it, or may have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from mooring.api.binding import claim_name_of, claims_of, is_finished, owns
from mooring.api.core import (
    PERSISTENT_VOLUME_CLAIMS,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    reference_to,
)
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key, Object, ObjectMeta, annotation, is_deleting
from mooring.api.migration import is_migratable, translated
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import name_of_node_attached, split_unique_name
from mooring.base.clock import Instant
from mooring.cluster.attachdetach.facts import NodeFacts, Place, Volume, Wish
from mooring.cluster.attachdetach.identity import (
    BOUND,
    Identity,
    force_after_of,
    identity_of,
    inline_identity_of,
    is_single_node,
    pod_wants_volumes,
    workload_of,
)
from mooring.cluster.attachdetach.memory import NodeRecord, Record
from mooring.cluster.attachdetach.silence import WAITS_SINCE, Moment, mark_on, unsaid_s, waited_s
from mooring.cluster.attachdetach.view import BY_CLAIM, BY_NODE, BY_UNIQUE, BY_VOLUME, ORPHAN, View, is_hashed
from mooring.kube.cache.reader import Reader

T = TypeVar("T", bound=Object)


class PodsOnNode(msgspec.Struct):
    """The pods on one node that want the volume, those that may want it, and those that have finished."""

    wishes: list[Wish] = msgspec.field(default_factory=list)
    doubts: list[ObjectReference] = msgspec.field(default_factory=list)
    finished: list[ObjectReference] = msgspec.field(default_factory=list)


def volume_of(view: View, unique: str, node: str, moment: Moment) -> Volume:
    """Everything about one volume on one node now. unique: its name in a Node's status, or the key of an attachment
    without one.
    """
    if unique.startswith(ORPHAN):
        return _orphan(view, unique, node, moment)
    parts = split_unique_name(unique)
    assert parts is not None, unique
    identity, pvs = Identity(*parts), view.volumes.by(BY_UNIQUE, unique)
    place = _place(view, identity, pvs, node, moment)
    single_node = any(map(is_single_node, map(_spec_of, pvs))) or view.is_inline_for_one_node(unique)
    holders = {*view.nodes_attached(identity), *view.memory.creating(unique)} if single_node else set()
    return Volume(
        unique=unique,
        driver=identity.driver,
        handle=identity.handle,
        place=place,
        pv_name=pvs[0].metadata.name if pvs else "",
        single_node=single_node,
        rivals=tuple(_place(view, identity, pvs, other, moment) for other in sorted(holders - {node})),
        class_names=_classes_of(pvs) if pvs else tuple(filter(None, (view.memory.class_of(unique),))),
        claims=tuple(_claim_reference(pv.spec.claim_ref) for pv in pvs if pv.spec.claim_ref is not None),
        driver_wait_s=force_after_of(view.drivers.get(Key("", identity.driver))),
    )


class _Attachments(msgspec.Struct):
    """The volume's attachments to one node."""

    #: The one under the name that this controller gives, which may be about something else.
    ours: VolumeAttachment | None
    #: The names of others.
    foreign: list[str]
    #: `ours` has a name that was given when its PersistentVolume named another volume, as a cache may have shown it
    #: long after. Nobody else deletes those.
    is_former: bool = False


def _attachments_on(
    view: View, identity: Identity, pvs: tuple[PersistentVolume, ...], pods: PodsOnNode, node: str
) -> _Attachments:
    name = identity.attachment_to(node)
    found = (
        *(one for pv in pvs for one in _on(view.attachments, BY_VOLUME, pv.metadata.name, node)
          if one.spec.node_name == node and one.spec.source.persistent_volume_name == pv.metadata.name),
        *(one for one in _on(view.attachments, BY_UNIQUE, identity.unique, node)
          if one.spec.node_name == node and inline_identity_of(one) == identity),
    )  # fmt: skip
    ours = view.attachment(name)
    foreign = sorted({one.metadata.name for one in found} - {name})
    record = view.memory.find(identity.unique, node)
    if ours is None and (record is None or not record.creating):
        # One at a time, and none beside the one of the right name: a detach for the one would end the attach of the
        # other.
        for one in _former_ones(view, identity, pods, foreign):
            return _Attachments(one, [other for other in foreign if other != one.metadata.name], is_former=True)
    return _Attachments(ours, foreign)


def _on(reader: Reader[T], index: str, value: str, node: str) -> tuple[T, ...]:
    """The objects under the value, at least all of them on the node, by the smaller of the two indexes: a volume may be
    used on many nodes, and a node have many volumes.
    """
    if reader.count(index, value) <= reader.count(BY_NODE, node):
        return reader.by(index, value)
    return reader.by(BY_NODE, node)


def _former_ones(
    view: View, identity: Identity, pods: PodsOnNode, foreign: Iterable[str]
) -> Iterator[VolumeAttachment]:
    """The attachments under another volume's name that have to go before one of the right name is made.

    Where a pod uses the volume, or may, the one of the right name is made first. An attachment that is ending already
    goes before it all the same, since its detach may end the other one's attach.
    """
    for one in filter(None, map(view.attachment, foreign)):
        node = one.spec.node_name
        is_ending = is_deleting(one) or one.metadata.uid in view.memory.deletions
        is_listed = is_reported(identity.unique, view.node(node)) or _is_mounted(
            identity.unique, view.node(node), view.memory.node(node)
        )
        is_in_need = pods.doubts or (pods.wishes and is_listed)
        if (
            one.spec.attacher == identity.driver
            and is_hashed(one)
            and (is_ending or (view.is_name_unused(one) and not is_in_need))
        ):
            yield one


def _claim_reference(ref: ObjectReference) -> ObjectReference:
    """The claim as the object of an event."""
    return ObjectReference("v1", PERSISTENT_VOLUME_CLAIMS.name, ref.namespace, ref.name, ref.uid)


def _orphan(view: View, key: str, node: str, moment: Moment) -> Volume:
    """An attachment without a volume: it is deleted, unless a pod on its node names a claim that leads to that volume's
    name.
    """
    attachment = view.attachment(key.removeprefix(ORPHAN))
    if attachment is None or view.key_of(attachment) != key or attachment.spec.node_name != node:
        return Volume(key, "", "", Place(_node_facts(view, node)))
    pods = PodsOnNode(doubts=list(_doubts(view, attachment)))
    place = _place_of(view, key, node, moment, pods, _Attachments(attachment, []), asks_name=True)
    return Volume(key, attachment.spec.attacher, "", place, pv_name=attachment.spec.source.persistent_volume_name or "")


def _doubts(view: View, attachment: VolumeAttachment) -> Iterator[ObjectReference]:
    """The pods on its node that may still use a volume whose PersistentVolume is gone."""
    pv_name = attachment.spec.source.persistent_volume_name
    if attachment.spec.source.inline_volume_spec is not None:
        return  # no claim leads to an inline volume: the pod that uses it defines it
    for pod in view.pods.by(BY_NODE, attachment.spec.node_name):
        if pod_wants_volumes(pod) and any(_may_lead_to(view, claim, pv_name) for claim in claims_of(pod)):
            yield reference_to(pod, "Pod")


def _may_lead_to(view: View, claim_key: Key, pv_name: str | None) -> bool:
    claim = view.claims.get(claim_key)
    return claim is None or claim.spec.volume_name in ("", pv_name)


def _spec_of(pv: PersistentVolume) -> PersistentVolumeSpec:
    """The spec with the access modes of CSI: those of an in-tree GCE persistent disk are not what they say."""
    return translated(pv) if is_migratable(pv.spec) else pv.spec


def _classes_of(pvs: Iterable[PersistentVolume]) -> tuple[str, ...]:
    return tuple(sorted({pv.spec.storage_class_name for pv in pvs} - {""}))


# -- which pods


def _pods_on(view: View, identity: Identity, pvs: tuple[PersistentVolume, ...], node: str) -> PodsOnNode:
    described = view.drivers.get(Key("", identity.driver))
    if described is not None and described.spec.attach_required is False:
        return PodsOnNode()
    inline = (
        (pod, found)
        for pod in _on(view.pods, BY_UNIQUE, identity.unique, node)
        if (found := inline_volumes_of(pod).by_handle.get((identity.driver, identity.handle))) is not None
    )
    return _pods_of(view, pvs, inline, node)


def node_attached_pods(view: View, name: str, node: str) -> PodsOnNode:
    """The pods on the node that have to do with an iSCSI or Fibre Channel volume. name: as in a Node's status."""
    inline = (
        (pod, PersistentVolume(ObjectMeta(name=one.name)))
        for pod in _on(view.pods, BY_UNIQUE, name, node)
        for one in pod.spec.volumes or ()
        if name_of_node_attached(one) == name
    )
    return _pods_of(view, view.volumes.by(BY_UNIQUE, name), inline, node)


def _pods_of(
    view: View, pvs: tuple[PersistentVolume, ...], inline: Iterable[tuple[Pod, PersistentVolume]], node: str
) -> PodsOnNode:
    """inline: pods that define the volume themselves, each with the PersistentVolume that stands for it."""
    found = PodsOnNode()
    if not node:
        return found
    for pv in pvs:
        for claim in view.claims_of_volume(pv):
            for pod in _on(view.pods, BY_CLAIM, str(claim), node):
                if pod.spec.node_name == node and claim in claims_of(pod):
                    _sort(view, found, pod, pv, claim)
    for pod, pv in inline:
        if pod.spec.node_name == node:
            _sort(view, found, pod, pv, None)
    return found


def _sort(view: View, found: PodsOnNode, pod: Pod, pv: PersistentVolume, claim: Key | None) -> None:
    """Add the pod to those that want the volume, may want it, or have finished. claim: None for a volume that the pod
    itself defines.
    """
    if not pod_wants_volumes(pod):
        if is_finished(pod):
            found.finished.append(reference_to(pod, "Pod"))
        return
    leads = claim is None or _leads_to(view, pod, pv, claim)
    if leads and view.is_managed(pod.spec.node_name):
        found.wishes.append(_wish(pod, pv, is_inline=claim is None))
    elif leads is not False:
        found.doubts.append(reference_to(pod, "Pod"))


def _leads_to(view: View, pod: Pod, pv: PersistentVolume, key: Key) -> bool | None:
    """Whether the pod's claim of this name is this volume's. None where that can't be told: then nothing is taken from
    the node.

    The latter differs from upstream, which after a restart would detach such a volume from under its pod.
    """
    claim, ref = view.claims.get(key), pv.spec.claim_ref
    if claim is None or ref is None or not ref.uid:
        return None
    if claim.metadata.uid != ref.uid:
        return False
    if claim.status.phase != BOUND or not claim.spec.volume_name:
        return None
    return claim.spec.volume_name == pv.metadata.name and _may_use(pod, claim)


# -- which nodes


def _place(view: View, identity: Identity, pvs: tuple[PersistentVolume, ...], name: str, moment: Moment) -> Place:
    pods = _pods_on(view, identity, pvs, name)
    found = _attachments_on(view, identity, pvs, pods, name)
    if not pvs and found.ours is not None:
        pods.doubts = list(_doubts(view, found.ours))
    intact = found.ours is None or _is_about(view, found.ours, identity, name)
    return _place_of(view, identity.unique, name, moment, pods, found, intact=intact, asks_name=found.is_former)


def _place_of(
    view: View,
    unique: str,
    name: str,
    moment: Moment,
    pods: PodsOnNode,
    found: _Attachments,
    *,
    intact: bool = True,
    asks_name: bool,
) -> Place:
    """asks_name: the attachment's name alone tells what the node may have had in use."""
    node, node_record, attachment = view.node(name), view.memory.node(name), found.ours
    record = view.memory.find(unique, name) or Record(name)
    was_in_use = unique in (node_record.last_in_use or ()) or (
        asks_name and attachment is not None and view.had_volume_of_name(attachment)
    )
    return Place(
        _node_facts(view, name),
        record,
        node_record,
        wishes=tuple(sorted(pods.wishes, key=lambda wish: (wish.created, wish.ref.name))),
        doubts=tuple(pods.doubts),
        finished=tuple(pods.finished),
        mounted=_is_mounted(unique, node, node_record),
        unsaid_s=unsaid_s(node, attachment, node_record, moment, was_in_use=was_in_use),
        reported=is_reported(unique, node),
        attachment=attachment,
        is_former=found.is_former,
        intact=intact,
        deletion=None if attachment is None else view.memory.deletions.get(attachment.metadata.uid),
        foreign=tuple(found.foreign),
        waited_s=None if attachment is None else _waited_s(node, attachment, record, node_record, moment),
    )


def _waited_s(
    node: Node | None, attachment: VolumeAttachment, record: Record, node_record: NodeRecord, moment: Moment
) -> float | None:
    mark = mark_on(attachment, node, node_record)
    if not mark:
        return None
    return moment.now - record.wait_began if mark == record.wait_mark else waited_s(mark, moment.wall_s)


def _is_about(view: View, attachment: VolumeAttachment, identity: Identity, node: str) -> bool:
    spec = attachment.spec
    pv = view.volumes.get(Key("", spec.source.persistent_volume_name or ""))
    found = inline_identity_of(attachment) if pv is None else identity_of(pv)
    return (spec.attacher, spec.node_name) == (identity.driver, node) and (
        found == identity or (pv is None and found is None)
    )


def is_reported(unique: str, node: Node | None) -> bool:
    return node is not None and any(one.name == unique for one in node.status.volumes_attached or ())


def _is_mounted(unique: str, node: Node | None, record: NodeRecord) -> bool:
    """True as well where nobody knows: the Node was deleted before this process saw it."""
    if node is None:
        return record.last_in_use is None or unique in record.last_in_use
    return unique in (node.status.volumes_in_use or ())


def _node_facts(view: View, name: str) -> NodeFacts:
    node = view.node(name)
    return NodeFacts(name, node is not None, is_ready(node), is_out_of_service(node))


def observe(view: View, volume: Volume, now: Instant) -> None:
    """Start and end the times that are remembered of the volume on the node, and forget a node that has nothing to do
    with it any more.
    """
    place = volume.place
    if place.matters:
        view.memory.keep(volume.unique, place.record)
    else:
        view.memory.forget(volume.unique, place.node.name)
    place.record.observe(wanted=place.is_wanted, attachment=place.attachment, now=now)
    if place.attachment is not None and place.waited_s is not None:
        place.record.wait_mark = annotation(place.attachment, WAITS_SINCE)
        place.record.wait_began = now - place.waited_s


def _wish(pod: Pod, pv: PersistentVolume, *, is_inline: bool) -> Wish:
    return Wish(
        reference_to(pod, "Pod"),
        pv.metadata.name,
        created=pod.metadata.creation_timestamp or "",
        is_deleting=is_deleting(pod),
        workload=workload_of(pod),
        inline=pv.spec if is_inline else None,
    )


def _may_use(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """False where the pod means a claim of its own of that name, and this one was made by somebody else."""
    named = [one for one in pod.spec.volumes or () if claim_name_of(pod, one) == claim.metadata.name]
    return any(one.persistent_volume_claim is not None for one in named) or owns(pod, claim)
