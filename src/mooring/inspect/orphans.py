"""Volumes without object, and objects without volume. Pure. Drivers rarely say what a handle belongs to, so any hint
spares a volume.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from mooring.inspect.facts import Inventory, ListedVolume, Object
from mooring.inspect.placing import HandleMatcher, Placement, placing
from mooring.inspect.references import Reference, References, references
from mooring.inspect.settled import settled
from mooring.inspect.unsettled import Unsettled
from mooring.sidecars.provisioner.model.intent import ClaimIntents


class FindingKind(enum.Enum):
    """LEAKED: in the driver, without any reference. GHOST: a PersistentVolume whose volume the driver does not have.

    ABANDONED: a provisioner began it and seems to have stopped. FOREIGN: in the driver, but of another driver's objects
    or not ours by its name. BEGUN: a provisioner is about to store its object. DOUBTFUL: a PersistentVolume may mean it
    by another spelling. UNSETTLED: a content of which nobody knows whether the driver has made its snapshot. ASKED: the
    driver is about to tell.
    """

    LEAKED = "leaked"
    GHOST = "ghost"
    ABANDONED = "abandoned"
    FOREIGN = "foreign"
    BEGUN = "begun"
    DOUBTFUL = "doubtful"
    UNSETTLED = "unsettled"
    ASKED = "asked"


_WRONG: Final = frozenset({FindingKind.LEAKED, FindingKind.GHOST, FindingKind.ABANDONED, FindingKind.UNSETTLED})
_DELETABLE: Final = frozenset({FindingKind.LEAKED, FindingKind.ABANDONED})
_NAMED_MAX: Final = 3
"""The number of possible volumes that are named."""
_BY_NAME: Final = "it goes only when it is named by --volume"


class Finding(msgspec.Struct, frozen=True):
    """handle: of a volume, "" for a finding about an object that is not of one. object: kind and name of such a one.

    spared: why it is not deleted, "" for no reason. by_name: unless named. ways_out: remedies. created_wall_s: None for
    unknown.
    """

    kind: FindingKind
    handle: str
    why: str
    size: str = ""
    volume_name: str = ""
    claim: str = ""
    created_wall_s: float | None = None
    spared: str = ""
    by_name: bool = False
    ways_out: tuple[str, ...] = ()
    object: str = ""


class OrphansReport(msgspec.Struct, frozen=True):
    """object_count: of the driver's PersistentVolumes. unplaced: open intents whose volume, if any, is unknown.

    settled: intents that another provisioner has ended, so that only the journal says they were open.
    """

    driver: str
    volume_count: int
    object_count: int
    findings: tuple[Finding, ...]
    unplaced: tuple[ClaimIntents, ...] = ()
    settled: tuple[ClaimIntents, ...] = ()

    def of(self, kind: FindingKind) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind is kind)

    def wrong(self) -> tuple[Finding, ...]:
        """The findings that somebody must look after."""
        return tuple(finding for finding in self.findings if finding.kind in _WRONG)

    def deletable(self, named: Collection[str] = ()) -> tuple[Finding, ...]:
        """named: the handles that may go and no others; empty for all that may go unnamed."""
        found = [finding for finding in self.deletable_at_all() if finding.handle in (named or {finding.handle})]
        return tuple(finding for finding in found if not finding.spared or (finding.by_name and named))

    def deletable_at_all(self) -> tuple[Finding, ...]:
        """The findings of kinds that can be deleted, also those that something keeps for now."""
        return tuple(finding for finding in self.findings if finding.kind in _DELETABLE)

    def ways_out(self) -> tuple[str, ...]:
        """The remedies after which more may be deleted, each once."""
        return tuple(dict.fromkeys(way_out for finding in self.deletable_at_all() for way_out in finding.ways_out))

    def why_kept(self, handle: str) -> str:
        """The reason that a volume must stay."""
        return next(
            (finding.spared or finding.why for finding in self.findings if finding.handle == handle), "it is no orphan"
        )


def judged(inventory: Inventory, prefix: str = "") -> OrphansReport:
    """The report on an inventory. prefix: of our volumes' names, volumes without it are foreign; "" takes all for
    ours.
    """
    classifier = _Classifier(inventory, prefix)
    found = [finding for volume in inventory.volumes if (finding := classifier.of_volume(volume)) is not None]
    count = sum(one.driver == inventory.driver for one in inventory.objects)
    findings = sorted(
        (*found, *map(_ghost, classifier.placing.ghosts), *map(_unsettled, inventory.unsettled)), key=_order
    )
    return OrphansReport(
        inventory.driver,
        len(inventory.volumes),
        count,
        tuple(findings),
        classifier.unplaced_intents(),
        classifier.settled,
    )


def _order(finding: Finding) -> tuple[int, str]:
    by_handle = finding.handle or finding.object
    return list(FindingKind).index(
        finding.kind
    ), finding.volume_name if finding.kind is FindingKind.GHOST else by_handle


def _unsettled(found: Unsettled) -> Finding:
    kind = FindingKind.UNSETTLED if found.is_left else FindingKind.ASKED
    return Finding(kind, "", str(found), created_wall_s=found.created_wall_s, object=found.object)


def _ghost(found: Object) -> Finding:
    why = f"the PersistentVolume is {found.phase or 'there'}, the driver does not list its volume"
    return Finding(FindingKind.GHOST, found.handle, why, found.size, found.name, found.claim, found.created_wall_s)


class _Classifier:
    def __init__(self, inventory: Inventory, prefix: str) -> None:
        matcher = HandleMatcher(volume.handle for volume in inventory.volumes)
        self._inventory, self._prefix = inventory, prefix
        self.placing: Placement = placing(inventory, matcher)
        homeless = [volume for volume in inventory.volumes if volume.handle not in self.placing.owners]
        self.settled = settled(inventory, homeless)
        self._references = References(references(inventory, self.placing.unplaced, matcher), homeless)
        self._used = _used(inventory, matcher)
        self._of_pods = inventory.pods.keys() | {
            handle for named in inventory.disks for handle in matcher.meant_by(named)
        }

    def unplaced_intents(self) -> tuple[ClaimIntents, ...]:
        return tuple(reference.intent for reference in self._references.loose if reference.intent is not None)

    def of_volume(self, volume: ListedVolume) -> Finding | None:
        """The finding about a volume; None if it has its object, or its pod."""
        owner, alike = self.placing.owners.get(volume.handle), self.placing.alike.get(volume.handle)
        if owner is not None:
            return (
                None
                if owner.driver == self._inventory.driver
                else _of_object(FindingKind.FOREIGN, volume, owner, "names it")
            )
        if volume.handle in self._of_pods:
            return None
        if alike is not None:
            return _of_object(FindingKind.DOUBTFUL, volume, alike, "may mean it by another spelling")
        fitting = self._references.fitting(volume)
        begun = next((reference for reference in fitting if reference.is_begun), None)
        if begun is not None:
            return _of_reference(FindingKind.BEGUN, volume, begun)
        abandoned = next((reference for reference in fitting if reference.is_abandoned), None)
        if abandoned is not None:
            return self._kept(_of_reference(FindingKind.ABANDONED, volume, abandoned), volume)
        if self._prefix and not _carries(volume, self._prefix):
            why = f"neither its handle nor its context has a name that begins with {self._prefix}"
            return Finding(FindingKind.FOREIGN, volume.handle, why, _size(volume))
        return self._kept(
            Finding(
                FindingKind.LEAKED, volume.handle, "the driver has it, no PersistentVolume names it", _size(volume)
            ),
            volume,
        )

    def _kept(self, finding: Finding, volume: ListedVolume) -> Finding:
        """The finding, with the reason why it is not deleted, if there is one."""
        fitting = tuple(reference for reference in self._references.fitting(volume) if not reference.is_abandoned)
        loose = tuple(reference for reference in self._references.loose if not reference.is_abandoned)
        reason = self._use(volume) or next(map(_fits, fitting), "") or _may_be(loose)
        if reason:
            ways_out = tuple(reference.way_out for reference in (*fitting, *loose))
            return msgspec.structs.replace(finding, spared=reason, ways_out=ways_out)
        doubt = next((reference for reference in self._references.loose if reference.is_abandoned), None)
        if finding.kind is FindingKind.ABANDONED:
            return msgspec.structs.replace(finding, spared=_BY_NAME, by_name=True)
        return (
            finding
            if doubt is None
            else msgspec.structs.replace(finding, spared=f"it may be {doubt.text}; {_BY_NAME}", by_name=True)
        )

    def _use(self, volume: ListedVolume) -> str:
        """A certain use of it, "" for none."""
        if volume.published_on:
            return f"it is published on {', '.join(volume.published_on)}"
        return self._used.get(volume.handle, "")


def _fits(reference: Reference) -> str:
    return f"it {'is' if reference.is_proof else 'may be'} {reference.text}"


def _may_be(loose: Sequence[Reference]) -> str:
    """Loose references that could mean this volume as well as any other, "" for none."""
    if not loose:
        return ""
    named = ", or ".join(reference.text for reference in loose[:_NAMED_MAX])
    others = f", or one of {len(loose) - _NAMED_MAX} others" if len(loose) > _NAMED_MAX else ""
    return f"it may be {named}{others}"


def _used(inventory: Inventory, matcher: HandleMatcher) -> Mapping[str, str]:
    """Handles that something besides PersistentVolumes names, with what does."""
    snapshots = {
        handle: f"VolumeSnapshotContent {content} is to be taken from it"
        for named, content in inventory.snapshots.items()
        for handle in matcher.named_by(named)
    }
    attached = {
        handle: f"VolumeAttachment {attachment.name} names it"
        for attachment in inventory.attachments
        for handle in (matcher.named_by(attachment.handle) if attachment.handle else ())
    }
    named = {
        handle: f"pod {pod} names it" for disk, pod in inventory.disks.items() for handle in matcher.named_by(disk)
    }
    return named | snapshots | attached


def _carries(volume: ListedVolume, prefix: str) -> bool:
    return volume.handle.startswith(prefix) or any(word.startswith(prefix) for word in volume.words)


def _size(volume: ListedVolume) -> str:
    return str(volume.size_bytes or "")


def _of_object(kind: FindingKind, volume: ListedVolume, found: Object, does: str) -> Finding:
    why = f"PersistentVolume {found.name} of driver {found.driver} {does}"
    return Finding(kind, volume.handle, why, _size(volume), found.name, found.claim, found.created_wall_s)


def _of_reference(kind: FindingKind, volume: ListedVolume, reference: Reference) -> Finding:
    name = "" if reference.intent is None else reference.intent.volume_name
    why = f"it is {reference.text}"
    return Finding(kind, volume.handle, why, _size(volume), name, reference.claim)
