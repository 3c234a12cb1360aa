"""Volumes that somebody has or makes and that no PersistentVolume names: what is known of them, and which listed ones
they may be. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from mooring.inspect.facts import Attachment, Claim, Inventory, ListedVolume, Object
from mooring.inspect.placing import HandleMatcher, plain
from mooring.sidecars.provisioner.model.intent import ClaimIntents

_GENERATED: Final = re.compile("[0-9a-f]{8}")


class Reference(msgspec.Struct, frozen=True):
    """text: a description for people. names: possible names of the volume. way_out: the remedy after which it spares no
    volume any more.

    is_proof: a volume of such a name is certainly meant. is_ours: it may be of the scanned driver. is_begun: its
    creation is under way. is_abandoned: its creation seems abandoned. intent: of a Mooring provisioner.
    """

    text: str
    way_out: str
    names: tuple[str, ...] = ()
    is_proof: bool = True
    is_ours: bool = True
    is_begun: bool = False
    is_abandoned: bool = False
    claim: str = ""
    intent: ClaimIntents | None = None


class References:
    """loose: references of our driver that fit no volume for sure, so that any could be theirs."""

    def __init__(self, references: Sequence[Reference], volumes: Iterable[ListedVolume]) -> None:
        texts = [(volume.handle, plain("\n".join((volume.handle, *volume.words)))) for volume in volumes]
        self._fitting: dict[str, list[Reference]] = defaultdict(list)
        self.loose: list[Reference] = []
        for reference in references:
            names = [plain(name) for name in reference.names if name]
            handles = [handle for handle, text in texts if any(name in text for name in names)]
            for handle in handles:
                self._fitting[handle].append(reference)
            if reference.is_ours and not (handles and reference.is_proof):
                self.loose.append(reference)

    def fitting(self, volume: ListedVolume) -> Sequence[Reference]:
        return self._fitting.get(volume.handle, ())


def references(inventory: Inventory, unplaced: Iterable[Object], matcher: HandleMatcher) -> tuple[Reference, ...]:
    """unplaced: PersistentVolumes whose volume is not listed by their handle."""
    return (*_begun(inventory), *_left(inventory), *_nameless(inventory, unplaced, matcher))


def _begun(inventory: Inventory) -> Iterator[Reference]:
    """Volumes that provisioners make: by a journal, or for a claim that is not bound."""
    names, waiting = (
        {found.name for found in inventory.objects},
        {claim.uid for claim in inventory.claims if not claim.volume_name},
    )
    uids = {claim.uid for claim in inventory.claims}
    for intent in inventory.intents:
        if intent.volume_name not in names:
            yield _of_intent(
                intent, intent.uid in inventory.idle and intent.uid not in waiting, has_claim=intent.uid in uids
            )
    made = {found.claim_uid for found in inventory.objects if found.provisioned}
    for claim in inventory.claims:
        if not claim.volume_name and claim.uid not in made:
            yield _of_waiting_claim(claim, claim.provisioner in inventory.provisioners)


def _of_waiting_claim(claim: Claim, is_ours: bool) -> Reference:
    text = f"the volume of the claim {claim.key}, which is not bound yet"
    way_out = f"the claim {claim.key} waits for its volume: try again when it is bound, or delete it"
    return Reference(text, way_out, (claim.uid,), is_ours=is_ours, is_begun=True, claim=claim.key)


def _of_intent(intent: ClaimIntents, is_abandoned: bool, *, has_claim: bool) -> Reference:
    key = f"{intent.namespace}/{intent.claim_name}"
    asked = "" if has_claim else ", which is gone: the provisioner repeats the request until the driver has answered it"
    end = " and nobody goes on with" if is_abandoned else asked
    return Reference(
        f"what a provisioner has begun for {key}{end}",
        f"a provisioner has begun a volume for {key}: try again when it is done",
        (intent.volume_name, intent.uid),
        is_begun=not is_abandoned,
        is_abandoned=is_abandoned,
        claim=key,
        intent=intent,
    )


def _left(inventory: Inventory) -> Iterator[Reference]:
    """Volumes in use whose PersistentVolume was forced away."""
    names = {found.name for found in inventory.objects}
    for attachment in inventory.attachments:
        if attachment.volume_name and attachment.volume_name not in names:
            yield _of_attachment(attachment, attachment.attacher == inventory.driver)
    for claim in inventory.claims:
        if claim.volume_name and claim.volume_name not in names:
            yield _of_lost_claim(claim, not claim.provisioner or claim.provisioner in inventory.provisioners)
    keys = {claim.key for claim in inventory.claims}
    for pod, claim_key in inventory.claimless:
        text = f"the volume of the claim {claim_key}, which is gone and which pod {pod} uses"
        again = "has been made anew" if claim_key in keys else "is gone"
        yield Reference(
            text, f"the claim {claim_key} of pod {pod} {again}: restore it with its volume, or delete the pod"
        )


def _of_attachment(attachment: Attachment, is_ours: bool) -> Reference:
    name = attachment.volume_name
    text = f"the volume of PersistentVolume {name}, which is gone and which VolumeAttachment {attachment.name} attaches"
    way_out = (
        f"VolumeAttachment {attachment.name} is left of PersistentVolume {name}: delete the one, or restore the other"
    )
    return Reference(text, way_out, (name,), is_proof=_is_generated(name), is_ours=is_ours)


def _of_lost_claim(claim: Claim, is_ours: bool) -> Reference:
    does = "has lost" if claim.was_bound else "waits for"
    text = f"the volume of PersistentVolume {claim.volume_name}, which the claim {claim.key} {does}"
    way_out = f"the claim {claim.key} {does} its volume: delete it, or restore PersistentVolume {claim.volume_name}"
    names = claim.volume_name, claim.uid
    return Reference(text, way_out, names, is_proof=_is_generated(claim.volume_name), is_ours=is_ours, claim=claim.key)


def _nameless(inventory: Inventory, unplaced: Iterable[Object], matcher: HandleMatcher) -> Iterator[Reference]:
    """Volumes whose handles are not listed."""
    for found in unplaced:
        way_out = (
            f"the driver does not list the handle of PersistentVolume {found.name}: correct it, or delete the "
            "PersistentVolume"
        )
        yield Reference(f"the volume of PersistentVolume {found.name}, whose handle the driver does not list", way_out)
    for attachment in inventory.attachments:
        if attachment.handle and attachment.attacher == inventory.driver and not matcher.named_by(attachment.handle):
            way_out = f"the driver does not list the handle in VolumeAttachment {attachment.name}: delete it"
            yield Reference(
                f"the volume that VolumeAttachment {attachment.name} names by a handle that the driver does not list",
                way_out,
            )
    for handle, pod in inventory.disks.items():
        if not matcher.named_by(handle):
            way_out = f"the driver does not list the disk that pod {pod} names itself: correct it, or delete the pod"
            yield Reference(
                f"the disk that pod {pod} names itself, and that the driver does not list by that name", way_out
            )


def _is_generated(name: str) -> bool:
    """True for a name with a part of a uid in it: it names no other volume by accident."""
    return _GENERATED.search(plain(name)) is not None
