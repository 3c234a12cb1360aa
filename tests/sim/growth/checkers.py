"""What must be true of a world of growing claims at rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.sidecars.resizer import names
from tests.sim.checkers import Complaint
from tests.sim.growth.laws import Json, bytes_of, handle_of
from tests.sim.growth.world import GrowthWorld

TOLD_S: Final = 3600.0
"""Events last so long."""


def complaints(world: GrowthWorld) -> list[Complaint]:
    found = [one for claim in world.laws.claims.values() for one in (*_sizes(world, claim), *_class(world, claim))]
    return [*found, *(("still-working", f"{operation} is at work") for operation in world.backend.locks.values())]


def fingerprint(world: GrowthWorld) -> tuple[object, ...]:
    """Changes with every write, and with every call."""
    return world.store.version, tuple(sorted(world.backend.sizes.items())), world.laws.counts["calls"]


def _sizes(world: GrowthWorld, claim: Json) -> Iterator[Complaint]:
    name, status = claim["metadata"]["name"], claim["status"]
    pv = world.laws.volumes[claim["spec"]["volumeName"]]
    has, wish, volume = (
        bytes_of(one) for one in (status["capacity"], claim["spec"]["resources"]["requests"], pv["spec"]["capacity"])
    )
    if has < wish:
        yield "unserved", f"{name} wants {wish} and has {has}: {status}"
    if not has == volume == world.backend.sizes[handle_of(claim)]:
        yield (
            "sizes-differ",
            f"{name} has {has}, its volume {volume}, in the driver {world.backend.sizes[handle_of(claim)]}",
        )
    left = [one["type"] for one in status.get("conditions") or () if one["type"] in names.RESIZE_CONDITIONS]
    if left or status.get("allocatedResourceStatuses"):
        yield "state-left", f"{name} has grown, and still shows {left} {status.get('allocatedResourceStatuses')}"
    if world.plan.annotates and names.PRE_RESIZE in (pv["metadata"].get("annotations") or {}):
        yield "state-left", f"{pv['metadata']['name']} has grown, and still shows its size before"


def _class(world: GrowthWorld, claim: Json) -> Iterator[Complaint]:
    name, status, wish = claim["metadata"]["name"], claim["status"], claim["spec"].get("volumeAttributesClassName")
    if not wish or not world.plan.modifies:
        return
    pv = world.laws.volumes[claim["spec"]["volumeName"]]
    levels = {
        "claim": status.get("currentVolumeAttributesClassName"),
        "volume": pv["spec"].get("volumeAttributesClassName"),
        "driver": world.backend.classes[handle_of(claim)],
    }
    if set(levels.values()) != {wish}:
        yield "class-differs", f"{name} wants {wish}: {levels}, {status.get('modifyVolumeStatus')}"
    left = [
        one["type"] for one in status.get("conditions") or () if one["type"] in (names.MODIFYING, names.MODIFY_ERROR)
    ]
    if left or status.get("modifyVolumeStatus"):
        yield "state-left", f"{name} is {wish}, and still shows {left} {status.get('modifyVolumeStatus')}"


# -- nobody waits in silence


def silent(world: GrowthWorld) -> list[Complaint]:
    """Of a world in which something has stood in the way for good: claims that wait, and have been told nothing."""
    return [
        found
        for _, claim in sorted(world.laws.claims.items())
        for found in (*_silent_size(world, claim), *_silent_class(world, claim))
    ]


def _silent_size(world: GrowthWorld, claim: Json) -> Iterator[Complaint]:
    status, wish = claim["status"], bytes_of(claim["spec"]["resources"]["requests"])
    if bytes_of(status["capacity"]) < wish and not _is_told(world, claim, names.CONTROLLER_ERROR, names.NODE_ERROR):
        yield "silent", f"{claim['metadata']['name']} waits for {wish}, and nothing says why: {status}"


def _silent_class(world: GrowthWorld, claim: Json) -> Iterator[Complaint]:
    status, wish = claim["status"], claim["spec"].get("volumeAttributesClassName")
    waits = world.plan.modifies and wish and wish != status.get("currentVolumeAttributesClassName")
    if waits and not _is_told(world, claim, names.MODIFY_ERROR):
        yield "silent", f"{claim['metadata']['name']} waits for {wish}, and nothing says why: {status}"


def _is_told(world: GrowthWorld, claim: Json, *conditions: str) -> bool:
    if any(one["type"] in conditions for one in claim["status"].get("conditions") or ()):
        return True
    is_lost = claim["metadata"]["name"] in world.laws.unheard or claim["metadata"]["uid"] in world.laws.forgotten_events
    if is_lost and world.plan.habits.obstacle_s < TOLD_S:
        return True  # it is told again within the hour
    at_s, _ = world.laws.told.get(claim["metadata"]["uid"], (float("-inf"), ""))
    return at_s + TOLD_S >= world.clock.now()
