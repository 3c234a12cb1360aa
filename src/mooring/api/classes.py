"""The StorageClass that an object names: by the old annotation if there is one, else by the field."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PersistentVolume, PersistentVolumeClaim

CLASS_BETA: Final = "volume.beta.kubernetes.io/storage-class"


def class_of(claim: PersistentVolumeClaim) -> str:
    """The name of the claim's class, "" for none."""
    return (claim.metadata.annotations or {}).get(CLASS_BETA, claim.spec.storage_class_name or "")


def volume_class_of(pv: PersistentVolume) -> str:
    """The name of the volume's class, "" for none."""
    return (pv.metadata.annotations or {}).get(CLASS_BETA, pv.spec.storage_class_name)
