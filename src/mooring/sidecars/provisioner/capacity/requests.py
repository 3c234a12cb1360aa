"""GetCapacity: the request for one item, and its answer."""

from __future__ import annotations

from mooring.api.storage import StorageClass
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.capacity.view import Capacity, Item
from mooring.sidecars.provisioner.model.volumes import bytes_text


def capacity_request(item: Item, storage_class: StorageClass) -> csi.GetCapacityRequest:
    """With an empty place for all nodes, as external-provisioner sends it."""
    place = csi.Topology(segments=dict(item.segment))
    return csi.GetCapacityRequest(parameters=storage_class.parameters or {}, accessible_topology=place)


def capacity_of(answer: csi.GetCapacityResponse) -> Capacity:
    """Less than nothing is nothing: the API server takes no negative amount."""
    maximum = bytes_text(max(0, answer.maximum_volume_size.value)) if answer.HasField("maximum_volume_size") else None
    return Capacity(bytes_text(max(0, answer.available_capacity)), maximum)
