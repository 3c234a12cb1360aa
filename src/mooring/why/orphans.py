"""Which volumes have lost their object, and which objects their volume. Pure.

A driver lists handles, and rarely says what they belong to: so whatever names a volume in any way keeps it from being called leaked, and
whatever could name it keeps it from being deleted.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

from mooring.provisioner.intents import Intent


class Kind(enum.Enum):
    """LEAKED: in the driver, and nothing here names it. GHOST: a PersistentVolume whose volume the driver does not have.

    FOREIGN: in the driver, and of another driver's objects or not ours by its name. BEGUN: a provisioner is about to store its object.
    """

    LEAKED = "leaked"
    GHOST = "ghost"
    FOREIGN = "foreign"
    BEGUN = "begun"


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """As the driver lists it. size_bytes: 0 when it does not say. words: of its context, where drivers put names."""

    handle: str
    size_bytes: int = 0
    words: tuple[str, ...] = ()
    published_on: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """True when the volume carries this name, or a handle that contains it."""
        return name in self.handle or any(name in word for word in self.words)


@dataclasses.dataclass(frozen=True, slots=True)
class Object:
    """A PersistentVolume. claim: `namespace/name`, "" without one."""

    name: str
    driver: str
    handle: str
    size: str = ""
    claim: str = ""
    phase: str = ""
    created_wall_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """One look. objects_before: the PersistentVolumes before the driver was asked; objects: after.

    attached: handle -> the attachment that names it. snapshots: handle -> the snapshot content that is to be taken from it.
    """

    driver: str
    volumes: tuple[Volume, ...]
    objects_before: tuple[Object, ...]
    objects: tuple[Object, ...]
    attached: Mapping[str, str] = dataclasses.field(default_factory=dict)
    snapshots: Mapping[str, str] = dataclasses.field(default_factory=dict)
    intents: tuple[Intent, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """spared: why a leaked volume is not deleted, "" when it may be. created_wall_s: None when nobody knows."""

    kind: Kind
    handle: str
    why: str
    size: str = ""
    volume_name: str = ""
    claim: str = ""
    created_wall_s: float | None = None
    spared: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """unplaced: open intents of which nobody can say which volume is theirs, if any."""

    driver: str
    volume_count: int
    findings: tuple[Finding, ...]
    unplaced: tuple[Intent, ...] = ()

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind is kind)

    @property
    def is_clean(self) -> bool:
        """True when nothing has leaked and no object is without its volume."""
        return not self.of(Kind.LEAKED) and not self.of(Kind.GHOST)

    def deletable(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.of(Kind.LEAKED) if not finding.spared)


def judged(inventory: Inventory, prefix: str = "") -> Report:
    """What one look shows. prefix: of the names of our volumes; what does not carry it is foreign. "" takes all for ours."""
    named = {found.handle: found for found in (*inventory.objects_before, *inventory.objects)}
    placed = {intent.uid for intent in inventory.intents if any(volume.is_called(intent.volume_name) for volume in inventory.volumes)}
    unplaced = tuple(intent for intent in inventory.intents if intent.uid not in placed and not _is_stored(intent, inventory.objects))
    findings = [_of_volume(volume, named, inventory, prefix, unplaced) for volume in inventory.volumes]
    found = [finding for finding in findings if finding is not None]
    return Report(inventory.driver, len(inventory.volumes), (*sorted(found, key=_order), *_ghosts(inventory)), unplaced)


def still(first: Report, second: Report) -> tuple[Finding, ...]:
    """What may be deleted by both looks."""
    before = {finding.handle for finding in first.deletable()}
    return tuple(finding for finding in second.deletable() if finding.handle in before)


def _order(finding: Finding) -> tuple[int, str]:
    return list(Kind).index(finding.kind), finding.handle


def _is_stored(intent: Intent, objects: Iterable[Object]) -> bool:
    return any(found.name == intent.volume_name for found in objects)


def _of_volume(
    volume: Volume, named: Mapping[str, Object], inventory: Inventory, prefix: str, unplaced: Sequence[Intent]
) -> Finding | None:
    """None for a volume that has its object."""
    size, owner = str(volume.size_bytes or ""), named.get(volume.handle)
    if owner is not None:
        if owner.driver == inventory.driver:
            return None
        why = f"PersistentVolume {owner.name} of driver {owner.driver} names it"
        return Finding(Kind.FOREIGN, volume.handle, why, size, owner.name, owner.claim, owner.created_wall_s)
    begun = next((intent for intent in inventory.intents if volume.is_called(intent.volume_name)), None)
    if begun is not None:
        claim = f"{begun.namespace}/{begun.claim_name}"
        return Finding(Kind.BEGUN, volume.handle, "a provisioner has begun it and will end it", size, begun.volume_name, claim)
    if prefix and not _carries(volume, prefix):
        return Finding(Kind.FOREIGN, volume.handle, f"neither its handle nor its context has a name that begins with {prefix}", size)
    return Finding(
        Kind.LEAKED, volume.handle, "the driver has it, no PersistentVolume names it", size, spared=_spared(volume, inventory, unplaced)
    )


def _carries(volume: Volume, prefix: str) -> bool:
    return volume.handle.startswith(prefix) or any(word.startswith(prefix) for word in volume.words)


def _spared(volume: Volume, inventory: Inventory, unplaced: Sequence[Intent]) -> str:
    if volume.published_on:
        return f"it is published on {', '.join(volume.published_on)}"
    if volume.handle in inventory.attached:
        return f"VolumeAttachment {inventory.attached[volume.handle]} names it"
    if volume.handle in inventory.snapshots:
        return f"VolumeSnapshotContent {inventory.snapshots[volume.handle]} is to be taken from it"
    if unplaced:
        return f"it may be what a provisioner has begun for {unplaced[0].namespace}/{unplaced[0].claim_name}"
    return ""


def _ghosts(inventory: Inventory) -> list[Finding]:
    """Objects that were there before the driver was asked, and still are."""
    listed = {volume.handle for volume in inventory.volumes}
    after = {found.name for found in inventory.objects}
    ghosts = [found for found in inventory.objects_before if found.driver == inventory.driver and found.handle not in listed]
    return [
        Finding(Kind.GHOST, found.handle, _ghost_text(found), found.size, found.name, found.claim, found.created_wall_s)
        for found in sorted(ghosts, key=lambda found: found.name)
        if found.name in after
    ]


def _ghost_text(found: Object) -> str:
    return f"the PersistentVolume is {found.phase or 'there'}, the driver does not list its volume"
