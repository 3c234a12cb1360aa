"""Events on claims, which users see in `kubectl describe pvc`."""

from __future__ import annotations

from typing import Final

from mooring.api.core import ObjectReference, PersistentVolumeClaim
from mooring.base.log import logger
from mooring.control.events import EventRecorder
from mooring.sidecars.provisioner.model.intent import Intent

log = logger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


def claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return _reference(meta.namespace, meta.name, meta.uid, meta.resource_version)


def intent_reference(intent: Intent) -> ObjectReference:
    """The claim of an intent; it may be gone."""
    return _reference(intent.namespace, intent.claim_name, intent.uid, "")


def _reference(namespace: str, name: str, uid: str, version: str) -> ObjectReference:
    return ObjectReference("v1", "PersistentVolumeClaim", namespace, name, uid, version)


def reference_of(claim: PersistentVolumeClaim | None, intent: Intent | None) -> ObjectReference | None:
    """The claim, or else that of its intent; None when there is neither."""
    if claim is not None:
        return claim_reference(claim)
    return None if intent is None else intent_reference(intent)


class ClaimEvents:
    """recorder: of the driver's events. populating: of the one that leaves a claim to a populator."""

    def __init__(self, recorder: EventRecorder, populating: EventRecorder) -> None:
        self._recorder, self._populating = recorder, populating

    def begins(self, claim: ObjectReference) -> None:
        text = f'External provisioner is provisioning volume for claim "{claim.namespace}/{claim.name}"'
        self._recorder.event(claim, NORMAL, "Provisioning", text)

    def placed_in_doubt(self, claim: ObjectReference, doubt: str) -> None:
        self._recorder.event(claim, WARNING, "NodeNotReady", f"A volume is provisioned although {doubt}")

    def left_to_populator(self, claim: ObjectReference) -> None:
        self._populating.event(claim, NORMAL, "Provisioning", "Assuming an external populator will provision the volume")

    def succeeded(self, claim: ObjectReference, pv_name: str) -> None:
        self._recorder.event(claim, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {pv_name}")

    def retained(self, claim: ObjectReference, pv_name: str) -> None:
        text = (
            "The claim is gone, and nobody looked after its volume for a while: "
            f"it may have been kept on purpose, so {pv_name} is retained. If nobody needs it, set its reclaim policy to Delete"
        )
        log.warning(text, PVC=f"{claim.namespace}/{claim.name}", PersistentVolume=pv_name)
        self._recorder.event(claim, WARNING, "VolumeRetained", text)

    def failed(self, claim: ObjectReference, error: str, *, infeasible: bool = False) -> None:
        """error: as external-provisioner words it, for people and for those who grep."""
        text = f"Volume provisioning failed with infeasible error. Retries will be delayed. {error}" if infeasible else error
        self._recorder.event(claim, WARNING, "ProvisioningFailed", text)
