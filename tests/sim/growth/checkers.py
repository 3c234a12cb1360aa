"""What must be true of a world of growing claims at rest."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.controllers.resizer import names
from tests.sim.checkers import Complaint
from tests.sim.growth.laws import Json, bytes_of, handle_of
from tests.sim.growth.world import GrowthWorld


def complaints(world: GrowthWorld) -> list[Complaint]:
    found = [one for claim in world.laws.claims.values() for one in (*_sizes(world, claim), *_class(world, claim))]
    return [*found, *(("still-working", f"{operation} is at work") for operation in world.backend.locks.values())]


def fingerprint(world: GrowthWorld) -> tuple[object, ...]:
    """Changes with every write, and with every call."""
    return world.store.version, tuple(sorted(world.backend.sizes.items())), world.laws.counts["calls"]


def _sizes(world: GrowthWorld, claim: Json) -> Iterator[Complaint]:
    name, status = claim["metadata"]["name"], claim["status"]
    pv = world.laws.volumes[claim["spec"]["volumeName"]]
    has, wish, volume = (bytes_of(one) for one in (status["capacity"], claim["spec"]["resources"]["requests"], pv["spec"]["capacity"]))
    if has < wish:
        yield "unserved", f"{name} wants {wish} and has {has}: {status}"
    if not has == volume == world.backend.sizes[handle_of(claim)]:
        yield "sizes-differ", f"{name} has {has}, its volume {volume}, in the driver {world.backend.sizes[handle_of(claim)]}"
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
    left = [one["type"] for one in status.get("conditions") or () if one["type"] in (names.MODIFYING, names.MODIFY_ERROR)]
    if left or status.get("modifyVolumeStatus"):
        yield "state-left", f"{name} is {wish}, and still shows {left} {status.get('modifyVolumeStatus')}"
