"""Small objects for the tests of this room; every argument has a default."""

from mooring.api.core import CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeSpec
from mooring.api.meta import ObjectMeta


def a_volume(
    name: str = "pv1",
    version: int | str = 1,
    *,
    uid: str = "",
    driver: str = "csi.example.com",
    deleting: bool = False,
    finalizers: tuple[str, ...] | None = None,
    labels: dict[str, str] | None = None,
    claim: str = "",
) -> PersistentVolume:
    meta = ObjectMeta(
        name=name,
        uid=uid or f"uid-of-{name}",
        resource_version=str(version),
        deletion_timestamp="2026-11-20T09:00:00Z" if deleting else None,
        finalizers=finalizers,
        labels=labels,
    )
    csi = CSIPersistentVolumeSource(driver=driver, volume_handle=f"handle-of-{name}")
    return PersistentVolume(meta, PersistentVolumeSpec(csi=csi, claim_ref=ObjectReference(name=claim) if claim else None))
