"""CSI4xx: snapshots, and groups of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.conform.book.exchange import Exchange, same_request
from mooring.conform.book.past import Past, Things
from mooring.conform.book.rule import Breach, Rule
from mooring.wire.grpc.codes import Code

ANOTHER = Rule(
    "CSI401",
    "CreateSnapshot makes another snapshot of the same name",
    "CreateSnapshot MUST be idempotent: for a name that has its snapshot already, it answers with that snapshot.",
    "createsnapshot",
    "The snapshotter repeats the call until the snapshot is ready: each repetition makes one that nobody deletes.",
    "Look the name up first, or derive the id from the name.",
)
REFUSED_AGAIN = Rule(
    "CSI402",
    "CreateSnapshot refuses the snapshot that it made",
    "CreateSnapshot MUST answer OK for a name that has its snapshot of this volume already.",
    "createsnapshot",
    "The VolumeSnapshot never becomes ready.",
    "Answer with the snapshot of that name when it is of the same volume.",
)
SOURCE = Rule(
    "CSI403",
    "a snapshot is of another volume",
    "A snapshot's source_volume_id SHOULD be spelled as in the request.",
    "createsnapshot",
    "A restore brings back another volume's data.",
    "Answer the volume_id of the request.",
)
TIME = Rule(
    "CSI404",
    "a snapshot's time changes",
    "A snapshot's creation_time SHOULD be the moment at which it was taken, in each answer.",
    "createsnapshot",
    "VolumeSnapshots show a time that moves; a backup that compares times takes the wrong one.",
    "Keep the time with the snapshot.",
)
READY = Rule(
    "CSI405",
    "a snapshot that was ready is not",
    "A snapshot that is ready_to_use SHOULD stay so.",
    "createsnapshot",
    "The VolumeSnapshot says ready, and restores from it fail.",
    "Say ready_to_use when the snapshot can be restored from, and not before.",
)
DELETE_ABSENT = Rule(
    "CSI406",
    "DeleteSnapshot fails for a snapshot that is gone",
    "DeleteSnapshot and DeleteVolumeGroupSnapshot MUST answer OK for what does not exist any more.",
    "deletesnapshot",
    "After a lost answer the VolumeSnapshotContent stays for ever, and so does its namespace.",
    "Answer OK where there is nothing to delete.",
)
SHARED_ID = Rule(
    "CSI407",
    "two snapshots have one id",
    "A snapshot_id MUST name one snapshot of the driver, and no other.",
    "createsnapshot",
    "Two VolumeSnapshots share their data; when one is deleted, both are gone.",
    "Derive the id from the whole name, or make it random and keep it.",
)
MEMBERS = Rule(
    "CSI408",
    "a group's members are not those that were asked for",
    "A group MUST have one snapshot of each source volume, and no others.",
    "createvolumegroupsnapshot",
    "The group's VolumeSnapshots can't be bound, or are bound to another volume's data.",
    "Answer with one snapshot for each of source_volume_ids.",
)
OTHER_SOURCE = Rule(
    "CSI409",
    "a snapshot's name is given to another volume's",
    "CreateSnapshot for a name that has its snapshot, of another volume, MUST be refused with AlreadyExists.",
    "createsnapshot",
    "A VolumeSnapshot of one volume holds another one's data.",
    "Keep the source with the snapshot, and compare it with the request's.",
)

GROUP_READY = Rule(
    "CSI410",
    "a group is ready before its members",
    "A group's ready_to_use MUST be true only when each of its snapshots is ready.",
    "createvolumegroupsnapshot",
    "The VolumeGroupSnapshot says ready, and restores from its members fail.",
    "Work ready_to_use of the group out from those of its members.",
)
OUTLIVES = Rule(
    "CSI411",
    "a volume takes its snapshots along",
    "A volume's snapshots MUST outlive it, or DeleteVolume MUST be refused with FailedPrecondition and change nothing.",
    "deletevolume",
    "Users delete claims and keep their VolumeSnapshots, as backups: a restore finds nothing.",
    "Keep the snapshot's data, or refuse to delete the volume while it has snapshots.",
)

RULES: Final = (
    ANOTHER,
    REFUSED_AGAIN,
    SOURCE,
    TIME,
    READY,
    DELETE_ABSENT,
    SHARED_ID,
    MEMBERS,
    OTHER_SOURCE,
    GROUP_READY,
)
ASKED: Final = (OUTLIVES,)


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if exchange.ok and exchange.is_of("create_volume_group_snapshot", "get_volume_group_snapshot"):
        yield from _early(exchange)
    if exchange.is_of("delete_snapshot", "delete_volume_group_snapshot"):
        is_single = exchange.is_of("delete_snapshot")
        gone = past.snapshots.gone if is_single else past.groups.gone
        identity = exchange.request.snapshot_id if is_single else exchange.request.group_snapshot_id
        if exchange.refused and exchange.alone and identity in gone:
            yield exchange.breaks(DELETE_ABSENT, f"it was deleted before, and the call fails now: {exchange.error}")
    elif exchange.is_of("create_snapshot"):
        yield from _single(exchange, past)
    elif exchange.is_of("create_volume_group_snapshot"):
        yield from _group(exchange, past)


def _single(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok:
        yield from _refused(exchange, past.snapshots)
        return
    request, snapshot = exchange.request, exchange.response.snapshot
    before = past.snapshots.by_name.get(request.name)
    if before is not None and exchange.alone and before.request.source_volume_id != request.source_volume_id:
        yield exchange.breaks(
            OTHER_SOURCE,
            f"the snapshot of this name is of {before.request.source_volume_id!r}, and the driver answers OK",
        )
        return
    if snapshot.source_volume_id and snapshot.source_volume_id != request.source_volume_id:
        yield exchange.breaks(
            SOURCE, f"it is of volume {snapshot.source_volume_id!r}, and {request.source_volume_id!r} was asked for"
        )
    yield from _known(exchange, past.snapshots, _single_of)


def _group(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok:
        yield from _refused(exchange, past.groups)
        return
    group, wanted = exchange.response.group_snapshot, sorted(exchange.request.source_volume_ids)
    if (have := sorted(member.source_volume_id for member in group.snapshots)) != wanted:
        yield exchange.breaks(MEMBERS, f"its snapshots are of volumes {have}, and {wanted} were asked for")
    yield from _known(exchange, past.groups, _group_of)


def _early(exchange: Exchange) -> Iterator[Breach]:
    group = exchange.response.group_snapshot
    if group.ready_to_use and (waiting := [one.snapshot_id for one in group.snapshots if not one.ready_to_use]):
        yield exchange.breaks(GROUP_READY, f"ready_to_use is true, and its snapshot {waiting[0]!r} is not ready")


def _refused(exchange: Exchange, things: Things) -> Iterator[Breach]:
    before = things.by_name.get(exchange.request.name)
    if before is None or not exchange.alone or not exchange.refused:
        return
    if not same_request(before.request, exchange.request):
        if (
            exchange.is_of("create_snapshot")
            and _is_of_another(before.request, exchange)
            and exchange.code != Code.ALREADY_EXISTS
        ):
            yield exchange.breaks(OTHER_SOURCE, f"the driver answers {exchange.error} in place of AlreadyExists")
    else:
        yield exchange.breaks(REFUSED_AGAIN, f"the same request succeeded before, and fails now: {exchange.error}")


def _is_of_another(before: Any, exchange: Exchange) -> bool:
    return bool(before.source_volume_id != exchange.request.source_volume_id and exchange.request.source_volume_id)


def _single_of(response: Any) -> tuple[str, Any]:
    return response.snapshot.snapshot_id, response.snapshot


def _group_of(response: Any) -> tuple[str, Any]:
    return response.group_snapshot.group_snapshot_id, response.group_snapshot


def _known(exchange: Exchange, things: Things, of: Callable[[Any], tuple[str, Any]]) -> Iterator[Breach]:
    """Against the first answer for the name. of: the id in an answer, and what has it."""
    identity, now = of(exchange.response)
    other = things.names.get(identity) if identity else None
    if other is not None and other != exchange.request.name:
        yield exchange.breaks(SHARED_ID, f"its id is {identity!r}, as that of the one that was made as {other!r}")
    before = things.by_name.get(exchange.request.name)
    if before is None or not identity or not exchange.alone:
        return
    first_id, first = of(before.response)
    if first_id != identity:
        yield exchange.breaks(ANOTHER, f"the first answer was {first_id!r}, this one is {identity!r}")
        return
    if first.creation_time != now.creation_time:
        yield exchange.breaks(TIME, "creation_time of the answer changed")
    if first.ready_to_use and not now.ready_to_use:
        yield exchange.breaks(READY, "ready_to_use was true, and is false now")
