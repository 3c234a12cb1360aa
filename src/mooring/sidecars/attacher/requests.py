"""CSI requests from API objects, field by field as external-attacher 4.12 fills them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mooring.api.core import SecretReference
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.volume_capability import ROX, RWX


def is_single_node(modes: Iterable[str] | None) -> bool:
    """Return True when the volume may be published on one node only, and where it has no modes. The attach/detach
    controller's function of this name says False there, as upstream (`cluster/attachdetach/identity.py`).
    """
    return not {RWX, ROX} & set(modes or ())


class PublishOrder(msgspec.Struct, frozen=True):
    """A publish, complete but for the values of its secret."""

    handle: str
    node_id: str
    #: The use of the volume: access mode, and block or mount.
    capability: csi.VolumeCapability
    read_only: bool
    context: Mapping[str, str]
    secret: SecretReference | None = None
    #: The volume is an in-tree one; metrics tell such calls apart.
    migrated: bool = False

    @property
    def undone(self) -> UnpublishOrder:
        """Return the order that undoes it."""
        return UnpublishOrder(self.handle, self.node_id, self.secret, self.migrated)

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerPublishVolumeRequest:
        return csi.ControllerPublishVolumeRequest(
            volume_id=self.handle,
            node_id=self.node_id,
            volume_capability=self.capability,
            readonly=self.read_only,
            volume_context=self.context,
            secrets=secrets,
        )


class UnpublishOrder(msgspec.Struct, frozen=True):
    """An unpublish, complete but for the values of its secret. Its fields are as in `PublishOrder`."""

    handle: str
    node_id: str
    secret: SecretReference | None = None
    migrated: bool = False

    def __post_init__(self) -> None:
        assert self.node_id, "an empty node id would unpublish the volume everywhere"

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerUnpublishVolumeRequest:
        return csi.ControllerUnpublishVolumeRequest(volume_id=self.handle, node_id=self.node_id, secrets=secrets)
