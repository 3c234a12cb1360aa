"""One volume, put together from the caches: every node that wants it, has it, or may have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

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
from mooring.api.meta import Key, is_deleting
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import split_unique_name
from mooring.base.clock import Instant
from mooring.cluster.attachdetach.facts import NodeFacts, Place, Volume, Wish
from mooring.cluster.attachdetach.identity import (
    BOUND,
    Identity,
    force_after_of,
    identity_of,
    inline_identity_of,
    is_single_node,
    placed_at,
    pod_wants_volumes,
    workload_of,
)
from mooring.cluster.attachdetach.memory import Deletion, NodeRecord, Record
from mooring.cluster.attachdetach.view import BY_CLAIM, BY_NODE, BY_UNIQUE, BY_VOLUME, ORPHAN, View, is_hashed
from mooring.cluster.attachdetach.waited import silent_since, waited_before
from mooring.kube.errors import LATE_S


class _Pods:
    """By node: the pods that want the volume, those that may want it, and those that have finished."""

    def __init__(self) -> None:
        self.wishes: dict[str, list[Wish]] = {}
        self.doubts: dict[str, list[ObjectReference]] = {}
        self.finished: dict[str, list[ObjectReference]] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those whose pods count."""
        return (*self.wishes, *self.doubts)

    @property
    def inline_specs(self) -> Iterator[PersistentVolumeSpec]:
        """The volume as those see it that define it themselves."""
        return (wish.inline for wishes in self.wishes.values() for wish in wishes if wish.inline is not None)


class _Attachments:
    """ours: by node, those under the name that this controller gives. foreign: by node, the names of others.

    former: the nodes whose attachment in `ours` has a name that was given when its PersistentVolume named another volume, as a cache may
    have shown it long after. Nobody else deletes those.
    """

    def __init__(self, identity: Identity, found: Iterable[VolumeAttachment], nodes: Iterable[str]) -> None:
        attachments = {one.metadata.name: one for one in found}
        names = {
            identity.attachment_to(node): node
            for node in {*nodes, *(one.spec.node_name for one in attachments.values())}
        }
        self.ours = {names[name]: one for name, one in attachments.items() if name in names}
        self.former: set[str] = set()
        self.foreign: dict[str, list[str]] = {}
        for name in sorted(attachments.keys() - names.keys()):
            self.foreign.setdefault(attachments[name].spec.node_name, []).append(name)

    def take_over(self, former: VolumeAttachment) -> None:
        """One at a time, and none beside the one of the right name: a detach for the one would end the attach of the other."""
        node, name = former.spec.node_name, former.metadata.name
        if node not in self.ours:
            self.ours[node] = former
            self.former.add(node)
            self.foreign[node].remove(name)


def volume_of(view: View, unique: str) -> Volume:
    """Everything about one volume now, by its name in a Node's status, or by the key of an attachment without one."""
    if unique.startswith(ORPHAN):
        return _orphan(view, unique)
    parts = split_unique_name(unique)
    assert parts is not None, unique
    identity, pvs = Identity(*parts), view.volumes.by(BY_UNIQUE, unique)
    pods = _pods_of(view, identity, pvs)
    remembered = view.memory.nodes_of(unique)
    names = (*(identity.attachment_to(node) for node in (*pods.nodes, *remembered)), *view.orphans.of(identity))
    by_name = map(view.attachment, names)  # also one about something else
    inline = view.attachments.by(BY_UNIQUE, unique)
    found = (*_attachments_of(view, pvs), *inline, *(one for one in by_name if one is not None))
    attachments = _Attachments(identity, found, (*pods.nodes, *remembered))
    unsure = [
        node
        for node in remembered
        if view.memory.record(unique, node).creating or view.memory.record(unique, node).open_posts
    ]
    others = [name for node, names in attachments.foreign.items() if node not in unsure for name in names]
    for former in _former_ones(view, identity, pods, others):
        attachments.take_over(former)
    if not pvs:
        for node, one in attachments.ours.items():
            pods.doubts[node] = list(_doubts(view, one))
    nodes = {*attachments.ours, *attachments.foreign, *pods.nodes, *unsure}
    return Volume(
        unique=unique,
        driver=identity.driver,
        handle=identity.handle,
        pv_name=pvs[0].metadata.name if pvs else "",
        single_node=any(map(is_single_node, (*(pv.spec for pv in pvs), *pods.inline_specs, *_inline_specs(inline)))),
        class_names=_classes_of(pvs) if pvs else tuple(filter(None, (view.memory.class_of(unique),))),
        claims=tuple(_claim_reference(pv.spec.claim_ref) for pv in pvs if pv.spec.claim_ref is not None),
        driver_wait_s=force_after_of(view.drivers.get(Key("", identity.driver))),
        places={node: _place(view, identity, node, pods, attachments) for node in sorted(nodes)},
    )


