"""Every reason the binder can have, in a user's words.

`str()` is a sentence for people. A reason that users are told of has an `event`, byte for byte as kube-controller-manager writes it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol


class Told(NamedTuple):
    """An event. type: Normal or Warning."""

    type: str
    reason: str
    message: str


class Because(Protocol):
    """A reason; str() tells it to people."""

    def __str__(self) -> str: ...

    @property
    def event(self) -> Told | None: ...


class _Quiet:
    __slots__ = ()

    @property
    def event(self) -> Told | None:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Gone(_Quiet):
    name: str

    def __str__(self) -> str:
        return f'"{self.name}" does not exist: nothing to do'


# -- claims


@dataclasses.dataclass(frozen=True, slots=True)
class Bound(_Quiet):
    pv_name: str

    def __str__(self) -> str:
        return f'bound to PersistentVolume "{self.pv_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class Binding(_Quiet):
    pv_name: str

    def __str__(self) -> str:
        return f'being bound to PersistentVolume "{self.pv_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class GetsDefaultClass(_Quiet):
    class_name: str

    def __str__(self) -> str:
        return f'nobody chose a StorageClass: it gets the default, "{self.class_name}"'


@dataclasses.dataclass(frozen=True, slots=True)
class WaitsForFirstConsumer:
    """pods: those that use the claim and have no node yet."""

    pods: tuple[str, ...] = ()

    def __str__(self) -> str:
        assert self.event is not None
        return self.event.message

    @property
    def event(self) -> Told | None:
        if not self.pods:
            return Told("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        several = "s" if len(self.pods) > 1 else ""
        return Told("Normal", "WaitForPodScheduled", f"waiting for pod{several} {','.join(self.pods)} to be scheduled")


@dataclasses.dataclass(frozen=True, slots=True)
class WaitsForProvisioner:
    """asked: False when the asking is still to be written."""

    provisioner: str
    asked: bool = True

    def __str__(self) -> str:
        return f'the external provisioner "{self.provisioner}" has been asked for a volume: its move'

    @property
    def event(self) -> Told | None:
        return Told(
            "Normal",
            "ExternalProvisioning",
            f"Waiting for a volume to be created either by the external provisioner '{self.provisioner}' or manually by the system "
            "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
        )


@dataclasses.dataclass(frozen=True, slots=True)
class NothingFits:
    def __str__(self) -> str:
        return "no PersistentVolume fits, and there is no StorageClass to make one"

    @property
    def event(self) -> Told | None:
        return Told("Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")


@dataclasses.dataclass(frozen=True, slots=True)
class ClassMissing:
    class_name: str

    def __str__(self) -> str:
        return f'the StorageClass "{self.class_name}" does not exist; it goes on when it is created'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{self.class_name}" not found')


@dataclasses.dataclass(frozen=True, slots=True)
class LooksForClass(_Quiet):
    class_name: str

    def __str__(self) -> str:
        return f'the StorageClass "{self.class_name}" is not in the cache: the API server is asked whether its claims wait for a pod'


@dataclasses.dataclass(frozen=True, slots=True)
class LooksForVolume(_Quiet):
    pv_name: str

    def __str__(self) -> str:
        return f'the PersistentVolume "{self.pv_name}" is not in the cache: the API server is asked before the claim counts as lost'


@dataclasses.dataclass(frozen=True, slots=True)
class NoSuchPlugin:
    """A provisioner of a name that only plug-ins inside Kubernetes had; also what a static class shows when no volume fits."""

    provisioner: str

    def __str__(self) -> str:
        return f'nothing makes volumes for "{self.provisioner}": a PersistentVolume that fits has to be created by hand'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "ProvisioningFailed", f"no volume plugin matched name: {self.provisioner}")


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeMissing(_Quiet):
    pv_name: str

    def __str__(self) -> str:
        return f'it asks for PersistentVolume "{self.pv_name}", which does not exist yet'


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeUnsuited:
    pv_name: str
    why: str

    def __str__(self) -> str:
        return f'it asks for PersistentVolume "{self.pv_name}", but {self.why}'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "VolumeMismatch", f'Cannot bind to requested volume "{self.pv_name}": {self.why}')


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeTaken:
    pv_name: str

    def __str__(self) -> str:
        return f'it asks for PersistentVolume "{self.pv_name}", which belongs to another claim'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "FailedBinding", f'volume "{self.pv_name}" already bound to a different claim.')


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimLost:
    """pv_name: "" when the claim does not even say which volume it had."""

    pv_name: str = ""

    def __str__(self) -> str:
        return f'its PersistentVolume "{self.pv_name}" is gone' if self.pv_name else "it was bound, and names no PersistentVolume any more"

    @property
    def event(self) -> Told | None:
        lost = "its PersistentVolume" if self.pv_name else "reference to PersistentVolume"
        return Told("Warning", "ClaimLost", f"Bound claim has lost {lost}. Data on the volume is lost!")


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimMisbound:
    pv_name: str

    def __str__(self) -> str:
        return f'its PersistentVolume "{self.pv_name}" belongs to another claim'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")


# -- volumes


@dataclasses.dataclass(frozen=True, slots=True)
class Free(_Quiet):
    """claim: for which it is reserved by name, "" for anybody."""

    claim: str = ""

    def __str__(self) -> str:
        return f'reserved for the claim "{self.claim}"' if self.claim else "free for any claim that it fits"


@dataclasses.dataclass(frozen=True, slots=True)
class InUse(_Quiet):
    claim: str

    def __str__(self) -> str:
        return f'bound to the claim "{self.claim}"'


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimsMove(_Quiet):
    """claim: will be bound to it in its own turn."""

    claim: str

    def __str__(self) -> str:
        return f'the claim "{self.claim}" is about to be bound to it'


@dataclasses.dataclass(frozen=True, slots=True)
class ModesDiffer:
    pv_name: str
    claim_name: str

    def __str__(self) -> str:
        return f'it is reserved for the claim "{self.claim_name}", which wants another volumeMode'

    @property
    def event(self) -> Told | None:
        text = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{self.claim_name}" due to incompatible volumeMode.'
        return Told("Warning", "VolumeMismatch", text)

    @property
    def of_claim(self) -> Told:
        text = f'Cannot bind PersistentVolume "{self.pv_name}" to requested PersistentVolumeClaim due to incompatible volumeMode.'
        return Told("Warning", "VolumeMismatch", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Locked(_Quiet):
    pv_name: str

    def __str__(self) -> str:
        return f'a claim is being bound to PersistentVolume "{self.pv_name}": it is looked at afterwards'


@dataclasses.dataclass(frozen=True, slots=True)
class LooksForClaim(_Quiet):
    claim: str

    def __str__(self) -> str:
        return f'the claim "{self.claim}" is not in the cache: the API server is asked before the volume is let go'


@dataclasses.dataclass(frozen=True, slots=True)
class Released(_Quiet):
    claim: str
    policy: str

    def __str__(self) -> str:
        fate = "it is kept until somebody decides" if self.policy == "Retain" else "its provisioner deletes it"
        return f'its claim "{self.claim}" is gone or bound to another volume; {fate} (reclaim policy {self.policy})'


@dataclasses.dataclass(frozen=True, slots=True)
class GivenBack(_Quiet):
    claim: str

    def __str__(self) -> str:
        return f'the claim "{self.claim}" has found another volume: this one is free again'


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownPolicy:
    policy: str

    def __str__(self) -> str:
        return f'nobody knows the reclaim policy "{self.policy}"'

    @property
    def event(self) -> Told | None:
        return Told("Warning", "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
