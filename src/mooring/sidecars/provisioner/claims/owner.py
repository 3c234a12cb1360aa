"""The owner of an object that has the name of a volume's PersistentVolume: from it follows whether the volume is deleted. Pure."""

from __future__ import annotations

import dataclasses

from mooring.api.core import PersistentVolume
from mooring.api.meta import is_deleting
from mooring.api.migration import csi_driver_of
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.outcomes import Save


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """saved: as the result of a try to store. error: for users. second_volume: the driver has made two volumes of one name."""

    saved: Save
    error: str = ""
    second_volume: bool = False


def owner_of(
    found: PersistentVolume | None, intent: Intent, volume_id: str, *, driver_name: str, per_node: bool = False, refused: str = ""
) -> Owner:
    """found: None where no object has the name. refused: the reason that there will be none, "" where one was found a moment ago.

    STORED: the object is the claim's own, or names no claim: an answer was lost. TAKEN: it may be about this volume, for another claim.
    REFUSED: it is about another volume, so this one is nobody's. per_node: the provisioners of other nodes make volumes of the same names.
    """
    name = intent.volume_name
    if found is None:
        return Owner(Save.REFUSED, refused) if refused else Owner(Save.LATER, "it was there, and is gone again")
    if intent.stored_handle == "" and is_deleting(found):
        return Owner(Save.REFUSED, f'PersistentVolume "{name}" goes, its volume is deleted already')
    ref, source = found.spec.claim_ref, found.spec.csi
    is_own = ref is not None and ref.uid == intent.uid
    is_foreign = driver_name != (csi_driver_of(found.spec) if source is None else source.driver)
    if is_foreign or (source is not None and source.volume_handle != volume_id):
        other = f'PersistentVolume "{name}" is there already, and is about another volume'
        if is_foreign or not is_own or per_node or intent.stored_handle is not None:
            return Owner(Save.REFUSED, other)
        return Owner(Save.TAKEN, other, second_volume=True)
    if is_own or ref is None or not ref.uid:
        return Owner(Save.STORED)
    return Owner(Save.TAKEN, f'PersistentVolume "{name}" belongs to claim "{ref.namespace}/{ref.name}" already')
