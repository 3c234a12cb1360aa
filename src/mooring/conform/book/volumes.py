"""CSI2xx: volumes made, deleted and grown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mooring.conform.book.exchange import Exchange, same_request
from mooring.conform.book.fields import broken_bound
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.wire.grpc.codes import Code

ANOTHER = Rule(
    "CSI201",
    "CreateVolume makes another volume of the same name",
    "CreateVolume MUST be idempotent: for a name that has its volume already, it answers with that volume.",
    "createvolume",
    "The provisioner repeats a call whose answer was lost: each repetition makes a volume that nobody knows or "
    "deletes.",
    "Look the name up first, or derive the id from the name; make the volume only where there is none.",
)
REFUSED_AGAIN = Rule(
    "CSI202",
    "CreateVolume refuses the volume that it made",
    "CreateVolume MUST answer OK for a name that has its volume already, if that fits the request.",
    "createvolume",
    "After a lost answer the claim stays Pending for ever, and the volume is lost.",
    "Compare size, source and parameters with those of the volume, and answer with it when they fit.",
)
SHARED_ID = Rule(
    "CSI203",
    "two volumes have one id",
    "A volume_id MUST name one volume of the driver, and no other.",
    "createvolume",
    "Two claims share their data; when one is deleted, the data of both is gone.",
    "Derive the id from the whole name, or make it random and keep it.",
    "efs, seaweedfs and linstor can share a volume between claims on purpose.",
)
CAPACITY = Rule(
    "CSI204",
    "a volume's size is not what was asked for",
    "A volume MUST have at least required_bytes and at most limit_bytes; an unknown size is answered as 0.",
    "createvolume",
    "The provisioner refuses a volume that is too small, deletes it, and begins again.",
    "Round up to what your backend can make, and refuse with OutOfRange what does not fit in the range.",
)
SOURCE = Rule(
    "CSI205",
    "a volume does not say what it was made from",
    "For Kubernetes, CreateVolume's first answer MUST have a content_source where the request has one, in the driver's "
    "own spelling.",
    "createvolume",
    "The provisioner takes the volume for an empty one, deletes it, and begins again.",
    "Copy volume_content_source of the request to the answer; refuse sources that you don't know.",
)
PLACE = Rule(
    "CSI206",
    "a volume is where nobody asked for it",
    "A volume MUST be accessible from at least one topology of accessibility_requirements.requisite.",
    "createvolume",
    "The pod can run on no node: the volume's node affinity fits none of those that the scheduler chose from.",
    "Make the volume in a requisite topology, the preferred ones first, or refuse with ResourceExhausted.",
)
SAME_ANSWER = Rule(
    "CSI207",
    "CreateVolume's answer changes",
    "A repeated CreateVolume SHOULD answer with the same size, context and topology; CSI asks for the "
    "corresponding answer.",
    "createvolume",
    "The PersistentVolume holds the last answer, and its context reaches the nodes: what fitted the first one "
    "may not fit it.",
    "Keep what you answered, or work it out from the volume.",
)
DELETE_ABSENT = Rule(
    "CSI208",
    "DeleteVolume fails for a volume that is gone",
    "DeleteVolume MUST answer OK for a volume that does not exist any more.",
    "deletevolume",
    "After a lost answer the PersistentVolume stays Released for ever.",
    "Answer OK where there is nothing to delete.",
)
FORGOTTEN = Rule(
    "CSI209",
    "the driver does not know its own volume",
    "NotFound MUST mean that the volume does not exist: one that the driver made exists until "
    "DeleteVolume, also after a restart.",
    "volume-lifecycle",
    "Pods wait for a volume that the cluster holds for there; a detach is taken as done.",
    "Keep volumes outside of the process's memory, and read ids as you gave them.",
)
GROWN = Rule(
    "CSI210",
    "a grown volume's size is not what was asked for",
    "ControllerExpandVolume MUST answer the volume's new size, at least required_bytes and at most limit_bytes.",
    "controllerexpandvolume",
    "The claim shows a size that it does not have, or the growth is asked for again and again.",
    "Answer the size after the growth; for a volume that is large enough, its size as it is.",
)
OTHER_REQUEST = Rule(
    "CSI211",
    "a name is given to another volume",
    "CreateVolume for a name whose volume does not fit the request (its size, its source) MUST be refused "
    "with AlreadyExists.",
    "createvolume",
    "A claim gets a volume that is smaller than it says, or that has other data.",
    "Compare the size and the source of the volume with those of the request, and answer AlreadyExists where "
    "they do not fit.",
)
NOT_CONFIRMED = Rule(
    "CSI212",
    "a volume's own capabilities are not confirmed",
    "ValidateVolumeCapabilities SHOULD confirm the capabilities with which the volume was made.",
    "validatevolumecapabilities",
    "No component of Kubernetes asks; tools that look whether a volume can be used say that it can't.",
    "Answer with `confirmed`, and the request's capabilities in it.",
)
ONLINE = Rule(
    "CSI213",
    "a volume does not grow as it is advertised",
    "A plugin with ONLINE MUST grow a volume while it is published, with OFFLINE or ONLINE while it is not.",
    "controllerexpandvolume",
    "The claim says Resizing for ever, and the pod runs out of room.",
    "Advertise VolumeExpansion as your backend can, or grow the volume while it is in use.",
)
MUTABLE = Rule(
    "CSI214",
    "parameters that the driver does not know are taken",
    "mutable_parameters that the driver does not support MUST be refused with InvalidArgument.",
    "controllermodifyvolume",
    "The claim says that it has a VolumeAttributesClass, and nothing has changed.",
    "Look at each key before you change anything.",
)

OTHER_CONTEXT = Rule(
    "CSI215",
    "a volume's context is told in another way",
    "A volume MUST always report the volume_context of CreateVolume, in ListVolumes and ControllerGetVolume, too.",
    "createvolume",
    "Kubernetes reads the context of CreateVolume alone; tools that read the list hand the driver another one.",
    "Keep the context with the volume, or leave it out of the list.",
)
CUT = Rule(
    "CSI216",
    "a volume is smaller than its snapshot",
    "A volume that is made from a snapshot MUST NOT be smaller than the snapshot's size_bytes.",
    "createsnapshot",
    "The restored volume lacks the end of the data, and its file system can't be mounted.",
    "Compare the size with the snapshot's, and answer OutOfRange where it is too small, or make the volume larger.",
)
EMPTY_COPY = Rule(
    "CSI217",
    "a copy lacks the data of its source",
    "A volume that is made from a snapshot or a volume MUST have the data of its source.",
    "createvolume",
    "A restored claim is empty, and the backup that it came from seems to be good.",
    "Copy the data before CreateVolume answers, or let the node do it before the volume is published.",
)

_SHOWN_MAX: Final = 3
"""Topologies that a finding names."""

RULES: Final = (
    *(
        ANOTHER,
        REFUSED_AGAIN,
        SHARED_ID,
        CAPACITY,
        SOURCE,
        PLACE,
        SAME_ANSWER,
        DELETE_ABSENT,
        FORGOTTEN,
        GROWN,
        OTHER_REQUEST,
    ),
    *(OTHER_CONTEXT, CUT),
)
ASKED: Final = (NOT_CONFIRMED, ONLINE, MUTABLE, EMPTY_COPY)


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if exchange.is_of("create_volume"):
        yield from (_made if exchange.ok else _not_made)(exchange, past)
    elif exchange.is_of("delete_volume"):
        if exchange.refused and exchange.alone and exchange.request.volume_id in past.volumes.gone:
            yield exchange.breaks(DELETE_ABSENT, f"it was deleted before, and the call fails now: {exchange.error}")
    elif exchange.code == Code.NOT_FOUND:
        yield from _lost(exchange, past)
    elif exchange.ok and exchange.is_of("list_volumes"):
        yield from _retold(exchange, past, [entry.volume for entry in exchange.response.entries])
    elif exchange.ok and exchange.is_of("controller_get_volume"):
        yield from _retold(exchange, past, [exchange.response.volume])
    elif exchange.ok and exchange.is_of("controller_expand_volume"):
        size = exchange.response.capacity_bytes
        wrong = "it is 0, which is no size" if size == 0 else _out_of_range(size, exchange.request.capacity_range)
        if wrong:
            yield exchange.breaks(GROWN, wrong)


def _made(exchange: Exchange, past: Past) -> Iterator[Breach]:
    volume, request = exchange.response.volume, exchange.request
    if not volume.volume_id:
        return
    if unfit := _unfit(exchange, past):
        yield exchange.breaks(OTHER_REQUEST, f"{unfit}, and the driver answers OK")
        return
    if volume.capacity_bytes > 0 and (wrong := _out_of_range(volume.capacity_bytes, request.capacity_range)):
        yield exchange.breaks(CAPACITY, wrong)
    else:
        yield from _cut(exchange, past)
    is_first = request.name not in past.volumes.by_name  # a later answer that leaves it out is CSI207's
    if is_first and request.HasField("volume_content_source") and not volume.HasField("content_source"):
        yield exchange.breaks(SOURCE, "the request has a content source, and the answer none")
    yield from _misplaced(exchange)
    other = past.volumes.names.get(volume.volume_id)
    if other is not None and other != request.name:
        yield exchange.breaks(
            SHARED_ID, f"its id is {volume.volume_id!r}, as that of the volume that was made as {other!r}"
        )
    before = past.volumes.by_name.get(request.name)
    if before is None or not exchange.alone:
        return
    first = before.response.volume
    if first.volume_id != volume.volume_id:
        yield exchange.breaks(
            ANOTHER, f"the first answer was volume {first.volume_id!r}, this one is {volume.volume_id!r}"
        )
    elif same_request(before.request, request) and (fields := _differing(first, volume)):
        yield exchange.breaks(SAME_ANSWER, f"{', '.join(fields)} of the answer changed")


def _cut(exchange: Exchange, past: Past) -> Iterator[Breach]:
    """A snapshot that the driver made since, whose size it told."""
    snapshot = exchange.request.volume_content_source.snapshot.snapshot_id
    name = past.snapshots.names.get(snapshot) if snapshot else None
    made = past.snapshots.by_name.get(name) if name is not None else None
    size = made.response.snapshot.size_bytes if made is not None and made.identity == snapshot else 0
    if 0 < exchange.response.volume.capacity_bytes < size:
        yield exchange.breaks(
            CUT, f"it has {exchange.response.volume.capacity_bytes} bytes, and snapshot {snapshot!r} has {size}"
        )


def _retold(exchange: Exchange, past: Past, volumes: Iterable[Any]) -> Iterator[Breach]:
    for volume in volumes:
        name = past.volumes.names.get(volume.volume_id)
        made = past.volumes.by_name.get(name) if name is not None else None
        if made is None or made.identity != volume.volume_id or not volume.volume_context:
            continue
        if volume.volume_context != made.response.volume.volume_context:
            yield exchange.breaks(
                OTHER_CONTEXT, f"the context of volume {volume.volume_id!r} is not that of CreateVolume"
            )
            return


def _not_made(exchange: Exchange, past: Past) -> Iterator[Breach]:
    before = past.volumes.by_name.get(exchange.request.name)
    if before is None or not exchange.alone or not exchange.refused:
        return
    if not same_request(before.request, exchange.request):
        if (unfit := _unfit(exchange, past)) and exchange.code != Code.ALREADY_EXISTS:
            yield exchange.breaks(
                OTHER_REQUEST, f"{unfit}, and the driver answers {exchange.error} in place of AlreadyExists"
            )
        return
    made = before.response.volume.volume_id
    yield exchange.breaks(
        REFUSED_AGAIN, f"the same request made volume {made!r} before, and fails now: {exchange.error}"
    )


def _unfit(exchange: Exchange, past: Past) -> str:
    """Why the name's volume can't be the one that is asked for; "" where it can, or where there is none."""
    before = past.volumes.by_name.get(exchange.request.name)
    if before is None or not exchange.alone or same_request(before.request, exchange.request):
        return ""
    if exchange.ok and exchange.response.volume.volume_id != before.identity:
        return ""
    size, request = before.response.volume.capacity_bytes, exchange.request
    if size and (wrong := _out_of_range(size, request.capacity_range)):
        return f"volume {before.identity!r} of this name does not fit: {wrong}"
    if request.volume_content_source != before.request.volume_content_source:
        return f"volume {before.identity!r} of this name was made from another source"
    return ""


def _out_of_range(size: int, wanted: Any) -> str:
    bound = broken_bound(size, wanted)
    return f"it has {size} bytes, and {bound} were asked for" if bound else ""


def _misplaced(exchange: Exchange) -> Iterator[Breach]:
    """Each requisite topology names a place; a volume must be reachable from all of one of them."""
    requisite = [dict(one.segments) for one in exchange.request.accessibility_requirements.requisite]
    answered = [dict(one.segments) for one in exchange.response.volume.accessible_topology]
    if not requisite or not answered:
        return
    if not any(_fits(place, wanted) for place in answered for wanted in requisite):
        foreign = sorted({key for place in answered for key in place} - {key for wanted in requisite for key in wanted})
        keys = (
            f"; they have no key {foreign[0]}: NodeGetInfo and CreateVolume must use the same keys" if foreign else ""
        )
        told = (
            f"it is in {_shown(answered[0])}, and the requisite topologies are "
            f"{' or '.join(map(_shown, requisite[:_SHOWN_MAX]))}"
        )
        more = f" and {len(requisite) - _SHOWN_MAX} more" if len(requisite) > _SHOWN_MAX else ""
        yield exchange.breaks(PLACE, f"{told}{more}{keys}")


def _shown(place: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(place.items()))


def _fits(place: dict[str, str], wanted: dict[str, str]) -> bool:
    """True for a place from which the wanted one sees the volume. A key that the place lacks does not matter to it."""
    return all(wanted.get(key) == value for key, value in place.items())


def _differing(first: Any, second: Any) -> list[str]:
    fields = ("capacity_bytes", "volume_context", "content_source", "accessible_topology")
    return [name for name in fields if getattr(first, name) != getattr(second, name)]


def _lost(exchange: Exchange, past: Past) -> Iterator[Breach]:
    """NotFound for a volume that is there by the driver's own word. A call to unpublish may mean the node."""
    identity = getattr(exchange.request, "volume_id", "")
    made = past.volumes.names.get(identity) if identity else None
    if made is None or not exchange.alone or exchange.is_of("controller_publish_volume", "controller_unpublish_volume"):
        return
    if not exchange.rpc.service.startswith("Node") or exchange.is_of("node_stage_volume", "node_publish_volume"):
        yield exchange.breaks(FORGOTTEN, f"the driver made it as {made!r}, and answers NotFound: {exchange.error}")
