"""CSI requests from API objects, field by field as external-resizer 2.2 fills them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, SecretReference
from mooring.api.meta import annotation
from mooring.api.quantity import Quantity
from mooring.api.storage import VolumeAttributesClass
from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.volume_capability import volume_capability
from mooring.sidecars.resizer import names

BYTES_MAX: Final = 2**63 - 1
"""CSI counts bytes in 64 bits with a sign."""


class RequestError(MooringError):
    """The objects can't be expressed as a CSI request. The text is shown to users as it is."""


class ExpandOrder(msgspec.Struct, frozen=True):
    """A growth, complete but for the values of its secret. migrated: the volume is an in-tree one."""

    handle: str
    size_bytes: int
    capability: csi.VolumeCapability
    secret: SecretReference | None = None
    migrated: bool = False

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerExpandVolumeRequest:
        return csi.ControllerExpandVolumeRequest(
            volume_id=self.handle,
            capacity_range=csi.CapacityRange(required_bytes=self.size_bytes),
            volume_capability=self.capability,
            secrets=secrets,
        )


def expand_order(
    spec: PersistentVolumeSpec, size: Quantity, single_node_multi_writer: bool, *, migrated: bool
) -> ExpandOrder:
    """spec: of the volume, with a csi source. Raises RequestError, AccessModeError."""
    assert spec.csi is not None
    if not spec.csi.volume_handle:
        raise RequestError("empty volume handle")
    use = volume_capability(
        spec.access_modes, spec.volume_mode, spec.csi.fs_type, spec.mount_options, single_node_multi_writer
    )
    return ExpandOrder(spec.csi.volume_handle, size.whole, use, spec.csi.controller_expand_secret_ref, migrated)


class ModifyOrder(msgspec.Struct, frozen=True):
    """A modification, complete but for the values of its secret."""

    handle: str
    parameters: Mapping[str, str]
    secret: SecretReference | None = None

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerModifyVolumeRequest:
        return csi.ControllerModifyVolumeRequest(
            volume_id=self.handle, mutable_parameters=self.parameters, secrets=secrets
        )


def modify_order(
    pv: PersistentVolume, claim: PersistentVolumeClaim, wanted: VolumeAttributesClass, *, extra_metadata: bool
) -> ModifyOrder:
    """Raises RequestError."""
    assert pv.spec.csi is not None
    if not pv.spec.csi.volume_handle:
        raise RequestError("empty volume handle")
    parameters = dict(wanted.parameters or {})
    if extra_metadata:
        parameters["csi.storage.k8s.io/pvc/name"] = claim.metadata.name
        parameters["csi.storage.k8s.io/pvc/namespace"] = claim.metadata.namespace
        parameters["csi.storage.k8s.io/pv/name"] = pv.metadata.name
    return ModifyOrder(pv.spec.csi.volume_handle, parameters, _modify_secret(pv))


def _modify_secret(pv: PersistentVolume) -> SecretReference | None:
    """The one that the volume's annotations name; without them the one for growing."""
    name, namespace = annotation(pv, names.MODIFY_SECRET_NAME), annotation(pv, names.MODIFY_SECRET_NAMESPACE)
    if name and namespace:
        return SecretReference(name=name, namespace=namespace)
    assert pv.spec.csi is not None
    return pv.spec.csi.controller_expand_secret_ref