def _former_ones(view: View, identity: Identity, pods: _Pods, foreign: Iterable[str]) -> Iterator[VolumeAttachment]:
    """Those under the name of another volume that are to go before one of the right name is made.

    Where a pod uses the volume, or may, the one of the right name is made first. One that ends already may end the attach of that.
    """
    for one in filter(None, map(view.attachment, foreign)):
        node = one.spec.node_name
        is_ending = is_deleting(one) or one.metadata.uid in view.memory.deletions
        is_listed = _is_reported(identity.unique, view.node(node)) or _is_mounted(
            identity.unique, view.node(node), view.memory.node(node)
        )
        is_in_need = node in pods.doubts or (node in pods.wishes and is_listed)
        if (
            one.spec.attacher == identity.driver
            and is_hashed(one)
            and (is_ending or (view.is_name_unused(one) and not is_in_need))
        ):
            yield one


def _claim_reference(ref: ObjectReference) -> ObjectReference:
    """For events."""
    return ObjectReference("v1", PERSISTENT_VOLUME_CLAIMS.name, ref.namespace, ref.name, ref.uid)


def _orphan(view: View, key: str) -> Volume:
    """An attachment without a volume: it is deleted, unless a pod on its node names a claim that leads to that volume's name."""
    attachment = view.attachment(key.removeprefix(ORPHAN))
    if attachment is None or view.key_of(attachment) != key:
        return Volume(key, "", "")
    node = attachment.spec.node_name
    pv_name = attachment.spec.source.persistent_volume_name
    place = Place(
        _node_facts(view, node),
        view.memory.record(key, node),
        view.memory.node(node),
        doubts=tuple(_doubts(view, attachment)),
        mounted=_is_mounted(key, view.node(node), view.memory.node(node)),
        attachment=attachment,
        deletion=view.memory.deletions.get(attachment.metadata.uid),
    )
    return Volume(key, attachment.spec.attacher, "", pv_name=pv_name or "", places={node: place})


def _doubts(view: View, attachment: VolumeAttachment) -> Iterator[ObjectReference]:
    """The pods on its node that may still use a volume whose PersistentVolume is gone."""
    pv_name = attachment.spec.source.persistent_volume_name
    if attachment.spec.source.inline_volume_spec is not None:
        return  # of that no claim tells: a pod that uses it defines it
    for pod in view.pods.by(BY_NODE, attachment.spec.node_name):
        if pod_wants_volumes(pod) and any(_may_lead_to(view, claim, pv_name) for claim in claims_of(pod)):
            yield reference_to(pod, "Pod")


def _may_lead_to(view: View, claim_key: Key, pv_name: str | None) -> bool:
    claim = view.claims.get(claim_key)
    return claim is None or claim.spec.volume_name in ("", pv_name)


def _inline_specs(attachments: Iterable[VolumeAttachment]) -> Iterator[PersistentVolumeSpec]:
    """The specs of volumes that pods define, also of pods that are gone."""
    yield from (spec for one in attachments if (spec := one.spec.source.inline_volume_spec) is not None)


def _classes_of(pvs: Iterable[PersistentVolume]) -> tuple[str, ...]:
    return tuple(sorted({pv.spec.storage_class_name for pv in pvs} - {""}))


def _attachments_of(view: View, pvs: tuple[PersistentVolume, ...]) -> Iterator[VolumeAttachment]:
    for pv in pvs:
        yield from view.attachments.by(BY_VOLUME, pv.metadata.name)


# -- which pods


def _pods_of(view: View, identity: Identity, pvs: tuple[PersistentVolume, ...]) -> _Pods:
    found, described = _Pods(), view.drivers.get(Key("", identity.driver))
    if described is not None and described.spec.attach_required is False:
        return found
    for pv in pvs:
        for claim in view.claims_of_volume(pv):
            for pod in view.pods.by(BY_CLAIM, str(claim)):
                if pod.spec.node_name:
                    _sort(view, found, pod, pv, claim)
    for pod in view.pods.by(BY_UNIQUE, identity.unique):
        if pod.spec.node_name:
            pv = inline_volumes_of(pod).by_handle[identity.driver, identity.handle]
            _sort(view, found, pod, pv, None)
    return found


def _sort(view: View, found: _Pods, pod: Pod, pv: PersistentVolume, claim: Key | None) -> None:
    """claim: None for a volume that the pod itself defines."""
    node = pod.spec.node_name
    if not pod_wants_volumes(pod):
        if is_finished(pod):
            found.finished.setdefault(node, []).append(reference_to(pod, "Pod"))
        return
    leads = claim is None or _leads_to(view, pod, pv, claim)
    if leads and view.is_managed(node):
        found.wishes.setdefault(node, []).append(_wish(pod, pv, is_inline=claim is None))
    elif leads is not False:
        found.doubts.setdefault(node, []).append(reference_to(pod, "Pod"))


