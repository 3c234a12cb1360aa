"""The chain of an object of each kind: what is read for it, and its links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from mooring.api.binding import claims_of
from mooring.api.core import PersistentVolume
from mooring.api.meta import Key, is_deleting
from mooring.api.migration import driver_and_handle
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.snapshot_kinds import Content, Snapshot, row_of
from mooring.cluster.snapshots.view import snapshot_of
from mooring.inspect.objects import NotThere
from mooring.inspect.reading import Reading
from mooring.inspect.render import counted
from mooring.inspect.scene import SeenEvent
from mooring.inspect.why.attaching import attachment_link
from mooring.inspect.why.chain import Chain, Command, Link, Mover, State, unseen_link
from mooring.inspect.why.changing import growth_link, modification_link
from mooring.inspect.why.claims import claim_link
from mooring.inspect.why.deleting import deletion_links, with_unstick
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.held import held_link
from mooring.inspect.why.nodes import silent_node_link, silent_since_s
from mooring.inspect.why.pods import end_link, pod_links
from mooring.inspect.why.snapshotting import snapshot_links


async def explained(reading: Reading, kind: str, key: Key) -> Chain:
    """kind: one of the values of ALIASES. Raises NotThere, and ApiError for a server that does not answer."""
    links = await _CHAINS[kind](reading, key)
    scene = reading.scene
    if links is None:
        hidden = next(iter(scene.unseen), None)
        refused = await reading.refused(key) if hidden is None and kind in MADE_FOR_OTHERS else None
        if refused is not None:
            return Chain(f"{kind} {key}", (refused_link(refused, key),), tuple(scene.unseen))
        if hidden is None:
            raise NotThere(f'{kind} "{key}" does not exist')
        if scene.not_served:
            return Chain(f"{kind} {key}", (_no_kind_link(kind, sorted(scene.not_served)),), tuple(scene.unseen))
        link = unseen_link(kind, f"could not be seen: {hidden.why}")
        return Chain(f"{kind} {key}", (link,), tuple(scene.unseen))
    return Chain(f"{kind} {key}", links, tuple(scene.unseen))


Links = tuple[Link, ...]

MADE_FOR_OTHERS: Final = ("pod", "pvc")
"""The kinds that controllers of workloads create."""


def refused_link(refused: SeenEvent, key: Key) -> Link:
    """The link of an object that its controller wants to create, and the API server refuses."""
    owner = refused.involved_object
    told = diagnosed(refused.message, driver="", namespace=key.namespace, program=owner.kind)
    text = f'the {owner.kind} "{owner.name}" can\'t create it'
    told = msgspec.structs.replace(told, cause=f"{text}: {told.cause}" if told.cause else text)
    retry = f"the controller of the {owner.kind} tries again by itself"
    return failed_link("creation", told, text, refused.first_s, refused.message, retry)


def _no_kind_link(kind: str, plurals: list[str]) -> Link:
    line = "kubectl apply -k https://github.com/kubernetes-csi/external-snapshotter/client/config/crd?ref=v8.6.0"
    install = Command(
        line,
        "safe: installs the kinds of snapshots; then a snapshot-controller is needed, and a csi-snapshotter per driver",
    )
    text = f"this cluster does not serve {', '.join(plurals)}: their definitions are not installed"
    return Link(kind, State.FAILED, text, Mover.OPERATOR, "whoever runs the cluster", commands=(install,))


async def _pod(reading: Reading, key: Key) -> Links | None:
    pod = await reading.pod(key)
    if pod is None:
        return None
    if is_deleting(pod):
        for claim in claims_of(pod):
            await reading.claim(claim)
        end = end_link(reading.scene, pod)
        return (end,) if end.state is State.FAILED else deletion_links(reading.scene, pod, "pod") or (end,)
    return pod_links(reading.scene, pod)


async def _claim(reading: Reading, key: Key) -> Links | None:
    await reading.claim(key)
    claim = reading.scene.claims.get(key)
    if claim is None:
        return None
    scene = reading.scene
    if is_deleting(claim):
        return deletion_links(scene, claim, "pvc")
    changes = (growth_link(scene, claim), modification_link(scene, claim))
    return (claim_link(scene, key), *(link for link in changes if link is not None))


async def _volume(reading: Reading, key: Key) -> Links | None:
    await reading.volume(key.name)
    pv = reading.scene.volumes.get(Key("", key.name))
    if pv is None:
        return None
    await reading.attachments_of(key.name)
    return deletion_links(reading.scene, pv, "pv") or (_phase_link(reading, pv), *_attachments(reading, pv))


def _phase_link(reading: Reading, pv: PersistentVolume) -> Link:
    ref, phase = pv.spec.claim_ref, pv.status.phase
    claim = f'"{ref.namespace}/{ref.name}"' if ref is not None else ""
    if phase == "Failed":
        return Link(
            "volume",
            State.FAILED,
            "its driver could not delete it",
            Mover.DRIVER,
            "its driver",
            error=pv.status.message,
        )
    if phase != "Released":
        return Link(
            "volume", State.DONE, f"bound to the claim {claim}" if phase == "Bound" else "free for a claim that it fits"
        )
    if pv.spec.persistent_volume_reclaim_policy != "Retain":
        return Link(
            "volume",
            State.WAITING,
            f"its claim {claim} is gone: its provisioner deletes it",
            Mover.CLUSTER,
            f"csi-provisioner of {driver_and_handle(pv)[0]}",
        )
    text = f"its claim {claim} is gone; it is kept until somebody decides (reclaim policy Retain)"
    again = f'kubectl patch pv {pv.metadata.name} -p \'{{"spec": {{"claimRef": null}}}}\''
    free = Command(again, "offers the volume, with the data that is on it, to other claims", safe=False)
    return Link("volume", State.WAITING, text, Mover.OPERATOR, "whoever kept it", commands=(free,))


def _attachments(reading: Reading, pv: PersistentVolume) -> list[Link]:
    scene = reading.scene
    found = (one for one in scene.attachments.values() if one.spec.source.persistent_volume_name == pv.metadata.name)
    return [attachment_link(scene, f"attach {one.spec.node_name}", one) for one in found]


async def _attachment(reading: Reading, key: Key) -> Links | None:
    await reading.attachment(key.name)
    attachment = reading.scene.attachments.get(Key("", key.name))
    if attachment is None:
        return None
    if not is_deleting(attachment):
        return (attachment_link(reading.scene, "attach", attachment),)
    return (with_unstick(attachment_link(reading.scene, "detach", attachment), attachment, "volumeattachment"),)


async def _node(reading: Reading, key: Key) -> Links | None:
    await reading.node(key.name)
    node = reading.scene.nodes.get(Key("", key.name))
    if node is None:
        return None
    await reading.on_node(node)
    scene = reading.scene
    held = [one for one in scene.attachments.values() if one.spec.node_name == key.name]
    return (_life_link(reading, key.name, len(held)), *(held_link(scene, one) for one in held))


def _life_link(reading: Reading, name: str, volumes: int) -> Link:
    node, drivers = reading.scene.nodes.get(Key("", name)), reading.scene.csi_nodes.get(Key("", name))
    registered = (
        ", ".join(one.name for one in (drivers.spec.drivers if drivers is not None else None) or ()) or "no driver"
    )
    if is_ready(node):
        return Link(
            "node",
            State.DONE,
            f"it reports; {registered} registered; {counted(volumes, 'volume')} attached or on the way",
        )
    if is_out_of_service(node):
        text = "it is tainted out-of-service: its pods go, and its volumes are detached"
        who = "pod collection and the attach/detach controller"
        return Link("node", State.WAITING, text, Mover.CLUSTER, who, silent_since_s(reading.scene, name))
    return silent_node_link(
        reading.scene, "node", name, f"it does not report any more; it holds {counted(volumes, 'volume')}"
    )


async def _snapshot(reading: Reading, key: Key) -> Links | None:
    await reading.snapshot(key)
    return _links_of_snapshot(reading, reading.scene.snapshots.get(key))


async def _group(reading: Reading, key: Key) -> Links | None:
    await reading.group(key)
    return _links_of_snapshot(reading, reading.scene.groups.get(key))


def _links_of_snapshot(reading: Reading, snapshot: Snapshot | None) -> Links | None:
    if snapshot is None:
        return None
    if is_deleting(snapshot):
        return deletion_links(reading.scene, snapshot, row_of(snapshot).snapshots.name.lower())
    return snapshot_links(reading.scene, snapshot)


async def _content(reading: Reading, key: Key) -> Links | None:
    await reading.content(key.name)
    content = reading.scene.contents.get(Key("", key.name))
    return _links_of_content(
        reading, content, reading.scene.snapshots.get(snapshot_of(content)) if content is not None else None
    )


async def _group_content(reading: Reading, key: Key) -> Links | None:
    await reading.group_content(key.name)
    content = reading.scene.group_contents.get(Key("", key.name))
    return _links_of_content(
        reading, content, reading.scene.groups.get(snapshot_of(content)) if content is not None else None
    )


def _links_of_content(reading: Reading, content: Content | None, snapshot: Snapshot | None) -> Links | None:
    if content is None:
        return None
    if is_deleting(content):
        return deletion_links(reading.scene, content, row_of(content).contents.name.lower())
    if snapshot is not None:
        return snapshot_links(reading.scene, snapshot)
    text = f'its snapshot "{snapshot_of(content)}" does not exist: whoever makes it gets this content'
    return (Link("content", State.WAITING, text, Mover.USER, "whoever imports the snapshot"),)


_CHAINS: Final[Mapping[str, Callable[[Reading, Key], Awaitable[Links | None]]]] = {
    "pod": _pod,
    "pvc": _claim,
    "pv": _volume,
    "volumeattachment": _attachment,
    "node": _node,
    "volumesnapshot": _snapshot,
    "volumesnapshotcontent": _content,
    "volumegroupsnapshot": _group,
    "volumegroupsnapshotcontent": _group_content,
}
