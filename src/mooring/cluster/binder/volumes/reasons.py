"""Every reason for a claim or a volume, in a user's words.

`str()` is a sentence for people. A reason that users get an event for has an `event`, byte for byte as
kube-controller-manager writes it.
"""

from __future__ import annotations

import msgspec

from mooring.cluster.binder.reasons import EventText
from mooring.control.reasons import reason

# -- claims


@reason('bound to PersistentVolume "{pv_name}"')
class Bound:
    pv_name: str


@reason('being bound to PersistentVolume "{pv_name}"')
class Binding:
    pv_name: str


@reason('nobody chose a StorageClass: it gets the default, "{class_name}"')
class GetsDefaultClass:
    class_name: str


class WaitsForFirstConsumer(msgspec.Struct, frozen=True):
    """pods: those that use the claim and have no node yet."""

    pods: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.event.message

    @property
    def event(self) -> EventText:
        if not self.pods:
            return EventText(
                "Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
            )
        several = "s" if len(self.pods) > 1 else ""
        return EventText(
            "Normal", "WaitForPodScheduled", f"waiting for pod{several} {','.join(self.pods)} to be scheduled"
        )


@reason('the external provisioner "{provisioner}" has been asked for a volume: waiting for the driver')
class WaitsForProvisioner:
    """asked: False when the request is still to be written."""

    provisioner: str
    asked: bool = True

    @property
    def event(self) -> EventText:
        return EventText(
            "Normal",
            "ExternalProvisioning",
            f"Waiting for a volume to be created either by the external provisioner '{self.provisioner}' or "
            "manually by the system "
            "administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered.",
        )


@reason("no PersistentVolume fits, and there is no StorageClass to make one")
class NothingFits:
    @property
    def event(self) -> EventText:
        return EventText(
            "Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
        )


@reason('the StorageClass "{class_name}" does not exist; it goes on when it is created')
class ClassMissing:
    class_name: str

    @property
    def event(self) -> EventText:
        return EventText("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{self.class_name}" not found')


@reason(
    'the StorageClass "{class_name}" is not in the cache: the API server is asked whether its claims wait for a pod'
)
class LooksForClass:
    class_name: str


@reason('the PersistentVolume "{pv_name}" is not in the cache: the API server is asked before the claim counts as lost')
class LooksForVolume:
    pv_name: str


@reason('nothing makes volumes for "{provisioner}": a PersistentVolume that fits has to be created by hand')
class NoSuchPlugin:
    """A provisioner of a name that only plug-ins inside Kubernetes had; also what a static class shows when no volume
    fits.
    """

    provisioner: str

    @property
    def event(self) -> EventText:
        return EventText("Warning", "ProvisioningFailed", f"no volume plugin matched name: {self.provisioner}")


@reason('it asks for PersistentVolume "{pv_name}", which does not exist yet')
class VolumeMissing:
    """Differs from kube-controller-manager, which leaves such a claim pending without a word."""

    pv_name: str

    @property
    def event(self) -> EventText:
        return EventText("Normal", "FailedBinding", f'volume "{self.pv_name}" does not exist')


@reason('it asks for PersistentVolume "{pv_name}", but {why}')
class VolumeUnsuited:
    pv_name: str
    why: str

    @property
    def event(self) -> EventText:
        return EventText("Warning", "VolumeMismatch", f'Cannot bind to requested volume "{self.pv_name}": {self.why}')


@reason('it asks for PersistentVolume "{pv_name}", which belongs to another claim')
class VolumeTaken:
    pv_name: str

    @property
    def event(self) -> EventText:
        return EventText("Warning", "FailedBinding", f'volume "{self.pv_name}" already bound to a different claim.')

    @property
    def error(self) -> str:
        return str(self)


class ClaimLost(msgspec.Struct, frozen=True):
    """pv_name: "" when the claim does not even say which volume it had."""

    pv_name: str = ""

    def __str__(self) -> str:
        return (
            f'its PersistentVolume "{self.pv_name}" is gone'
            if self.pv_name
            else "it was bound, and names no PersistentVolume any more"
        )

    @property
    def event(self) -> EventText:
        lost = "its PersistentVolume" if self.pv_name else "reference to PersistentVolume"
        return EventText("Warning", "ClaimLost", f"Bound claim has lost {lost}. Data on the volume is lost!")


@reason('its PersistentVolume "{pv_name}" belongs to another claim')
class ClaimMisbound:
    pv_name: str

    @property
    def event(self) -> EventText:
        return EventText(
            "Warning", "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"
        )


# -- volumes


class Free(msgspec.Struct, frozen=True):
    """claim: for which it is reserved by name, "" for anybody."""

    claim: str = ""

    def __str__(self) -> str:
        return f'reserved for the claim "{self.claim}"' if self.claim else "free for any claim that it fits"


@reason('bound to the claim "{claim}"')
class InUse:
    claim: str


@reason('the claim "{claim}" is about to be bound to it')
class ClaimsMove:
    """claim: will be bound to it in its own turn."""

    claim: str


@reason('it is reserved for the claim "{claim_name}", which wants another volumeMode')
class ModesDiffer:
    pv_name: str
    claim_name: str

    @property
    def event(self) -> EventText:
        text = (
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{self.claim_name}" due to '
            "incompatible volumeMode."
        )
        return EventText("Warning", "VolumeMismatch", text)

    @property
    def of_claim(self) -> EventText:
        text = (
            f'Cannot bind PersistentVolume "{self.pv_name}" to requested PersistentVolumeClaim due to incompatible '
            "volumeMode."
        )
        return EventText("Warning", "VolumeMismatch", text)


@reason('a claim is being bound to PersistentVolume "{pv_name}": it is looked at afterwards')
class Locked:
    pv_name: str


@reason('the claim "{claim}" is not in the cache: the API server is asked before the volume is released')
class LooksForClaim:
    claim: str


class Released(msgspec.Struct, frozen=True):
    claim: str
    policy: str

    def __str__(self) -> str:
        fate = "it is kept until somebody decides" if self.policy == "Retain" else "its provisioner deletes it"
        return f'its claim "{self.claim}" is gone or bound to another volume; {fate} (reclaim policy {self.policy})'


@reason('the claim "{claim}" has found another volume: this one is free again')
class GivenBack:
    claim: str


@reason('nobody knows the reclaim policy "{policy}"')
class UnknownPolicy:
    policy: str

    @property
    def event(self) -> EventText:
        return EventText(
            "Warning", "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"
        )
