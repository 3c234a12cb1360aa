"""What must be true of a world at rest: the faults have ended, and everybody has had time.

Knows the attacher only by what it leaves behind: objects in the API server, publications in the backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import finalizers_of, is_deleting
from tests.sim.actor import Actor
from tests.sim.endpoint import device_of
from tests.sim.plan import FINALIZER, TWIN
from tests.sim.truth import Attachment
from tests.sim.world import SimWorld

Complaint = tuple[str, str]
"""An invariant's name, and what breaks it."""


def complaints(world: SimWorld, actor: Actor) -> list[Complaint]:
    """Everything wrong with a world that should be at rest."""
    twins = [found for found in world.truth.attachments() if found.name.startswith(TWIN)]
    attachments = {(found.volume, found.node): found for found in world.truth.attachments() if found not in twins}
    return [
        *(("unwanted-left", f"{twin.name} was deleted and is still there") for twin in twins),
        *_wanted_are_attached(world, actor, attachments),
        *_nothing_else_is(world, actor, attachments),
        *_volumes_are_held_rightly(world, actor, attachments),
    ]


def fingerprint(world: SimWorld) -> tuple[object, ...]:
    """Changes with every write but to a Lease, whoever made it, and with every publication; with each unpublish, too,
    unless one may still be undone.
    """
    published = tuple((handle, tuple(sorted(nodes))) for handle, nodes in sorted(world.backend.published.items()))
    counts = world.laws.counts
    return world.truth.versions("leases"), published, counts["publish"], 0 if world.laws.tears else counts["unpublish"]


def _wanted_are_attached(
    world: SimWorld, actor: Actor, attachments: Mapping[tuple[str, str], Attachment]
) -> Iterator[Complaint]:
    handles = {volume.name: volume.handle for volume in world.plan.volumes}
    for volume, node in sorted(actor.wanted):
        found, machine = attachments.get((volume, node)), actor.machines[node]
        if found is None or found.deleting:
            yield "wanted-missing", f"{volume} is wanted on {node}, there is no attachment"
            continue
        status = found.whole.status
        if not found.attached:
            yield "wanted-unattached", f"{found.name} is wanted and not attached: {status.attach_error}"
        if found.attached and status.attach_error is not None:
            yield "error-left", f"{found.name} is attached and shows {status.attach_error}"
        if not found.held:
            yield "finalizer-missing", f"{found.name} is wanted and not held"
        if machine not in world.backend.published[handles[volume]]:
            yield (
                "wanted-unpublished",
                f"{volume} is wanted on {node}, the backend has it on {world.backend.published[handles[volume]]}",
            )
        if handles[volume] in world.laws.twinned and found.node_id in world.backend.dead:
            continue  # a twin has attached the machine that took the node's place
        if found.name in world.server.late_names and machine != f"{node}-id0":
            continue  # a late patch of its own may tell of the former machine
        if found.node_id != machine:
            yield "wanted-unpublished", f"{found.name} claims {found.node_id!r}, the node is {machine}"
        if found.attached and (status.attachment_metadata or {}) != device_of(
            handles[volume], machine, world.plan.array
        ):
            yield "metadata-wrong", f"{found.name} shows {status.attachment_metadata}"


def silent(world: SimWorld) -> Iterator[Complaint]:
    """While the driver refuses something for ever, and nothing else goes wrong, each attachment that is not done says
    why.
    """
    for found in world.truth.attachments():
        status = found.whole.status
        if found.deleting and found.held and status.detach_error is None:
            yield "silent", f"{found.name} is not detached, and does not say why"
        if not found.deleting and not found.attached and status.attach_error is None:
            yield "silent", f"{found.name} is not attached, and does not say why"


def _nothing_else_is(
    world: SimWorld, actor: Actor, attachments: Mapping[tuple[str, str], Attachment]
) -> Iterator[Complaint]:
    handles = {volume.name: volume.handle for volume in world.plan.volumes}
    for pair, found in attachments.items():
        if pair not in actor.wanted:
            yield "unwanted-left", f"{found.name} is not wanted and still there: {found.whole.status}"
    for volume in world.plan.volumes:
        wanted = {actor.machines[node] for name, node in actor.wanted if handles[name] == volume.handle}
        for node_id in sorted(world.backend.published[volume.handle] - wanted):
            yield "published-unwanted", f"{volume.handle} is published at {node_id}, nobody wants it there"
    if world.server.late_count:
        yield "still-working", f"{world.server.late_count} writes are still on their way"
    for handle, operation in world.backend.locks.items():
        yield "still-working", f"{operation} is at work for {handle}"


def _volumes_are_held_rightly(
    world: SimWorld, actor: Actor, attachments: Mapping[tuple[str, str], Attachment]
) -> Iterator[Complaint]:
    used = {volume for volume, _ in attachments}
    for pv in world.truth.all(PERSISTENT_VOLUMES):
        name, held = pv.metadata.name, FINALIZER in finalizers_of(pv)
        if is_deleting(pv):
            yield "volume-left", f"{name} was deleted and is still there, held by {finalizers_of(pv)}"
        if (
            name in used and not held and not world.server.set_back_count
        ):  # nobody looks again at a volume that is attached
            yield "finalizer-missing", f"{name} is attached and not held"
        is_told_late = (
            name in world.server.late_names or world.server.set_back_count
        )  # the patch that adds it tests no list
        if finalizers_of(pv).count(FINALIZER) > 1 and not is_told_late:
            yield "finalizer-twice", f"{name} has {finalizers_of(pv)}"
    for name in sorted(actor.present):
        inline = any(volume.inline for volume in world.plan.volumes if volume.name == name)
        if not inline and not world.truth.volume_is_there(name):
            yield "volume-left", f"{name} is wanted back, the old one is in the way"