def _leads_to(view: View, pod: Pod, pv: PersistentVolume, key: Key) -> bool | None:
    """Whether the pod's claim of this name is this volume's. None where that can't be told: then nothing is taken from the node.

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


def _place(view: View, identity: Identity, name: str, pods: _Pods, attachments: _Attachments) -> Place:
    unique, node, attachment = identity.unique, view.node(name), attachments.ours.get(name)
    record, node_record = view.memory.record(unique, name), view.memory.node(name)
    wishes = tuple(sorted(pods.wishes.get(name, ()), key=lambda wish: (wish.created, wish.ref.name)))
    reported = _is_reported(unique, node)
    is_former = name in attachments.former
    had = _had(unique, node, node_record, attachment) or (
        attachment is not None and is_former and view.had_volume_of_name(attachment)
    )
    may_be_inherited = attachment is not None and not reported and _may_have_been_unwanted(attachment, record, wishes)
    return Place(
        _node_facts(view, name),
        record,
        node_record,
        wishes=wishes,
        doubts=tuple(pods.doubts.get(name, ())),
        finished=tuple(pods.finished.get(name, ())),
        mounted=_is_mounted(unique, node, node_record),
        may_be_mounted_until=node_record.unheard_until if had else -math.inf,
        reported=reported,
        attachment=attachment,
        is_former=is_former,
        intact=attachment is None or _is_about(view, attachment, identity, name),
        deletion=_deletion(view, attachment, reported=reported),
        foreign=tuple(attachments.foreign.get(name, ())),
        waited_before_s=waited_before(node).get(unique, 0.0),
        inherited_until=view.memory.began + LATE_S if may_be_inherited else -math.inf,
    )


def _deletion(view: View, attachment: VolumeAttachment | None, *, reported: bool) -> Deletion | None:
    """What was sent of it. It is sent only for what is not reported, and nothing of it is reported by this process from then on."""
    found = None if attachment is None else view.memory.deletions.get(attachment.metadata.uid)
    if found is not None and reported:
        found.was_reported = True
    return found


def _may_have_been_unwanted(attachment: VolumeAttachment, record: Record, wishes: Iterable[Wish]) -> bool:
    """True where no pod of now wanted it all the time: an earlier process may have asked for its deletion.

    Not so for one that this process made, nor where a pod waits since before it was made. A pod of the same second counts as one that does:
    an attachment is a second old before this controller asks for its deletion (`TooNew`).
    """
    made = attachment.metadata.creation_timestamp or ""
    return attachment.metadata.uid != record.made_uid and not any(
        wish.placed and wish.placed <= made for wish in wishes
    )


def _is_about(view: View, attachment: VolumeAttachment, identity: Identity, node: str) -> bool:
    spec = attachment.spec
    pv = view.volumes.get(Key("", spec.source.persistent_volume_name or ""))
    found = inline_identity_of(attachment) if pv is None else identity_of(pv)
    return (spec.attacher, spec.node_name) == (identity.driver, node) and (
        found == identity or (pv is None and found is None)
    )


def _is_reported(unique: str, node: Node | None) -> bool:
    return node is not None and any(one.name == unique for one in node.status.volumes_attached or ())


def _is_mounted(unique: str, node: Node | None, record: NodeRecord) -> bool:
    """True as well where nobody knows: the Node was deleted before this process saw it."""
    if node is None:
        return record.last_in_use is None or unique in record.last_in_use
    return unique in (node.status.volumes_in_use or ())


def _had(unique: str, node: Node | None, record: NodeRecord, attachment: VolumeAttachment | None) -> bool:
    """Whether a Node before this one may have had the volume in use: it listed it, or the attachment is older than this Node."""
    if unique in (record.last_in_use or ()):
        return True
    if node is None or attachment is None:
        return False
    return (attachment.metadata.creation_timestamp or "") < (node.metadata.creation_timestamp or "")


def _node_facts(view: View, name: str) -> NodeFacts:
    node = view.node(name)
    since = "" if node is None or is_ready(node) else silent_since(node)
    silence = "" if node is None or is_ready(node) else f"{node.metadata.uid} {view.memory.node(name).silences} {since}"
    return NodeFacts(name, node is not None, is_ready(node), is_out_of_service(node), silence, bool(since))


def observe(view: View, volume: Volume, now: Instant) -> None:
    """Starts and ends the times that are remembered of the volume, and forgets the nodes that have nothing to do with it any more."""
    view.memory.keep(volume.unique, volume.places)
    for place in volume.places.values():
        place.record.observe(
            wanted=place.is_wanted,
            healthy=place.node.is_healthy,
            attachment=place.attachment,
            now=now,
            silence=place.node.silence,
            waited_before_s=place.waited_before_s,
        )


def _wish(pod: Pod, pv: PersistentVolume, *, is_inline: bool) -> Wish:
    return Wish(
        reference_to(pod, "Pod"),
        pv.metadata.name,
        created=pod.metadata.creation_timestamp or "",
        is_deleting=is_deleting(pod),
        workload=workload_of(pod),
        placed=placed_at(pod),
        inline=pv.spec if is_inline else None,
    )


def _may_use(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """False where the pod means a claim of its own of that name, and this one was made by somebody else."""
    named = [one for one in pod.spec.volumes or () if claim_name_of(pod, one) == claim.metadata.name]
    return any(one.persistent_volume_claim is not None for one in named) or owns(pod, claim)
