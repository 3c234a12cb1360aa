"""CSI5xx: the node: who it is, what is mounted on it, how full and how large that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.conform.book.exchange import Exchange, same_request
from mooring.conform.book.fields import broken_bound
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule

SAME_NODE = Rule(
    "CSI501",
    "the node's id changes",
    "A node_id MUST name this node for later calls: it stays the same as long as volumes are published to the node.",
    "nodegetinfo",
    "CSINode gets the new id, and the volumes of the old one are never detached.",
    "Take the id from something that a restart does not change: a machine id, the Node's name.",
)
TWO_NODES = Rule(
    "CSI502",
    "two nodes have one id",
    "A node_id MUST tell this node from all others.",
    "nodegetinfo",
    "A volume is attached to one machine and mounted on another: the mount fails, or the data is damaged.",
    "Answer an id of the machine, not one of the driver's set-up.",
)
NOT_THERE = Rule(
    "CSI511",
    "NodePublishVolume answers OK, and nothing is at target_path",
    "The volume MUST be at target_path: mounted on a folder, or a block device.",
    "nodepublishvolume",
    "The pod starts on an empty folder of the node's disk; what it writes is lost, and fills the node.",
    "Mount before you answer, and look at the mount table, not at the tool's exit code alone.",
)
ELSEWHERE = Rule(
    "CSI512",
    "NodePublishVolume mounts elsewhere",
    "The volume MUST be at the very target_path of the request.",
    "nodepublishvolume",
    "The pod starts on an empty folder of the node's disk, and the mount is never taken away.",
    "Mount on target_path as it stands in the request, without a prefix and without following links.",
)
WRITABLE = Rule(
    "CSI513",
    "a read-only volume can be written to",
    "With readonly the volume MUST be published so that nobody writes to it through target_path.",
    "nodepublishvolume",
    "A pod changes data that others only read.",
    "Mount with `ro`; a bind mount needs a second mount call, with `remount,bind,ro`.",
)
WRONG_KIND = Rule(
    "CSI514",
    "what is at target_path is no volume of that kind",
    "What is published MUST be a folder for a mount capability, a device or a file for a block capability.",
    "nodepublishvolume",
    "The container does not start.",
    "Make a folder as target_path for mount, a file for block, and mount the volume on it.",
)
LEFT = Rule(
    "CSI515",
    "NodeUnpublishVolume leaves an empty target_path behind",
    "NodeUnpublishVolume MUST delete the folder or file that the plugin made at target_path.",
    "nodeunpublishvolume",
    "The pod stays Terminating until the kubelet has cleaned up.",
    "Unmount, then remove the empty folder or file; never remove a folder with all that is in it.",
    "the kubelet removes an empty target_path that ceph-csi or civo leaves.",
)
LEFT_STAGED = Rule(
    "CSI516",
    "NodeUnstageVolume leaves the volume mounted",
    "NodeUnstageVolume MUST undo NodeStageVolume: the volume is not mounted at staging_target_path any more.",
    "nodeunstagevolume",
    "The volume is detached while it is mounted here: writes are lost, and the next mount sees a damaged file system.",
    "Unmount before you answer, and fail while it can't be unmounted.",
)
AGAIN = Rule(
    "CSI517",
    "a repeated call to the node fails",
    "NodeStageVolume, NodePublishVolume and their opposites MUST answer OK for what is done already. A "
    "driver whose CSIDriver has requiresRepublish may fail to renew what it has published.",
    "node-service-rpc",
    "After a lost answer or a restart of the kubelet the pod never starts, or never ends.",
    "Look at the mount table first, and answer OK where there is nothing to do.",
)
GROWN = Rule(
    "CSI518",
    "NodeExpandVolume answers a size that was not asked for",
    "NodeExpandVolume's capacity_bytes SHOULD be at least required_bytes and at most limit_bytes, or 0.",
    "nodeexpandvolume",
    "The claim shows a size that the file system does not have.",
    "Answer the file system's size after the growth, or leave it out.",
)
SECOND_WRITER = Rule(
    "CSI519",
    "a volume for one writer is mounted twice",
    "A volume of access mode SINGLE_NODE_SINGLE_WRITER that is at one target_path SHOULD be refused at "
    "another, with FailedPrecondition.",
    "nodepublishvolume",
    "Two pods of a ReadWriteOncePod claim write at the same time, after a node was cut off or a pod was made by hand.",
    "Look for other targets of the volume before you mount it.",
)
STILL_MOUNTED = Rule(
    "CSI525",
    "NodeUnpublishVolume leaves the volume mounted",
    "NodeUnpublishVolume MUST undo NodePublishVolume: nothing is mounted at target_path any more.",
    "nodeunpublishvolume",
    "The pod stays Terminating, and the volume is not detached.",
    "Unmount before you answer, and fail while it can't be unmounted.",
)

COVERS = Rule(
    "CSI521",
    "a repeated call to the node mounts once more",
    "NodeStageVolume and NodePublishVolume MUST be idempotent: they mount nothing where the volume is mounted already.",
    "node-service-rpc",
    "After a lost answer two mounts lie on one path: an unmount takes one of them, so the pod stays Terminating.",
    "Look at the mount table first, and answer OK where the volume is mounted already.",
)
NO_TARGET = Rule(
    "CSI522",
    "NodePublishVolume expects that target_path exists",
    "The plugin MUST make target_path, a folder or a file; only the folder above it is there.",
    "nodepublishvolume",
    "The pod stays in ContainerCreating, with a FailedMount event.",
    "Make target_path before you mount: a folder for mount, an empty file for block.",
)

DATA_LOST = Rule(
    "CSI524",
    "what a pod writes does not reach the volume",
    "The volume MUST be usable as published: what is written at target_path is on it, also after it was "
    "unpublished, unstaged, and mounted on other paths.",
    "volume-lifecycle",
    "The pod writes to the node's own disk: its data is gone when it starts again, or on another node.",
    "Mount the volume on staging_target_path before NodeStageVolume answers, and bind that mount to target_path.",
)

RULES: Final = (
    *(SAME_NODE, TWO_NODES, NOT_THERE, ELSEWHERE, WRITABLE, WRONG_KIND, LEFT, LEFT_STAGED, AGAIN, GROWN),
    *(COVERS, NO_TARGET, STILL_MOUNTED),
)
LONG_PATH = Rule(
    "CSI523",
    "a path of 128 bytes is refused",
    "staging_target_path and target_path of 128 bytes MUST be taken, and more where the system takes more.",
    "nodestagevolume",
    "The kubelet's own paths are that long: each pod with a volume of the driver stays in ContainerCreating.",
    "Take paths as long as the system does; where a tool or a socket takes fewer bytes, work through a "
    "descriptor or a link.",
)
ASKED: Final = (SECOND_WRITER, LONG_PATH, DATA_LOST)

_ABSENT: Final = ("no such file or directory", "mount point does not exist")
"""ENOENT in the words of C, Go, Python, Node and mount(8)."""
_PATHS: Final = {
    "node_stage_volume": "staging_target_path",
    "node_unstage_volume": "staging_target_path",
    "node_publish_volume": "target_path",
    "node_unpublish_volume": "target_path",
}


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if exchange.refused and exchange.alone and exchange.rpc.attribute in _PATHS:
        yield from _refused(exchange, past)
    if not exchange.ok:
        return
    yield from _covered(exchange, past)
    if exchange.is_of("node_get_info"):
        yield from _identity(exchange, past)
    elif exchange.is_of("node_publish_volume"):
        yield from _published(exchange, past)
    elif exchange.is_of("node_unpublish_volume"):
        yield from _unpublished(exchange)
    elif exchange.is_of("node_unstage_volume") and exchange.staging is not None and exchange.staging.is_mount:
        yield exchange.breaks(LEFT_STAGED, f"{exchange.request.staging_target_path} is still mounted")
    elif exchange.is_of("node_expand_volume"):
        size, wanted = exchange.response.capacity_bytes, exchange.request.capacity_range
        if size and (bound := broken_bound(size, wanted)):
            yield exchange.breaks(GROWN, f"capacity_bytes is {size}, and {bound} was asked for")


def _identity(exchange: Exchange, past: Past) -> Iterator[Breach]:
    now, before = exchange.response.node_id, past.node_ids.get(exchange.where)
    if before is not None and now != before:
        yield exchange.breaks(SAME_NODE, f"node_id was {before!r}, and is {now!r}")
    others = [
        where
        for where, other in past.node_ids.items()
        if where != exchange.where and other == now and where and exchange.where
    ]
    if others:
        yield exchange.breaks(TWO_NODES, f"node_id {now!r} is that of {others[0]}, too")


def _refused(exchange: Exchange, past: Past) -> Iterator[Breach]:
    path = _PATHS[exchange.rpc.attribute]
    key = exchange.where, path, getattr(exchange.request, path)
    if exchange.is_of("node_unstage_volume", "node_unpublish_volume"):
        if key in past.off_node:
            yield exchange.breaks(AGAIN, f"the same call succeeded before, and fails now: {exchange.error}")
        return
    before = past.on_node.get(key)
    if before is not None and same_request(before.request, exchange.request):
        if exchange.republished and exchange.is_of("node_publish_volume"):
            return  # the mount stays, and what could not be renewed is tried again
        yield exchange.breaks(AGAIN, f"the same call succeeded before, and fails now: {exchange.error}")
    elif (
        exchange.target is not None
        and not exchange.target.kind
        and any(words in str(exchange.error).lower() for words in _ABSENT)
    ):
        yield exchange.breaks(
            NO_TARGET, f"{exchange.request.target_path} does not exist after the call: {exchange.error}"
        )


def _covered(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.is_of("node_stage_volume", "node_publish_volume") or not exchange.alone:
        return
    path = _PATHS[exchange.rpc.attribute]
    place = exchange.staging if exchange.is_of("node_stage_volume") else exchange.target
    point = getattr(exchange.request, path)
    before = past.on_node.get((exchange.where, path, point))
    if place is not None and place.covers and before is not None and same_request(before.request, exchange.request):
        yield exchange.breaks(COVERS, f"the same call has mounted the volume on {point} before, and mounts there again")


def _published(exchange: Exchange, past: Past) -> Iterator[Breach]:
    place, request = exchange.target, exchange.request
    if place is None:
        return
    is_block = request.volume_capability.HasField("block")
    if not place.kind or not (place.is_mount or (is_block and place.kind == "device")):
        if place.elsewhere:
            yield exchange.breaks(ELSEWHERE, f"{request.target_path} is no mount, and {place.elsewhere[0]} became one")
        elif before := past.mounted_elsewhere.get(exchange.where):  # a repeated call may mount nothing new
            yield exchange.breaks(
                ELSEWHERE, f"{request.target_path} is no mount; in place of another target {before} became one"
            )
        else:
            what = "is no mount" if place.kind else "does not exist"
            yield exchange.breaks(NOT_THERE, f"{request.target_path} {what}")
    elif is_block == (place.kind == "folder"):
        yield exchange.breaks(
            WRONG_KIND, f"{request.target_path} is a {place.kind}, and {'block' if is_block else 'mount'} was asked for"
        )
    elif request.readonly and not is_block and not place.readonly:
        yield exchange.breaks(WRITABLE, f"{request.target_path} is mounted read-write")


def _unpublished(exchange: Exchange) -> Iterator[Breach]:
    place = exchange.target
    if place is not None and place.is_mount:
        yield exchange.breaks(STILL_MOUNTED, f"{exchange.request.target_path} is still mounted")
    elif place is not None and place.kind:
        yield exchange.breaks(LEFT, f"{exchange.request.target_path} is still there, as a {place.kind}")
